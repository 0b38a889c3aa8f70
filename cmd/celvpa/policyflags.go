package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// offlineCommands do with manifests what components do in a cluster. All of them take all flags of policy.
var offlineCommands = []offlineCommand{
	{name: "recommend", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: recommenderPart.points, does: map[string]bool{cpuHalfLife: true, memoryHalfLife: true}},
	{name: "admit", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: []string{facts.VPAOrder, facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources}},
	{name: "plan", kinds: append([]schema.GroupVersionKind{manifests.VPAKind, manifests.PDBKind}, manifests.PodKinds...), points: updaterPart.points, ignores: planIgnores},
	{name: "validate", kinds: []schema.GroupVersionKind{manifests.VPAKind, manifests.HPAKind}, optional: manifests.WorkloadKinds, points: []string{facts.VPAValidate, facts.VPADefault, facts.ContainerPolicy}},
	{name: "list", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: updaterPart.points, ignores: planIgnores},
	{name: "explain", points: slices.Concat(recommenderPart.points, updaterPart.points), does: map[string]bool{cpuHalfLife: true, memoryHalfLife: true}, ignores: planIgnores},
	{name: "backtest", kinds: append([]schema.GroupVersionKind{manifests.VPAKind, manifests.PDBKind}, manifests.PodKinds...), points: slices.Concat(recommenderPart.points, updaterPart.points, admissionPart.points),
		does: map[string]bool{cpuHalfLife: true, memoryHalfLife: true}, ignores: map[string]string{"in-place-without-admission": planIgnores["in-place-without-admission"]}},
}

// planIgnores are flags that cannot act in a plan.
var planIgnores = map[string]string{
	"in-place-without-admission": "this command assumes that the admission controller is alive",
	"replacement-timeout":        "this command evicts no pods, so it waits for no replacements",
}

// offlineCommand is one of them.
type offlineCommand struct {
	name     string
	kinds    []schema.GroupVersionKind // that it reads of a cluster
	optional []schema.GroupVersionKind // that it reads if it may
	points   []string                  // at which it asks the rules on behalf of a component
	does     map[string]bool           // flags that set no parameter of rules, and act
	ignores  map[string]string         // flags of parameters at its points that cannot act all the same, and why
}

// components are the commands that offline commands stand in for.
var components = []struct {
	name string
	part *part
}{{"recommender", &recommenderPart}, {"updater", &updaterPart}, {"admission-controller", &admissionPart}}

// The flags of policy that set no parameter of rules.
const (
	cpuHalfLife    = "cpu-histogram-decay-half-life"
	memoryHalfLife = "memory-histogram-decay-half-life"
)

// addHalfLives adds the flags that say for how long the recommender remembers usage.
func (o *options) addHalfLives(f *pflag.FlagSet, s *model.Settings) {
	usual := model.DefaultSettings()
	s.UnusedGrace = usual.UnusedGrace // a flag of the recommender only
	o.positive(f, &s.CPUHalfLife, cpuHalfLife, usual.CPUHalfLife, "time after which a CPU sample has lost half its weight")
	o.positive(f, &s.MemoryHalfLife, memoryHalfLife, usual.MemoryHalfLife, "time after which a memory peak has lost half its weight")
}

// policyFlags are the flags of policy of an offline command: which rules there are, the feature gates, and all that components
// have to set what rules and the recommender go by. A flag that cannot act in the command is refused with the reason.
type policyFlags struct {
	ruleOptions
	halfLives model.Settings

	of     offlineCommand
	checks options             // of durations
	pflags *pflag.FlagSet      // of the command
	refs   []document.ParamRef // of all parameters with a flag
}

// add gives a command the flags. Its help shows those that act in it.
func (o *policyFlags) add(cmd *cobra.Command) {
	o.of = offlineCommands[slices.IndexFunc(offlineCommands, func(c offlineCommand) bool { return c.name == cmd.Name() })]
	o.ruleOptions.add(cmd)
	// All commands note the fields that gates turn off, and apply defaults.
	o.points = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.of.points, []string{facts.VPAValidate, facts.VPADefault}))))
	o.pflags = cmd.PersistentFlags()
	o.checks.addHalfLives(o.pflags, &o.halfLives)
	if o.fault == nil {
		o.refs, o.fault = flagParams()
	}
	o.pflags.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || o.whyIdle(f.Name) != "" })
	cmd.SetFlagErrorFunc(explainUnknown)
}

// flagParams are the parameters of the shipped rules that have a flag.
func flagParams() ([]document.ParamRef, error) {
	library, err := policy.Shipped()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(library.Params(), func(p document.ParamRef) bool { return p.Param.Flag == "" }), nil
}

