package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// planOptions hold the flags of celvpa plan.
type planOptions struct {
	files   []string
	now     string
	output  string
	explain bool
	rules   policyFlags
}

// planCommand tells what the updater would do.
func planCommand() *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan -f PATH…",
		Short: "Tell what the updater would do with the running pods in manifests, and why",
		Long: `Does what the updater does in a cluster in one cycle, by the same rules and the same code, for every pod in manifests, and
tells in a line for each what would come of it and why. It needs no cluster and changes nothing.

PATH is a file, a folder with *.yaml, *.yml and *.json files at any depth, or - for standard input. Objects without a
namespace are in namespace default. Pods are running pods, with their node and status, as kubectl get pod -o yaml prints them;
none are made of templates. VerticalPodAutoscalers have their recommendation in status.recommendation, as in a cluster and as
celvpa recommend -o yaml prints it, and may stand beside the folder that it was made for. LimitRanges bound it, and
RuleOverlays change the rules, as they do in a cluster.

A pod belongs to a VerticalPodAutoscaler through the controller that owns it. How many pods a workload should have is asked of
their direct owner, e.g. the ReplicaSet. Of an owner that is not among the manifests it is the number of the pods that are; a
note says so.

--now is the time at which the updater looks, on which the age of pods, of resizes and of OOMs depends.

Actions are Evict, InPlace (a resize of the running pod), Wait (nothing now, but later) and Skip (nothing to do). The API
server may still refuse an eviction or a resize: a note names the PodDisruptionBudgets that it asks. --explain shows below each
pod what would be changed, and which rule decided what.

Exit code 0: there is a plan, whatever it says; 2: something could not be read, there was nothing to plan for, or the rules
could not be used. What could be read is answered all the same.`,
		Example: `  kubectl get vpa,pod,deployment,replicaset,statefulset,daemonset,job,limitrange,pdb -A -o yaml | celvpa plan -f -
  celvpa plan -f pods.yaml -f deploy/ --explain
  celvpa recommend -f deploy/ --usage usage.csv -o yaml | celvpa plan -f - -f pods.yaml -f deploy/
  celvpa plan -f pods.yaml -f deploy/ --now 2026-01-31T12:00:00Z -o json
  celvpa plan -f pods.yaml -f deploy/ --rules-dir my-rules --feature-gates InPlace=true --eviction-tolerance 0.2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("files are named with -f: celvpa plan -f %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPlan(cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with manifests, or - for standard input; can be repeated")
	f.StringVar(&o.now, "now", "", "the time at which the updater looks, in RFC 3339 or seconds since 1970; empty = now")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.BoolVar(&o.explain, "explain", false, "show for each pod what would be changed and, step by step, which rule decided what")
	o.rules.add(cmd)
	return cmd
}

// check refuses flags that cannot work, and tells the time of --now.
func (o *planOptions) check() (now time.Time, err error) {
	if !slices.Contains([]string{"table", "json"}, o.output) {
		return now, fmt.Errorf("--output is %q; use table or json", o.output)
	}
	if len(o.files) == 0 {
		return now, errors.New("no manifests are named: use -f with a file, a folder, or - for standard input")
	}
	if o.now == "" {
		return time.Now(), nil
	}
	if now, err = usagefile.ParseTime(o.now); err != nil {
		return now, fmt.Errorf("--now: %w", err)
	}
	return now, nil
}

func runPlan(out, tell io.Writer, stdin io.Reader, o *planOptions) error {
	now, err := o.check()
	if err != nil {
		return err
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	return o.plan(book, now, out, tell, stdin)
}

// plan prints what rules would do with the pods.
func (o *planOptions) plan(book *engine.Rulebook, now time.Time, out, tell io.Writer, stdin io.Reader) error {
	set, unread := manifests.Read(o.files, stdin)
	u, unusable := newOfflineUpdater(book, set, now)
	report := u.report(o.explain)
	for _, note := range u.notes {
		fmt.Fprintln(tell, "celvpa:", note)
	}
	write := map[string]func(io.Writer) error{"table": report.writeTable, "json": report.writeJSON}[o.output]
	if err := write(out); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	errs := faults.Join(unread, unusable)
	if errs == nil && len(report.Items) == 0 && len(u.vpas) == 0 {
		return fmt.Errorf("there is no pod and no VerticalPodAutoscaler in %s: nothing was planned", strings.Join(o.files, ", "))
	}
	return errs
}
