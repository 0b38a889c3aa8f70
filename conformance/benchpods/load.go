package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/celvpa/celvpa/conformance/harness"
)

// shot is what came of a program under load, over one protocol.
type shot struct {
	perSecond     float64
	p50, p99, max time.Duration
	cpu           float64 // seconds that the server took for 1000 reviews
	server, own   float64 // cores that were in use: the server's, and of what loads it
	rss           []uint64
}

// load has reviews asked, each asker one after the other, and measures after a while of getting warm.
func (b *bench) load(ctx context.Context, p *process, askers []asker) (s shot, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.warm+b.window+time.Minute) // a server that does not answer holds nobody up for ever
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		for _, a := range askers {
			a.Close()
		}
	})
	defer stop()
	from := time.Now().Add(b.warm)
	to := from.Add(b.window)
	var failed atomic.Bool
	took := make([][]time.Duration, len(askers))
	failures := make([]error, len(askers))
	var group sync.WaitGroup
	for i, a := range askers {
		took[i] = make([]time.Duration, 0, 1<<14)
		group.Go(func() {
			for n := i * len(b.reviews) / len(askers); !failed.Load(); n++ {
				begin := time.Now()
				body, err := a.ask(&b.reviews[n%len(b.reviews)])
				end := time.Now()
				switch {
				case err != nil:
					failures[i] = err
				case !bytes.Contains(body, []byte(`"patch":`)):
					failures[i] = errors.New("a pod is not patched")
				}
				if failures[i] != nil {
					failed.Store(true)
					return
				}
				if end.After(to) {
					return
				}
				if end.After(from) {
					took[i] = append(took[i], end.Sub(begin))
				}
			}
		})
	}
	used, looked := b.watch(ctx, p, from, to)
	group.Wait()
	if err := errors.Join(append(failures, looked)...); err != nil {
		return s, err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return s, errors.New("nothing was answered in time")
	}
	slices.Sort(all)
	at := func(part float64) time.Duration { return all[int(part*float64(len(all)-1))] }
	seconds := used.seconds
	return shot{perSecond: float64(len(all)) / b.window.Seconds(), p50: at(0.5), p99: at(0.99), max: all[len(all)-1],
		cpu: used.server / seconds * b.window.Seconds() / float64(len(all)) * 1000, server: used.server / seconds, own: used.own / seconds, rss: used.rss}, nil
}

// usage is what was taken in a window. Seconds of CPU, and bytes.
type usage struct {
	seconds, server, own float64
	rss                  []uint64
}

// watch looks at the server and at this process from one moment to another.
func (b *bench) watch(ctx context.Context, p *process, from, to time.Time) (u usage, err error) {
	time.Sleep(time.Until(from))
	begin, own := time.Now(), ownCPU()
	first, err := p.Footprint()
	if err != nil {
		return u, err
	}
	var last harness.Footprint
	for ctx.Err() == nil && time.Now().Before(to) {
		time.Sleep(min(500*time.Millisecond, time.Until(to)))
		if last, err = p.Footprint(); err != nil {
			return u, errors.Join(err, p.Alive())
		}
		u.rss = append(u.rss, last.RSS)
	}
	u.seconds, u.server, u.own = time.Since(begin).Seconds(), last.CPU-first.CPU, ownCPU()-own
	return u, ctx.Err()
}

// ownCPU is what this process took so far, in seconds.
func ownCPU() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil { // it cannot fail for oneself
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
