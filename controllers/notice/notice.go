// Package notice keeps what goes wrong again and again from being told again and again.
package notice

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// Board tells of what goes wrong once, not in every cycle, and when it is over. Its zero value is ready for use, and it is
// safe for concurrent use.
type Board struct {
	mu   sync.Mutex
	last map[string]string
}

// Tell logs an error that is another than the last time, and that there is none any more. what names what is done, and the
// object where there are several.
func (n *Board) Tell(log logr.Logger, what string, err error, consequence string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	n.mu.Lock()
	before, told := n.last[what]
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
	case err != nil && !(told && SameButNumbers(before, text)):
		log.Error(err, consequence)
	case err == nil && told:
		log.Info("recovered", "doing", what)
	}
}

// Forget drops what was told of an object that is gone: all that begins with prefix.
func (n *Board) Forget(prefix string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for what := range n.last {
		if strings.HasPrefix(what, prefix) {
			delete(n.last, what)
		}
	}
}

// SameButNumbers compares messages: the same failure comes with another port or time at each attempt.
func SameButNumbers(a, b string) bool {
	drop := func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}
	return a == b || strings.Map(drop, a) == strings.Map(drop, b)
}
