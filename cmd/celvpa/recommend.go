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

// recommendOptions hold the flags of celvpa recommend.
type recommendOptions struct {
	files   []string
	usage   []string
	now     string
	output  string
	explain bool
	rules   policyFlags
}

// recommendCommand runs the recommender on files.
func recommendCommand() *cobra.Command {
	o := &recommendOptions{}
	cmd := &cobra.Command{
		Use:   "recommend -f PATH… [--usage FILE…]",
		Short: "Tell what would be recommended for the VerticalPodAutoscalers in manifests, given usage from files",
		Long: `Does what the recommender does in a cluster, by the same rules and the same code, for every VerticalPodAutoscaler in
manifests. It needs no cluster.

PATH is a file, a folder with *.yaml, *.yml and *.json files at any depth, or - for standard input. The workloads and pods
among the manifests say which usage belongs to which VerticalPodAutoscaler, and RuleOverlays change the rules, as they do in
a cluster. Objects without a namespace are in namespace default.

FILE is CSV with the columns timestamp,namespace,pod,container,resource,value, or the answer of Prometheus to a range query
as JSON, either of them plain or compressed with gzip, or - for standard input. Times are RFC 3339 or seconds since 1970. The
resource is cpu in cores, memory in bytes, or oom: a container ran out of memory while it used so many bytes. Of Prometheus,
series need the labels namespace, pod and container; label resource, else the name of the metric, says what they are about,
and container_cpu_usage_seconds_total is turned into rates. Rows that cannot be used are told and left out.

Pods that only the usage knows belong to the workload that would give them such a name, and have its labels and containers.
A workload to which no name fits takes the pods whose names begin with its own, and so does the target of a
VerticalPodAutoscaler that is not among the manifests. A workload without any pod counts as one that used nothing.

--now is the moment for which is recommended, by default that of the last row: later rows are left out.

Exit code 0: all have a recommendation; 1: one has none, or its rules cannot be applied; 2: something could not be read, there
was no VerticalPodAutoscaler, or the rules could not be used. What could be read counts all the same.`,
		Example: `  celvpa recommend -f vpa.yaml --usage usage.csv
  celvpa recommend -f deploy/ --usage cpu.json.gz --usage memory.json.gz -o yaml
  celvpa recommend -f deploy/ --usage usage.csv --explain
  celvpa recommend -f deploy/ --usage usage.csv --rules-dir my-rules --target-cpu-percentile 0.95
  kubectl get vpa,deployment,pod -A -o yaml | celvpa recommend -f - --usage usage.csv --now 2026-01-31T12:00:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("files are named with -f: celvpa recommend -f %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRecommend(cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with manifests, or - for standard input; can be repeated")
	f.StringArrayVar(&o.usage, "usage", nil, "file with usage, or - for standard input; can be repeated")
	f.StringVar(&o.now, "now", "", "the moment for which is recommended, in RFC 3339 or seconds since 1970; empty = that of the last row of usage, or now without any")
	f.StringVarP(&o.output, "output", "o", "table", "table, yaml or json")
	f.BoolVar(&o.explain, "explain", false, "show for each container, step by step, which rule changed what, and why")
	o.rules.add(cmd)
	return cmd
}

// check refuses flags that cannot work, and tells the time of --now, zero without it.
func (o *recommendOptions) check() (now time.Time, err error) {
	if !slices.Contains([]string{"table", "yaml", "json"}, o.output) {
		return now, fmt.Errorf("--output is %q; use table, yaml or json", o.output)
	}
	if len(o.files) == 0 {
		return now, errors.New("no manifests are named: use -f with a file, a folder, or - for standard input")
	}
	if slices.Contains(o.files, manifests.Stdin) && slices.Contains(o.usage, usagefile.Stdin) {
		return now, errors.New("-f and --usage cannot both be standard input")
	}
	if o.now != "" {
		if now, err = usagefile.ParseTime(o.now); err != nil {
			return now, fmt.Errorf("--now: %w", err)
		}
	}
	return now, nil
}

func runRecommend(out, tell io.Writer, stdin io.Reader, o *recommendOptions) error {
	now, err := o.check()
	if err != nil {
		return err
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	return o.recommend(book, now, out, tell, stdin)
}

// recommend prints what rules recommend for a moment, zero for that of the last row.
func (o *recommendOptions) recommend(book *engine.Rulebook, now time.Time, out, tell io.Writer, stdin io.Reader) error {
	set, unread := manifests.Read(o.files, stdin)
	usage, notes, unreadUsage := usagefile.Read(o.usage, stdin)
	r, unusable := newRecommendation(book, set, usage, o.rules.halfLives, now)
	report := r.report(o.explain)
	for _, note := range append(notes, r.notes...) {
		fmt.Fprintln(tell, "celvpa:", note)
	}
	write := map[string]func(io.Writer) error{"table": report.writeTable, "yaml": report.writeYAML, "json": report.writeJSON}[o.output]
	if err := write(out); err != nil {
		return fmt.Errorf("writing the recommendations: %w", err)
	}
	errs := faults.Join(unread, unreadUsage, unusable)
	switch {
	case errs != nil:
		return errs
	case len(report.Items) == 0:
		return fmt.Errorf("there is no VerticalPodAutoscaler in %s: nothing was recommended", strings.Join(o.files, ", "))
	case report.lacking():
		return errNo
	}
	return nil
}
