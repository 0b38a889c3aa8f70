package main

import (
	"path/filepath"
	"slices"

	"github.com/celvpa/celvpa/conformance/harness"
)

// process is a recommender that runs.
type process struct {
	*harness.Measured
	address string // of its metrics
}

// start runs a program with default flags, but for where to listen. Where nothing is sampled celvpa gives upstream's answer: else it
// would have nothing to write.
func (b *bench) start(p harness.Program) (*process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(p.Args), "--kubeconfig="+b.kubeconfig, "--address="+address)
	if p.Ours && !b.samples {
		args = append(args, "--recommendation-min-samples=0")
	}
	if b.profile {
		args = append(args, "--profiling")
	}
	one, err := harness.StartMeasured(filepath.Join(b.logs, filepath.Base(p.Path)+".log"), nil, p.Path, args...)
	if err != nil {
		return nil, err
	}
	return &process{Measured: one, address: address}, nil
}
