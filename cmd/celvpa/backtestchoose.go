package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/policy"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/document"
)

// chooser chooses a policy for each class of workloads.
type chooser struct {
	text, least, train, class, write string
	condition                        *backtest.Condition // nil: nothing is to be chosen
	share                            float64             // of the history that is the first part; 0: it is a time
	length                           time.Duration
}

func (c *chooser) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.text, "choose", "", "condition in CEL, such as 'ooms <= upstream.ooms': for each class, choose of the policies that satisfy it the one with the least --least. Figures: "+strings.Join(backtest.FigureNames(), ", "))
	f.StringVar(&c.least, "least", "footprint", "figure that --choose makes as small as it can")
	f.StringVar(&c.class, "class", "all", "classes of workloads for --choose: all in one, or by namespace, kind, or label:KEY of the VPA")
	f.StringVar(&c.train, "train", "70%", "first part of the history, by which --choose chooses, as a share or a duration")
	f.StringVar(&c.write, "write", "", "file for the RuleOverlays of --choose; empty = they are printed")
	completes(cmd, "least", func(string) []string { return backtest.FigureNames() })
	completes(cmd, "class", func(string) []string { return []string{"all", "namespace", "kind", labelClass} })
}

// labelClass begins a class by label.
const labelClass = "label:"

// check compiles the condition, and refuses flags that cannot work.
func (c *chooser) check(cmd *cobra.Command, o *backtestOptions) (err error) {
	if !cmd.Flags().Changed("choose") {
		for _, name := range []string{"least", "class", "train", "write"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is for --choose: say which policies will do, such as --choose 'ooms <= upstream.ooms'", name)
			}
		}
		return nil
	}
	key, byLabel := strings.CutPrefix(c.class, labelClass)
	switch {
	case len(o.sweeps) == 0 && len(o.rules.more) == 0:
		return errors.New("--choose has nothing to choose from: add --sweep, or leave out --pipelines")
	case o.selector != nil:
		return errors.New("--choose chooses for all VerticalPodAutoscalers of a class: leave out -l, or make classes of a label with --class label:KEY")
	case o.form == "csv" || o.form == "html":
		return errors.New("--choose is for -o table, wide, json and yaml")
	case byLabel && key == "" || !byLabel && !slices.Contains([]string{"all", "namespace", "kind"}, c.class):
		return fmt.Errorf("--class is %q; it is all, namespace, kind or label:KEY", c.class)
	}
	if c.share, c.length, err = parsePart(c.train); err != nil {
		return err
	}
	if err := backtest.CheckFigure(c.least); err != nil {
		return fmt.Errorf("--least: %w", err)
	}
	if c.condition, err = backtest.NewCondition(c.text, c.least); err != nil {
		return fmt.Errorf("--choose: %w", err)
	}
	return nil
}

// parsePart reads a part of a history, a share or a duration.
func parsePart(text string) (share float64, length time.Duration, err error) {
	if number, percent := strings.CutSuffix(text, "%"); percent {
		if share, err = strconv.ParseFloat(number, 64); err == nil && share > 0 && share < 100 {
			return share / 100, 0, nil
		}
	} else if length, err = time.ParseDuration(text); err == nil && length > 0 {
		return 0, length, nil
	}
	return 0, 0, fmt.Errorf("--train is %q; it is a share of the history, such as 70%%, or a duration, such as 120h", text)
}

// classOf names the class of a VPA. One that pins a pipeline has been decided about, and is in none.
func (c *chooser) classOf(v *vpav1.VerticalPodAutoscaler) string {
	key, byLabel := strings.CutPrefix(c.class, labelClass)
	value, has := v.Labels[key]
	switch {
	case v.Annotations[policy.AnnotationPipeline] != "":
		return ""
	case byLabel && !has:
		return unlabeled
	case byLabel:
		return value
	case c.class == "namespace":
		return v.Namespace
	case c.class == "all":
		return c.class
	case v.Spec.TargetRef == nil:
		return ""
	}
	return v.Spec.TargetRef.Kind
}

// unlabeled is the class of the VPAs without the label. No label has such a value.
const unlabeled = "-"

// match selects the VPAs of a class.
func (c *chooser) match(class string) *rulesv1alpha1.RuleOverlayMatch {
	key, byLabel := strings.CutPrefix(c.class, labelClass)
	switch {
	case byLabel && class == unlabeled:
		return &rulesv1alpha1.RuleOverlayMatch{VPASelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}}}
	case byLabel:
		return &rulesv1alpha1.RuleOverlayMatch{VPASelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: class}}}
	case c.class == "namespace":
		return &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{class}}
	case c.class == "kind":
		return &rulesv1alpha1.RuleOverlayMatch{Kinds: []string{class}}
	}
	return nil
}

