package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// admitOptions hold the flags of celvpa admit.
type admitOptions struct {
	files   []string
	output  string
	explain bool
	rules   policyFlags
}

// admitCommand gives the pods in manifests their recommendation.
func admitCommand() *cobra.Command {
	o := &admitOptions{}
	cmd := &cobra.Command{
		Use:   "admit -f PATH…",
		Short: "Tell what new pods in manifests would be given, or why they would be refused",
		Long: `Does what the admission controller does with new pods in a cluster, by the same rules and the same code, for every pod in
manifests, and for one pod of each workload. It needs no cluster.

PATH is a file, a folder with *.yaml, *.yml and *.json files at any depth, or - for standard input. Objects without a
namespace are in namespace default. VerticalPodAutoscalers have their recommendation in status.recommendation, as in a
cluster and as celvpa recommend -o yaml prints it. LimitRanges bound it and give containers defaults, and RuleOverlays change
the rules, as they do in a cluster.

A pod belongs to a VerticalPodAutoscaler through the controller that owns it: a pod among the manifests needs
metadata.ownerReferences, or it is left alone, as in a cluster. A ReplicaSet or Job that is not among the manifests belongs to the
Deployment or CronJob that would give it such a name.

Of several objects with one name the first counts. A VerticalPodAutoscaler may be there twice if both have the same spec, and
the one with a recommendation counts, so that -f - with recommendations can stand beside the folder that they were made for.

What is printed is the pods as they were written, with what the admission controller writes: -o yaml as manifests one after
the other, -o patch as a JSON Patch for each, -o json with both and with the reason of a refusal. --explain tells on standard
error which VerticalPodAutoscaler changes each pod, or why none does, and which rule changed what.

Exit code 0: all pods would be accepted; 1: one would be refused; 2: something could not be read, there was no pod, or the
rules could not be used. What could be read is answered all the same.`,
		Example: `  celvpa admit -f deploy/ -f recommendations.yaml
  celvpa recommend -f deploy/ --usage usage.csv -o yaml | celvpa admit -f - -f deploy/
  kubectl get vpa,deployment,limitrange -A -o yaml | celvpa admit -f - --explain
  celvpa admit -f deploy/ --rules-dir my-rules --feature-gates PodLevelResources=true`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("files are named with -f: celvpa admit -f %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAdmit(cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with manifests, or - for standard input; can be repeated")
	f.StringVarP(&o.output, "output", "o", "yaml", "yaml, json or patch")
	f.BoolVar(&o.explain, "explain", false, "tell for each pod which VerticalPodAutoscaler changes it, or why none does, and which rule changed what")
	o.rules.add(cmd)
	return cmd
}

func runAdmit(out, tell io.Writer, stdin io.Reader, o *admitOptions) error {
	if !slices.Contains([]string{"yaml", "json", "patch"}, o.output) {
		return fmt.Errorf("--output is %q; use yaml, json or patch", o.output)
	}
	if len(o.files) == 0 {
		return errors.New("no manifests are named: use -f with a file, a folder, or - for standard input")
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	return o.admit(book, out, tell, stdin)
}

// admit prints what rules make of the pods.
func (o *admitOptions) admit(book *engine.Rulebook, out, tell io.Writer, stdin io.Reader) error {
	set, unread := manifests.Read(o.files, stdin)
	a, unusable := newAdmission(book, set)
	report := a.report(o.explain)
	for _, note := range a.notes {
		fmt.Fprintln(tell, "celvpa:", note)
	}
	report.writeRefusals(tell)
	if err := report.writeExplanations(tell); err != nil {
		return fmt.Errorf("writing the explanations: %w", err)
	}
	write := map[string]func(io.Writer) error{"yaml": report.writeYAML, "json": report.writeJSON, "patch": report.writePatches}[o.output]
	if err := write(out); err != nil {
		return fmt.Errorf("writing the pods: %w", err)
	}
	errs := faults.Join(unread, unusable)
	switch {
	case errs != nil:
		return errs
	case len(report.Items) == 0:
		return fmt.Errorf("there is no pod and no workload in %s: nothing was admitted", strings.Join(o.files, ", "))
	case report.refused():
		return errNo
	}
	return nil
}
