package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// rulesCommand groups what an operator does with rule files.
func rulesCommand(compile compileFunc) *cobra.Command {
	cmd := parentCommand(&cobra.Command{Use: "rules", Short: "Look at rules, check them and see what a change does",
		Example: "  celvpa rules list\n  celvpa rules show container-caps\n  celvpa rules lint my-rules\n  celvpa rules diff shipped my-rules"})
	o := &ruleOptions{compile: compile}
	o.add(cmd)
	cmd.AddCommand(listCommand(o), showCommand(o), pointsCommand(), checksCommand(o), lintCommand(o), diffCommand(o), renderCommand(o), newCommand())
	return cmd
}

// ruleList is what celvpa rules list prints.
type ruleList struct {
	Pipelines []listedPipeline `json:"pipelines"`
	Overlays  []listedOverlay  `json:"overlays"`
	RuleSets  []listedRuleSet  `json:"ruleSets"`
}

type listedPipeline struct {
	Name    string `json:"name"` // name@version
	Digest  string `json:"digest"`
	Default bool   `json:"default"`
}

type listedOverlay struct {
	Name        string `json:"name"`
	Mode        string `json:"mode"`
	Priority    int    `json:"priority"`
	Match       string `json:"match"` // in words
	At          string `json:"at"`    // file:line:col
	Description string `json:"description"`
}

type listedRuleSet struct {
	Point       string `json:"point"`   // empty = no pipeline runs it
	RuleSet     string `json:"ruleSet"` // name@version
	At          string `json:"at"`
	Description string `json:"description"`
}

func listCommand(o *ruleOptions) *cobra.Command {
	p := &printer{}
	cmd := &cobra.Command{
		Use: "list", Short: "List pipelines, overlays and rule sets, with where they run", Args: cobra.NoArgs,
		Example: "  celvpa rules list\n  celvpa rules list --rules-dir my-rules -o wide\n  celvpa rules list --sort-by point --no-headers",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			files, err := o.read(o.dir)
			if err != nil {
				return err
			}
			list := newRuleList(files)
			return p.print(cmd.OutOrStdout(), list, map[string]func(*page){
				"table": list.print,
				"wide":  list.printWide,
			})
		},
	}
	p.addTables(cmd, "table", "table", "wide", "json", "yaml")
	return cmd
}

func newRuleList(files *ruleFiles) *ruleList {
	library, book := files.Library, files.book
	out := &ruleList{Pipelines: []listedPipeline{}, Overlays: []listedOverlay{}, RuleSets: []listedRuleSet{}}
	add := func(point, id string) {
		set := library.RuleSets[id]
		out.RuleSets = append(out.RuleSets, listedRuleSet{Point: point, RuleSet: id, At: set.Name.Pos.String(), Description: set.Description})
	}
	listed := map[string]bool{}
	for _, plan := range book.Plans() {
		out.Pipelines = append(out.Pipelines, listedPipeline{Name: plan.Pipeline(), Digest: plan.Digest(), Default: plan == book.Default()})
		for _, point := range plan.Points() {
			for _, id := range plan.RuleSets(point) {
				if !listed[id] {
					listed[id] = true
					add(point, id)
				}
			}
		}
	}
	for _, overlay := range book.Overlays() {
		out.Overlays = append(out.Overlays, listedOverlay{
			Name: overlay.Name.Value, Mode: overlay.ModeOf(), Priority: overlay.PriorityOf(), Match: overlay.Match.String(), At: overlay.Name.Pos.String(), Description: overlay.Description,
		})
	}
	for _, id := range library.RuleSetIDs() {
		if !listed[id] {
			add("", id)
		}
	}
	return out
}

// print prints the pipelines, and tables of overlays and rule sets with what they are for.
func (l *ruleList) print(p *page) {
	l.printPipelines(p)
	if len(l.Overlays) > 0 {
		p.header("OVERLAY", "MODE", "MATCHES", "DESCRIPTION")
		p.wraps = true
		for _, overlay := range l.Overlays {
			p.row(overlay.Name, overlay.Mode, overlay.Match, firstSentence(overlay.Description))
		}
		p.printf("\n")
	}
	p.header("POINT", "RULE SET", "DESCRIPTION")
	p.wraps = true
	for _, set := range l.RuleSets {
		p.row(cmp.Or(set.Point, "(not run)"), set.RuleSet, firstSentence(set.Description))
	}
}

