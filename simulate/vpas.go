package simulate

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/parallel"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// writtenVPA is a VerticalPodAutoscaler as written.
type writtenVPA struct {
	*vpav1.VerticalPodAutoscaler
	from     manifests.Place
	unknown  []error          // fields that have no effect
	reviewed vpareview.Answer // by the rules, as a new object
}

// VPAs returns the usable VerticalPodAutoscalers, without duplicates; the error lists the others.
// Notes name fields that have no effect.
func (c *Cluster) VPAs() ([]*vpav1.VerticalPodAutoscaler, error) {
	documents, err := c.set.VPAs()
	objects, broken := policy.VPASchema()
	errs := []error{err, broken}
	if broken != nil {
		return nil, faults.Join(errs...)
	}
	all, unread := make([]writtenVPA, len(documents)), make([]error, len(documents))
	parallel.Each(len(documents), func(i int) { all[i], unread[i] = c.written(&documents[i], objects) })
	var keys []string
	written := map[string][]writtenVPA{}
	for i := range documents {
		d := &documents[i]
		if unread[i] != nil {
			errs = append(errs, unread[i])
			continue
		}
		for _, unknown := range all[i].unknown {
			if !c.Selects(all[i].VerticalPodAutoscaler) {
				break
			}
			c.note("%s: %s: %v; it has no effect", d.Source, d, unknown)
		}
		if written[d.Key()] == nil {
			keys = append(keys, d.Key())
		}
		written[d.Key()] = append(written[d.Key()], all[i])
	}
	var out []*vpav1.VerticalPodAutoscaler
	for _, key := range keys {
		v, err := c.merge(written[key])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if made, ok := c.statuses[key]; ok {
			v.Status = made
		}
		if c.Selects(v.VerticalPodAutoscaler) {
			c.noteGates(v)
		}
		out = append(out, v.VerticalPodAutoscaler)
	}
	return out, faults.Join(errs...)
}

func (c *Cluster) written(d *manifests.Document, objects *schema.Objects) (writtenVPA, error) {
	v, err := readVPA(d, objects)
	if err != nil {
		return writtenVPA{}, err
	}
	return writtenVPA{
		VerticalPodAutoscaler: v, from: d.Source, unknown: vpav1.Unknown(d.JSON),
		reviewed: vpareview.Review(policy.For(c.book, v).Plan, vpareview.Read(d.JSON, nil, d.Namespace)),
	}, nil
}

// readVPA refuses objects larger than any real one: parsing their quantities may take forever.
func readVPA(d *manifests.Document, objects *schema.Objects) (*vpav1.VerticalPodAutoscaler, error) {
	var object map[string]any
	if err := json.Unmarshal(d.JSON, &object); err == nil {
		if large := objects.TooLarge(object, nil); len(large) > 0 {
			return nil, fmt.Errorf("%s: %s cannot be used: %s: %s", d.Source, d, large[0].Field, large[0].Message)
		}
	}
	v, err := d.VPA()
	if err != nil {
		return nil, err
	}
	v.Name, v.APIVersion, v.Kind = d.Name, d.APIVersion, d.Kind
	return &v, nil
}

// merge resolves duplicates, e.g. when `celvpa recommend -o yaml` prints what a folder has too. One
// with a recommendation wins, then the last. Different specs are an error.
func (c *Cluster) merge(same []writtenVPA) (writtenVPA, error) {
	best := same[0]
	differs := ""
	for _, vpa := range same[1:] {
		if !best.sameSpec(vpa) {
			differs += " and " + vpa.from.String()
		}
	}
	if differs != "" {
		return best, fmt.Errorf("VerticalPodAutoscaler %s/%s has different specs at %s%s; keep one of them: none is used", best.Namespace, best.Name, best.from, differs)
	}
	for _, vpa := range same[1:] {
		was, is := best.Status.Recommendation, vpa.Status.Recommendation
		if was != nil && is == nil {
			continue
		}
		if was != nil && !equality.Semantic.DeepEqual(was, is) {
			c.note("%s: VerticalPodAutoscaler %s/%s has another recommendation at %s; the last one counts", vpa.from, vpa.Namespace, vpa.Name, best.from)
		}
		if !best.sameLabels(vpa) { // annotations may pin a pipeline, and overlays match labels
			c.note("%s: VerticalPodAutoscaler %s/%s has other labels or annotations at %s, which do not count", vpa.from, vpa.Namespace, vpa.Name, best.from)
		}
		best = vpa
	}
	return best, nil
}

// sameLabels compares labels and annotations, but for the copy of the whole object that kubectl keeps.
func (v writtenVPA) sameLabels(other writtenVPA) bool {
	tools := func(of map[string]string) map[string]string {
		out := maps.Clone(of)
		delete(out, corev1.LastAppliedConfigAnnotation)
		return out
	}
	return equality.Semantic.DeepEqual(v.Labels, other.Labels) && equality.Semantic.DeepEqual(tools(v.Annotations), tools(other.Annotations))
}

// sameSpec compares specs with defaults filled in.
func (v writtenVPA) sameSpec(other writtenVPA) bool {
	return equality.Semantic.DeepEqual(v.Spec, other.Spec) || equality.Semantic.DeepEqual(v.completed(), other.completed())
}

func (v writtenVPA) completed() vpav1.VerticalPodAutoscalerSpec {
	if len(v.reviewed.Patch) == 0 {
		return v.Spec
	}
	after, err := Patched(v.VerticalPodAutoscaler, v.reviewed.Patch)
	if err != nil {
		return v.Spec
	}
	return after.Spec
}

// noteGates notes fields behind disabled gates, once per gate.
func (c *Cluster) noteGates(v writtenVPA) {
	var rules []string
	fields, messages := map[string][]string{}, map[string]string{}
	for _, cause := range v.reviewed.Causes {
		if !cause.Gated {
			continue
		}
		if fields[cause.Rule] == nil {
			rules = append(rules, cause.Rule)
		}
		fields[cause.Rule], messages[cause.Rule] = append(fields[cause.Rule], cause.Field), cause.Message
	}
	for _, rule := range rules {
		c.note("%s: VerticalPodAutoscaler %s/%s: %s: %s", v.from, v.Namespace, v.Name, Few(fields[rule]), messages[rule])
	}
}
