// Package policy loads rules from the program, folders and RuleOverlay objects, and keeps the
// compiled plans that all components run. It connects the engine, the facts and the shipped rules.
package policy

import (
	"fmt"
	"sync"

	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/rules"
)

// Options are the sources of the rules and their settings.
type Options struct {
	// Path is a folder of rule files, or one of them, to be laid over the shipped ones; empty =
	// none.
	Path string
	// Pipeline is name or name@version; empty = rules.DefaultPipeline.
	Pipeline string
	// Pipelines are shipped pipelines, name or name@version, that VPAs may pin besides.
	Pipelines []string
	// Gates switches feature gates.
	Gates map[string]bool
	// Params overrides rule parameters, keyed "ruleset.param".
	Params map[string]string
	// Points are those that a process runs; none = all. Files are neither compiled nor tested for
	// other points: the processes that run these do so, and `celvpa rules lint` and `celvpa test`
	// do it for all.
	Points []string
	// Cache keeps compiled rule sets, for callers that compile the same rules many times; nil =
	// none.
	Cache *compile.Cache
	// Labels of namespaces and workloads, by which overlays select; see LabelsOf.
	Labels compile.Labels
}

// Registry is what the engine knows about vertical pod autoscaling. It is made once: the points
// that it describes are shared by all plans.
var Registry = sync.OnceValues(newRegistry)

func newRegistry() (*registry.Registry, error) {
	objects, err := VPASchema()
	if err != nil {
		return nil, err
	}
	pods, err := schema.Pods()
	if err != nil {
		return nil, err
	}
	return facts.NewRegistry(objects, pods), nil
}

// VPASchema is the schema of VerticalPodAutoscalers that comes with this program.
var VPASchema = sync.OnceValues(newVPASchema)

func newVPASchema() (*schema.Objects, error) {
	definition, err := crds.Definition(crds.VPA)
	if err != nil {
		return nil, err
	}
	return schema.New(definition, vpav1.GroupVersion.Version)
}

// AnnotationPipeline on a VPA pins the pipeline that decides for it, as name@version.
const AnnotationPipeline = "rules.celvpa.dev/pipeline"

// loader reads rule files as celvpa writes them.
var loader = document.Loader{SelectorKey: "vpaSelector"}

// shipped is the layer of rule files that are part of the program.
var shipped = document.Layer{FS: rules.FS, Dir: rules.Dir}

// Shipped are the rules that are part of the program. They are read once, and shared: nobody may
// change them.
var Shipped = sync.OnceValues(func() (*document.Library, error) { return loader.Load(shipped) })

// shippedPipelines are the shipped rules with all shipped pipelines.
var shippedPipelines = sync.OnceValues(func() (*document.Library, error) {
	base, err := Shipped()
	if err != nil {
		return nil, err
	}
	over := loader
	over.Base = base
	return over.Load(document.Layer{FS: rules.Pipelines, Dir: rules.Dir})
})

// shippedFor are the shipped rules, with further pipelines if one of them is asked for: an overlay is compiled for each pipeline, which
// takes memory.
func shippedFor(o Options) (*document.Library, error) {
	library, err := Shipped()
	if err != nil || len(o.Pipelines) == 0 && o.Pipeline == "" {
		return library, err
	}
	all, err := shippedPipelines()
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{o.Pipeline}, o.Pipelines...) {
		if p, err := all.Pipeline(name); err == nil && library.Pipelines[p.ID()] == nil {
			return all, nil
		}
	}
	return library, nil
}

// own reads the rule files of a path; nil for none. atOnce means that all of them change at once.
func own(path string) (layer *document.Layer, atOnce bool, err error) {
	if path == "" {
		return nil, true, nil
	}
	read, atOnce, err := layerAt(path)
	if err != nil {
		return nil, false, err
	}
	if len(read.Files) == 0 { // a mistyped path must not mean no rules
		return nil, false, fmt.Errorf("%s holds no rule files: they are called *.yaml or *.yml", path)
	}
	return &read, atOnce, nil
}

// For chooses the plans of a VPA: the pipeline that it pins, with the overlays that match it.
func For(book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler) compile.Selection {
	of := document.Subject{Namespace: v.Namespace, Labels: v.Labels, Pipeline: v.Annotations[AnnotationPipeline]}
	if ref := v.Spec.TargetRef; ref != nil {
		of.Kind, of.APIVersion, of.Name = ref.Kind, ref.APIVersion, ref.Name
	}
	return book.For(of)
}

// LabelsOf are the labels of objects. They are asked for objects when an overlay needs them.
func LabelsOf(objects func() facts.Objects) compile.Labels {
	return compile.Labels{
		Namespace: func(name string) (map[string]string, bool) { return objects().NamespaceLabels(name) },
		Workload: func(of document.Subject) (map[string]string, bool) {
			workload := objects().Workload(target.Key{Namespace: of.Namespace, APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name})
			if workload == nil {
				return nil, false
			}
			return workload.Labels, true
		},
	}
}

// DescribeRules describes the rules that were chosen for a VPA.
func DescribeRules(s compile.Selection) answers.Rules {
	var out answers.Rules
	if s.Plan != nil { // it is nil if choosing panicked
		out = answers.Rules{Pipeline: s.Plan.Pipeline(), Digest: s.Plan.Digest(), Overlays: s.Plan.Overlays()}
	}
	for _, shadow := range s.Shadows {
		out.Audited = append(out.Audited, shadow.Overlay)
	}
	for _, err := range s.Unevaluated {
		out.Unevaluated = append(out.Unevaluated, err.Error())
	}
	if s.Unknown != nil {
		out.Unevaluated = append(out.Unevaluated, s.Unknown.Error())
	}
	if s.Err != nil {
		out.Fault = s.Err.Error()
	}
	return out
}

// WithOverlays applies RuleOverlay objects to the rules as a component does at its start. An
// invalid one is left out, and the error names it and its fault.
func WithOverlays(book *compile.Rulebook, objects []rulesv1alpha1.RuleOverlay) (*compile.Rulebook, error) {
	fresh := Source{compiling: compiling{clock: clock.RealClock{}}} // nothing is in force yet
	book, results, _ := fresh.overlaid(book, objects)
	var errs []error
	for _, o := range objects {
		if err := results[o.Name].Err; err != nil {
			errs = append(errs, fmt.Errorf("RuleOverlay %s cannot be used: %w", o.Name, err))
		}
	}
	return book, faults.Join(errs...)
}
