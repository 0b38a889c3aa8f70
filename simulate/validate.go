package simulate

import (
	"slices"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/vpareview"
	"k8s.io/apimachinery/pkg/util/json" // keeps integers, as schemas expect
)

// Validation is how the admission controller and the API server judge VerticalPodAutoscalers.
type Validation struct {
	Items []Judgement `json:"items"`
}

// Judgement is about one VerticalPodAutoscaler.
type Judgement struct {
	Object   string            `json:"object"` // namespace/name
	Source   string            `json:"source"` // file:line
	Allowed  bool              `json:"allowed"`
	Causes   []vpareview.Cause `json:"causes"`
	Warnings []vpareview.Cause `json:"warnings"`

	Document manifests.Document `json:"-"`
}

// Refused reports whether any object would be refused.
func (v *Validation) Refused() bool {
	return slices.ContainsFunc(v.Items, func(judgement Judgement) bool { return !judgement.Allowed })
}

// Validate judges every VerticalPodAutoscaler as new, or as an update of its namesake in old.
func (c *Cluster) Validate(old *manifests.Set) (*Validation, error) {
	v, err := c.validation(old)
	out := &Validation{Items: []Judgement{}}
	for i, d := range v.vpas {
		c.progress("judging VerticalPodAutoscalers", i, len(v.vpas))
		if !c.selection.matches(d.Namespace, d.Labels()) {
			continue
		}
		answer := v.judge(d)
		out.Items = append(out.Items, Judgement{
			Object: d.Key(), Source: d.Source.String(), Allowed: answer.Allowed(),
			Causes: listed(answer.Causes), Warnings: listed(answer.Warnings), Document: d,
		})
	}
	return out, err
}

func listed(causes []vpareview.Cause) []vpareview.Cause {
	return append([]vpareview.Cause{}, causes...)
}

type validation struct {
	book    *compile.Rulebook
	crd     *engine.Plan // with the rules in the CRD
	schema  *schema.Objects
	vpas    []manifests.Document
	old     map[string]manifests.Document // by namespace/name
	beside  map[target.Key]*facts.Beside  // by target, whatever its group
	targets *targets
}

// validation collects what judge needs. The error lists what cannot be used.
func (c *Cluster) validation(old *manifests.Set) (*validation, error) {
	v := &validation{book: c.book, old: map[string]manifests.Document{}, beside: map[target.Key]*facts.Beside{}, targets: c.targets()}
	errs := []error{old.Twice("VerticalPodAutoscaler")}
	must := func(err error) { errs = append(errs, err) }
	var err error
	v.crd, err = c.installed.Everywhere() // RuleOverlays do not change the installed CRD
	must(err)
	v.schema, err = policy.VPASchema()
	must(err)
	v.vpas, err = c.set.VPAs()
	must(err)
	for i := range v.vpas {
		var object map[string]any
		if err := json.Unmarshal(v.vpas[i].JSON, &object); err != nil || len(v.schema.TooLarge(object, nil)) > 0 {
			continue // refused anyway, and parsing its quantities may take forever
		}
		if vpa, err := v.vpas[i].VPA(); err == nil { // otherwise refused anyway, and without a target
			b := v.besideOf(vpa.Namespace, target.Of(&vpa).Kind, target.Of(&vpa).Name)
			b.VPAs = append(b.VPAs, vpa)
		}
	}
	hpas, err := c.set.HPAs()
	must(err)
	for _, hpa := range hpas {
		b := v.besideOf(hpa.Namespace, hpa.Spec.ScaleTargetRef.Kind, hpa.Spec.ScaleTargetRef.Name)
		b.HPAs = append(b.HPAs, hpa)
	}
	before, err := old.VPAs()
	must(err)
	for _, d := range before {
		v.old[d.Key()] = d
	}
	return v, faults.Join(errs...)
}

func (v *validation) besideOf(namespace, kind, name string) *facts.Beside {
	key := target.Key{Namespace: namespace, Kind: kind, Name: name}
	if v.beside[key] == nil {
		v.beside[key] = &facts.Beside{}
	}
	return v.beside[key]
}

// judge returns the findings of the rules and of the schema.
func (v *validation) judge(d manifests.Document) vpareview.Answer {
	object, now := v.decoded(d.JSON)
	old, before := v.decoded(v.old[d.Key()].JSON)
	req := vpareview.Read(now, before, d.Namespace)
	req.VPA.Namespace, req.CRD = d.Namespace, v.crd
	of := target.Of(req.VPA)
	if beside := v.beside[of.Unversioned()]; beside != nil {
		req.Beside = *beside
	}
	req.Beside.Target = v.targets.of(req.VPA)
	chosen := policy.For(v.book, req.VPA)
	answer := vpareview.Review(chosen.Plan, req)
	var shadows []vpareview.Cause
	for _, shadow := range chosen.Shadows {
		shadows = append(shadows, vpareview.ShadowWarnings(shadow, vpareview.Differences(answer, vpareview.Review(shadow.Plan, req)))...)
	}
	answer.Causes = append(vpareview.UnknownPin(chosen.Err, req.VPA.Annotations, before), answer.Causes...)
	answer.AddSchema(v.schema.Check(object, old))
	answer.Warnings = append(answer.Warnings, shadows...)
	return answer
}

// decoded returns an object as written, and as webhooks get it, without nulls and unknown fields.
// If API servers cannot read its metadata, both are as written; the schema refuses it.
func (v *validation) decoded(written []byte) (object map[string]any, handed []byte) {
	if len(written) == 0 {
		return nil, nil
	}
	_ = json.Unmarshal(written, &object) // it was read before
	if now, err := v.schema.Decoded(object); err == nil {
		if text, err := json.Marshal(now); err == nil {
			return object, text
		}
	}
	return object, written
}
