// Package underway tracks work that should be instant: decoding objects, trimming them for a cache,
// compiling rules. A goroutine cannot be killed, but controllers/watchdog can report which one
// hangs and on what: an informer stuck on one object stalls the whole cluster and looks idle.
package underway

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Work is work in progress.
type Work struct {
	Doing string // e.g. decoding a VerticalPodAutoscaler
	About string // the object, e.g. shop/web
	Since time.Time
	// Restart: only a restart helps. A hanging rule reload keeps the last good rules instead.
	Restart bool
}

// String returns the work in one line.
func (w Work) String() string { return w.Doing + " " + w.About }

// entry defers what is expensive to find out.
type entry struct {
	doing   string
	about   func() string
	since   time.Time
	limit   time.Duration
	restart bool
}

var (
	mu    sync.Mutex
	board = map[*entry]struct{}{}
)

// Begin starts tracking work. about names the object; another goroutine calls it, only once the
// limit has passed. Call end when done.
func Begin(doing string, limit time.Duration, restart bool, about func() string) (end func()) {
	e := &entry{doing: doing, about: about, since: time.Now(), limit: limit, restart: restart}
	mu.Lock()
	board[e] = struct{}{}
	mu.Unlock()
	return func() {
		mu.Lock()
		delete(board, e)
		mu.Unlock()
	}
}

// Overdue lists work beyond its limit and at least that old, oldest first.
func Overdue(now time.Time, least time.Duration) []Work {
	mu.Lock()
	var found []*entry
	for e := range board {
		if now.Sub(e.since) > max(e.limit, least) {
			found = append(found, e)
		}
	}
	mu.Unlock()
	out := make([]Work, 0, len(found))
	for _, e := range found {
		out = append(out, Work{Doing: e.doing, About: e.about(), Since: e.since, Restart: e.restart})
	}
	slices.SortFunc(out, func(a, b Work) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.String(), b.String())) })
	return out
}
