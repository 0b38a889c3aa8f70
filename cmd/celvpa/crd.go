package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
)

// crdOptions hold the flags of celvpa crd.
type crdOptions struct {
	out   string
	vap   bool
	rules ruleOptions
}

func crdCommand(compile compileFunc) *cobra.Command {
	o := &crdOptions{rules: ruleOptions{compile: compile}}
	cmd := &cobra.Command{
		Use:   "crd",
		Short: "Print or write the CustomResourceDefinitions, with the validation rules in them",
		Long: `Prints the CustomResourceDefinitions. The one of VerticalPodAutoscalers holds the validation rules of the pipeline that
are enforced in the schema, so that the API server refuses what they refuse even while no webhook runs. Overlays count that
are enforced for all objects.

With --vap, prints a ValidatingAdmissionPolicy instead, which makes the API server enforce the other rules too, feature
gates included, as far as it can: what needs exact arithmetic or other objects only the webhook judges. Give it the
--feature-gates that celvpa runs with.`,
		Example: `  celvpa crd | kubectl apply --server-side -f -
  celvpa crd --rules-dir my-rules --out manifests
  celvpa crd --vap --feature-gates=InPlace=true | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := o.files()
			if err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), files)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "folder to write to; empty prints to standard output")
	cmd.Flags().BoolVar(&o.vap, "vap", false, "a ValidatingAdmissionPolicy for the rules that a schema cannot hold, instead of the CRDs")
	o.rules.add(cmd)
	o.rules.points = []string{facts.VPAValidate}
	return cmd
}

// manifest is a file of objects.
type manifest struct {
	name string
	text []byte
}

func (o *crdOptions) files() ([]manifest, error) {
	book, err := o.rules.open()
	if err != nil {
		return nil, err
	}
	plan, err := book.Everywhere()
	if err != nil {
		return nil, err
	}
	rules := plan.Validations(facts.VPAValidate)
	if o.vap {
		return o.policies(rules)
	}
	all, err := emit.CRDs(rules)
	if err != nil {
		return nil, err
	}
	var out []manifest
	var errs []error
	for _, crd := range all {
		refusals, err := emit.Check(crd, schema.LowestKubernetes)
		if err != nil {
			return nil, err
		}
		for _, r := range refusals {
			errs = append(errs, r)
		}
		text, err := emit.YAML(crd)
		if err != nil {
			return nil, err
		}
		out = append(out, manifest{crd.Spec.Group + "_" + crd.Spec.Names.Plural + ".yaml", append([]byte("---\n"), text...)})
	}
	return out, faults.Join(errs...)
}

func (o *crdOptions) policies(rules []engine.ValidationInfo) ([]manifest, error) {
	given, err := parseGates(o.rules.gates)
	if err != nil {
		return nil, err
	}
	gates := map[string]bool{}
	for name := range facts.Gates {
		gates[name] = false
	}
	maps.Copy(gates, given)
	policies, left, err := emit.Policies(rules, gates, facts.VPAValidateFacts())
	if err != nil {
		return nil, err
	}
	text := []byte("# Left to the webhook, because an API server does not know what these rules read:\n# " + strings.Join(left, "\n# ") + "\n")
	for _, p := range policies {
		for _, object := range []runtime.Object{p.Policy, p.Binding} {
			document, err := emit.YAML(object)
			if err != nil {
				return nil, err
			}
			text = append(append(text, "---\n"...), document...)
		}
	}
	return []manifest{{"celvpa-validatingadmissionpolicy.yaml", text}}, nil
}

func (o *crdOptions) write(to io.Writer, files []manifest) error {
	for _, f := range files {
		if o.out == "" {
			text, err := visibleYAML(f.text)
			if err == nil {
				_, err = to.Write(text)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(o.out, f.name), f.text, 0o644); err != nil {
			return fmt.Errorf("writing the manifests: %w", err)
		}
	}
	return nil
}
