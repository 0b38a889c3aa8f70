// Package notice reports a recurring failure once: when it starts, when it changes, and when it is over.
package notice

import (
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// maxFailures bounds the memory: owners of pods come and go, as the Jobs of a CronJob do. Beyond that, all are reported again.
const maxFailures = 100_000

// Board remembers the failures that were reported. Its zero value is ready for use, and it is safe
// for concurrent use.
type Board struct {
	mu   sync.Mutex
	last map[string]string
}

// News reports whether a failure differs, but for numbers in it, from the last one of the same activity, and remembers it. what names
// the activity, and the object where there are several.
func (b *Board) News(what, failure string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.last[what]
	if b.last == nil || !known && len(b.last) >= maxFailures {
		b.last = map[string]string{}
	}
	b.last[what] = failure
	return !known || !SameButNumbers(last, failure)
}

// Over forgets a failure that has ended, and reports whether there was one. If it comes back, it is news.
func (b *Board) Over(what string) (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ended = b.last[what]
	delete(b.last, what)
	return ended
}

// Report logs an error that is news, and that a failure is over.
func (b *Board) Report(log logr.Logger, what string, err error, consequence string) {
	switch {
	case err == nil && b.Over(what):
		log.Info("recovered", "doing", what)
	case err != nil && b.News(what, err.Error()):
		log.Error(err, consequence)
	}
}

// Forget drops the failures of an object that is gone: all that begin with a prefix.
func (b *Board) Forget(prefix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for what := range b.last {
		if strings.HasPrefix(what, prefix) {
			delete(b.last, what)
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
