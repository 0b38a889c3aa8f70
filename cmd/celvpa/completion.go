package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/document"
)

// completes makes shells offer values of a flag, and no files. choices gets what is typed so far.
func completes(cmd *cobra.Command, flag string, choices func(word string) []string) {
	utilruntime.Must(cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return choices(word), cobra.ShellCompDirectiveNoFileComp
	}))
}

// gateChoices are the gates that are not in a list yet, behind those that are.
func gateChoices(word string) (out []string) {
	before := word[:strings.LastIndex(word, ",")+1]
	for _, name := range gateNames() {
		if !strings.Contains(before, name+"=") {
			out = append(out, before+name+"=true\t"+facts.Gates[name])
		}
	}
	return out
}

// library are the rules of the flags; empty if they cannot be read, which the command then says.
func (o *ruleOptions) library() *document.Library {
	rules, err := policy.Open(policy.Options{Path: o.dir})
	if err != nil {
		return &document.Library{}
	}
	return rules.Library
}

func (o *ruleOptions) pipelines(string) []string {
	return slices.Sorted(maps.Keys(o.library().Pipelines))
}

// addresses are what celvpa rules show takes: names, and behind a slash the parts of what is before it.
func (o *ruleOptions) addresses(word string) (out []string) {
	library := o.library()
	depth := strings.Count(word, "/")
	for _, set := range library.RuleSets {
		name := set.Name.Value
		if strings.Contains(word, "@") {
			name = set.ID()
		}
		switch {
		case depth == 0:
			out = append(out, name+"\t"+firstSentence(oneLine(set.Description)))
			continue
		case !strings.HasPrefix(word, name+"/"):
			continue
		}
		for i := range set.Stages {
			stage := name + "/" + set.Stages[i].Name.Value
			if depth == 1 {
				out = append(out, stage)
				continue
			}
			for j := range set.Stages[i].Rules {
				out = append(out, stage+"/"+set.Stages[i].Rules[j].Name.Value)
			}
		}
		if depth > 1 {
			continue
		}
		for i := range set.Decisions {
			out = append(out, name+"/"+set.Decisions[i].Name.Value)
		}
		for i := range set.Validations {
			out = append(out, name+"/"+set.Validations[i].Name.Value)
		}
	}
	if depth == 0 {
		for _, p := range library.Pipelines {
			out = append(out, p.Name.Value+"\tpipeline")
		}
		for name := range library.Overlays {
			out = append(out, name+"\toverlay")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// contexts are those of the kubeconfig.
func (l *live) contexts(string) []string {
	config, err := l.config().RawConfig()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(config.Contexts))
}

// completionTimeout is how long a shell waits for a cluster.
const completionTimeout = 3 * time.Second

// namespaces are those of the cluster.
func (l *live) namespaces(string) (out []string) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	c, _, err := l.connect()
	if err != nil {
		return nil
	}
	var list corev1.NamespaceList
	if c.List(ctx, &list) != nil {
		return nil
	}
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}
