package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// recommendOptions hold the flags of celvpa recommend.
type recommendOptions struct {
	offline
	usage []string
}

// recommendCommand runs the recommender on files.
func recommendCommand(compile compileFunc) *cobra.Command {
	o := &recommendOptions{}
	cmd := &cobra.Command{
		Use:   "recommend [-f PATH…] [--usage FILE…]",
		Short: "Show what the recommender would recommend for manifests, given usage from files",
		Long: `Runs the recommender on files: the same rules and the same code as in a cluster, for every VerticalPodAutoscaler in the
manifests.

` + inputHelp + `The workloads
and pods in the manifests decide which usage belongs to which VerticalPodAutoscaler. RuleOverlays apply as in a cluster.
Objects without a namespace are in namespace default.

FILE is CSV with the columns timestamp,namespace,pod,container,resource,value, Prometheus's JSON answer to a range query, or
the JSON lines that VictoriaMetrics exports; each may be compressed with gzip. - is standard input. Times are RFC 3339 or Unix
seconds. resource is cpu in cores, memory in bytes, or oom: the container was OOM-killed while it used that many bytes.
Prometheus series need the labels namespace, pod and container. Their label resource says what they measure, or else the
metric: container_cpu_usage_seconds_total, which is converted to rates, container_memory_working_set_bytes, or a recording
rule of these. Series of single cores (label cpu) are added up. A note names each row that cannot be used, and each metric
that is not usage.

A pod that only the usage names belongs to the workload that would generate that name, with its labels and containers. If no
workload would, a workload without pods takes the pods whose names begin with its own name, and so does a target that is
missing from the manifests. A workload without any pod counts as one with no usage.

--now sets the time of the recommendation; the default is the time of the last row. Later rows are left out, and usage that
has expired by then, eight days after a container's last row by default, does not count.

Exit code 0: every VerticalPodAutoscaler has a recommendation; 1: one has none, or its rules cannot be applied; 2: an input
could not be read, there was no VerticalPodAutoscaler, or the rules could not be used. Readable input is answered even then.`,
		Example: `  celvpa recommend -f vpa.yaml --usage usage.csv
  celvpa recommend -f deploy/ --usage cpu.json.gz --usage memory.json.gz -o yaml
  celvpa recommend -f deploy/ --usage usage.csv --explain
  celvpa recommend -f deploy/ --usage usage.csv --rules-dir my-rules --target-cpu-percentile 0.95
  celvpa recommend -A --context prod --usage usage.csv --now 2026-01-31T12:00:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.add(cmd, compile)
	f := cmd.Flags()
	f.StringArrayVar(&o.usage, "usage", nil, "file with usage, or - for standard input; can be repeated")
	f.StringVar(&o.now, "now", "", "the time to recommend for, in RFC 3339 or seconds since 1970; empty = that of the last row of usage, or now without any")
	f.BoolVar(&o.explain, "explain", false, "show for each container, step by step, which rule changed what, and why")
	o.addTables(cmd, "table", "table", "wide", "name", "json", "yaml")
	cmd.MarkFlagsMutuallyExclusive("no-headers", "explain")
	return cmd
}

func (o *recommendOptions) run(cmd *cobra.Command) error {
	if err := o.check("--usage", o.usage); err != nil {
		return err
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	usage, notes, unread := usagefile.Read(o.usage, cmd.InOrStdin())
	now, err := o.time(usage.End())
	if err != nil {
		return err
	}
	cluster, unloaded := o.load(cmd, book, now)
	result, unusable := cluster.Recommend(usage, o.explain)
	notes = append(notes, cluster.Notes()...)
	if len(o.usage) == 0 && result.Lacking() {
		notes = append(notes, "recommendations are made from usage: give a file with --usage, or checkpoints among the objects")
	}
	o.printNotes(cmd, notes)
	forms := tables(func(p *page, wide bool) { printRecommendations(p, result, wide) })
	forms["name"] = names(vpaResource, result.Items, func(v *vpav1.VerticalPodAutoscaler) string { return v.Namespace + "/" + v.Name })
	if err := o.print(cmd.OutOrStdout(), result, forms); err != nil {
		return err
	}
	return o.end(faults.Join(unloaded, unread, unusable), len(result.Items) == 0, "there is no VerticalPodAutoscaler in %s: nothing was recommended", result.Lacking())
}

// podRow stands in the table where a container would.
const podRow = "(pod)"

func printRecommendations(p *page, r *simulate.Recommendations, wide bool) {
	if len(r.Items) == 0 {
		return
	}
	head := []string{"NAMESPACE", "VPA", "CONTAINER", "TARGET-CPU", "CPU-RANGE", "TARGET-MEMORY", "MEMORY-RANGE"}
	if wide {
		head = []string{"NAMESPACE", "VPA", "CONTAINER", "TARGET-CPU", "TARGET-MEMORY", "LOWER-CPU", "LOWER-MEMORY", "UPPER-CPU", "UPPER-MEMORY", "UNCAPPED-CPU", "UNCAPPED-MEMORY", "WORKLOAD", "MODE"}
	}
	p.header(head...)
	for i := range r.Items {
		v := &r.Items[i]
		row := func(container string, target, lower, upper, uncapped corev1.ResourceList) {
			cells := []any{v.Namespace, v.Name, container}
			if !wide {
				for _, name := range facts.ScaledResources {
					cells = append(cells, quantity.Short(quantityText(target, name)), rangeText(lower, upper, name))
				}
				p.row(cells...)
				return
			}
			for _, bound := range []corev1.ResourceList{target, lower, upper, uncapped} {
				for _, name := range facts.ScaledResources {
					cells = append(cells, quantityText(bound, name))
				}
			}
			p.row(append(cells, cmp.Or(explain.TargetText(v), "-"), cmp.Or(v.WrittenMode(), "-"))...)
		}
		recommended := v.Status.Recommendation
		if recommended == nil || (len(recommended.ContainerRecommendations) == 0 && recommended.PodRecommendation == nil) {
			row("-", nil, nil, nil, nil)
			continue
		}
		for _, c := range recommended.ContainerRecommendations {
			row(c.ContainerName, c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget)
		}
		if pod := recommended.PodRecommendation; pod != nil {
			row(podRow, pod.Target, pod.LowerBound, pod.UpperBound, pod.UncappedTarget)
		}
	}
	printConditions(p, r)
	for _, t := range r.Traces {
		about := "container " + t.Container
		if t.Container == "" {
			about = "the pod"
		}
		if len(t.Steps) > 0 { // there are none of a pod for which no rule runs
			p.printf("\n%s, %s\n", t.VPA, about)
			p.steps("  ", t.Steps)
		}
	}
}

func quantityText(list corev1.ResourceList, name corev1.ResourceName) string {
	if q, ok := list[name]; ok {
		return q.String()
	}
	return "-"
}

// rangeText is e.g. 83m..229.
func rangeText(lower, upper corev1.ResourceList, name corev1.ResourceName) string {
	from, to := quantity.Short(quantityText(lower, name)), quantity.Short(quantityText(upper, name))
	if from == "-" && to == "-" {
		return "-"
	}
	return from + ".." + to
}

// printConditions prints the conditions that say more than that all is well. LowConfidence, which all young VPAs have, is one line.
func printConditions(p *page, r *simulate.Recommendations) {
	var lines, unsure []string
	for i := range r.Items {
		v := &r.Items[i]
		name := v.Namespace + "/" + v.Name
		for _, c := range v.Status.Conditions {
			isTrue := c.Status == corev1.ConditionTrue
			fine := c.Type == vpav1.RecommendationProvided && isTrue && c.Message == "" ||
				c.Type == vpav1.RulesApplied && isTrue && !strings.ContainsAny(c.Message, ",;") // overlays are worth a line
			switch {
			case c.Type == vpav1.LowConfidence && isTrue:
				unsure = append(unsure, name)
			case fine:
			case c.Message == "":
				lines = append(lines, fmt.Sprintf("%s: %s=%s", name, c.Type, c.Status))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s=%s: %s", name, c.Type, c.Status, c.Message))
			}
		}
	}
	if len(unsure) > 0 {
		lines = append(lines, unsureText+simulate.Few(unsure))
	}
	if len(lines) > 0 {
		p.printf("\n%s\n", strings.Join(lines, "\n"))
	}
}

// unsureText begins the line of condition LowConfidence.
const unsureText = "LowConfidence: little usage is known yet, and bounds are wide: "
