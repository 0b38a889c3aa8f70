// Package underway knows the work of this process that should take no time: decoding an object of the cluster, cutting it down for a
// cache, compiling rules. A goroutine cannot be ended from outside, but it can be told which does not end, and what it is about:
// an informer that is stuck in one object stops advancing for the whole cluster, and looks idle. controllers/watchdog tells.
package underway

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Work is something under way.
type Work struct {
	Doing string // e.g. decoding a VerticalPodAutoscaler
	About string // the object, e.g. shop/web
	Since time.Time
	// Restart: the process gets no further without one. A reload of rules that does not end leaves the last good ones in force.
	Restart bool
}

// String is the work in one line.
func (w Work) String() string { return w.Doing + " " + w.About }

// entry is work under way, and what of it costs something to find out.
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

// Begin notes that work begins that should end within a limit. about names the object; it is asked only when the limit is
// exceeded, by another goroutine. end is called when the work has ended.
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

// Overdue lists the work that has exceeded its limit, and has been under way for a time at least, the oldest first.
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
