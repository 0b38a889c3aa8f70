package document

import (
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
)

// places expands the braces in validation paths: a.{b,c}.d is a.b.d and a.c.d.
func (d *Decoder) places(list []source.Scalar) []source.Scalar {
	var out []source.Scalar
	for _, at := range list {
		paths, err := braces(at.Value)
		if err != nil {
			d.Problems.At(at, d.Subject, fmt.Sprintf("at %q: %v", at.Value, err))
			continue
		}
		for _, path := range paths {
			one := at
			one.Value = path
			out = append(out, one)
		}
		if len(out) > maxPlaces {
			d.tooManyPlaces(at)
			return out[:maxPlaces]
		}
	}
	return out
}

// maxPlaces bounds what braces and nested places multiply to.
const maxPlaces = 100

func (d *Decoder) tooManyPlaces(at source.Scalar) {
	d.Problems.At(at, d.Subject, fmt.Sprintf("`at` names more than %d places; split the validation", maxPlaces))
}

// braces expands one path, the first brace varying slowest. Braces do not nest.
func braces(path string) ([]string, error) {
	head, rest, open := strings.Cut(path, "{")
	if strings.Contains(head, "}") {
		return nil, fmt.Errorf("a brace is closed that was not opened")
	}
	if !open {
		return []string{path}, nil
	}
	inside, tail, closed := strings.Cut(rest, "}")
	if !closed || strings.Contains(inside, "{") {
		return nil, fmt.Errorf("the brace behind %q is not closed", head)
	}
	tails, err := braces(tail)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, part := range strings.Split(inside, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return nil, fmt.Errorf("the brace behind %q names nothing; write it as {a,b}", head)
		}
		for _, t := range tails {
			if out = append(out, head+part+t); len(out) > maxPlaces {
				return out, nil
			}
		}
	}
	return out, nil
}

// placesBelow resolves a validation's places against its rule set's: those with a leading dot lie
// below each of them, and a validation without places takes them over.
func (d *Decoder) placesBelow(above, own []source.Scalar) []source.Scalar {
	if len(above) == 0 {
		return own
	}
	if len(own) == 0 {
		return above
	}
	var out []source.Scalar
	for _, at := range own {
		if !strings.HasPrefix(at.Value, ".") {
			out = append(out, at)
			continue
		}
		for _, place := range above {
			one := at
			one.Value = place.Value + at.Value
			out = append(out, one)
		}
		if len(out) > maxPlaces {
			d.tooManyPlaces(at)
			return out[:maxPlaces]
		}
	}
	return out
}
