package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/spf13/cobra"
)

// planCommand shows what the updater would do.
func planCommand(compile compileFunc) *cobra.Command {
	o, w := &offline{}, &watching{}
	cmd := &cobra.Command{
		Use:   "plan [-f PATH…]",
		Short: "Show what the updater would do with the running pods in manifests, and why",
		Long: `Runs one cycle of the updater on manifests: the same rules and the same code as in a cluster. A line for each pod says what
the updater would do and why. It changes nothing.

` + inputHelp + `Objects without
a namespace are in namespace default. Pods are running pods with node and status, as kubectl get pod -o yaml prints them; none
are made from templates. VerticalPodAutoscalers carry their recommendation in status.recommendation, as in a cluster and as
celvpa recommend -o yaml prints it, and may stand beside the folder that it was made for. LimitRanges bound the
recommendation. RuleOverlays apply as in a cluster.

A pod belongs to a VerticalPodAutoscaler through the controller that owns it. The pod's direct owner, e.g. its ReplicaSet,
says how many pods there should be. If the owner is missing from the manifests, the number of its pods counts, and a note
says so.

--now sets the time of the cycle, from which the ages of pods, resizes and OOMs are measured.

The actions are Evict, InPlace (resize the running pod), Wait (nothing now, but later) and Skip (nothing to do). The API
server may still refuse an eviction or a resize: a note names the PodDisruptionBudgets that apply. --explain shows below the
table what would change in each pod, and which rule decided what.

Exit code 0: there is a plan, whatever it says; 2: an input could not be read, there was nothing to plan for, or the rules
could not be used. Readable input is answered even then.`,
		Example: `  celvpa plan -n shop --context prod
  celvpa plan -f pods.yaml -f deploy/ --explain
  celvpa recommend -f deploy/ --usage usage.csv -o yaml | celvpa plan -f - -f pods.yaml -f deploy/
  celvpa plan -f pods.yaml -f deploy/ --now 2026-01-31T12:00:00Z -o json
  celvpa plan -f pods.yaml -f deploy/ --rules-dir my-rules --feature-gates InPlace=true --eviction-tolerance 0.2`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return w.run(cmd, o, func() error { return runPlan(cmd, o) })
		},
	}
	o.add(cmd, compile)
	f := cmd.Flags()
	f.StringVar(&o.now, "now", "", "the time at which the updater looks, in RFC 3339 or seconds since 1970; empty = now")
	f.BoolVar(&o.explain, "explain", false, "show for each pod what would be changed and, step by step, which rule decided what")
	w.add(cmd)
	o.addTables(cmd, "table", "table", "wide", "name", "json", "yaml")
	cmd.MarkFlagsMutuallyExclusive("no-headers", "explain")
	return cmd
}

func runPlan(cmd *cobra.Command, o *offline) error {
	cluster, unread, err := o.open(cmd)
	if err != nil {
		return err
	}
	result, unusable := cluster.Plan(o.explain)
	o.printNotes(cmd, cluster.Notes())
	forms := tables(func(p *page, wide bool) { printPlan(p, result, o.explain, wide) })
	forms["name"] = names("pod", result.Items, func(pod *answers.PlannedPod) string { return pod.Pod })
	if err := o.print(cmd.OutOrStdout(), result, forms); err != nil {
		return err
	}
	nothing := len(result.Items) == 0 && result.VPAs == 0
	return o.end(faults.Join(unread, unusable), nothing, "there is no pod and no VerticalPodAutoscaler in %s: nothing was planned", false)
}

func printPlan(p *page, r *simulate.Plan, explain, wide bool) {
	if len(r.Items) == 0 {
		return
	}
	if wide {
		p.header("POD", "VPA", "ACTION", "RULE", "PRIORITY", "REASON", "CHANGE")
	} else {
		p.header("POD", "ACTION", "RULE")
	}
	for i := range r.Items {
		item := &r.Items[i]
		if !wide {
			p.row(item.Pod, item.Action, cmp.Or(item.Rule, "-"))
			continue
		}
		changes := make([]string, len(item.Change))
		for j, change := range item.Change {
			changes[j] = change.String()
		}
		p.row(item.Pod, cmp.Or(item.VPA, "-"), item.Action, cmp.Or(item.Rule, "-"), item.Priority.String(), item.Reason, cmp.Or(strings.Join(changes, "; "), "-"))
	}
	if !wide {
		printReasons(p, r.Items)
	}
	if explain {
		for i := range r.Items {
			explainPlanned(p, &r.Items[i])
		}
	}
}

// printReasons prints what each rule says, or of a pod that no rule decided what is said of it, below the table.
func printReasons(p *page, items []answers.PlannedPod) {
	var rules []string
	reasons := map[string][]string{}
	for i := range items {
		by := cmp.Or(items[i].Rule, items[i].Pod)
		if reasons[by] == nil {
			rules = append(rules, by)
		}
		if reason := items[i].Reason; !slices.Contains(reasons[by], reason) {
			reasons[by] = append(reasons[by], reason)
		}
	}
	p.printf("\n")
	for _, by := range rules {
		text := by + ": " + reasons[by][0]
		if more := len(reasons[by]) - 1; more > 0 {
			text += fmt.Sprintf("; -o wide shows %s", simulate.Counted(more, "more reason"))
		}
		p.wrapped("", text)
	}
}

// explainPlanned prints how the updater came to the row of a pod.
func explainPlanned(p *page, item *answers.PlannedPod) {
	rule := ""
	if item.Rule != "" {
		rule = " (" + oneLine(item.Rule) + ")"
	}
	p.printf("\n%s: %s%s: %s\n  %s\n", oneLine(item.Pod), item.Action, rule, oneLine(item.Reason), oneLine(item.Why))
	for _, change := range item.Change {
		p.printf("  %s\n", change)
	}
	p.steps("  ", item.Steps)
}
