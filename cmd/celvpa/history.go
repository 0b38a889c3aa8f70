package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/explain"
)

// historyCommand prints what was decided about a VPA lately.
func historyCommand(compile compileFunc) *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "history [[KIND] NAME | KIND/NAME]",
		Short: "Show the last decisions about a VPA, and its events",
		Long: `Prints what the recommender, the updater and the admission controller decided about one VerticalPodAutoscaler, or about one
pod, oldest first: recommendations that changed, evictions, resizes, what kept them from happening, and admitted pods. Behind
them are the events of the VerticalPodAutoscaler.

The processes keep as many decisions about each VerticalPodAutoscaler as --decisions-kept says, from their start on.
With --log-decisions they write each to their log, too. celvpa explain says why things are as they are now.`,
		Example: `  celvpa history web
  kubectl vpa history pod/web-5d9c7c6b9-x2x7p -n shop
  celvpa history web -o json | jq '.decisions[] | select(.action == "Evict")'`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.history(cmd, args) },
	}
	o.addCluster(cmd, compile)
	o.addTables(cmd, "table", "table", "json", "yaml")
	return cmd
}

// pastOf is what celvpa history prints. Scripts depend on its JSON names.
type pastOf struct {
	VPA       string             `json:"vpa"` // namespace/name
	Decisions []answers.Decision `json:"decisions"`
	Events    []explain.Event    `json:"events"`
	EventsCut int                `json:"eventsCut,omitempty"`
	Unknown   []string           `json:"unknown,omitempty"` // which processes could not be asked, and the way out
}

func (o *explainOptions) history(cmd *cobra.Command, args []string) error {
	if err := o.printer.check(); err != nil {
		return err
	}
	subject, err := o.subject("", args)
	if err != nil {
		return err
	}
	r, err := o.liveReport(cmd.Context(), subject, false)
	if err != nil {
		return err
	}
	if r.VPA == "" {
		return fmt.Errorf("%s: %s", r.Subject, r.Verdict.Text)
	}
	out := &pastOf{VPA: r.VPA, Decisions: append([]answers.Decision{}, r.Decisions...), Events: append([]explain.Event{}, r.Events...), EventsCut: r.EventsCut, Unknown: r.Unknown}
	return o.print(cmd.OutOrStdout(), out, map[string]func(*page){"table": func(p *page) {
		p.printf("VerticalPodAutoscaler %s\n", r.VPA)
		printHistory(p, r)
		printUnknown(p, r.Unknown, p.line)
	}})
}
