package main

import (
	"path/filepath"

	"github.com/celvpa/celvpa/conformance/harness"
)

// process is a recommender that runs.
type process struct {
	*harness.Measured
	address string // of its metrics
}

// start runs a program with default flags, but for where to listen.
func (b *bench) start(p harness.Program) (*process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append(p.Args, "--kubeconfig="+b.kubeconfig, "--address="+address)
	if b.profile {
		args = append(args, "--profiling")
	}
	one, err := harness.StartMeasured(filepath.Join(b.logs, filepath.Base(p.Path)+".log"), nil, p.Path, args...)
	if err != nil {
		return nil, err
	}
	return &process{Measured: one, address: address}, nil
}