// open compiles the rules that the flags ask for, once no flag is idle.
func (o *policyFlags) open() (*compile.Rulebook, error) {
	rules, err := o.read()
	if err != nil {
		return nil, err
	}
	return o.compile(rules)
}

// read reads the rules that the flags ask for, once no flag is idle.
func (o *policyFlags) read() (*policy.Rules, error) {
	options, err := o.options(o.dir)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Open(options)
	if err != nil {
		return nil, err
	}
	var errs []error
	o.pflags.VisitAll(func(f *pflag.Flag) { // by name
		if !f.Changed {
			return
		}
		why := o.whyIdle(f.Name)
		if why == "" {
			why = o.whyGated(f.Name, rules.Library, options.Gates)
		}
		if why != "" {
			errs = append(errs, errors.New(why))
		}
	})
	if err := faults.Join(append(errs, o.checks.checkDurations())...); err != nil {
		return nil, err
	}
	maps.DeleteFunc(rules.Options.Params, func(key, _ string) bool { // a flag may stand for other rule sets, too, which other components run
		return !slices.ContainsFunc(o.refs, func(p document.ParamRef) bool { return p.Key == key && slices.ContainsFunc(o.of.points, p.At) })
	})
	return rules, nil
}

// whyGated is why a flag cannot act while gates are off; empty where some rule set that it sets something of is not behind one.
func (o *policyFlags) whyGated(flag string, library *document.Library, on map[string]bool) string {
	var sets, gates []string
	for _, p := range library.Params() {
		for _, set := range p.RuleSets {
			if p.Param.Flag != flag || !slices.Contains(o.of.points, set.Point.Value) {
				continue
			}
			if set.Gate.Value == "" || on[set.Gate.Value] {
				return ""
			}
			sets, gates = append(sets, set.Name.Value), append(gates, set.Gate.Value+"=true")
		}
	}
	if len(sets) == 0 {
		return ""
	}
	what, are := "rule set", "is"
	if len(sets) > 1 {
		what, are = "rule sets", "are"
	}
	return fmt.Sprintf("--%s does nothing in celvpa %s: it is for %s %s, which %s behind a feature gate; add --feature-gates=%s, or leave it out",
		flag, o.of.name, what, strings.Join(sets, " and "), are, strings.Join(slices.Compact(gates), ","))
}

// whyIdle is why a flag of policy cannot act in the command; empty where it does.
func (o *policyFlags) whyIdle(flag string) string {
	var in []string
	known := false
	for _, c := range offlineCommands {
		known = known || c.does[flag] || c.runs(o.refs, flag)
		if c.acts(o.refs, flag) {
			in = append(in, "celvpa "+c.name)
		}
	}
	if !known || o.of.acts(o.refs, flag) {
		return ""
	}
	if why := o.of.ignores[flag]; why != "" {
		return fmt.Sprintf("--%s does nothing in celvpa %s: %s; leave it out", flag, o.of.name, why)
	}
	var belongs []string
	for _, c := range components {
		at := offlineCommand{points: c.part.points}
		if at.runs(o.refs, flag) || c.part == &recommenderPart && offlineCommands[0].does[flag] {
			belongs = append(belongs, "celvpa "+c.name)
		}
	}
	text := fmt.Sprintf("--%s does nothing in celvpa %s: it is a flag of %s", flag, o.of.name, inWords(belongs))
	if len(in) == 0 {
		return text + ", and acts in no offline command; leave it out"
	}
	return text + ", and acts offline in " + inWords(in) + "; leave it out here"
}

// inWords joins names as a sentence does: a, b and c.
func inWords(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// acts reports whether a flag of policy acts in the command.
func (c offlineCommand) acts(refs []document.ParamRef, flag string) bool {
	return c.does[flag] || c.runs(refs, flag) && c.ignores[flag] == ""
}

// runs reports whether a flag sets a parameter of rules that the command runs.
func (c offlineCommand) runs(refs []document.ParamRef, flag string) bool {
	return slices.ContainsFunc(refs, func(p document.ParamRef) bool { return p.Param.Flag == flag && slices.ContainsFunc(c.points, p.At) })
}

// explainUnknown says more of a flag that only components have.
func explainUnknown(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return badFlag(cmd, err)
	}
	name := normalize(nil, unknown.GetSpecifiedName())
	run := componentCommand("run", "", recommenderPart, updaterPart, admissionPart)
	if run.Flags().Lookup(string(name)) == nil {
		return badFlag(cmd, err)
	}
	return fmt.Errorf("--%s says how celvpa runs in a cluster, and offline commands take the flags of policy only; leave it out", name)
}
