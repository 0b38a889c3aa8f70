package main

import (
	"fmt"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// compileFunc compiles rules that were read: (*policy.Rules).Compile, or a function that remembers what that returned.
type compileFunc func(*policy.Rules) (*compile.Rulebook, error)

// ruleOptions choose the rules that a command looks at.
type ruleOptions struct {
	dir      string
	pipeline string
	gates    string
	points   []string // that are compiled; none = all
	compile  compileFunc
	params   paramFlags
	fault    error // of the shipped rules, reported when a command runs
}

// add gives a command the flags of rules, and of all their parameters.
func (o *ruleOptions) add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&o.dir, "rules-dir", "", "folder of rule files, or one of them, to be laid over the shipped ones")
	f.StringVar(&o.pipeline, "pipeline", "", "pipeline, name or name@version; empty = default")
	f.StringVar(&o.gates, "feature-gates", "", "feature gates as Name=true|false, separated by commas:\n"+gateHelp())
	completes(cmd, "pipeline", o.pipelines)
	completes(cmd, "feature-gates", gateChoices)
	o.addParams(f)
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
	return policy.Options{Path: dir, Pipeline: o.pipeline, Gates: gates, Params: o.params.given(), Points: o.points}, err
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
