package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
)

func diffCommand(o *ruleOptions) *cobra.Command {
	var vpaFile string
	var answers bool
	var tests []string
	cmd := &cobra.Command{
		Use: "diff A B", Short: "Tell in words what changes from one set of rules to another",
		Long: "A and B are folders that are laid over the shipped rules, or the word shipped.\n" +
			"With --vpa it tells what changes for those objects, and what overlays in mode Audit or Warn would change.\n" +
			"With --answers or --tests it runs test tables on both and tells which answers change.",
		Example: "  celvpa rules diff shipped my-rules\n  celvpa rules diff shipped my-rules --vpa web-vpa.yaml\n  celvpa rules diff shipped my-rules --tests my-cases.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := o.openNamed(args[0])
			if err != nil {
				return err
			}
			b, err := o.openNamed(args[1])
			if err != nil {
				return err
			}
			d := &ruleDiff{out: cmd.OutOrStdout()}
			if vpaFile != "" {
				vpas, err := readVPAs(vpaFile, cmd.InOrStdin())
				if err != nil {
					return err
				}
				return d.objects(a.book, b.book, vpas)
			}
			d.books(a.book, b.book)
			if !answers && len(tests) == 0 {
				return nil
			}
			tables, err := testTables(b.Library, tests)
			if err != nil {
				return err
			}
			d.answers(a, b, tables)
			return nil
		},
	}
	cmd.Flags().BoolVar(&answers, "answers", false, "run the tables that ship with celvpa and those of B on both, and tell which answers change")
	cmd.Flags().StringSliceVar(&tests, "tests", nil, "files or folders with test tables to run on both instead")
	cmd.Flags().StringVar(&vpaFile, "vpa", "", "file with VerticalPodAutoscalers to compare the rules for; - = standard input")
	cmd.MarkFlagsMutuallyExclusive("vpa", "answers")
	cmd.MarkFlagsMutuallyExclusive("vpa", "tests")
	return cmd
}

func renderCommand(o *ruleOptions) *cobra.Command {
	var vpaFile string
	cmd := &cobra.Command{
		Use: "render", Short: "Print the rules in force as plain YAML, overlays worked in", Args: cobra.NoArgs,
		Long:    "Without --vpa these are the rules for objects that pin no pipeline and match no overlay.",
		Example: "  celvpa rules render --rules-dir my-rules --vpa web-vpa.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			book, err := o.open()
			if err != nil {
				return err
			}
			if vpaFile == "" {
				return book.Default().Render(cmd.OutOrStdout())
			}
			vpas, err := readVPAs(vpaFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return renderFor(cmd.OutOrStdout(), book, vpas)
		},
	}
	cmd.Flags().StringVar(&vpaFile, "vpa", "", "file with VerticalPodAutoscalers to print the rules for; - = standard input")
	return cmd
}

// renderFor prints each distinct set of rules once, headed by the objects that get it.
func renderFor(out io.Writer, book *engine.Rulebook, vpas []*vpav1.VerticalPodAutoscaler) error {
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
		if err := plan.Render(out); err != nil {
			return err
		}
	}
	return faults.Join(errs...)
}

func objectName(v *vpav1.VerticalPodAutoscaler) string {
	namespace := v.Namespace
	if namespace == "" {
		namespace = "default"
	}
	return "VerticalPodAutoscaler " + namespace + "/" + v.Name
}

// readVPAs reads the VerticalPodAutoscalers of a manifest; other kinds are left out.
func readVPAs(file string, stdin io.Reader) ([]*vpav1.VerticalPodAutoscaler, error) {
	data, err := os.ReadFile(file)
	if file == "-" {
		data, err = io.ReadAll(stdin)
	}
	if err != nil {
		return nil, err
	}
	var out []*vpav1.VerticalPodAutoscaler
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var doc unstructured.Unstructured
		err := reader.Decode(&doc.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := addVPAs(&out, doc); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no VerticalPodAutoscaler", file)
	}
	return out, nil
}

// addVPAs adds a document that is a VerticalPodAutoscaler, or those in a List, which is what kubectl get prints.
func addVPAs(to *[]*vpav1.VerticalPodAutoscaler, doc unstructured.Unstructured) error {
	if doc.Object != nil && doc.IsList() {
		return doc.EachListItem(func(item runtime.Object) error {
			return addVPAs(to, *item.(*unstructured.Unstructured))
		})
	}
	if doc.GetKind() != "VerticalPodAutoscaler" {
		return nil
	}
	text, err := doc.MarshalJSON()
	if err != nil {
		return fmt.Errorf("VerticalPodAutoscaler %s: %w", doc.GetName(), err)
	}
	v, err := vpav1.Decode(text)
	if err != nil {
		return fmt.Errorf("VerticalPodAutoscaler %s: %w", doc.GetName(), err)
	}
	if v.Namespace == "" {
		v.Namespace = "default"
	}
	*to = append(*to, v)
	return nil
}

