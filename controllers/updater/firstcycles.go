package updater

import "sync"

// firstCycles bounds the pods that a cycle evicts, or restarts by a resize, while this process is
// new: after an install or an upgrade, a cluster full of pods may be off its recommendation at
// once. A cycle that needs more than its limit doubles it for the next one, so a healthy cluster
// soon has no limit in practice. It is safe for concurrent use.
type firstCycles struct {
	mu        sync.Mutex
	limit     int // of a cycle; 0 = none
	left      int
	postponed int // pods in this cycle
}

// maxFirst is where the limit stops doubling.
const maxFirst = 1 << 30

// next starts a cycle. It returns what the last one postponed, and the limit of the one that starts.
func (f *firstCycles) next() (postponed, limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if postponed = f.postponed; postponed > 0 && f.limit < maxFirst {
		f.limit *= 2
	}
	f.left, f.postponed = f.limit, 0
	return postponed, f.limit
}

// peek returns how many pods the next cycle may disrupt; limited is false without a limit.
func (f *firstCycles) peek() (left int, limited bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left = f.limit
	if f.postponed > 0 && f.limit < maxFirst {
		left *= 2
	}
	return left, f.limit > 0
}

// take reports whether one more pod may be disrupted in this cycle.
func (f *firstCycles) take() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.limit <= 0:
	case f.left == 0:
		f.postponed++
		return false
	default:
		f.left--
	}
	return true
}

// giveBack returns the place of a pod that was not disrupted after all.
func (f *firstCycles) giveBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left++
}
