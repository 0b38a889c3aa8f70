package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/controllers/policy"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
)

// tried are the rules of a backtest, before RuleOverlays of the manifests are known.
type tried struct {
	compile  compileFunc
	upstream *compile.Rulebook
	named    []namedRules
	notes    []string
}

// namedRules are rules under the name of their policy.
type namedRules struct {
	name     string
	rules    *policy.Rules
	book     *compile.Rulebook
	params   map[string]string // of a sweep
	enforces []string
	pipeline string // of --pipelines, as name@version
	implicit bool   // nobody asked for it
	folder   bool   // of --rules
}

// maxPolicies bounds the combinations of sweeps.
const maxPolicies = 200

// policies reads and compiles all rules that are to be tried. Pipelines that nobody asked for are left out, with a note, if they do
// not go with the user's own rules.
func (o *backtestOptions) policies() (*tried, error) {
	out, err := o.withPipelines()
	if err == nil || o.asked {
		return out, err
	}
	pipelines := o.rules.more
	o.rules.more = nil
	alone, fault := o.withPipelines()
	if fault != nil {
		return nil, fault
	}
	alone.notes = []string{fmt.Sprintf("pipelines %s do not go with these rules, and are not tried; --pipelines %s says why", strings.Join(pipelines, " and "), strings.Join(pipelines, ","))}
	return alone, nil
}

func (o *backtestOptions) withPipelines() (*tried, error) {
	base, err := o.rules.read()
	if err != nil {
		return nil, err
	}
	base.Options.Cache = &compile.Cache{}
	out := &tried{compile: o.rules.compile}
	bare, err := policy.Open(policy.Options{Points: base.Options.Points, Cache: base.Options.Cache})
	if err != nil {
		return nil, err
	}
	if out.upstream, err = o.rules.compile(bare); err != nil {
		return nil, err
	}
	name := backtest.Shipped
	if o.rules.dir != "" {
		name = folderName(o.rules.dir)
	}
	out.named = []namedRules{{name: name, rules: base}}
	var pipelines []namedRules
	for _, pipeline := range o.rules.more {
		other, err := base.Pinned(pipeline)
		if err != nil {
			return nil, fmt.Errorf("--pipelines: %w", err)
		}
		pipelines = append(pipelines, namedRules{name: pipeline, rules: other, pipeline: other.PipelineOf().ID(), implicit: !o.asked})
	}
	if o.asked {
		out.named = append(out.named, pipelines...)
	}
	for _, folder := range o.folders {
		over, err := base.Over(folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--rules: %w; name a folder or file of rules", err)
		}
		if err != nil {
			return nil, err
		}
		out.named = append(out.named, namedRules{name: folderName(folder), rules: over, folder: true})
	}
	for i := range out.named {
		if out.named[i].book, err = o.rules.compile(out.named[i].rules); err != nil {
			return nil, err
		}
	}
	out.enforce()
	if err := o.sweep(out); err != nil {
		return nil, err
	}
	if !o.asked { // after all that somebody asked for, which may have their names
		out.named = append(out.named, slices.DeleteFunc(pipelines, func(of namedRules) bool {
			return slices.ContainsFunc(out.named, func(other namedRules) bool { return other.name == of.name })
		})...)
	}
	names := []string{backtest.Upstream}
	for _, policy := range out.named {
		names = append(names, policy.name)
	}
	return out, backtest.CheckNames(names...)
}

// folderName is what a policy is called after its folder or file.
func folderName(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		full = path
	}
	name := filepath.Base(full)
	if document.IsRuleFile(name) {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	return name
}

// enforce adds a policy for each overlay among the rules that is in mode Audit or Warn.
func (t *tried) enforce() {
	seen := map[*document.Overlay]bool{}
	for _, policy := range t.named {
		for _, o := range policy.rules.Tried() {
			if !seen[o] {
				seen[o] = true
				t.named = append(t.named, namedRules{name: policy.name + "+" + o.Name.Value, rules: policy.rules.Enforcing(o), enforces: []string{o.Name.Value}})
			}
		}
	}
}