// ruleDiff prints what differs between two rulebooks.
type ruleDiff struct {
	out io.Writer
}

func (d *ruleDiff) block(title string, lines []string) {
	if len(lines) == 0 {
		fmt.Fprintf(d.out, "%s: nothing changes\n", title)
		return
	}
	fmt.Fprintf(d.out, "%s:\n  %s\n", title, strings.Join(lines, "\n  "))
}

// books compares all pipelines and overlays.
func (d *ruleDiff) books(a, b *engine.Rulebook) {
	before, after := plansByID(a), plansByID(b)
	for _, plan := range a.Plans() {
		if after[plan.Pipeline()] == nil {
			fmt.Fprintf(d.out, "pipeline %s is gone\n", plan.Pipeline())
		}
	}
	for _, plan := range b.Plans() {
		if old := before[plan.Pipeline()]; old != nil {
			d.block("pipeline "+plan.Pipeline(), engine.Diff(old, plan))
			continue
		}
		d.block("pipeline "+plan.Pipeline()+" is new, against "+a.Default().Pipeline(), engine.Diff(a.Default(), plan))
	}
	old := map[string]engine.OverlayEffect{}
	for _, e := range a.Effects() {
		old[e.Pipeline+" "+e.Overlay.Name.Value] = e
	}
	for _, e := range b.Effects() {
		title := fmt.Sprintf("overlay %s (%s, for %s) on %s", e.Overlay.Name.Value, e.Overlay.ModeOf(), e.Overlay.Match.String(), e.Pipeline)
		key := e.Pipeline + " " + e.Overlay.Name.Value
		was, had := old[key]
		delete(old, key)
		switch {
		case !had:
			d.block(title+" is new", e.Changes)
		case !was.Same(e):
			d.block(title+" is changed", e.Changes)
		}
	}
	for _, e := range a.Effects() {
		if _, gone := old[e.Pipeline+" "+e.Overlay.Name.Value]; gone {
			fmt.Fprintf(d.out, "overlay %s on %s is gone\n", e.Overlay.Name.Value, e.Pipeline)
		}
	}
}

func plansByID(b *engine.Rulebook) map[string]*engine.Plan {
	out := map[string]*engine.Plan{}
	for _, p := range b.Plans() {
		out[p.Pipeline()] = p
	}
	return out
}

// objects compares what each VPA gets.
func (d *ruleDiff) objects(a, b *engine.Rulebook, vpas []*vpav1.VerticalPodAutoscaler) error {
	var errs []error
	for _, v := range vpas {
		before, after := policy.For(a, v), policy.For(b, v)
		if after.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", objectName(v), after.Err))
			continue
		}
		if before.Err != nil {
			fmt.Fprintf(d.out, "%s: decided by %s; before: %v\n", objectName(v), after.Plan.Pipeline(), before.Err)
		} else {
			d.block(objectName(v), engine.Diff(before.Plan, after.Plan))
		}
		for _, shadow := range after.Shadows {
			d.block(fmt.Sprintf("%s, overlay %s in mode %s would change", objectName(v), shadow.Overlay, shadow.Mode), engine.Diff(after.Plan, shadow.Plan))
		}
	}
	return faults.Join(errs...)
}

// answers runs tables on both sets of rules, and on the second once more with each of its overlays.
func (d *ruleDiff) answers(a, b *ruleFiles, tables []*engine.RuleTest) {
	after := b.Test(tables, policy.TestOptions{})
	d.block("answers of the test tables", changedAnswers(a.Test(tables, policy.TestOptions{}), after))
	for _, o := range b.book.Overlays() {
		with := b.Test(tables, policy.TestOptions{Overlays: []string{o.Name.Value}})
		d.block("answers with overlay "+o.Name.Value, changedAnswers(after, with))
	}
}

// changedAnswers names each row that comes out otherwise, with the lines that differ.
func changedAnswers(before, after []engine.RowResult) []string {
	var out []string
	for i, row := range after {
		was := before[i]
		if len(row.Problems) > 0 || len(was.Problems) > 0 {
			if len(was.Problems) == 0 {
				out = append(out, fmt.Sprintf("%s/%s (%s) no longer runs: %s", row.Table, row.Row, row.At, row.Problems[0].Message))
			}
			continue
		}
		lines := changedLines(was.Answer, row.Answer)
		if len(lines) > 0 {
			out = append(out, fmt.Sprintf("%s/%s (%s)", row.Table, row.Row, row.At))
			out = append(out, lines...)
		}
	}
	return out
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
