package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

func diffCommand(o *ruleOptions) *cobra.Command {
	var vpaFile string
	cmd := &cobra.Command{
		Use: "diff A B", Short: "Tell in words what changes from one set of rules to another",
		Long: "A and B are folders that are laid over the shipped rules, or the word shipped.\n" +
			"With --vpa it tells what changes for those objects, and what overlays in mode Audit or Warn would change.",
		Example: "  celvpa rules diff shipped my-rules\n  celvpa rules diff shipped my-rules --vpa web-vpa.yaml",
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
				return d.objects(a, b, vpas)
			}
			d.books(a, b)
			return nil
		},
	}
	cmd.Flags().StringVar(&vpaFile, "vpa", "", "file with VerticalPodAutoscalers to compare the rules for; - = standard input")
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
			for _, v := range vpas {
				chosen := policy.For(book, v)
				if chosen.Err != nil {
					return fmt.Errorf("%s: %w", objectName(v), chosen.Err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "# the rules for %s\n", objectName(v))
				if err := chosen.Plan.Render(cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&vpaFile, "vpa", "", "file with VerticalPodAutoscalers to print the rules for; - = standard input")
	return cmd
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
		v := &vpav1.VerticalPodAutoscaler{}
		err := reader.Decode(v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if v.Kind == "VerticalPodAutoscaler" {
			if v.Namespace == "" {
				v.Namespace = "default"
			}
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no VerticalPodAutoscaler", file)
	}
	return out, nil
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
	for _, v := range vpas {
		before, after := policy.For(a, v), policy.For(b, v)
		if after.Err != nil {
			return fmt.Errorf("%s: %w", objectName(v), after.Err)
		}
		d.block(objectName(v), engine.Diff(before.Plan, after.Plan))
		for _, shadow := range after.Shadows {
			d.block(fmt.Sprintf("%s, overlay %s in mode %s would change", objectName(v), shadow.Overlay, shadow.Mode), engine.Diff(after.Plan, shadow.Plan))
		}
	}
	return nil
}
