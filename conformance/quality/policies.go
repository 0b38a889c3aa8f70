package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/rules"
)

// numbersFolder holds the pipelines of docs/numbers.md.
const numbersFolder = "examples/numbers"

// krrFolder holds the rules of KRR, relative to where make runs.
const krrFolder = "conformance/quality/krr"

// tried is a folder of rules to lay over the shipped ones, or a pipeline to pin.
type tried struct {
	name, folder, pipeline string
}

// policies are upstream's defaults, KRR, each pipeline of a folder, and folders of rules laid over the shipped ones.
func policies(krr, numbers string, folders []string) ([]backtest.Candidate, error) {
	base, err := policy.Open(policy.Options{Path: numbers, Cache: &compile.Cache{}})
	if err != nil {
		return nil, err
	}
	list := []tried{{name: backtest.Upstream}, {name: "krr", folder: krr}}
	list = append(list, pipelines(base)...)
	for _, folder := range folders {
		list = append(list, tried{name: filepath.Base(folder), folder: folder})
	}
	seen := map[string]bool{backtest.Manifest: true, backtest.Hindsight: true}
	for _, of := range list {
		if seen[of.name] {
			return nil, fmt.Errorf("two policies are called %q: rename a folder of rules", of.name)
		}
		seen[of.name] = true
	}
	var out []backtest.Candidate
	for _, of := range list {
		candidate, err := of.candidate(base)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", of.name, err)
		}
		out = append(out, candidate)
	}
	return out, nil
}

// pipelines are those of the rules but the one that runs by default.
func pipelines(base *policy.Rules) (out []tried) {
	for _, id := range slices.Sorted(maps.Keys(base.Library.Pipelines)) {
		if base.Library.Pipelines[id].Name.Value != rules.DefaultPipeline {
			out = append(out, tried{name: id, pipeline: id})
		}
	}
	return out
}

// candidate has overlays in mode Audit or Warn enforced.
func (t tried) candidate(base *policy.Rules) (backtest.Candidate, error) {
	of := *base
	if t.folder != "" {
		over, _, err := base.Under(t.folder)
		if err != nil {
			return backtest.Candidate{}, err
		}
		of = *over
	}
	if t.pipeline != "" {
		of.Options.Pipeline = t.pipeline
	}
	out := backtest.Candidate{Name: t.name}
	var err error
	out.Book, err = of.Compile()
	return out, err
}
