package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

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
	programs, err := build(ctx, o.programs, b.component)
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