func (l *ruleList) printPipelines(p *page) {
	for _, pipeline := range l.Pipelines {
		serves := ""
		if pipeline.Default {
			serves = ", the default"
		}
		p.printf("pipeline %s, digest %s%s\n", pipeline.Name, pipeline.Digest, serves)
	}
	p.printf("\n")
}

// printWide prints the same with all columns.
func (l *ruleList) printWide(p *page) {
	l.printPipelines(p)
	if len(l.Overlays) > 0 {
		p.header("OVERLAY", "MODE", "PRIORITY", "MATCHES", "AT", "DESCRIPTION")
		for _, overlay := range l.Overlays {
			p.row(overlay.Name, overlay.Mode, overlay.Priority, overlay.Match, overlay.At, oneLine(overlay.Description))
		}
		p.printf("\n")
	}
	p.header("POINT", "RULE SET", "AT", "DESCRIPTION")
	for _, set := range l.RuleSets {
		p.row(cmp.Or(set.Point, "(not run)"), set.RuleSet, set.At, oneLine(set.Description))
	}
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i > 0 {
		return text[:i+1]
	}
	return text
}

func showCommand(o *ruleOptions) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION][/STAGE[/RULE]]", Short: "Show a rule set or a part of it with its digest, a pipeline or an overlay", Args: takes(1, 1),
		Example: "  celvpa rules show update\n  celvpa rules show container-caps/policy\n  celvpa rules show default",
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return o.names(word), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := newPage(cmd.OutOrStdout())
			return cmp.Or(showRule(out, o, args[0]), out.Flush())
		},
	}
}

