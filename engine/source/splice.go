package source

import "fmt"

// Piece is a part of a spliced value and where it comes from. Offsets count characters from 0.
type Piece struct {
	At   int // where it starts in the value; it ends where the next one starts
	From int // where it starts in the scalar as written, or what stands there instead of Of

	Of   *Scalar // what it is copied from; nil = the scalar itself
	OfAt int     // where it starts in Of
	Name string  // of Of, e.g. definition isOff
}

// Spliced returns the scalar with a value put together from pieces. Positions stay those of the
// scalar as written.
func (s Scalar) Spliced(value string, pieces []Piece) Scalar {
	s.written, s.Value, s.pieces = s.Written().Value, value, pieces
	return s
}

// Pieces are those of a spliced value; none for one that is as written.
func (s Scalar) Pieces() []Piece { return s.pieces }

// Written is the scalar as it stands in the file.
func (s Scalar) Written() Scalar {
	if len(s.pieces) > 0 {
		s.Value, s.pieces, s.written = s.written, nil, ""
	}
	return s
}

// AtOffset is At for an offset in characters.
func (s Scalar) AtOffset(offset int) Position { return s.At(lineAndColumn(s.Value, offset)) }

// piece returns the piece at a position in the value, and the offset in it.
func (s Scalar) piece(line, col int) (p Piece, offset int) {
	at := offsetOf(s.Value, line, col)
	for _, next := range s.pieces {
		if next.At > at {
			break
		}
		p = next
	}
	return p, at - p.At
}

// within says from where a position in the value was copied; empty for what is as written.
func (s Scalar) within(line, col int) string {
	if len(s.pieces) == 0 {
		return ""
	}
	p, offset := s.piece(line, col)
	if p.Of == nil {
		return ""
	}
	return fmt.Sprintf(" (in %s at %s)", p.Name, p.Of.AtOffset(p.OfAt+offset))
}

func lineAndColumn(text string, offset int) (line, col int) {
	line = 1
	for _, r := range text {
		if offset == 0 {
			break
		}
		offset--
		if col++; r == '\n' {
			line, col = line+1, 0
		}
	}
	return line, col
}

func offsetOf(text string, line, col int) (offset int) {
	for _, r := range text {
		if line <= 1 && col == 0 {
			break
		}
		offset++
		switch {
		case line <= 1:
			col--
		case r == '\n':
			line--
		}
	}
	return offset
}
