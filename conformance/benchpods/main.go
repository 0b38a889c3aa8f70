// Command benchpods is what `make bench-pods` runs: on a lab of its own it sends the reviews of new pods to upstream's admission
// controller and to celvpa's, in turns and over TLS as API servers do, and prints side by side how many each answers, how fast,
// and with how much CPU and memory.
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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/harness"
)

type settings struct {
	lab                      string
	vpas, namespaces         int
	connections, multiplexed int
	turns                    int
	warm, window             time.Duration
	programs                 string
	profile                  bool
	keep                     bool
}

func main() {
	var s settings
	flag.StringVar(&s.lab, "lab", "bench-pods", "name of the lab")
	flag.IntVar(&s.vpas, "vpas", 500, "how many VerticalPodAutoscalers there are, each of a Deployment of its own")
	flag.IntVar(&s.namespaces, "namespaces", 10, "how many namespaces they are spread over")
	flag.IntVar(&s.connections, "reviews", 32, "how many reviews are under way at a time: over HTTP/1.1 each on a connection of its own")
	flag.IntVar(&s.multiplexed, "connections", 2, "over how many connections of HTTP/2 they are spread")
	flag.IntVar(&s.turns, "turns", 3, "how often each program is measured, in turns; the best turn of each counts")
	flag.DurationVar(&s.warm, "warm", 3*time.Second, "how long a program is under load before it is measured")
	flag.DurationVar(&s.window, "window", 10*time.Second, "how long it is measured, over HTTP/1.1 and once more over HTTP/2")
	flag.StringVar(&s.programs, "programs", "upstream,celvpa", "whose admission controller is measured, in this order")
	flag.BoolVar(&s.profile, "profile", false, "leave CPU and allocation profiles of celvpa under load in bin/bench-pods; they cost it a few percent")
	flag.BoolVar(&s.keep, "keep-lab", false, "leave the lab running, and use what is in it when it runs already")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // the client library has nothing to say here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench-pods:", err)
		os.Exit(1)
	}
}

// bench is a run against one lab.
type bench struct {
	settings
	*harness.Cluster
	kubeconfig string
	folder     string // of logs, certificates and profiles
	cores      cores
	reviews    []review
}

func run(ctx context.Context, s settings) (err error) {
	programs, err := harness.Programs(ctx, s.programs, "admission-controller")
	if err != nil {
		return err
	}
	lab, err := harness.Up(ctx, s.lab, os.Stderr, "-metrics-server=false", "-nodes=1")
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
	root, err := harness.Root()
	if err != nil {
		return err
	}
	b := &bench{settings: s, Cluster: cluster, kubeconfig: lab.Kubeconfig, folder: filepath.Join(root, "bin", "bench-pods")}
	if err := b.writeCertificate(); err != nil {
		return err
	}
	if err := b.populate(ctx); err != nil {
		return err
	}
	if b.reviews, err = b.makeReviews(ctx); err != nil {
		return err
	}
	b.cores = divide()
	harness.Say("the server has %s, what loads it has %s; reviews have %d bytes on average", b.cores.serverText, b.cores.ownText, b.meanSize())
	results := make([]result, len(programs))
	answers := make([][]answer, len(programs))
	for turn := range s.turns {
		for i, p := range programs {
			one, got, err := b.measure(ctx, p, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			results[i].add(one)
			answers[i] = got
		}
	}
	same := ""
	if len(programs) == 2 {
		if same, err = b.compare(answers[0], answers[1]); err != nil {
			return fmt.Errorf("%s and %s answer differently: %w", programs[0].Name, programs[1].Name, err)
		}
	}
	b.print(os.Stdout, results, same)
	return nil
}
