package main

import (
	"fmt"
	"io"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/spf13/cobra"
)

const pointsHead = `# Points

Where rule sets plug in, which facts rules see there, and what they may set or decide. "celvpa rules points" prints this
page, "celvpa rules list" which rule sets run where.

A fact that is missing reads as an error, which leaves the value as it was: guard it with has(), or give a
default, as in .?cpu.orValue(…). Of records, any field may be missing; of other facts, those of which the text says so.

## In which order

Every component asks container.policy which policy of a VPA is a container's.

    recommender   usage.window → usage, of which usage.oom makes samples where memory ran out
                  container.select → container.estimate → container.recommend → pod.recommend → the VPA's status
                  vpa.order → which VPA's policies count for usage that several share
    webhook       vpa.validate, when a VPA is written
                  pod.admit, vpa.order → pod.validate → pod.fit → pod.resources → the new pod
    updater       vpa.update, vpa.order → pod.validate → pod.fit → pod.resources → pod.admit → pod.priority → pod.update → a resize, an eviction, or nothing
                  → pod.refused where the API server refused it, pod.evicted where a pod was evicted

pod.fit starts from the VPA's status, for target, lower and upper bound. So what is to show in the status belongs to
container.recommend, and what depends on the pod to pod.fit.

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
	fmt.Fprint(out, "\n## Params\n\nAn overlay sets them as `{params: {name: value}}`, and those with a flag are set by it. Those without the name of a rule set are "+
		"declared by the pipeline, and all rule sets that are listed read the one value.\n\n"+
		"| param | type | default | bounds | flag | read by | |\n|---|---|---|---|---|---|---|\n")
	for _, p := range library.Params() {
		value, flag := p.Param.Default.Value, ""
		if value == "" {
			value = "unset"
		}
		if p.Param.Flag != "" {
			flag = "`--" + p.Param.Flag + "`"
		}
		if _, err := fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %s |\n", p.Key, p.Param.Type.Value, value, bounds(p.Param), flag, readers(p), p.Param.Description); err != nil {
			return err
		}
	}
	return nil
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
