package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
)

// ruleOptions choose the rules that a command looks at.
type ruleOptions struct {
	dir      string
	pipeline string
	gates    string
	points   []string // that are compiled; none = all
	params   paramFlags
	fault    error // of the shipped rules, told when a command runs
}

// add gives a command the flags of rules, and of all their parameters.
func (o *ruleOptions) add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&o.dir, "rules-dir", "", "folder of rule files, or one of them, to be laid over the shipped ones")
	f.StringVar(&o.pipeline, "pipeline", "", "pipeline, name or name@version; empty = default")
	f.StringVar(&o.gates, "feature-gates", "", "feature gates as Name=true|false, separated by commas:\n"+gateHelp())
	o.params = paramFlags{}
	library, err := policy.Shipped()
	if err == nil {
		err = o.params.add(f, library)
	}
	o.fault = err
}

// options are those of the rules; dir overrides --rules-dir.
func (o *ruleOptions) options(dir string) (policy.Options, error) {
	if o.fault != nil {
		return policy.Options{}, fmt.Errorf("the shipped rules are broken:\n%w", o.fault)
	}
	gates, err := parseGates(o.gates)
	return policy.Options{Path: dir, Pipeline: o.pipeline, Gates: gates, Params: o.params.given(), Points: o.points}, err
}

func (o *ruleOptions) open() (*engine.Rulebook, error) {
	files, err := o.read()
	if err != nil {
		return nil, err
	}
	return files.book, nil
}

// read reads and compiles the rules of the flags.
func (o *ruleOptions) read() (*ruleFiles, error) {
	options, err := o.options(o.dir)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Open(options)
	if err != nil {
		return nil, err
	}
	book, err := rules.Compile()
	if err != nil {
		return nil, err
	}
	return &ruleFiles{Rules: rules, book: book}, nil
}

// ruleFiles are rules with all plans made from them.
type ruleFiles struct {
	*policy.Rules
	book *engine.Rulebook
}

// rulesCommand groups what an operator does with rule files.
func rulesCommand() *cobra.Command {
	cmd := parentCommand(&cobra.Command{Use: "rules", Short: "Look at rules, check them and see what a change does"})
	o := &ruleOptions{}
	o.add(cmd)
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List pipelines, overlays and rule sets, with where they run", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return listRules(cmd.OutOrStdout(), o) },
		},
		&cobra.Command{
			Use: "show NAME[@VERSION][/STAGE[/RULE]]", Short: "Show a rule set or a part of it with its digest, a pipeline or an overlay", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return showRule(cmd.OutOrStdout(), o, args[0]) },
		},
		&cobra.Command{
			Use: "points", Short: "Print the points at which rule sets plug in, with their facts", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return printPoints(cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "checks", Short: "Print what is checked of VerticalPodAutoscalers, and by whom", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return printChecks(cmd.OutOrStdout(), o) },
		},
		&cobra.Command{
			Use: "lint PATH…", Short: "Compile rule files and tell what is wrong or most likely a mistake",
			Long: "Lays each folder over the shipped rules, compiles all pipelines, alone and with each overlay, and runs the test\n" +
				"tables among the files.\n" +
				"Exit code 0: nothing found; 1: findings; 2: it could not be read.",
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return lintRules(cmd.OutOrStdout(), o, args) },
		},
		diffCommand(o),
		renderCommand(o),
	)
	return cmd
}

