package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	patch "gomodules.xyz/jsonpatch/v2"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
)

// admitCommand gives the pods in manifests their recommendation.
func admitCommand(compile compileFunc) *cobra.Command {
	o := &offline{}
	cmd := &cobra.Command{
		Use:   "admit [-f PATH…]",
		Short: "Show how the admission controller would change new pods, or why it would refuse them",
		Long: `Runs the admission controller on manifests: the same rules and the same code as in a cluster, for every pod and for one new
pod of each workload.

` + inputHelp + `Objects without
a namespace are in namespace default. VerticalPodAutoscalers carry their recommendation in status.recommendation, as in a
cluster and as celvpa recommend -o yaml prints it. LimitRanges bound it and set defaults. RuleOverlays apply as in a cluster.

A pod belongs to a VerticalPodAutoscaler through the controller that owns it. A pod without metadata.ownerReferences is left
alone, as in a cluster. A ReplicaSet or Job that is missing from the manifests belongs to the Deployment or CronJob that would
generate its name.

Of several objects with one name the first counts. A VerticalPodAutoscaler may appear twice with the same spec; the one with
a recommendation counts, so that -f - with recommendations can stand beside the folder that they were made for.

The output is the pods as they were written, with the admission controller's changes: -o yaml prints manifests, -o patch a
JSON Patch for each pod, -o json both with the reason of each refusal, -o table which amounts change and by which rule.
--explain shows on standard error which VerticalPodAutoscaler changes each pod, or why none does, and each rule's changes.

Exit code 0: all pods would be accepted; 1: one would be refused; 2: an input could not be read, there was no pod, or the
rules could not be used. Readable input is answered even then.`,
		Example: `  celvpa admit -f deploy/ -f recommendations.yaml
  celvpa recommend -f deploy/ --usage usage.csv -o yaml | celvpa admit -f - -f deploy/
  celvpa admit -n shop --context prod -o table --explain
  celvpa admit -f deploy/ --rules-dir my-rules --feature-gates PodLevelResources=true`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAdmit(cmd, o) },
	}
	o.add(cmd, compile)
	cmd.Flags().BoolVar(&o.explain, "explain", false, "show for each pod which VerticalPodAutoscaler changes it, or why none does, and which rule changed what")
	o.addTables(cmd, "yaml", "yaml", "json", "patch", "table", "wide")
	return cmd
}

func runAdmit(cmd *cobra.Command, o *offline) error {
	cluster, unread, err := o.open(cmd)
	if err != nil {
		return err
	}
	result, unusable := cluster.Admit()
	notes := cluster.Notes()
	for i := range result.Items {
		if item := &result.Items[i]; !item.Allowed && o.form != "table" && o.form != "wide" { // tables say it below
			notes = append(notes, fmt.Sprintf("pod %s is refused: %s", item.Pod, item.Message))
		}
	}
	o.printNotes(cmd, notes)
	if o.explain {
		if err := explainAdmissions(cmd.ErrOrStderr(), result); err != nil {
			return err
		}
	}
	if err := o.print(cmd.OutOrStdout(), result, admitForms(result)); err != nil {
		return err
	}
	return o.end(faults.Join(unread, unusable), len(result.Items) == 0, "there is no pod and no workload in %s: nothing was admitted", result.Refused())
}

// explainAdmissions prints which VPA and which rules changed each pod.
func explainAdmissions(to io.Writer, r *simulate.Admissions) error {
	out := newPage(to)
	for i := range r.Items {
		item := &r.Items[i]
		out.printf("\n%s: %s\n", item.Subject, item.Why)
		out.steps("  ", item.Steps)
	}
	if len(r.Items) > 0 {
		out.printf("\n")
	}
	return cmp.Or(out.err, out.Flush())
}

func admitForms(r *simulate.Admissions) map[string]func(*page) {
	forms := tables(func(p *page, wide bool) { printAdmissions(p, r, wide) })
	forms["yaml"] = func(p *page) { eachAllowed(p, r, printObject) }
	forms["patch"] = func(p *page) { eachAllowed(p, r, printPatch) }
	return forms
}

// printAdmissions prints a row for each amount that changes, and why pods are refused.
func printAdmissions(p *page, r *simulate.Admissions, wide bool) {
	if len(r.Items) == 0 {
		return
	}
	p.header("POD", "ALLOWED", "CONTAINER", "FIELD", "CHANGE", "RULE")
	for i := range r.Items {
		item := &r.Items[i]
		if len(item.Changes) == 0 {
			p.row(item.Pod, item.Allowed, "-", "-", "-", "-")
		}
		for _, c := range item.Changes {
			p.row(item.Pod, item.Allowed, cmp.Or(c.Container, podRow), c.Field, c.FromTo(wide), cmp.Or(c.Rule, "-"))
		}
	}
	gap := "\n"
	tell := func(item *simulate.Admission, text string) {
		p.printf("%s", gap)
		gap = ""
		p.wrapped("", item.Pod+text)
	}
	for i := range r.Items {
		item := &r.Items[i]
		if !item.Allowed {
			tell(item, " is refused: "+item.Message)
		} else if wide || len(item.Changes) == 0 {
			tell(item, ": "+item.Why)
		}
		for _, capped := range item.Capped {
			tell(item, ": "+capped.Short())
		}
		for _, warning := range item.Warnings {
			tell(item, ": "+warning)
		}
	}
}

// eachAllowed prints a YAML document for each pod that is allowed.
func eachAllowed(p *page, r *simulate.Admissions, write func(*page, *simulate.Admission)) {
	first := true
	for i := range r.Items {
		if !r.Items[i].Allowed {
			continue
		}
		if !first {
			p.printf("---\n")
		}
		first = false
		write(p, &r.Items[i])
	}
}

func printObject(p *page, item *simulate.Admission) {
	text, err := asYAML(item.Object)
	p.fail(err)
	p.printf("%s", text)
}

// printPatch prints a JSON Patch with a line for each operation, below the name of its pod.
func printPatch(p *page, item *simulate.Admission) {
	p.printf("# %s\n", item.Pod)
	lines := make([]string, len(item.Patch))
	for i, op := range item.Patch {
		text, err := operation(op)
		p.fail(err)
		lines[i] = string(text)
	}
	p.printf("[%s]\n", strings.Join(lines, ",\n "))
}

// operation is one operation in a line, op first.
func operation(op patch.Operation) ([]byte, error) {
	text, err := asJSON(struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{op.Operation, op.Path, op.Value}, "")
	return bytes.TrimSpace(text), err
}
