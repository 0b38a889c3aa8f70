// Package notice logs a recurring failure once: when it starts, when it changes, and when it is
// over.
package notice

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// Board remembers the failures that were logged. Its zero value is ready for use, and it is safe
// for concurrent use.
type Board struct {
	mu   sync.Mutex
	last map[string]string
}

// Report logs an error that differs from the last one, and that a failure is over. what names the
// activity, and the object where there are several.
func (n *Board) Report(log logr.Logger, what string, err error, consequence string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	n.mu.Lock()
	before, logged := n.last[what]
	if n.last == nil {
		n.last = map[string]string{}
	}
	if text == "" {
		delete(n.last, what)
	} else {
		n.last[what] = text
	}
	n.mu.Unlock()
	switch {
	case err != nil && !(logged && SameButNumbers(before, text)):
		log.Error(err, consequence)
	case err == nil && logged:
		log.Info("recovered", "doing", what)
	}
}

// Forget drops the failures of an object that is gone: all that begin with a prefix.
func (n *Board) Forget(prefix string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for what := range n.last {
		if strings.HasPrefix(what, prefix) {
			delete(n.last, what)
		}
	}
}

// SameButNumbers compares messages without their digits: one failure has another port or time at
// each attempt.
func SameButNumbers(a, b string) bool {
	drop := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return a == b || strings.Map(drop, a) == strings.Map(drop, b)
}
