// Command bench measures celvpa beside upstream's components on a lab of its own. `bench NAME`
// starts each program in turn under the same load, prints the medians of all rounds side by side,
// and judges them by targets.yaml.
//
// A benchmark (recommender.go, updater.go, pods.go, admission.go) fills the lab and measures one
// program in one trial; run.go does the rest in the same way for all of them. `bench scale` has no lab:
// package standin takes the place of the API server, with clusters of package crowd. `bench writes`
// starts no program: it measures what the API server and etcd take of the recommender's writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

var benchmarks = []benchmark{recommenderBenchmark, updaterBenchmark, podsBenchmark, admissionBenchmark}

func main() {
	ctrllog.SetLogger(logr.Discard()) // client-go's own log lines would only hide the progress
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "scale" {
		return runScale(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "writes" {
		return runWrites(ctx, args[1:])
	}
	var known []string
	for _, b := range benchmarks {
		if len(args) > 0 && args[0] == b.name {
			o, err := b.parse(args[1:])
			if err != nil {
				return err
			}
			return b.run(ctx, o)
		}
		known = append(known, fmt.Sprintf("\n  %-12s  %s", b.name, b.about))
	}
	known = append(known, fmt.Sprintf("\n  %-12s  %s", "scale", aboutScale), fmt.Sprintf("\n  %-12s  %s", "writes", aboutWrites))
	return fmt.Errorf("usage: bench NAME [flags], where NAME is one of%s", strings.Join(known, ""))
}

// options are the flags, with defaults that depend on the benchmark.
type options struct {
	lab                        string
	programs, trials           list
	vpas, replicas, containers int
	rounds, cycles, parallel   int
	check, keep, profile       bool
}

// list is a flag of words between commas.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = strings.Split(s, ","); return nil }

func (b benchmark) parse(args []string) (options, error) {
	o := b.defaults
	flags := flag.NewFlagSet("bench "+b.name, flag.ContinueOnError)
	flags.StringVar(&o.lab, "lab", "bench-"+b.name, "name of the lab")
	flags.Var(&o.programs, "programs", "programs to measure, in this order: "+strings.Join(b.known(), ", "))
	flags.Var(&o.trials, "trials", "trials, each with a table of its own: "+strings.Join(b.trials, ", "))
	flags.IntVar(&o.vpas, "vpas", o.vpas, "VerticalPodAutoscalers, each with a Deployment of its own")
	flags.IntVar(&o.replicas, "replicas", o.replicas, "pods of a Deployment")
	flags.IntVar(&o.containers, "containers", o.containers, "containers of a pod")
	flags.IntVar(&o.rounds, "rounds", o.rounds, "rounds, in each of which every program is measured once")
	flags.IntVar(&o.cycles, "cycles", o.cycles, "recommender: cycles that are measured after the first")
	flags.IntVar(&o.parallel, "parallel", o.parallel, "pods, admission: requests in flight")
	flags.BoolVar(&o.check, "check", false, "exit with 1 if a target is missed")
	flags.BoolVar(&o.keep, "keep-lab", false, "leave the lab running, and reuse what a lab that already runs holds")
	flags.BoolVar(&o.profile, "profile", false, "save heap profiles in bin/bench-"+b.name)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench %s takes flags only, not %q", b.name, flags.Arg(0))
	}
	return o, errors.Join(oneOf("-programs", o.programs, b.known()), oneOf("-trials", o.trials, b.trials))
}

func oneOf(name string, words, known []string) error {
	for _, word := range words {
		if !slices.Contains(known, word) {
			return fmt.Errorf("%s: unknown %q; known: %s", name, word, strings.Join(known, ", "))
		}
	}
	return nil
}
