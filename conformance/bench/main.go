// Command bench measures celvpa beside upstream's components on a lab of its own. `bench NAME`
// starts each program in turn under the same load, prints the medians of all rounds side by side,
// and judges them by targets.yaml.
//
// A benchmark (cycles.go, pods.go) fills the lab and measures one program in one trial; main.go does the
// rest in the same way for all of them. `bench scale` has no lab: package standin takes the place of the
// API server, with clusters of package crowd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
)

// benchmark is one thing to measure.
type benchmark struct {
	name, about string
	component   string   // celvpa's command, which is the name of upstream's package, too
	trials      []string // each has its own table, and its own targets as NAME/TRIAL
	vpas        int      // each with a Deployment of its own
	replicas    int      // pods of a Deployment
	rounds      int      // in each of which every program is measured once
	// prepare fills a lab, and returns what measures a program on it.
	prepare func(context.Context, *lab) (measurer, error)
}

type measurer interface {
	// title describes a trial.
	title(trial string) string
	// measure runs a program once. All values of a trial have the same names, but for steps that
	// only one program has.
	measure(ctx context.Context, p program, trial string) ([]value, error)
}

// lab is a control plane for a benchmark.
type lab struct {
	*harness.Cluster
	options
	replicas   int
	kubeconfig string
	folder     string // of logs
	api        *http.Client
}

// run measures all programs in all trials, and prints a table for each trial.
func (b benchmark) run(ctx context.Context, args []string) (err error) {
	o, err := b.parse(args)
	if err != nil {
		return err
	}
	programs, err := build(ctx, o.programs, b.component, o.pipeline)
	if err != nil {
		return err
	}
	up, err := harness.Up(ctx, o.lab, os.Stderr, "-metrics-server=false", fmt.Sprintf("-nodes=%d", nodes(o.vpas*b.replicas)))
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() { err = errors.Join(err, up.Down(context.WithoutCancel(ctx), os.Stderr)) }()
	}
	l, err := b.connect(up, o)
	if err != nil {
		return err
	}
	m, err := b.prepare(ctx, l)
	if err != nil {
		return err
	}
	var report report
	for _, trial := range b.trials {
		rounds := make([][][]value, len(programs))
		for round := range o.rounds {
			for i, p := range programs {
				progress("%s: round %d of %d of %s/%s", p.name, round+1, o.rounds, b.name, trial)
				values, err := m.measure(ctx, p, trial)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				rounds[i] = append(rounds[i], values)
			}
		}
		if err := report.add(newTable(m.title(trial), programs, rounds), b.name+"/"+trial); err != nil {
			return err
		}
	}
	return report.result(o.check)
}

func (b benchmark) connect(up *harness.Lab, o options) (*lab, error) {
	cluster, err := harness.ConnectWith(up.Kubeconfig, func(c *rest.Config) { c.QPS = -1 })
	if err != nil {
		return nil, err
	}
	api, err := rest.HTTPClientFor(cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cluster.Config.Host, err)
	}
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	return &lab{Cluster: cluster, options: o, replicas: b.replicas, kubeconfig: up.Kubeconfig,
		folder: filepath.Join(root, "bin", "bench-"+b.name), api: api}, nil
}

// progress shows on standard error how far the measurement is.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

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
	pipeline    string
	vpas        int
	rounds      int
	check, keep bool
}

func (b benchmark) parse(args []string) (options, error) {
	o := options{programs: list{upstream, celvpa}, vpas: b.vpas, rounds: b.rounds}
	flags := flag.NewFlagSet("bench "+b.name, flag.ContinueOnError)
	flags.StringVar(&o.lab, "lab", "bench-"+b.name, "name of the lab")
	flags.Var(&o.programs, "programs", "programs to measure, in this order: upstream, celvpa")
	flags.StringVar(&o.pipeline, "pipeline", "", aboutPipeline)
	flags.IntVar(&o.vpas, "vpas", o.vpas, "VerticalPodAutoscalers, each with a Deployment of its own; targets are for the default")
	flags.IntVar(&o.rounds, "rounds", o.rounds, "rounds, in each of which every program is measured once")
	flags.BoolVar(&o.check, "check", false, "exit with 1 if a target is missed")
	flags.BoolVar(&o.keep, "keep-lab", false, "leave the lab running, and reuse what a lab that already runs holds")
	return o, parseFlags(flags, args, "-programs", &o.programs, upstream, celvpa)
}

const aboutPipeline = "pipeline by which celvpa decides, such as follow"

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