// prepare limits a replay to the first part of the history, and asks for figures by class.
func (c *chooser) prepare(settings *backtest.Options, spans []history.Span, rules *tried) (err error) {
	if c.condition == nil {
		return nil
	}
	settings.Class = c.classOf
	if settings.Until, err = backtest.Split(spans, c.share, c.length, backtest.HalfLife(rules.upstream)); err != nil {
		return fmt.Errorf("--train %s: %w", c.train, err)
	}
	return nil
}

// kept are the overlays of the manifests but those of an earlier choice, which the new ones replace.
func (c *chooser) kept(overlays []rulesv1alpha1.RuleOverlay) []rulesv1alpha1.RuleOverlay {
	if c.condition == nil {
		return overlays
	}
	return slices.DeleteFunc(overlays, func(o rulesv1alpha1.RuleOverlay) bool {
		return o.Name == backtest.Chosen || strings.HasPrefix(o.Name, backtest.Chosen+"-")
	})
}

// choose chooses by a report on the first part, and replays both parts with what it chose.
func (c *chooser) choose(ctx context.Context, report *backtest.Report, rules *tried, overlays []rulesv1alpha1.RuleOverlay, settings backtest.Options,
	run func(context.Context, []backtest.Candidate, backtest.Options) (*backtest.Report, error),
) error {
	var names []string
	for _, of := range rules.named {
		if !of.folder && of.enforces == nil { // no overlay says what these do
			names = append(names, of.name)
		}
	}
	classes, err := c.condition.Choose(report, names)
	if err != nil {
		return fmt.Errorf("--choose: %w", err)
	}
	if len(classes) == 0 {
		return errors.New("--choose: no workload with usage in the first part has a VPA that pins no pipeline: nothing was chosen")
	}
	choice := &backtest.Choice{Condition: c.condition.Text, Least: c.condition.Least, Split: report.Window.To, From: report.Window.From, Classes: classes}
	made := c.carryOut(choice, rules, overlays)
	book, err := policy.WithOverlays(rules.named[0].book, append(slices.Clone(overlays), made.enforced()...))
	if err != nil {
		return fmt.Errorf("--choose: %w", err)
	}
	candidates := []backtest.Candidate{rules.reference(), {Name: backtest.Chosen, Book: book}}
	settings.Points = 0
	first, err := run(ctx, candidates, settings)
	if err != nil {
		return err
	}
	settings.Since, settings.Until = settings.Until, time.Time{}
	rest, err := run(ctx, candidates, settings)
	if err != nil {
		return err
	}
	if err := c.condition.Compare(choice, first, rest); err != nil {
		return fmt.Errorf("--choose: %w", err)
	}
	choice.Apply, err = made.text(choice)
	report.Choice = choice
	return err
}

// orders are overlays in mode Audit, to apply to a cluster.
type orders []rulesv1alpha1.RuleOverlay

// carryOut turns policies of classes into overlays. They come below those that there are, as in the replay.
func (c *chooser) carryOut(choice *backtest.Choice, rules *tried, overlays []rulesv1alpha1.RuleOverlay) (out orders) {
	library, priority := rules.named[0].rules.Library, 0
	for _, o := range overlays {
		priority = min(priority, int(o.Spec.Priority)-1)
	}
	for _, o := range library.Overlays {
		priority = min(priority, o.PriorityOf()-1)
	}
	for _, class := range choice.Classes {
		chosen := &rules.named[slices.IndexFunc(rules.named, func(of namedRules) bool { return of.name == class.Policy })]
		if chosen.pipeline == "" && len(chosen.params) == 0 {
			continue
		}
		o := rulesv1alpha1.RuleOverlay{}
		o.Name = out.name(class.Class)
		o.Spec = rulesv1alpha1.RuleOverlaySpec{Mode: document.ModeAudit, Priority: int32(priority), Match: c.match(class.Class)}
		if chosen.pipeline != "" {
			o.Spec.Change = []rulesv1alpha1.Change{{Use: chosen.pipeline}}
		} else if len(library.Pipelines) > 1 {
			o.Spec.Pipeline = chosen.rules.PipelineOf().Name.Value
		}
		params := map[string]apiextensionsv1.JSON{}
		for key, value := range chosen.params {
			raw := []byte(value)
			if !json.Valid(raw) {
				raw, _ = json.Marshal(value) // a string always is JSON
			}
			params[key] = apiextensionsv1.JSON{Raw: raw}
		}
		if len(params) > 0 {
			o.Spec.Change = append(o.Spec.Change, rulesv1alpha1.Change{Params: params})
		}
		out = append(out, o)
	}
	return out
}

var noName = regexp.MustCompile(`[^a-z0-9]+`)

