package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/spf13/cobra"
)

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
			vpas, unread := readVPAs(cmd, vpaFile, book)
			return faults.Join(unread, renderFor(cmd.OutOrStdout(), book, vpas))
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

// readVPAs reads the VerticalPodAutoscalers of a manifest; other kinds are left out. The error says what cannot be used; the rest is
// returned even then.
func readVPAs(cmd *cobra.Command, file string, book *compile.Rulebook) ([]*vpav1.VerticalPodAutoscaler, error) {
	set, unread := manifests.Read([]string{file}, cmd.InOrStdin())
	cluster, unloaded := simulate.Load(set, book, simulate.At(time.Now()))
	vpas, unusable := cluster.VPAs()
	printNotes(cmd, cluster.Notes())
	err := faults.Join(unread, unloaded, unusable)
	if err == nil && len(vpas) == 0 {
		err = fmt.Errorf("%s has no VerticalPodAutoscaler", file)
	}
	return vpas, err
}
