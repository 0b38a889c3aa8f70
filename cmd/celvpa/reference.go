package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/rules"
)

// referenceCommand prints the pages of docs/ that are made from the program itself.
func referenceCommand() *cobra.Command {
	cmd := parentCommand(&cobra.Command{Use: "reference", Short: "Print the reference of the API, flags and metrics"})
	cmd.AddCommand(
		&cobra.Command{Use: "api", Short: "The fields of all objects, in Markdown", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			out := newPage(cmd.OutOrStdout())
			return cmp.Or(printAPI(out), out.Flush())
		}},
		&cobra.Command{Use: "flags", Short: "The flags of the components, in Markdown", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			out := newPage(cmd.OutOrStdout())
			return cmp.Or(printFlags(out, cmd.Root()), out.Flush())
		}},
		&cobra.Command{Use: "metrics", Short: "The metrics of the components, in Markdown", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return printMetrics(cmd.OutOrStdout())
		}},
	)
	return cmd
}

const flagsHead = `# Flags of the components

All flags of the components. "celvpa reference flags" prints this page. Flags that upstream has keep its names and defaults, so
manifests stay as they are; an underscore may replace a dash. A flag that sets a param names its rule set; overlays can set the
param for some VPAs only. "celvpa run" takes the flags of all three components.
`

// printFlags lists the flags of each component, those that all have first.
func printFlags(out io.Writer, root *cobra.Command) error {
	fmt.Fprint(out, flagsHead)
	var components []*cobra.Command
	for _, name := range []string{"recommender", "updater", "admission-controller"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	count := map[string]int{}
	for _, c := range components {
		c.Flags().VisitAll(func(f *pflag.Flag) { count[f.Name+f.DefValue]++ })
	}
	section := func(title string, c *cobra.Command, keep func(*pflag.Flag) bool) {
		fmt.Fprintf(out, "\n## %s\n\n| flag | default | |\n|---|---|---|\n", title)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if keep(f) {
				fmt.Fprintf(out, "| `--%s` | %s | %s |\n", f.Name, code(f.DefValue), cellText(f.Usage))
			}
		})
	}
	section("All components", components[0], func(f *pflag.Flag) bool { return count[f.Name+f.DefValue] == len(components) })
	for _, c := range components {
		section("celvpa "+c.Name(), c, func(f *pflag.Flag) bool { return count[f.Name+f.DefValue] < len(components) })
	}
	return nil
}

// code is a value in Markdown, empty for an empty one.
func code(value string) string {
	if value == "" || value == "[]" {
		return ""
	}
	return "`" + strings.ReplaceAll(value, "|", "\\|") + "`"
}

// cellText is text that fits into a cell of a Markdown table.
func cellText(text string) string {
	return strings.NewReplacer("\n", "<br>", "|", "\\|", "<", "&lt;").Replace(strings.TrimSpace(text))
}

const metricsHead = `# Metrics

All metrics that the components serve at /metrics on --address, in addition to those of the Go runtime, the process and its
clients. "celvpa reference metrics" prints this page. Metrics that begin with vpa_ have upstream's names and labels; those that
begin with celvpa_ are celvpa's own. A component serves only those that apply to it.

| metric | labels | |
|---|---|---|
`

