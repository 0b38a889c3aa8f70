package usagefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// answer is an answer of Prometheus, read member by member.
type answer struct {
	file    *file
	decoder *json.Decoder

	status, fault, resultType string
}

// read reads to the end of the answer; io.EOF = there is none.
func (a *answer) read() error {
	return a.members(func(name string) error {
		switch name {
		case "status":
			return a.decoder.Decode(&a.status)
		case "error":
			return a.decoder.Decode(&a.fault)
		case "data":
			return a.members(a.datum)
		}
		return a.skip()
	})
}

func (a *answer) datum(name string) error {
	switch {
	case name == "resultType":
		return a.decoder.Decode(&a.resultType)
	case name == "result" && (a.resultType == "matrix" || a.resultType == ""): // tools may sort members
		return a.each('[', func() error {
			var s stream
			if err := a.decoder.Decode(&s); err != nil {
				return err
			}
			a.file.stream(s)
			return a.file.full
		})
	}
	return a.skip()
}

// members calls do with each name of an object; do reads the value.
func (a *answer) members(do func(name string) error) error {
	return a.each('{', func() error {
		name, err := a.decoder.Token()
		if err != nil {
			return err
		}
		return do(name.(string)) // as the decoder ensures
	})
}

// each calls do for each part of a list or an object, null among them, which has none. io.EOF means
// that nothing is there; a text that ends early is io.ErrUnexpectedEOF.
func (a *answer) each(open json.Delim, do func() error) error {
	switch token, err := a.decoder.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return fmt.Errorf("%v where %v should be", token, open)
	}
	for a.decoder.More() {
		if err := a.inside(do()); err != nil {
			return err
		}
	}
	_, err := a.decoder.Token()
	return a.inside(err)
}

// inside is an error within an answer, where a text must not end.
func (*answer) inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (a *answer) skip() error {
	var value json.RawMessage
	return a.decoder.Decode(&value)
}