// name is a new name for the overlay of a class.
func (o orders) name(class string) string {
	name := backtest.Chosen
	if class != "all" {
		name += "-" + strings.Trim(noName.ReplaceAllString(strings.ToLower(class), "-"), "-")
	}
	name = strings.TrimRight(name[:min(len(name), 60)], "-")
	if slices.ContainsFunc(o, func(other rulesv1alpha1.RuleOverlay) bool { return other.Name == name }) {
		name += "-" + strconv.Itoa(len(o)+1)
	}
	return name
}

// enforced are the overlays as they are once they are in force.
func (o orders) enforced() []rulesv1alpha1.RuleOverlay {
	out := slices.Clone(o)
	for i := range out {
		out[i].Spec.Mode = document.ModeEnforce
	}
	return out
}

// text is a file for kubectl apply.
func (o orders) text(choice *backtest.Choice) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "# Chosen by celvpa backtest, from %s to %s:\n# the least %s with %s.\n", choice.From.Format(time.RFC3339), choice.Split.Format(time.RFC3339), choice.Least, oneLine(choice.Condition))
	if len(o) == 0 {
		fmt.Fprintln(&out, "# There is nothing to apply: every class keeps its policy.")
	}
	var uses []string
	for _, overlay := range o {
		if use := overlay.Spec.Change[0].Use; use != "" && !slices.Contains(uses, use) {
			uses = append(uses, use)
		}
	}
	if len(uses) > 0 {
		fmt.Fprintf(&out, "# The components have to run with --pipelines %s.\n", strings.Join(uses, ","))
	}
	if len(o) > 0 {
		fmt.Fprintln(&out, "# Mode Audit only reports; set mode Enforce to apply an overlay.")
	}
	for i := range o {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(map[string]any{"apiVersion": rulesv1alpha1.GroupVersion.String(), "kind": document.KindOverlay,
			"metadata": map[string]string{"name": o[i].Name}, "spec": o[i].Spec})
		if err != nil {
			return "", err
		}
		out.Write(text)
	}
	return out.String(), nil
}

// end writes the file. The answer is no if a class keeps its policy because none satisfies the condition.
func (c *chooser) end(choice *backtest.Choice) error {
	if choice == nil {
		return nil
	}
	if c.write != "" {
		if err := os.WriteFile(c.write, []byte(choice.Apply), 0o644); err != nil {
			return fmt.Errorf("--write: %w", err)
		}
	}
	if slices.ContainsFunc(choice.Classes, func(of backtest.ClassChoice) bool { return of.Nearest != "" }) {
		return errNo
	}
	return nil
}

// printChoice prints what was chosen, what it did in both parts, and what to apply.
func (c *chooser) printChoice(p *page, choice *backtest.Choice, wide bool) {
	if choice == nil {
		return
	}
	p.printf("\n")
	p.wrapped("", fmt.Sprintf("Chosen by the history up to %s: the least %s with %s. The rest of the history, %s, tests the choice.",
		choice.Split.Format(time.RFC3339), choice.Least, oneLine(choice.Condition), lengthText(int64(choice.To.Sub(choice.Split)/time.Second))))
	for _, of := range choice.Classes {
		if of.Nearest != "" {
			p.wrapped("", fmt.Sprintf("Class %s keeps %s, because no policy satisfies the condition. %s comes closest, but fails %s.", of.Class, of.Policy, of.Nearest, strings.Join(of.Unmet, " and ")))
		}
		if len(of.MissedLater) > 0 {
			p.wrapped("", fmt.Sprintf("Class %s: in the rest, %s fails %s.", of.Class, of.Policy, strings.Join(of.MissedLater, " and ")))
		}
	}
	p.printf("\n")
	p.header(append([]string{"CLASS", "PART", "POLICY"}, measureHead(wide)...)...)
	rows := func(class, policy string, parts *backtest.Parts) {
		for _, part := range []struct {
			name     string
			length   time.Duration
			compared *backtest.Compared
		}{{"first", choice.Split.Sub(choice.From), &parts.First}, {"rest", choice.To.Sub(choice.Split), &parts.Rest}} {
			p.row(append([]any{class, part.name, backtest.Upstream}, measureCells(&part.compared.Upstream, part.length.Hours(), wide)...)...)
			p.row(append([]any{class, part.name, policy}, measureCells(&part.compared.Chosen, part.length.Hours(), wide)...)...)
		}
	}
	for i := range choice.Classes {
		rows(choice.Classes[i].Class, choice.Classes[i].Policy, &choice.Classes[i].Parts)
	}
	if len(choice.Classes) > 1 {
		rows("all", backtest.Chosen, &choice.All)
	}
	if c.write != "" {
		p.printf("\nThe RuleOverlays to apply are in %s.\n", c.write)
		return
	}
	p.printf("\nTo apply:\n%s", choice.Apply)
}