// showRule prints rule sets, pipelines and overlays as they are written, and parts of rule sets as they are understood,
// with the digest that overlays can insist on.
func showRule(out io.Writer, o *ruleOptions, path string) error {
	files, err := o.read(o.dir)
	if err != nil {
		return err
	}
	library, book := files.Library, files.book
	if strings.Contains(path, "/") {
		part, err := findPart(book, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s%s", path, part.digest, part.text, part.calls)
		return nil
	}
	found := false
	for _, id := range library.RuleSetIDs() {
		set := library.RuleSets[id]
		if id != path && set.Name.Value != path {
			continue
		}
		found = true
		part, err := findPart(book, id)
		if err != nil {
			part.digest = "unknown: no pipeline runs it"
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s%s", set.Name.Pos.File, part.digest, set.Name.Source(), part.calls)
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
		known := slices.Concat(slices.Sorted(maps.Keys(library.Pipelines)), slices.Sorted(maps.Keys(library.Overlays)), library.RuleSetIDs())
		if !strings.Contains(path, "@") {
			for i, id := range known {
				known[i], _, _ = strings.Cut(id, "@")
			}
		}
		hint := faults.Near(path, slices.Compact(known))
		if parts := partsCalled(library, path); len(parts) > 0 {
			hint = "did you mean " + strings.Join(parts, " or ") + "? "
		}
		return fmt.Errorf("there is no rule set, pipeline or overlay %q; %scelvpa rules list names all", path, hint)
	}
	return nil
}

// partsCalled are the paths of stages, rules, decisions and validations of a name.
func partsCalled(library *document.Library, name string) (out []string) {
	for _, set := range library.RuleSets {
		add := func(names ...string) {
			if names[len(names)-1] == name {
				out = append(out, strings.Join(append([]string{set.Name.Value}, names...), "/"))
			}
		}
		for i := range set.Decisions {
			add(set.Decisions[i].Name.Value)
		}
		for i := range set.Validations {
			add(set.Validations[i].Name.Value)
		}
		for i := range set.Stages {
			stage := set.Stages[i].Name.Value
			add(stage)
			for j := range set.Stages[i].Rules {
				add(stage, set.Stages[i].Rules[j].Name.Value)
			}
		}
	}
	slices.Sort(out)
	return out
}

// shownPart is a rule set or a part of it.
type shownPart struct {
	text, digest string
	calls        string // what the definitions stand for that it calls, as comments
}

// findPart looks a path up in the default pipeline, else in the others.
func findPart(book *compile.Rulebook, path string) (shownPart, error) {
	part, err := partOf(book.Default(), path)
	if err == nil {
		return part, nil
	}
	for _, plan := range book.Plans() {
		if part, other := partOf(plan, path); other == nil {
			return part, nil
		}
	}
	return shownPart{}, err
}

func partOf(plan *engine.Plan, path string) (out shownPart, err error) {
	if out.text, out.digest, err = plan.Part(path); err != nil {
		return out, err
	}
	calls, err := plan.Calls(path)
	for _, call := range calls {
		out.calls += "# " + call + "\n"
	}
	return out, err
}

func renderCommand(o *ruleOptions) *cobra.Command {
	var vpaFile string
	cmd := &cobra.Command{
		Use: "render", Short: "Print the rules in force as plain YAML, with overlays applied", Args: cobra.NoArgs,
		Long:    "Without --vpa these are the rules for objects that pin no pipeline and match no overlay.",
		Example: "  celvpa rules render --rules-dir my-rules --vpa web-vpa.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			book, err := o.open()
			if err != nil {
				return err
			}
			if vpaFile == "" {
				return render(cmd.OutOrStdout(), book.Default())
			}
			cluster, vpas, unread := readVPAs(cmd, vpaFile, book)
			err = faults.Join(unread, renderFor(cmd.OutOrStdout(), cluster.Here(book), vpas))
			printNotes(cmd, cluster.Notes())
			return err
		},
	}
	cmd.Flags().StringVar(&vpaFile, "vpa", "", "file with VerticalPodAutoscalers to print the rules for; - = standard input")
	return cmd
}

// renderFor prints each distinct set of rules once, headed by the objects that get it.
func renderFor(out io.Writer, book *compile.Rulebook, vpas []*vpav1.VerticalPodAutoscaler) error {
	var plans []*engine.Plan
	of := map[*engine.Plan][]string{}
	var errs []error
	for _, v := range vpas {
		chosen := policy.For(book, v)
		if chosen.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", objectName(v), chosen.Err))
			continue
		}
		if of[chosen.Plan] == nil {
			plans = append(plans, chosen.Plan)
		}
		of[chosen.Plan] = append(of[chosen.Plan], objectName(v))
	}
	for i, plan := range plans {
		if i > 0 {
			fmt.Fprintln(out, "---")
		}
		fmt.Fprintf(out, "# the rules for %s\n", strings.Join(of[plan], ", "))
		if err := render(out, plan); err != nil {
			return err
		}
	}
	return faults.Join(errs...)
}

func render(out io.Writer, plan *engine.Plan) error {
	var text bytes.Buffer
	if err := plan.Render(&text); err != nil {
		return err
	}
	visible, err := visibleYAML(text.Bytes())
	if err == nil {
		_, err = out.Write(visible)
	}
	return err
}

func objectName(v *vpav1.VerticalPodAutoscaler) string {
	return "VerticalPodAutoscaler " + v.Namespace + "/" + v.Name
}

// readVPAs reads the VerticalPodAutoscalers of a manifest, and its Namespaces; other kinds are left out. The error says what cannot be used; the rest is
// returned even then.
func readVPAs(cmd *cobra.Command, file string, book *compile.Rulebook) (*simulate.Cluster, []*vpav1.VerticalPodAutoscaler, error) {
	set, unread := manifests.Read([]string{file}, cmd.InOrStdin())
	cluster, unloaded := simulate.Load(set, book, simulate.At(time.Now()))
	vpas, unusable := cluster.VPAs()
	err := faults.Join(unread, unloaded, unusable)
	if err == nil && len(vpas) == 0 {
		err = fmt.Errorf("%s has no VerticalPodAutoscaler", file)
	}
	return cluster, vpas, err
}
