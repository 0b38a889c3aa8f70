package main

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/explain"
)

// vpasCommand lists VPAs with what is next for their pods.
func vpasCommand(compile compileFunc) *cobra.Command {
	o, w := &offline{}, &watching{}
	cmd := &cobra.Command{
		Use:   "list [-f PATH…]",
		Short: "List VPAs: what their pods request against the target, what is next, and why not",
		Long: `Lists the VerticalPodAutoscalers of a namespace, or with -A of the cluster: their target and mode, what a pod requests
where there is a target, and that target, and what the updater would do next, by the rules of this program and its flags.
Those for which somebody has to change something come first (Misconfigured), then those that wait, those whose pods
are about to be changed, and those that are settled. WHY is the rule that decides, or what keeps it from having pods.

celvpa explain NAME says more, and asks the processes that run. -o wide adds the reason and has amounts exactly.`,
		Example: `  celvpa list
  kubectl vpa list -A -o wide
  celvpa list -A -o json | jq -r '.items[] | select(.next == "Evict") | .vpa'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.run(cmd, o, func() error { return runList(cmd, o) })
		},
	}
	o.add(cmd, compile)
	cmd.Flags().StringVar(&o.now, "now", "", "the time at which the updater looks, in RFC 3339 or seconds since 1970; empty = now")
	w.add(cmd)
	o.addTables(cmd, "table", "table", "wide", "name", "json", "yaml")
	return cmd
}

func runList(cmd *cobra.Command, o *offline) error {
	cluster, unread, err := o.open(cmd)
	if err != nil {
		return err
	}
	plan, unplanned := cluster.Plan(false)
	vpas, unusable := cluster.VPAs()
	pods, _ := cluster.Pods() // the plan has reported what cannot be read
	list := explain.NewList(vpas, pods, plan)
	o.printNotes(cmd, cluster.Notes())
	forms := tables(func(p *page, wide bool) { printList(p, list, wide) })
	forms["name"] = names(vpaResource, list.Items, func(r *explain.Row) string { return r.VPA })
	if err := o.print(cmd.OutOrStdout(), list, forms); err != nil {
		return err
	}
	return o.end(faults.Join(unread, unplanned, unusable), len(list.Items) == 0, "there is no VerticalPodAutoscaler in %s", false)
}

func printList(p *page, list *explain.List, wide bool) {
	if len(list.Items) == 0 {
		return
	}
	if wide {
		p.header("NAMESPACE", "NAME", "TARGET", "MODE", "PODS", "CPU", "MEMORY", "NEXT", "CLASS", "WHY", "REASON")
	} else {
		p.header("NAMESPACE", "NAME", "CPU", "MEMORY", "CLASS", "WHY")
	}
	for _, r := range list.WorstFirst() {
		namespace, name, _ := strings.Cut(r.VPA, "/")
		cpu, memory, class := r.CPU.Text(wide), r.Memory.Text(wide), cmp.Or(r.Class, "-")
		if !wide {
			why := r.Why()
			if r.Rule != "" {
				why = path.Base(r.Rule) // without its rule set
			}
			p.row(namespace, name, cpu, memory, class, why)
			continue
		}
		next := "-"
		if r.Next != "" {
			next = fmt.Sprintf("%s %d of %d", r.Next, r.Count, r.Pods)
		}
		p.row(namespace, name, r.Target, r.Mode, r.Pods, cpu, memory, next, class, r.Why(), cmp.Or(r.Reason, "-"))
	}
	p.printf("\n")
	p.wrapped("", list.Summary())
}