// described takes a metric's description apart: there is no other way to its name.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", (?:unit: "[^"]*", )?constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// printMetrics lists the metrics that are registered.
func printMetrics(out io.Writer) error {
	registry, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		return fmt.Errorf("the registry of metrics, a %T, cannot be listed", metrics.Registry)
	}
	list := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(list)
		close(list)
	}()
	var rows []string
	for d := range list {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			return fmt.Errorf("a metric cannot be described: %s", d)
		}
		if strings.HasPrefix(m[1], "vpa_") || strings.HasPrefix(m[1], "celvpa_") {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", m[1], strings.ReplaceAll(m[3], ",", ", "), cellText(strings.ReplaceAll(m[2], `\"`, `"`))))
		}
	}
	slices.Sort(rows)
	fmt.Fprint(out, metricsHead)
	_, err := fmt.Fprintln(out, strings.Join(rows, "\n"))
	return err
}

const checksHead = `# Checks

All checks of a VerticalPodAutoscaler's spec, by rule set, in the order in which they are reported. "celvpa rules checks" prints
this page; with --rules-dir it adds your own overlays that are enforced for all objects. See also [validation.md](validation.md).

| enforced by | |
|---|---|
| API server | the rule is in the CRD: the API server refuses the object even without a webhook. The webhook says the same |
| policy | the webhook; also the API server if the ValidatingAdmissionPolicy of "celvpa crd --vap" is installed |
| webhook | the webhook only |

| check | field | says | enforced by |
|---|---|---|---|
`

func checksCommand(o *ruleOptions) *cobra.Command {
	return &cobra.Command{
		Use: "checks", Short: "Print what is checked of VerticalPodAutoscalers, and by whom", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printChecks(cmd.OutOrStdout(), o) },
	}
}

// printChecks prints the validations with the fields that they are about and who enforces them.
func printChecks(out io.Writer, o *ruleOptions) error {
	book, err := o.open()
	if err != nil {
		return err
	}
	plan, err := book.Everywhere()
	if err != nil {
		return err
	}
	checks := plan.Validations(facts.VPAValidate)
	_, left, err := emit.Policies(checks, nil, facts.VPAValidateFacts())
	if err != nil {
		return err
	}
	byWebhook := map[string]bool{}
	for _, rule := range left {
		byWebhook[rule] = true
	}
	fmt.Fprint(out, checksHead)
	for _, c := range checks {
		by := "policy"
		switch {
		case c.Validation.EnforcedAt(document.EnforceSchema):
			by = "API server"
		case byWebhook[c.Rule]:
			by = "webhook"
		}
		says := c.Validation.Message.Value
		if c.Validation.Severity.Value == document.SeverityWarn {
			says = "warning: " + says
		}
		if _, err := fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", c.Rule, checkFields(c.Validation), says, by); err != nil {
			return err
		}
	}
	return nil
}

// checkFields are the fields that a validation is about.
func checkFields(v *document.Validation) string {
	var out []string
	for _, at := range v.At {
		out = append(out, "`"+strings.TrimPrefix(at.Value+v.FieldPath.Value, "spec.")+"`")
	}
	return strings.Join(out, ", ")
}

const pointsHead = `# Points

The points at which rule sets plug in: which facts rules see there, and what they may set or decide. "celvpa rules points"
prints this page, and "celvpa rules list" which rule sets run where.

Reading a missing fact is an error, and the value stays as it was: guard it with has(), or give a default, as in
.?cpu.orValue(…). Any field of a record may be missing; another fact only if its description says so.

## Order

Every component asks container.policy which policy of a VPA applies to a container.

    recommender   usage.window → samples; usage.oom → a sample after an OOM kill
                  container.select → container.estimate → container.recommend → pod.recommend → the VPA's status
                  vpa.order → whose policies apply to usage that several VPAs share
    webhook       vpa.validate → vpa.default, when a VPA is written
                  pod.admit, vpa.order → pod.validate → pod.fit → pod.resources → the new pod
    updater       vpa.update, vpa.order → pod.validate → pod.fit → pod.resources → pod.admit → pod.priority → pod.update → a resize, an eviction, or nothing
                  → pod.refused if the API server refuses, pod.evicted after an eviction
                  pod.unboost → the end of a startup boost

pod.fit starts from the VPA's status, for target, lower and upper bound. A change that should show in the status belongs to
container.recommend; a change that depends on the pod belongs to pod.fit.

The points follow by name, and then what they share: [facts](#facts-of-several-points), [records](#records),
[classes](#classes), [units and axes](#units-and-axes), [feature gates](#feature-gates), [functions](#functions),
[where overlays insert](#where-overlays-insert), [definitions](#definitions) and [params](#params).

`

func pointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "points [POINT]", Short: "Print the points at which rule sets plug in, or one of them, with their facts", Args: cobra.MaximumNArgs(1),
		Example: "  celvpa rules points\n  celvpa rules points pod.update",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			all, err := policy.Registry()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return pointNames(all), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return printPoints(cmd.OutOrStdout())
			}
			all, err := policy.Registry()
			if err != nil {
				return err
			}
			for _, p := range all.Points() {
				if p.Name == args[0] {
					if err := p.Describe(cmd.OutOrStdout()); err != nil {
						return err
					}
					return printInsertions(cmd.OutOrStdout(), p.Name)
				}
			}
			return fmt.Errorf("there is no point %q; %s", args[0], faults.Has(args[0], pointNames(all)))
		},
	}
}

func pointNames(r *registry.Registry) (out []string) {
	for _, p := range r.Points() {
		out = append(out, p.Name)
	}
	return out
}

// printPoints prints the reference of everything rules can name, made from what the program registers.
func printPoints(out io.Writer) error {
	registry, err := policy.Registry()
	if err != nil {
		return err
	}
	library, err := policy.Shipped()
	if err != nil {
		return err
	}
	fmt.Fprint(out, pointsHead)
	if err := registry.Describe(out); err != nil {
		return err
	}
	if err := printInsertions(out, ""); err != nil {
		return err
	}
	printDefinitions(out, library)
	printParams(out, library.Params())
	return nil
}

// printParams prints the params that rule sets share, and those of each.
func printParams(out io.Writer, params []document.ParamRef) {
	fmt.Fprint(out, "\n## Params\n\nOverlays set params as `{params: {name: value}}`, and flags set those that have one. The pipeline declares those that several "+
		"rule sets read; the name of any other begins with its rule set.\n")
	const head = "\n| param | type | default | flag | |\n|---|---|---|---|---|\n"
	shared := func(p document.ParamRef) bool {
		return !slices.ContainsFunc(p.RuleSets, func(s *document.RuleSet) bool { return strings.HasPrefix(p.Key, s.Name.Value+".") })
	}
	for _, part := range []bool{true, false} {
		fmt.Fprint(out, head)
		for i, p := range params {
			if shared(p) != part || i > 0 && isPair(params[i-1], p) {
				continue
			}
			row := paramCells(p)
			if i+1 < len(params) && isPair(p, params[i+1]) {
				for j, cell := range paramCells(params[i+1]) {
					if cell != row[j] && j < len(row)-1 {
						row[j] += "<br>" + cell
					}
				}
				row[len(row)-1] = strings.Replace(row[len(row)-1], "CPU", "CPU or memory", 1)
			}
			if part {
				row[len(row)-1] += " (" + readers(p) + ")"
			}
			fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		}
	}
}

// paramCells are a param's name, type with bounds, default, flag and description.
func paramCells(p document.ParamRef) []string {
	kind := strings.TrimSuffix(p.Param.Type.Value+", "+bounds(p.Param), ", ")
	return []string{code(p.Key), kind, cmp.Or(p.Param.Default.Value, "unset"), code(strings.TrimSuffix("--"+p.Param.Flag, "--")), descriptionOf(p)}
}

// isPair reports whether two params say the same of CPU and of memory.
func isPair(cpu, memory document.ParamRef) bool {
	name, ofCPU := strings.CutSuffix(cpu.Key, ".cpu")
	return ofCPU && memory.Key == name+".memory" && strings.Replace(descriptionOf(cpu), "CPU", "memory", 1) == descriptionOf(memory)
}

// printInsertions prints where overlays do well to insert at a point; empty = at all.
func printInsertions(out io.Writer, point string) error {
	library, err := policy.Shipped()
	if err != nil {
		return err
	}
	shipped, err := library.Pipeline(rules.DefaultPipeline)
	if err != nil {
		return err
	}
	head := "\n## Where overlays insert\n\nBehind the last of these places of a point a rule may undo what others hold, which lint reports.\n\n| point | before | to |\n|---|---|---|\n"
	for _, i := range shipped.Insert {
		name, _, _ := strings.Cut(i.Before.Value, "/")
		for _, at := range shipped.Points {
			in := slices.ContainsFunc(at.RuleSets, func(s source.Scalar) bool { return strings.HasPrefix(s.Value, name+"@") })
			if in && (point == "" || at.Point.Value == point) {
				fmt.Fprintf(out, "%s| `%s` | `%s` | %s |\n", head, at.Point.Value, i.Before.Value, i.To.Value)
				head = ""
			}
		}
	}
	return nil
}

func printDefinitions(out io.Writer, library *document.Library) {
	definitions := library.Definitions()
	if len(definitions) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Definitions\n\nThe pipeline declares these expressions, and its rules call them like functions.\n\n| definition | stands for | |\n|---|---|---|\n")
	for _, f := range definitions {
		expression := strings.ReplaceAll(strings.Join(strings.Fields(f.Expression.Value), " "), "|", `\|`)
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", f.Signature(), expression, f.Description)
	}
}

func bounds(p document.Param) string {
	switch {
	case !p.Min.IsZero() && !p.Max.IsZero():
		return p.Min.Value + " to " + p.Max.Value
	case !p.Min.IsZero():
		return "at least " + p.Min.Value
	case !p.Max.IsZero():
		return "at most " + p.Max.Value
	}
	return ""
}
