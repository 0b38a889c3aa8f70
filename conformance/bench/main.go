// Command bench measures celvpa beside upstream's components on a lab of its own. `bench NAME`
// starts each program in turn under the same load, prints the medians of all rounds side by side,
// and judges them by targets.yaml.
//
// A benchmark (recommender.go, updater.go, pods.go) fills the lab and measures one program in one
// trial; run.go does the rest in the same way for all of them. `bench scale` has no lab: package
// standin takes the place of the API server, with clusters of package crowd.
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

var benchmarks = []benchmark{recommenderBenchmark, updaterBenchmark, podsBenchmark}

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
	usage := "usage: bench NAME [flags], where NAME is one of"
	for _, b := range benchmarks {
		if len(args) > 0 && args[0] == b.name {
			return b.run(ctx, args[1:])
		}
		usage += fmt.Sprintf("\n  %-12s  %s", b.name, b.about)
	}
	if len(args) > 0 && args[0] == "scale" {
		return runScale(ctx, args[1:])
	}
	return fmt.Errorf("%s\n  %-12s  %s", usage, "scale", aboutScale)
}

// options are the flags of benchmarks on a lab, with defaults that depend on the benchmark.
type options struct {
	lab         string
	programs    list
	vpas        int
	rounds      int
	check, keep bool
}

func (b benchmark) parse(args []string) (options, error) {
	o := options{programs: list{upstream, celvpa}, vpas: b.vpas, rounds: b.rounds}
	flags := flag.NewFlagSet("bench "+b.name, flag.ContinueOnError)
	flags.StringVar(&o.lab, "lab", "bench-"+b.name, "name of the lab")
	flags.Var(&o.programs, "programs", "programs to measure, in this order: upstream, celvpa")
	flags.IntVar(&o.vpas, "vpas", o.vpas, "VerticalPodAutoscalers, each with a Deployment of its own; targets are for the default")
	flags.IntVar(&o.rounds, "rounds", o.rounds, "rounds, in each of which every program is measured once")
	flags.BoolVar(&o.check, "check", false, "exit with 1 if a target is missed")
	flags.BoolVar(&o.keep, "keep-lab", false, "leave the lab running, and reuse what a lab that already runs holds")
	return o, parseFlags(flags, args, "-programs", &o.programs, upstream, celvpa)
}

// parseFlags parses flags of which one is a list of known words.
func parseFlags(flags *flag.FlagSet, args []string, name string, words *list, known ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s takes flags only, not %q", flags.Name(), flags.Arg(0))
	}
	for _, word := range *words {
		if !slices.Contains(known, word) {
			return fmt.Errorf("%s: unknown %q; known: %s", name, word, strings.Join(known, ", "))
		}
	}
	return nil
}

// list is a flag of words between commas.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = strings.Split(s, ","); return nil }
