package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/spf13/cobra"
)

const checksHead = `# Checks

All checks of a VerticalPodAutoscaler's spec, by rule set, in the order in which they are reported. "celvpa rules checks" prints
this page; with --rules-dir it adds your own overlays that are enforced for all objects. See also [validation.md](validation.md).

| enforced by | |
|---|---|
| API server | the rule is in the CRD: the API server refuses the object even without a webhook. The webhook says the same |
| policy | the webhook; also the API server if the ValidatingAdmissionPolicy of "celvpa crd --vap" is installed |
| webhook | the webhook only |

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
	set := ""
	for _, c := range checks {
		if name, _, _ := strings.Cut(c.Rule, "/"); name != set {
			if set != "" {
				fmt.Fprintln(out)
			}
			set = name
			fmt.Fprintf(out, "## %s\n\n%s\n\n| check | field | says | enforced by |\n|---|---|---|---|\n", set, c.Description)
		}
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
		if _, err := fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", c.Validation.Name.Value, checkFields(c.Validation), says, by); err != nil {
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