// sweep adds a policy for each combination of the values of sweeps, to the rules of each name.
func (o *backtestOptions) sweep(t *tried) error {
	combinations := []map[string]string{{}}
	for _, text := range o.sweeps {
		key, values, err := o.parseSweep(text, t.named)
		if err != nil {
			return fmt.Errorf("--sweep %s: %w", text, err)
		}
		var next []map[string]string
		for _, before := range combinations {
			if before[key] != "" {
				return fmt.Errorf("--sweep %s: %s is swept twice; name all its values at once", text, key)
			}
			for _, value := range values {
				combination := maps.Clone(before)
				combination[key] = value
				next = append(next, combination)
			}
		}
		if combinations = next; len(combinations)*len(t.named) > maxPolicies {
			return fmt.Errorf("--sweep: there are %d or more combinations of values for %d sets of rules; the limit is %d policies: try fewer values at a time",
				len(combinations), len(t.named), maxPolicies)
		}
	}
	if len(o.sweeps) == 0 {
		return nil
	}
	for _, base := range slices.Clone(t.named) {
		for _, params := range combinations {
			var parts []string
			for _, key := range slices.Sorted(maps.Keys(params)) {
				parts = append(parts, key+"="+params[key])
			}
			variant := base
			variant.name, variant.rules, variant.params = fmt.Sprintf("%s[%s]", base.name, strings.Join(parts, " ")), base.rules.With(params), params
			var err error
			if variant.book, err = t.compile(variant.rules); err != nil {
				return fmt.Errorf("--sweep %s: %w", strings.Join(parts, " "), err)
			}
			t.named = append(t.named, variant)
		}
	}
	return nil
}

// parseSweep reads set.param=v1,v2. The parameter must be one of all rules, and act in a backtest.
func (o *backtestOptions) parseSweep(text string, named []namedRules) (key string, values []string, err error) {
	key, list, found := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	if !found || key == "" {
		return "", nil, errors.New("it is not of the form set.param=value,value, such as estimate.marginFraction=0.05,0.15")
	}
	for _, value := range strings.Split(list, ",") {
		if value = strings.TrimSpace(value); value == "" {
			return "", nil, errors.New("a value is empty; name the values to try, with commas between them")
		} else if slices.Contains(values, value) {
			return "", nil, fmt.Errorf("the value %s is named twice", value)
		}
		values = append(values, value)
	}
	for _, policy := range named {
		params := policy.rules.Library.Params()
		i := slices.IndexFunc(params, func(p document.ParamRef) bool { return p.Key == key })
		switch {
		case i < 0:
			return "", nil, fmt.Errorf("policy %s has no such parameter; %s", policy.name, suggestParams(key, params))
		case !slices.ContainsFunc(o.rules.of.points, params[i].At), slices.Contains(o.rules.of.without, params[i].Param.Flag):
			return "", nil, errors.New("this parameter does nothing in celvpa backtest")
		}
		if why := o.rules.whyGated(params[i].Param.Flag, policy.rules.Library, policy.rules.Options.Gates); params[i].Param.Flag != "" && why != "" {
			return "", nil, errors.New(why)
		}
	}
	return key, values, nil
}

// suggestParams ends a message about an unknown parameter, which may be spelled as its flag.
func suggestParams(unknown string, params []document.ParamRef) string {
	var keys, flags []string
	for _, p := range params {
		keys, flags = append(keys, p.Key), append(flags, p.Param.Flag)
	}
	return faults.Has(strings.TrimLeft(unknown, "-"), keys, flags...)
}

// reference is policy upstream.
func (t *tried) reference() backtest.Candidate {
	return backtest.Candidate{Name: backtest.Upstream, Book: t.upstream, Unpinned: true}
}

// candidates lays the RuleOverlays of the manifests over all rules but upstream's, which come first.
// The error lists those that cannot be used.
func (t *tried) candidates(overlays []rulesv1alpha1.RuleOverlay) ([]backtest.Candidate, error) {
	out := []backtest.Candidate{t.reference()}
	var errs []error
	add := func(of namedRules, name string, overlays []rulesv1alpha1.RuleOverlay, enforces []string) {
		book, unusable := policy.WithOverlays(of.book, overlays)
		if len(errs) == 0 {
			errs = append(errs, unusable)
		}
		out = append(out, backtest.Candidate{Name: name, Book: book, Params: of.params, Enforces: enforces, Implicit: of.implicit})
	}
	for _, policy := range t.named {
		if policy.book == nil {
			book, err := t.compile(policy.rules)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			policy.book = book
		}
		add(policy, policy.name, overlays, policy.enforces)
		if policy.params != nil || policy.enforces != nil || policy.implicit {
			continue
		}
		for i := range overlays {
			if overlays[i].Spec.Mode == document.ModeEnforce || overlays[i].Spec.Mode == "" {
				continue
			}
			enforced := slices.Clone(overlays)
			enforced[i].Spec.Mode = document.ModeEnforce
			add(policy, policy.name+"+"+overlays[i].Name, enforced, []string{overlays[i].Name})
		}
	}
	return out, faults.Join(errs...)
}
