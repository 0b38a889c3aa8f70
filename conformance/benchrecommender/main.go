// Command benchrecommender is what `make bench-recommender` runs: on a lab of its own it lets upstream's recommender and
// celvpa's serve the same VerticalPodAutoscalers, one after the other with the same flags, and prints side by side what
// a cycle takes, and the memory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
)

type settings struct {
	lab                        string
	vpas, replicas, containers int
	samples                    bool
	cycles                     int
	programs                   string
	profile                    bool
	keep                       bool
}

func main() {
	var s settings
	flag.StringVar(&s.lab, "lab", "bench-recommender", "name of the lab")
	flag.IntVar(&s.vpas, "vpas", 1000, "how many VerticalPodAutoscalers there are, each of a Deployment of its own")
	flag.IntVar(&s.replicas, "replicas", 2, "how many pods a Deployment has")
	flag.IntVar(&s.containers, "containers", 1, "how many containers a pod has")
	flag.BoolVar(&s.samples, "samples", false, "let metrics.k8s.io know what every container uses, another amount at each reading")
	flag.IntVar(&s.cycles, "cycles", 3, "how many cycles are measured, not counting the first")
	flag.StringVar(&s.programs, "programs", "upstream,celvpa", "whose recommender is measured, in this order")
	flag.BoolVar(&s.profile, "profile", false, "serve profiles of celvpa, and leave its heap's in bin/bench-recommender")
	flag.BoolVar(&s.keep, "keep-lab", false, "leave the lab running, and use it as it is when it runs already")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // the client library has nothing to say here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-recommender:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	measured, err := harness.Programs(ctx, s.programs, "recommender")
	if err != nil {
		return err
	}
	lab, err := harness.Up(ctx, s.lab, os.Stderr, "-metrics-server=false", fmt.Sprintf("-nodes=%d", harness.Nodes(s.vpas*s.replicas)))
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
		Workloads: &harness.Workloads{Cluster: cluster, Count: s.vpas, Replicas: s.replicas, Containers: s.containers, Again: s.keep}}
	if b.api, err = cluster.APIServer(); err != nil {
		return err
	}
	root, err := harness.Root()
	if err != nil {
		return err
	}
	b.logs = filepath.Join(root, "bin", "bench-recommender")
	usage, err := serveUsage(ctx, b)
	if err != nil {
		return err
	}
	defer usage.Close()
	if err := b.Populate(ctx); err != nil {
		return err
	}
	if usage.pods, err = b.pods(ctx); err != nil {
		return err
	}
	var results []result
	for _, p := range measured {
		if err := b.RenewVPAs(ctx, b.vpa); err != nil {
			return err
		}
		one, err := b.measure(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		results = append(results, one)
	}
	b.print(os.Stdout, results)
	return nil
}

// bench is a run against one lab.
type bench struct {
	settings
	*harness.Workloads
	kubeconfig string
	logs       string // folder
	api        *rest.RESTClient
}
