// Package faults reports several errors as one, a line each, so that a user sees everything that is wrong at once. Whatever
// reads files, flags or objects collects with it; it imports nothing of celvpa.
package faults

import (
	"strings"

	"github.com/hashicorp/go-multierror"
)

// Join returns errors as one, and nil when all of them are nil. Errors that were joined before count one by one.
func Join(errs ...error) error {
	all := &multierror.Error{ErrorFormat: lines}
	return multierror.Append(all, errs...).ErrorOrNil()
}

// List returns the errors that Join made one of, or the error itself when it is of something else. An error that wraps
// several is one: what it says around them would be lost.
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
