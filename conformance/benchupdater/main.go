// Command benchupdater is what `make bench-updater` runs: on a lab of its own it lets upstream's updater and celvpa's evict the pods
// of the same VerticalPodAutoscalers, one after the other with the same flags, and prints side by side how long the first cycle
// takes, how many pods it evicts, and with how much CPU and memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

type settings struct {
	lab      string
	vpas     int
	pace     string
	programs string
	resizes  bool
	profile  bool
	keep     bool
}

func main() {
	var s settings
	flag.StringVar(&s.lab, "lab", "bench-updater", "name of the lab")
	flag.IntVar(&s.vpas, "vpas", vpas, "how many VerticalPodAutoscalers there are, each of a Deployment of its own with 2 pods")
	flag.StringVar(&s.pace, "pace", "default,fast", "how fast the updaters may ask the API server: by default, and with higher --kube-api-qps and --kube-api-burst")
	flag.StringVar(&s.programs, "programs", "upstream,celvpa", "whose updater is measured, in this order")
	flag.BoolVar(&s.resizes, "resizes", false, "measure once more with pods that are resized in place")
	flag.BoolVar(&s.profile, "profile", false, "serve profiles of both, and leave those of their heaps in bin/bench-updater")
	flag.BoolVar(&s.keep, "keep-lab", false, "leave the lab running, and use what is in it when it runs already")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // the client library has nothing to say here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-updater:", err)
		os.Exit(1)
	}
}

// bench is a run against one lab.
type bench struct {
	settings
	*harness.Workloads
	kubeconfig string
	logs       string // folder
	api        *rest.RESTClient
}

func run(ctx context.Context, s settings) (err error) {
	trials, err := s.trials()
	if err != nil {
		return err
	}
	programs, err := harness.Programs(ctx, s.programs, "updater")
	if err != nil {
		return err
	}
	lab, err := harness.Up(ctx, s.lab, os.Stderr, "-metrics-server=false", fmt.Sprintf("-nodes=%d", harness.Nodes(s.vpas*replicas)))
	if err != nil {
		return err
	}
	if !s.keep {
		defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx), os.Stderr)) }()
	}
	cluster, err := harness.ConnectWith(lab.Kubeconfig, func(c *rest.Config) { c.QPS = -1 })
	if err != nil {
		return err
	}
	b := &bench{settings: s, kubeconfig: lab.Kubeconfig,
		Workloads: &harness.Workloads{Cluster: cluster, Count: s.vpas, Replicas: replicas, Containers: 1, Again: s.keep}}
	if b.api, err = cluster.APIServer(); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	b.logs = filepath.Join(root, "bin", "bench-updater")
	if err := b.Populate(ctx); err != nil {
		return err
	}
	for _, t := range trials {
		var results []result
		for _, p := range programs {
			if err := b.replaceResized(ctx); err != nil {
				return err
			}
			if err := b.RenewVPAs(ctx, func(i int) *vpav1.VerticalPodAutoscaler { return vpa(b.Key(i), t) }); err != nil {
				return err
			}
			one, err := b.measure(ctx, p, t)
			if err != nil {
				return fmt.Errorf("%s %s: %w", p.Name, t.pace.text, err)
			}
			results = append(results, one)
		}
		b.print(os.Stdout, t, results)
	}
	return nil
}

// pace is how fast updaters may ask the API server.
type pace struct {
	name  string
	text  string
	flags []string
	limit float64 // seconds from the first to the last eviction that celvpa may take for 1000
}

var paces = []pace{
	{name: "default", text: "with default flags", limit: 25},
	{name: "fast", text: "with --kube-api-qps=1000 --kube-api-burst=2000", flags: []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}, limit: 6},
}

// trial is what all programs go through in the same way.
type trial struct {
	pace
	inPlace bool // pods are resized instead of evicted
}

func (s settings) trials() (out []trial, err error) {
	ways := []bool{false}
	if s.resizes {
		ways = append(ways, true)
	}
	for _, inPlace := range ways {
		for name := range strings.SplitSeq(s.pace, ",") {
			before := len(out)
			for _, p := range paces {
				if p.name == name {
					out = append(out, trial{pace: p, inPlace: inPlace})
				}
			}
			if len(out) == before {
				return nil, fmt.Errorf("-pace: there is no %q; known: default, fast", name)
			}
		}
	}
	return out, nil
}

// what a trial does to a pod, for people.
func (t trial) what() string {
	if t.inPlace {
		return "resize"
	}
	return "eviction"
}
