package main

import (
	"io"
	"slices"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/spf13/cobra"
)

// ruleProblems are what celvpa rules lint prints.
type ruleProblems struct {
	Problems []ruleProblem `json:"problems"`
}

type ruleProblem struct {
	At      string `json:"at"`      // file:line:col
	Subject string `json:"subject"` // e.g. RuleSet container-caps@1.0.0, rule policy/min-allowed
	Message string `json:"message"`

	text string
}

func lintCommand(o *ruleOptions) *cobra.Command {
	p := &printer{}
	cmd := &cobra.Command{
		Use: "lint PATH…", Short: "Compile rule files and report errors and likely mistakes",
		Long: "Lays each folder over the shipped rules, compiles all pipelines, alone and with each overlay, and runs the test\n" +
			"tables among the files.\n" +
			"Exit code 0: nothing found; 1: findings; 2: it could not be read.",
		Example: "  celvpa rules lint my-rules\n  celvpa rules lint my-rules more-rules --feature-gates InPlace=true\n  celvpa rules lint my-rules -o github",
		Args:    takes(1, 0),
		RunE:    func(cmd *cobra.Command, paths []string) error { return lintRules(cmd.OutOrStdout(), p, o, paths) },
	}
	p.add(cmd, "table", append([]string{"table", "json", "yaml"}, reportForms...)...)
	return cmd
}

func lintRules(out io.Writer, p *printer, o *ruleOptions, paths []string) error {
	if err := p.check(); err != nil {
		return err
	}
	found := ruleProblems{Problems: []ruleProblem{}}
	var checks report
	var errs []error
	for _, path := range paths {
		problems, err := o.lint(path)
		errs = append(errs, err)
		c := check{suite: "celvpa rules lint", name: relative(path)}
		for _, problem := range problems {
			c.findings = append(c.findings, finding{rule: findingLint, about: problem.Subject, message: problem.Message, at: problem.Pos})
			found.Problems = append(found.Problems, ruleProblem{At: problem.Pos.String(), Subject: problem.Subject, Message: problem.Message, text: problem.Error()})
		}
		checks.checks = append(checks.checks, c)
	}
	err := faults.Join(errs...)
	checks.unread = faults.List(err)
	if err := p.print(out, found, checks.or(map[string]func(*page){"table": func(p *page) { found.print(p, err == nil) }})); err != nil {
		return err
	}
	if err == nil && len(found.Problems) > 0 {
		return errNo
	}
	return err
}

func (r *ruleProblems) print(p *page, all bool) {
	for _, problem := range r.Problems {
		p.printf("%s\n", problem.text)
	}
	switch {
	case !all: // how many there are is not known
	case len(r.Problems) > 0:
		p.printf("%d found\n", len(r.Problems))
	default:
		p.printf("nothing found\n")
	}
}

// lint lists what is wrong with a folder of rules, or else with what its test tables show, or else what is most likely a
// mistake.
func (o *ruleOptions) lint(path string) ([]*source.Problem, error) {
	files, err := o.read(path)
	if err == nil {
		err = files.TestOwn()
	}
	if problems := source.Problems(err); len(problems) > 0 {
		return append(problems, o.furtherProblems(path, problems)...), nil
	}
	if err != nil {
		return nil, err
	}
	return append(files.book.Findings(), refusedSchemas(files.book)...), nil
}

// furtherProblems are those that compiling shows of rules which are faulty already as they are read. Where a line has a fault, what
// else it shows may follow from that.
func (o *ruleOptions) furtherProblems(path string, known []*source.Problem) []*source.Problem {
	options, err := o.options(path)
	if err != nil {
		return nil
	}
	rules, err := policy.Open(options)
	if err == nil || rules == nil {
		return nil
	}
	_, err = o.compile(rules)
	return slices.DeleteFunc(source.Problems(err), func(p *source.Problem) bool {
		return slices.ContainsFunc(known, func(k *source.Problem) bool { return k.Pos.File == p.Pos.File && k.Pos.Line == p.Pos.Line })
	})
}

// refusedSchemas lists why API servers would refuse the CRDs with the rules of a pipeline.
func refusedSchemas(book *compile.Rulebook) (out []*source.Problem) {
	for _, plan := range book.Plans() {
		rules := plan.Validations(facts.VPAValidate)
		places := map[string]source.Position{}
		for _, v := range rules {
			places[v.Rule] = v.Validation.Name.Pos
		}
		all, err := emit.CRDs(rules)
		for _, crd := range all {
			var refusals []*emit.Refusal
			if refusals, err = emit.Check(crd, schema.LowestKubernetes); err != nil {
				break
			}
			for _, r := range refusals {
				at, known := places[r.Rule]
				if !known {
					at = plan.Position()
				}
				out = append(out, &source.Problem{Pos: at, Subject: "Pipeline " + plan.Pipeline(), Message: r.Error()})
			}
		}
		if err != nil {
			out = append(out, &source.Problem{Pos: plan.Position(), Subject: "Pipeline " + plan.Pipeline(), Message: err.Error()})
		}
	}
	return out
}
