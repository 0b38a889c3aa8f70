// Package faults joins errors, so that a user sees all of them, and words those about unknown names. It imports nothing of celvpa.
package faults

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Join returns nil if all errors are nil. It flattens errors joined before.
func Join(errs ...error) error {
	all := &multierror.Error{ErrorFormat: lines}
	return multierror.Append(all, errs...).ErrorOrNil()
}

// Once is Join without repetitions: of errors of one text, the first stays.
func Once(errs ...error) error {
	seen := map[string]bool{}
	return Join(slices.DeleteFunc(List(Join(errs...)), func(err error) bool {
		again := seen[err.Error()]
		seen[err.Error()] = true
		return again
	})...)
}

// List returns the errors inside a joined error, or the error itself. It does not unwrap an error
// around several, which would lose the outer message.
func List(err error) []error {
	if all, joined := err.(*multierror.Error); joined {
		return all.Errors
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func lines(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}
