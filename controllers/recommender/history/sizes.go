package history

// Bounds of what one answer holds. 250,000 samples are 7 MB of text.
const (
	pieceSamples = 250_000
	pieceMost    = 10_000 // steps; Prometheus allows 11,000 samples of a series
	pieceBlind   = 64     // steps, as long as nobody knows how many samples a step has
)

// raiseAfter is how many pieces in a row have to come of a size that is smaller than was wanted,
// before a larger one is tried again. It doubles with each try that fails.
const raiseAfter = 16

// sizes says how many steps the next piece has.
type sizes struct {
	most    int64 // that are asked for at once
	samples int64 // of the largest step of the last piece that had any; 0 = none had

	held   int  // pieces in a row that most kept small
	after  int  // so many raise it
	raised bool // and a piece of this size did not fail yet
}

func newSizes() sizes { return sizes{most: pieceMost, after: raiseAfter} }

// next follows a piece that was read as a whole.
func (z *sizes) next(steps int64) int64 {
	wanted := min(4*steps, pieceBlind)
	if z.samples > 0 { // a time without usage does not say how much comes after it
		wanted = min(4*steps, pieceSamples/z.samples)
	}
	wanted = min(max(wanted, 1), pieceMost)
	if wanted <= z.most {
		return wanted
	}
	if z.held++; z.held >= z.after {
		z.most, z.held, z.raised = min(2*z.most, pieceMost), 0, true
	}
	return min(wanted, z.most)
}

// failed follows a piece that was too large, or too slow.
func (z *sizes) failed(steps int64) {
	if z.raised {
		z.after *= 2
	}
	z.most, z.held, z.raised = max(steps/2, 1), 0, false
}
