package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/ruletest"
	"github.com/celvpa/celvpa/simulate"
)

// diffOptions hold the flags of celvpa rules diff.
type diffOptions struct {
	printer
	vpas    string
	answers bool
	tests   []string
	live    liveDiff
}

func diffCommand(o *ruleOptions) *cobra.Command {
	d := &diffOptions{}
	cmd := &cobra.Command{
		Use: "diff A B | diff --live CANDIDATE", Short: "Describe what changes from one set of rules to another, in words or in a cluster",
		Long: "A and B are folders that are laid over the shipped rules, or the word shipped.\n" +
			"With --vpa it says what changes for those objects, and what overlays in mode Audit or Warn would change.\n" +
			"With --answers or --tests it runs test tables on both and says which answers change, and which rows cannot run.\n\n" + liveDiffHelp,
		Example: "  celvpa rules diff shipped my-rules\n  celvpa rules diff shipped my-rules --vpa web-vpa.yaml\n  celvpa rules diff shipped my-rules --tests my-cases.yaml\n" +
			"  celvpa rules diff --live my-overlay.yaml --context prod --top 20\n  celvpa rules diff --live my-rules -n shop -o wide",
		Args: func(cmd *cobra.Command, args []string) error {
			if d.live.on {
				return takes(1, 1)(cmd, args)
			}
			return takes(2, 2)(cmd, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 || d.live.on {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return []string{"shipped\tthe rules that celvpa comes with"}, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			if err := d.live.check(&d.printer); err != nil {
				return err
			}
			if d.live.on {
				return d.live.run(cmd, o, &d.printer, args[0])
			}
			diff, err := d.diff(cmd, o, args[0], args[1])
			if diff == nil {
				return err
			}
			if err := d.print(cmd.OutOrStdout(), diff, map[string]func(*page){"table": diff.print}); err != nil {
				return err
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&d.answers, "answers", false, "run the tables that ship with celvpa and those of B on both, and say which answers change")
	f.StringSliceVar(&d.tests, "tests", nil, "files or folders with test tables to run on both instead")
	f.StringVar(&d.vpas, "vpa", "", "file with VerticalPodAutoscalers to compare the rules for; - = standard input")
	d.live.add(cmd)
	d.addTables(cmd, "table", "table", "wide", "name", "json", "yaml")
	for _, offline := range []string{"vpa", "answers", "tests"} {
		cmd.MarkFlagsMutuallyExclusive("live", offline)
	}
	cmd.MarkFlagsMutuallyExclusive("vpa", "answers")
	cmd.MarkFlagsMutuallyExclusive("vpa", "tests")
	return cmd
}

// diff compares two sets of rules. The error says what could not be compared; the result is nil if the rules cannot be used.
func (d *diffOptions) diff(cmd *cobra.Command, o *ruleOptions, nameA, nameB string) (*ruleDiff, error) {
	a, err := o.openNamed(nameA)
	if err != nil {
		return nil, err
	}
	b, err := o.openNamed(nameB)
	if err != nil {
		return nil, err
	}
	diff := &ruleDiff{Changes: []ruleChange{}}
	if d.vpas != "" {
		cluster, vpas, unread := readVPAs(cmd, d.vpas, b.book)
		err := faults.Join(unread, diff.objects(cluster.Here(a.book), cluster.Here(b.book), vpas))
		printNotes(cmd, cluster.Notes())
		return diff, err
	}
	diff.books(a.book, b.book)
	if d.answers || len(d.tests) > 0 {
		tables, unread := testTables(b.Library, d.tests)
		if len(tables) == 0 {
			return diff, unread
		}
		return diff, faults.Join(unread, diff.answers(a, b, tables))
	}
	return diff, nil
}

// shippedName stands for the rules that are part of the program, where a folder is asked for.
const shippedName = "shipped"

// openNamed opens a folder laid over the shipped rules, or the shipped rules alone.
func (o *ruleOptions) openNamed(name string) (*ruleFiles, error) {
	dir := name
	if name == shippedName {
		dir = ""
	}
	files, err := o.read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; name a folder or file of rules, or write %s for the rules of the program alone", err, shippedName)
	}
	return files, err
}

// ruleDiff is what celvpa rules diff prints.
type ruleDiff struct {
	Changes []ruleChange `json:"changes"`
}

// ruleChange is about one pipeline, overlay or object, or about answers.
type ruleChange struct {
	About string   `json:"about"`
	Gone  bool     `json:"gone,omitempty"`
	Lines []string `json:"lines"` // empty = nothing changes
}

func (d *ruleDiff) add(about string, lines []string) {
	d.Changes = append(d.Changes, ruleChange{About: about, Lines: append([]string{}, lines...)})
}

func (d *ruleDiff) gone(about string) {
	d.Changes = append(d.Changes, ruleChange{About: about, Gone: true, Lines: []string{}})
}

func (d *ruleDiff) print(p *page) {
	for _, c := range d.Changes {
		switch {
		case c.Gone:
			p.printf("%s is gone\n", c.About)
		case len(c.Lines) == 0:
			p.printf("%s: nothing changes\n", c.About)
		default:
			p.printf("%s:\n  %s\n", c.About, strings.Join(c.Lines, "\n  "))
		}
	}
}

// books compares all pipelines and overlays. What changes in other pipelines as in the default one is left out, and so is what an
// overlay changes in others, if it changes that.
func (d *ruleDiff) books(a, b *compile.Rulebook) {
	before, after := plansByID(a), plansByID(b)
	standard := b.Default()
	var alike []string
	if old := before[standard.Pipeline()]; old != nil {
		alike = engine.Diff(old, standard)
	}
	for _, plan := range a.Plans() {
		if after[plan.Pipeline()] == nil {
			d.gone("pipeline " + plan.Pipeline())
		}
	}
	for _, plan := range b.Plans() {
		if old := before[plan.Pipeline()]; old != nil {
			if lines := engine.Diff(old, plan); plan == standard || !slices.Equal(lines, alike) {
				d.add("pipeline "+plan.Pipeline(), lines)
			}
			continue
		}
		d.add("pipeline "+plan.Pipeline()+" is new, against "+a.Default().Pipeline(), engine.Diff(a.Default(), plan))
	}
	old := map[string]compile.OverlayEffect{}
	for _, e := range a.Effects() {
		old[e.Pipeline+" "+e.Overlay.Name.Value] = e
	}
	usual := map[string]compile.OverlayEffect{} // of overlays on the default pipeline
	for _, e := range b.Effects() {
		if e.Pipeline == standard.Pipeline() {
			usual[e.Overlay.Name.Value] = e
		}
	}
	for _, e := range b.Effects() {
		if of, applies := usual[e.Overlay.Name.Value]; applies && e.Pipeline != of.Pipeline {
			delete(old, e.Pipeline+" "+e.Overlay.Name.Value)
			continue
		}
		title := fmt.Sprintf("overlay %s (%s, for %s) on %s", e.Overlay.Name.Value, e.Overlay.ModeOf(), e.Overlay.Match.String(), e.Pipeline)
		key := e.Pipeline + " " + e.Overlay.Name.Value
		was, had := old[key]
		delete(old, key)
		switch {
		case !had:
			d.add(title+" is new", e.Changes)
		case !was.Same(e):
			d.add(title+" is changed", e.Changes)
		}
	}
	for _, e := range a.Effects() {
		if _, gone := old[e.Pipeline+" "+e.Overlay.Name.Value]; gone && (e.Pipeline == standard.Pipeline() || old[standard.Pipeline()+" "+e.Overlay.Name.Value].Overlay == nil) {
			d.gone("overlay " + e.Overlay.Name.Value + " on " + e.Pipeline)
		}
	}
}

func plansByID(b *compile.Rulebook) map[string]*engine.Plan {
	out := map[string]*engine.Plan{}
	for _, p := range b.Plans() {
		out[p.Pipeline()] = p
	}
	return out
}

// objects compares what each VPA gets.
func (d *ruleDiff) objects(a, b *compile.Rulebook, vpas []*vpav1.VerticalPodAutoscaler) error {
	var errs []error
	for _, v := range vpas {
		before, after := policy.For(a, v), policy.For(b, v)
		if after.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", objectName(v), after.Err))
			continue
		}
		if before.Err != nil {
			d.add(objectName(v), []string{fmt.Sprintf("decided by %s; before: %v", after.Plan.Pipeline(), before.Err)})
		} else {
			d.add(objectName(v), engine.Diff(before.Plan, after.Plan))
		}
		for _, shadow := range after.Shadows {
			d.add(fmt.Sprintf("%s, overlay %s in mode %s would change", objectName(v), shadow.Overlay, shadow.Mode), engine.Diff(after.Plan, shadow.Plan))
		}
	}
	return faults.Join(errs...)
}

// answers runs tables on both sets of rules, and on the second once more with each of its overlays. The error counts the rows that
// run on none of them.
func (d *ruleDiff) answers(a, b *ruleFiles, tables []*document.RuleTest) error {
	before, after := a.Test(tables, policy.TestOptions{}), b.Test(tables, policy.TestOptions{})
	ran := make([]bool, len(after))
	mark := func(rows []ruletest.RowResult) {
		for i, row := range rows {
			ran[i] = ran[i] || len(row.Problems) == 0
		}
	}
	mark(before)
	mark(after)
	d.add("answers of the test tables", changedAnswers(before, after))
	both := len(d.Changes) - 1
	for _, o := range b.book.Overlays() {
		with := b.Test(tables, policy.TestOptions{Overlays: []string{o.Name.Value}})
		mark(with)
		d.add("answers with overlay "+o.Name.Value, changedAnswers(after, with))
	}
	stuck := 0
	for i, row := range after {
		if !ran[i] {
			stuck++
			d.Changes[both].Lines = append(d.Changes[both].Lines, because(row, "cannot run")...)
		}
	}
	if stuck > 0 {
		return fmt.Errorf("no set of rules can run %s of the test tables; the answer says which, and why", simulate.Counted(stuck, "row"))
	}
	return nil
}

// changedAnswers names each row whose answer differs, with the lines that differ, and each row that runs on one side only. Rows that
// run on neither are left out.
func changedAnswers(before, after []ruletest.RowResult) []string {
	var out []string
	for i, row := range after {
		was := before[i]
		switch ran, runs := len(was.Problems) == 0, len(row.Problems) == 0; {
		case ran && runs:
			if lines := changedLines(was.Answer, row.Answer); len(lines) > 0 {
				out = append(append(out, rowName(row)), lines...)
			}
		case ran:
			out = append(out, because(row, "no longer runs")...)
		case runs:
			out = append(out, rowName(row)+" is new")
			for _, line := range row.Answer {
				out = append(out, "  "+line)
			}
		}
	}
	return out
}

func rowName(row ruletest.RowResult) string {
	return fmt.Sprintf("%s/%s (%s)", row.Table, row.Row, row.At)
}

// because says what is the matter with a row, and why, in lines.
func because(row ruletest.RowResult, what string) []string {
	var why []string
	for _, problem := range row.Problems {
		why = append(why, problem.Message)
	}
	text := fmt.Sprintf("%s %s: %s", rowName(row), what, strings.Join(why, "; "))
	return strings.Split(strings.ReplaceAll(text, "\n", "\n  "), "\n")
}

// changedLines pairs lines of the form "field = value" by their field, in order where several have the same. Lines that are
// in both are left out.
func changedLines(before, after []string) []string {
	field := func(line string) string {
		name, _, _ := strings.Cut(line, " = ")
		return name
	}
	now := slices.Clone(after)
	take := func(matches func(string) bool) (line string, found bool) {
		i := slices.IndexFunc(now, matches)
		if i < 0 {
			return "", false
		}
		line = now[i]
		now = slices.Delete(now, i, i+1)
		return line, true
	}
	var gone, out []string
	for _, line := range before {
		if _, same := take(func(other string) bool { return other == line }); !same {
			gone = append(gone, line)
		}
	}
	for _, line := range gone {
		if to, changed := take(func(other string) bool { return field(other) == field(line) }); changed {
			out = append(out, "  "+line+" → "+strings.TrimPrefix(to, field(line)+" = "))
			continue
		}
		out = append(out, "  "+line+" → unset")
	}
	for _, line := range now {
		out = append(out, "  "+line+" is new")
	}
	return out
}
