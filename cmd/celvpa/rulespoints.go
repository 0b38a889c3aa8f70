package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/spf13/cobra"
)

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

`

func pointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "points", Short: "Print the points at which rule sets plug in, with their facts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printPoints(cmd.OutOrStdout()) },
	}
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
	printDefinitions(out, library)
	fmt.Fprint(out, "\n## Params\n\nOverlays set params as `{params: {name: value}}`, and flags set those that have one. A param without the name of a rule set is "+
		"declared by the pipeline and shared by the rule sets that are listed.\n\n"+
		"| param | type | default | bounds | flag | read by | |\n|---|---|---|---|---|---|---|\n")
	for _, p := range library.Params() {
		value, flag := p.Param.Default.Value, ""
		if value == "" {
			value = "unset"
		}
		if p.Param.Flag != "" {
			flag = "`--" + p.Param.Flag + "`"
		}
		if _, err := fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %s |\n", p.Key, p.Param.Type.Value, value, bounds(p.Param), flag, readers(p), descriptionOf(p)); err != nil {
			return err
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
