package webhook

import "time"

// workerIdle is how long a worker waits for its next review.
const workerIdle = 10 * time.Second

// workers are goroutines that run one review after another. A review needs a deep stack, which a
// new goroutine would grow step by step, at a twentieth of the CPU that a review takes.
type workers chan func()

// run runs a function in a worker that is idle, or in a new one.
func (w workers) run(review func()) {
	select {
	case w <- review:
	default:
		go w.work(review)
	}
}

func (w workers) work(review func()) {
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		review()
		idle.Reset(workerIdle)
		select {
		case review = <-w:
		case <-idle.C:
			return
		}
	}
}
