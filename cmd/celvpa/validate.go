package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/json" // whole numbers stay integers, as schemas expect

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// validateOptions hold the flags of celvpa validate.
type validateOptions struct {
	files  []string
	old    []string
	output string
	rules  policyFlags
}

// validateCommand judges VerticalPodAutoscalers in manifests.
func validateCommand() *cobra.Command {
	o := &validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate -f PATH…",
		Short: "Tell which VerticalPodAutoscalers in manifests would be refused, and why",
		Long: `Judges every VerticalPodAutoscaler in manifests as the admission controller would, by the rules, and as the API server
would, by the schema of the CRD. It needs no cluster.

PATH is a file, a folder with *.yaml, *.yml and *.json files at any depth, or - for standard input. Objects without a
namespace are in namespace default. The other objects among the manifests count too: RuleOverlays change the rules, as they
do in a cluster, and VerticalPodAutoscalers and HorizontalPodAutoscalers about the same target are told.

With --old the objects there are what is in the cluster: a VerticalPodAutoscaler of the same namespace and name is judged as
an update of it, which may keep what was accepted before.

What the schema says has rule "schema". Fields that the schema does not know are refused, as kubectl refuses them: an API
server would drop them without a word. The same object may be there several times, for several clusters.

Exit code 0: all would be accepted; 1: one would be refused; 2: a document could not be read, there was no
VerticalPodAutoscaler, or the rules could not be used. What could be read is judged all the same.`,
		Example: `  celvpa validate -f vpa.yaml
  celvpa validate -f deploy/ -f overlays/ -o json
  celvpa validate -f vpa.yaml --feature-gates InPlace=true
  kubectl get vpa -A -o yaml > now.yaml && celvpa validate -f deploy/ --old now.yaml
  kustomize build . | celvpa validate -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("files are named with -f: celvpa validate -f %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runValidate(cmd.OutOrStdout(), cmd.InOrStdin(), o) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with manifests, or - for standard input; can be repeated")
	f.StringArrayVar(&o.old, "old", nil, "file or folder with the objects as they are now; can be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	o.rules.add(cmd)
	return cmd
}

func runValidate(out io.Writer, stdin io.Reader, o *validateOptions) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("--output is %q; use text or json", o.output)
	}
	if len(o.files) == 0 {
		return errors.New("no manifests are named: use -f with a file, a folder, or - for standard input")
	}
	if slices.Contains(o.files, manifests.Stdin) && slices.Contains(o.old, manifests.Stdin) {
		return errors.New("-f and --old cannot both be standard input")
	}
	book, err := o.rules.open()
	if err != nil {
		return err
	}
	set, unread := manifests.Read(o.files, stdin)
	old, oldUnread := manifests.Read(o.old, stdin)
	v, unusable := newValidation(book, set, old)
	report := v.report()
	write := report.writeText
	if o.output == "json" {
		write = report.writeJSON
	}
	if err := write(out); err != nil {
		return err
	}
	errs := faults.Join(unread, oldUnread, unusable)
	switch {
	case errs != nil:
		return errs
	case len(report.Items) == 0:
		return fmt.Errorf("there is no VerticalPodAutoscaler in %s: nothing was judged", strings.Join(o.files, ", "))
	case report.refused():
		return errNo
	}
	return nil
}

// validation is what objects are judged by.
type validation struct {
	book   *engine.Rulebook
	crd    *engine.Plan // with the rules that are in the CRD
	schema *schema.Objects
	vpas   []manifests.Document
	old    map[string]manifests.Document // by namespace/name
	beside map[string]*vpareview.Beside  // by namespace
}

// newValidation collects what matters. The error tells what cannot be used; all else is.
func newValidation(book *engine.Rulebook, set, old *manifests.Set) (*validation, error) {
	v := &validation{old: map[string]manifests.Document{}, beside: map[string]*vpareview.Beside{}}
	var errs []error
	must := func(err error) { errs = append(errs, err) }

	overlays, err := set.RuleOverlays()
	must(err)
	must(set.Twice("RuleOverlay"))
	must(old.Twice("VerticalPodAutoscaler"))
	v.book, err = policy.WithOverlays(book, overlays)
	must(err)
	v.crd, err = book.Everywhere() // RuleOverlay objects do not change the CRD that is installed
	must(err)
	v.schema, err = policy.VPASchema()
	must(err)
	v.vpas, err = set.VPAs()
	must(err)
	for i := range v.vpas {
		var object map[string]any
		if err := json.Unmarshal(v.vpas[i].JSON, &object); err != nil || len(v.schema.TooLarge(object, nil)) > 0 {
			continue // it is refused itself, and reading its quantities may take for ever
		}
		if one, err := v.vpas[i].VPA(); err == nil { // else it is refused itself, and has no target
			b := v.besideIn(one.Namespace)
			b.VPAs = append(b.VPAs, one)
		}
	}
	hpas, err := set.HPAs()
	must(err)
	for _, one := range hpas {
		b := v.besideIn(one.Namespace)
		b.HPAs = append(b.HPAs, one)
	}
	before, err := old.VPAs()
	must(err)
	for _, d := range before {
		v.old[d.Key()] = d
	}
	return v, faults.Join(errs...)
}

func (v *validation) besideIn(namespace string) *vpareview.Beside {
	if v.beside[namespace] == nil {
		v.beside[namespace] = &vpareview.Beside{VPAs: []vpav1.VerticalPodAutoscaler{}, HPAs: []autoscalingv2.HorizontalPodAutoscaler{}}
	}
	return v.beside[namespace]
}

func (v *validation) report() *validateReport {
	report := &validateReport{Items: []validateItem{}}
	for _, d := range v.vpas {
		report.add(d, v.judge(d))
	}
	return report
}

// judge answers about one object: what the rules say, and what the schema says beside them.
func (v *validation) judge(d manifests.Document) vpareview.Answer {
	object, now := v.decoded(d.JSON)
	old, before := v.decoded(v.old[d.Key()].JSON)
	req := vpareview.Request{Object: now, OldObject: before, Namespace: d.Namespace, Beside: *v.besideIn(d.Namespace), CRD: v.crd}
	meta, annotations := vpareview.Metadata(req.Object), vpareview.Metadata(req.OldObject).Annotations
	meta.Namespace = d.Namespace

	chosen := policy.For(v.book, &vpav1.VerticalPodAutoscaler{ObjectMeta: meta})
	answer := vpareview.Review(chosen.Plan, req)
	var shadows []vpareview.Cause
	for _, shadow := range chosen.Shadows {
		shadows = append(shadows, vpareview.ShadowWarnings(shadow, vpareview.Differences(answer, vpareview.Review(shadow.Plan, req)))...)
	}
	answer.Causes = append(vpareview.UnknownPin(chosen.Err, meta.Annotations, annotations), answer.Causes...)
	answer.AddSchema(v.schema.Check(object, old))
	answer.Warnings = append(answer.Warnings, shadows...)
	return answer
}

// decoded is an object as it is written, and as API servers hand it to a webhook: without nulls and unknown fields. One
// whose metadata they cannot read is handed on as it is; the schema tells.
func (v *validation) decoded(written []byte) (object map[string]any, handed []byte) {
	if len(written) == 0 {
		return nil, nil
	}
	_ = json.Unmarshal(written, &object) // it has been read before
	if now, err := v.schema.Decoded(object); err == nil {
		if text, err := json.Marshal(now); err == nil {
			return object, text
		}
	}
	return object, written
}