func listRules(out io.Writer, o *ruleOptions) error {
	files, err := o.read()
	if err != nil {
		return err
	}
	library, book := files.Library, files.book
	for _, plan := range book.Plans() {
		serves := ""
		if plan == book.Default() {
			serves = ", the default"
		}
		fmt.Fprintf(out, "pipeline %s, digest %s%s\n", plan.Pipeline(), plan.Digest(), serves)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(book.Overlays()) > 0 {
		fmt.Fprintln(table, "\nOVERLAY\tMODE\tPRIORITY\tMATCHES\tAT\tDESCRIPTION")
		for _, one := range book.Overlays() {
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", one.Name.Value, one.ModeOf(), one.PriorityOf(), one.Match.String(), one.Name.Pos, firstSentence(one.Description))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(table, "\nPOINT\tRULE SET\tAT\tDESCRIPTION")
	listed := map[string]bool{}
	for _, plan := range book.Plans() {
		for _, point := range plan.Points() {
			for _, id := range plan.RuleSets(point) {
				set := library.RuleSets[id]
				if listed[id] {
					continue
				}
				listed[id] = true
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", point, id, set.Name.Pos, firstSentence(set.Description))
			}
		}
	}
	for _, id := range library.RuleSetIDs() {
		if set := library.RuleSets[id]; !listed[id] {
			fmt.Fprintf(table, "(not run)\t%s\t%s\t%s\n", id, set.Name.Pos, firstSentence(set.Description))
		}
	}
	return table.Flush()
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i > 0 {
		return text[:i+1]
	}
	return text
}

// showRule prints rule sets, pipelines and overlays as they are written, and parts of rule sets as they are understood,
// with the digest that overlays can insist on.
func showRule(out io.Writer, o *ruleOptions, path string) error {
	files, err := o.read()
	if err != nil {
		return err
	}
	library, book := files.Library, files.book
	if strings.Contains(path, "/") {
		text, digest, err := findPart(book, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s", path, digest, text)
		return nil
	}
	found := false
	for _, id := range library.RuleSetIDs() {
		set := library.RuleSets[id]
		if id != path && set.Name.Value != path {
			continue
		}
		found = true
		_, digest, err := findPart(book, id)
		if err != nil {
			digest = "unknown: no pipeline runs it"
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s", set.Name.Pos.File, digest, set.Name.Source())
	}
	for _, plan := range book.Plans() {
		if name, _ := plan.NameAndVersion(); name == path || plan.Pipeline() == path {
			found = true
			p := library.Pipelines[plan.Pipeline()]
			fmt.Fprintf(out, "# %s, digest %s\n%s", p.Name.Pos.File, plan.Digest(), p.Name.Source())
		}
	}
	if o := library.Overlays[path]; o != nil {
		found = true
		fmt.Fprintf(out, "# %s\n%s", o.Name.Pos.File, o.Name.Source())
	}
	if !found {
		return fmt.Errorf("there is no rule set, pipeline or overlay %q; there are: %s", path,
			strings.Join(slices.Concat(library.RuleSetIDs(), slices.Sorted(maps.Keys(library.Pipelines)), slices.Sorted(maps.Keys(library.Overlays))), ", "))
	}
	return nil
}

// findPart looks a path up in the default pipeline, else in the others.
func findPart(book *engine.Rulebook, path string) (text, digest string, err error) {
	if text, digest, err = book.Default().Part(path); err == nil {
		return text, digest, nil
	}
	for _, plan := range book.Plans() {
		if text, digest, other := plan.Part(path); other == nil {
			return text, digest, nil
		}
	}
	return "", "", err
}

func lintRules(out io.Writer, o *ruleOptions, paths []string) error {
	found := 0
	var errs []error
	for _, path := range paths {
		problems, err := o.lint(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, p := range problems {
			fmt.Fprintln(out, p)
		}
		found += len(problems)
	}
	if len(errs) > 0 {
		return faults.Join(errs...)
	}
	if found > 0 {
		fmt.Fprintf(out, "%d found\n", found)
		return errNo
	}
	fmt.Fprintln(out, "nothing found")
	return nil
}

// lint lists what is wrong with a folder of rules, or else with what its test tables show, or else what is most likely a
// mistake.
func (o *ruleOptions) lint(path string) ([]*engine.Problem, error) {
	options, err := o.options(path)
	if err != nil {
		return nil, err
	}
	book, err := policy.LoadTested(options)
	if problems := engine.Problems(err); len(problems) > 0 {
		return problems, nil
	}
	if err != nil {
		return nil, err
	}
	return append(book.Findings(), refusedSchemas(book)...), nil
}

// refusedSchemas tells why API servers would refuse the CRDs with the rules of a pipeline.
func refusedSchemas(book *engine.Rulebook) (out []*engine.Problem) {
	for _, plan := range book.Plans() {
		rules := plan.Validations(facts.VPAValidate)
		places := map[string]engine.Position{}
		for _, v := range rules {
			places[v.Rule] = v.Validation.Name.Pos
		}
		all, err := emit.CRDs(rules)
		for _, crd := range all {
			var refusals []*emit.Refusal
			if refusals, err = emit.Check(crd); err != nil {
				break
			}
			for _, r := range refusals {
				at, known := places[r.Rule]
				if !known {
					at = plan.Position()
				}
				out = append(out, &engine.Problem{Pos: at, Subject: "Pipeline " + plan.Pipeline(), Message: r.Error()})
			}
		}
		if err != nil {
			out = append(out, &engine.Problem{Pos: plan.Position(), Subject: "Pipeline " + plan.Pipeline(), Message: err.Error()})
		}
	}
	return out
}

// shippedName stands for the rules that are part of the program, where a folder is asked for.
const shippedName = "shipped"

// openNamed opens a folder laid over the shipped rules, or the shipped rules alone.
func (o *ruleOptions) openNamed(name string) (*ruleFiles, error) {
	dir := name
	if name == shippedName {
		dir = ""
	}
	options, err := o.options(dir)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Open(options)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; name a folder or file of rules, or write %s for the rules of the program alone", err, shippedName)
	}
	if err != nil {
		return nil, err
	}
	book, err := rules.Compile()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &ruleFiles{Rules: rules, book: book}, nil
}
