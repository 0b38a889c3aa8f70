package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/rules"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// compileFunc compiles rules that were read: (*policy.Rules).Compile, or a function that remembers what that returned.
type compileFunc func(*policy.Rules) (*compile.Rulebook, error)

// ruleOptions choose the rules that a command looks at.
type ruleOptions struct {
	dir      string
	pipeline string
	more     []string // shipped pipelines besides
	gates    string
	points   []string // that are compiled; none = all
	compile  compileFunc
	params   paramFlags
	fault    error // of the shipped rules, reported when a command runs
}

// add gives a command the flags of rules, and of all their parameters.
func (o *ruleOptions) add(cmd *cobra.Command) {
	o.addRules(cmd)
	o.addParams(cmd.PersistentFlags())
}

// addRules gives a command the flags of rules.
func (o *ruleOptions) addRules(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&o.dir, "rules-dir", "", "folder of rule files, or one of them, to be laid over the shipped ones")
	f.StringVar(&o.pipeline, "pipeline", "", "pipeline, name or name@version; empty = default")
	f.StringSliceVar(&o.more, "pipelines", nil, "shipped pipelines that VPAs may pin besides: "+strings.Join(rules.PipelineNames, ", "))
	f.StringVar(&o.gates, "feature-gates", "", "feature gates as Name=true|false, separated by commas:\n"+gateHelp())
	completes(cmd, "pipeline", o.pipelines)
	completes(cmd, "feature-gates", gateChoices)
}

// addParams adds the flags of the parameters that rules at some points read; no points = all.
func (o *ruleOptions) addParams(f *pflag.FlagSet, points ...string) {
	o.params = paramFlags{}
	library, err := policy.Shipped()
	if err == nil {
		err = o.params.add(f, library, points...)
	}
	o.fault = err
}

// options are those of the rules; dir overrides --rules-dir.
func (o *ruleOptions) options(dir string) (policy.Options, error) {
	if o.fault != nil {
		return policy.Options{}, fmt.Errorf("the shipped rules are broken:\n%w", o.fault)
	}
	gates, err := parseGates(o.gates)
	return policy.Options{Path: dir, Pipeline: o.pipeline, Pipelines: o.more, Gates: gates, Params: o.params.given(), Points: o.points}, err
}

// open reads and compiles the rules of the flags.
func (o *ruleOptions) open() (*compile.Rulebook, error) {
	files, err := o.read(o.dir)
	if err != nil {
		return nil, err
	}
	return files.book, nil
}

// read reads and compiles the shipped rules, with those of a folder laid over them unless it is empty.
func (o *ruleOptions) read(dir string) (*ruleFiles, error) {
	options, err := o.options(dir)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Open(options)
	if err != nil {
		return nil, err
	}
	book, err := o.compile(rules)
	if err != nil {
		return nil, err
	}
	return &ruleFiles{Rules: rules, book: book}, nil
}

// ruleFiles are rules with all plans made from them.
type ruleFiles struct {
	*policy.Rules
	book *compile.Rulebook
}

// offlineCommands do with manifests what components do in a cluster.
var offlineCommands = []offlineCommand{
	{name: "recommend", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: recommenderPart.points},
	{name: "admit", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: []string{facts.VPAOrder, facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources}},
	{name: "plan", kinds: append([]schema.GroupVersionKind{manifests.VPAKind, manifests.PDBKind}, manifests.PodKinds...), points: updaterPart.points, without: []string{admissionDown, replacementTimeout}},
	{name: "validate", kinds: []schema.GroupVersionKind{manifests.VPAKind, manifests.HPAKind}, optional: manifests.WorkloadKinds, points: []string{facts.VPAValidate, facts.VPADefault, facts.ContainerPolicy}},
	{name: "list", kinds: append([]schema.GroupVersionKind{manifests.VPAKind}, manifests.PodKinds...), points: updaterPart.points, without: []string{admissionDown, replacementTimeout}},
	{name: "explain", points: slices.Concat(recommenderPart.points, updaterPart.points), without: []string{admissionDown, replacementTimeout}},
	{name: "backtest", kinds: append([]schema.GroupVersionKind{manifests.VPAKind, manifests.PDBKind}, manifests.PodKinds...), points: slices.Concat(recommenderPart.points, updaterPart.points, admissionPart.points),
		without: []string{admissionDown}},
}

// Flags of params that cannot act offline: commands assume that the admission controller is alive, and all but backtest evict no pods,
// so that no replacement is waited for.
const (
	admissionDown      = "in-place-without-admission"
	replacementTimeout = "replacement-timeout"
)

// offlineCommand is one of them.
type offlineCommand struct {
	name     string
	kinds    []schema.GroupVersionKind // that it reads of a cluster
	optional []schema.GroupVersionKind // that it reads if it may
	points   []string                  // at which it asks the rules on behalf of a component
	without  []string                  // flags of params at its points that it does not have
}

// policyFlags are the flags of policy of an offline command: which rules there are, the feature gates, and those of a component's
// flags that set what the command's rules and its recommender go by.
type policyFlags struct {
	ruleOptions

	of     offlineCommand
	pflags *pflag.FlagSet
}

// add gives a command the flags.
func (o *policyFlags) add(cmd *cobra.Command) {
	o.of = offlineCommands[slices.IndexFunc(offlineCommands, func(c offlineCommand) bool { return c.name == cmd.Name() })]
	o.pflags = cmd.PersistentFlags()
	o.addRules(cmd)
	params := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	o.addParams(params, o.of.points...)
	params.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(o.of.without, f.Name) {
			o.pflags.AddFlag(f)
		}
	})
	// All commands note the fields that gates turn off, and apply defaults.
	o.points = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.of.points, []string{facts.VPAValidate, facts.VPADefault}))))
	cmd.SetFlagErrorFunc(explainUnknown)
}

// open compiles the rules that the flags ask for.
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
		if why := o.whyGated(f.Name, rules.Library, options.Gates); f.Changed && why != "" {
			errs = append(errs, errors.New(why))
		}
	})
	return rules, faults.Join(errs...)
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

// inWords joins names as a sentence does: a, b and c.
func inWords(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// explainUnknown says whose flag it is that an offline command does not have.
func explainUnknown(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return badFlag(cmd, err)
	}
	name := string(normalize(nil, unknown.GetSpecifiedName()))
	var owners []string
	for component, part := range map[string]part{"recommender": recommenderPart, "updater": updaterPart, "admission-controller": admissionPart} {
		if componentCommand(component, "", part).Flags().Lookup(name) != nil {
			owners = append(owners, "celvpa "+component)
		}
	}
	if len(owners) == 0 {
		return badFlag(cmd, err)
	}
	slices.Sort(owners)
	return fmt.Errorf("--%s does nothing in %s: it is a flag of %s; leave it out", name, cmd.CommandPath(), inWords(owners))
}
