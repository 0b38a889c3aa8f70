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

// krrFolder holds the rules of KRR, relative to where make runs.
const krrFolder = "conformance/quality/krr"

// tried is a folder of rules to lay over the shipped ones, or a pipeline to pin.
type tried struct {
	name, folder, pipeline string
}

// policies are upstream's defaults, KRR, each shipped pipeline, and folders of rules laid over the shipped ones.
func policies(krr string, folders []string) ([]backtest.Candidate, error) {
	base, err := policy.Open(policy.Options{Pipelines: rules.PipelineNames, Cache: &compile.Cache{}})
	if err != nil {
		return nil, err
	}
	list := []tried{{name: backtest.Upstream}, {name: "krr", folder: krr}}
	list = append(list, pipelines(base)...)
	for _, folder := range folders {
		list = append(list, tried{name: filepath.Base(folder), folder: folder})
	}
	var names []string
	for _, of := range list {
		names = append(names, of.name)
	}
	if err := backtest.CheckNames(names...); err != nil {
		return nil, err
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
func (t tried) candidate(base *policy.Rules) (out backtest.Candidate, err error) {
	of := base
	if t.folder != "" {
		of, _, err = base.Under(t.folder)
	} else if t.pipeline != "" {
		of, err = base.Pinned(t.pipeline)
	}
	if err != nil {
		return out, err
	}
	out.Name = t.name
	out.Book, err = of.Compile()
	return out, err
}
