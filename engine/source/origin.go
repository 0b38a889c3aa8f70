package source

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Origin says where a part of an expression comes from that stands in place of a call. Offsets count
// characters from 0.
type Origin struct {
	Call int     // where the call stands
	Of   *Scalar // what the part is copied from
	At   int     // where it stands there
	Name string  // of Of, e.g. definition isOff
}

// WithOrigins returns the scalar with origins of parts that its value does not have. Their positions are
// on the line behind its last, one column each.
func (s Scalar) WithOrigins(list []Origin) Scalar {
	s.origins = list
	return s
}

// OffsetOfOrigin is the offset that stands for an origin.
func (s Scalar) OffsetOfOrigin(i int) int { return utf8.RuneCountInString(s.Value) + 1 + i }

// OriginAt returns the origin that an offset stands for.
func (s Scalar) OriginAt(offset int) (o Origin, ok bool) {
	i := offset - s.OffsetOfOrigin(0)
	if i < 0 || i >= len(s.origins) {
		return Origin{}, false
	}
	return s.origins[i], true
}

// origin is that of a position in the value.
func (s Scalar) origin(line, col int) (o Origin, ok bool) {
	if line <= 1+strings.Count(s.Value, "\n") || col >= len(s.origins) {
		return Origin{}, false
	}
	return s.origins[col], true
}

// HasOrigin reports whether a position is that of a part that stands in place of a call.
func (s Scalar) HasOrigin(line, col int) bool {
	_, ok := s.origin(line, col)
	return ok
}

// within says where the part at a position comes from; empty for what is written there.
func (s Scalar) within(line, col int) string {
	if o, ok := s.origin(line, col); ok {
		return fmt.Sprintf(" (in %s at %s)", o.Name, o.Of.atOffset(o.At))
	}
	return ""
}

// atOffset is At for an offset in characters.
func (s Scalar) atOffset(offset int) Position {
	line, col := 1, 0
	for _, r := range s.Value {
		if offset == 0 {
			break
		}
		offset--
		if col++; r == '\n' {
			line, col = line+1, 0
		}
	}
	return s.At(line, col)
}
