// Command soak implements `make soak`: it runs celvpa's components for a long time on a lab of their own, each behind a proxy that
// misbehaves, while everything around them changes, and checks that they stay small, break no budget, log no error that a fault
// does not explain, and that each VPA has what it should have in the end.
//
// faults.go says what goes wrong, churn.go what changes, explained.go which errors a fault explains, growth.go how much a component
// may grow. Package watcher judges what the updater did. All that is random follows from a seed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the flags.
type options struct {
	lab      string
	duration time.Duration
	scale    int
	seed     uint64
}

func main() {
	o := options{}
	flag.StringVar(&o.lab, "lab", "soak", "name of the lab to start")
	flag.DurationVar(&o.duration, "duration", 20*time.Minute, "how long to soak, at least 2m; starting and settling come on top")
	flag.IntVar(&o.scale, "scale", 50, "number of workloads, each with a VPA; 50 suit two cores")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of all that is random; 0 = a new one, which is printed")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	klog.SetLogger(logr.Discard()) // client-go's own log lines would only hide the progress
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := run(ctx, o)
	if report != nil {
		report.write(os.Stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case !report.pass():
		os.Exit(1)
	}
}

// say prints to standard error how far the soak is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// pause waits, and returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
