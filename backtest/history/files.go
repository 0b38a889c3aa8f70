package history

import (
	"context"
	"io"

	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Files reads usage from files as package usagefile does, row by row, so that they may be larger
// than memory.
type Files struct {
	Paths []string
	Stdin io.Reader // for usagefile.Stdin
}

// pointsPerProgress is how many points are read from one report of progress to the next.
const pointsPerProgress = 1 << 14

// Read implements Source. Progress counts points.
func (f Files) Read(ctx context.Context, to Sink) error {
	n := int64(0)
	notes, err := usagefile.Each(f.Paths, f.Stdin, func(of usagefile.Series, at, amount int64) error {
		if n++; n%pointsPerProgress == 0 {
			to.Progress(n, 0)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return to.Add(of, Point{At: at, Amount: amount})
	})
	for _, note := range notes {
		to.Note(note)
	}
	return err
}
