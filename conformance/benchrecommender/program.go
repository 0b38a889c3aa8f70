package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/celvpa/celvpa/conformance/harness"
)

// program is a recommender that can be started.
type program struct {
	name string // for people
	ours bool
	path string
	args []string // before the flags
}

// build compiles one of the programs into bin/. Upstream's is kept from the last time.
func build(ctx context.Context, name string) (program, error) {
	switch name {
	case "celvpa":
		path, err := harness.Build(ctx)
		return program{name: name, ours: true, path: path, args: []string{"recommender"}}, err
	case "upstream":
		path, err := harness.BuildUpstreamRecommender(ctx, os.Stderr)
		return program{name: "upstream " + harness.UpstreamRelease, path: path}, err
	}
	return program{}, fmt.Errorf("-programs: no program %q; known: upstream, celvpa", name)
}

// process is a recommender that runs.
type process struct {
	program
	*harness.Measured
	address string // of its metrics
}

// start runs a program with default flags, but for where to listen.
func (b *bench) start(p program) (*process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append(p.args, "--kubeconfig="+b.kubeconfig, "--address="+address)
	if b.profile {
		args = append(args, "--profiling")
	}
	one, err := harness.StartMeasured(filepath.Join(b.logs, filepath.Base(p.path)+".log"), nil, p.path, args...)
	if err != nil {
		return nil, err
	}
	return &process{program: p, Measured: one, address: address}, nil
}
