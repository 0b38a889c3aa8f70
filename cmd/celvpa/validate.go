package main

import (
	"time"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/vpareview"
	"github.com/spf13/cobra"
)

// validateOptions hold the flags of celvpa validate.
type validateOptions struct {
	offline
	old []string
}

// validateCommand judges VerticalPodAutoscalers in manifests.
func validateCommand(compile compileFunc) *cobra.Command {
	o := &validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate [-f PATH…]",
		Short: "Show which VerticalPodAutoscalers in manifests would be refused, and why",
		Long: `Judges every VerticalPodAutoscaler in manifests as the admission controller would, by the rules, and as the API server would,
by the schema of the CRD.

` + inputHelp + `A folder may be a
repository: hidden files and folders are left out, and files that hold no VerticalPodAutoscaler or workload, templates of Helm
and patches of kustomizations are counted in a note, and no error unless -f names the file. --ignore leaves out more. Objects without
a namespace are in namespace default. RuleOverlays apply as in a cluster, and warnings name VerticalPodAutoscalers,
HorizontalPodAutoscalers and ScaledObjects with the same target, and say what is wrong with the target where its manifest is there.

--old names the objects that the cluster has now: a VerticalPodAutoscaler with the same namespace and name is judged as an
update, which may keep what was accepted before.

Findings of the schema have rule "schema". Fields that the schema does not know are refused, as kubectl refuses them: an API
server would drop them silently. The same object may appear several times, for several clusters.

Exit code 0: all would be accepted; 1: one would be refused; 2: a document could not be read, there was no
VerticalPodAutoscaler, or the rules could not be used. Readable input is judged even then.`,
		Example: `  celvpa validate -f vpa.yaml
  celvpa validate -f deploy/ -f overlays/ -o json
  celvpa validate -f . --ignore test --ignore '*-values.yaml'
  celvpa validate -f vpa.yaml --feature-gates InPlace=true
  celvpa validate -A --context prod
  kubectl get vpa -A -o yaml > now.yaml && celvpa validate -f deploy/ --old now.yaml
  kustomize build . | celvpa validate -f -
  celvpa validate -f deploy/ -o github                   annotations of GitHub Actions; -o junit is for test reports`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.add(cmd, compile)
	cmd.Flags().StringArrayVar(&o.old, "old", nil, "file, folder or URL with the objects as they are now; can be repeated")
	o.printer.add(cmd, "table", append([]string{"table", "json", "yaml"}, reportForms...)...)
	return cmd
}

func (o *validateOptions) run(cmd *cobra.Command) error {
	if err := o.check("--old", o.old); err != nil {
		return err
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	cluster, unread := o.load(cmd, book, time.Now())
	old, oldUnread := manifests.Files{Paths: o.old, Ignore: o.ignore}.Read(cmd.InOrStdin())
	result, unusable := cluster.Validate(old)
	errs := faults.Join(unread, oldUnread, unusable)
	checks := validationReport(result, errs)
	forms := checks.or(map[string]func(*page){"table": func(p *page) { printJudgements(p, result, checks) }})
	o.printNotes(cmd, cluster.Notes())
	if err := o.print(cmd.OutOrStdout(), result, forms); err != nil {
		return err
	}
	return o.end(errs, len(result.Items) == 0, "there is no VerticalPodAutoscaler in %s: nothing was judged", result.Refused())
}

// printJudgements prints a line for each object, and below it what is wrong and where.
func printJudgements(p *page, r *simulate.Validation, of *report) {
	for i, item := range r.Items {
		verdict := "allowed"
		if !item.Allowed {
			verdict = "refused"
		}
		p.printf("%s: %s (%s)\n", item.Object, verdict, item.Source)
		for _, f := range of.checks[i].findings {
			kind, place := "", ""
			if f.warning {
				kind = "warning: "
			}
			if f.at.Line > 0 {
				place = f.place()
			}
			p.printf("  %s%s%s (rule %s)\n", place, kind, f.message, f.rule)
		}
	}
}

// validationReport has a check for each object.
func validationReport(r *simulate.Validation, unread error) *report {
	out := &report{unread: faults.List(unread)}
	for i := range r.Items {
		item := &r.Items[i]
		c := check{suite: relative(item.Document.Source.File), file: item.Document.Source.File, name: item.Object}
		add := func(causes []vpareview.Cause, warning bool) {
			for _, cause := range causes {
				line, column := item.Document.Field(cause.Field)
				c.findings = append(c.findings, finding{
					rule: cause.Rule, about: item.Object, message: cause.FieldAndMessage(), warning: warning,
					at: source.Position{File: item.Document.Source.File, Line: line, Col: column},
				})
			}
		}
		add(item.Causes, false)
		add(item.Warnings, true)
		out.checks = append(out.checks, c)
	}
	return out
}
