package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/explain"
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

// names are those of the rule sets, pipelines and overlays that celvpa rules show takes.
func (o *ruleOptions) names(word string) []string {
	library := o.library()
	out := slices.Concat(slices.Collect(maps.Keys(library.Pipelines)), slices.Collect(maps.Keys(library.Overlays)))
	for id, set := range library.RuleSets {
		if strings.Contains(word, "@") {
			out = append(out, id)
			continue
		}
		out = append(out, set.Name.Value+"\t"+firstSentence(oneLine(set.Description)))
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

// subjects completes names of VPAs.
func (l *live) subjects(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, namespace, err := l.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list vpav1.VerticalPodAutoscalerList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range list.Items {
		v := &list.Items[i]
		out = append(out, fmt.Sprintf("%s\t%s", v.Name, explain.TargetText(v)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
