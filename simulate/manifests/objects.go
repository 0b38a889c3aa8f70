package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/quantity"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/parallel"
)

var (
	vpaKind         = schema.GroupKind{Group: vpav1.GroupVersion.Group, Kind: "VerticalPodAutoscaler"}
	checkpointKind  = schema.GroupKind{Group: vpav1.GroupVersion.Group, Kind: "VerticalPodAutoscalerCheckpoint"}
	hpaKind         = schema.GroupKind{Group: autoscalingv2.GroupName, Kind: "HorizontalPodAutoscaler"}
	scaledKind      = schema.GroupKind{Group: "keda.sh", Kind: facts.ScaledObject}
	namespaceKind   = schema.GroupKind{Kind: "Namespace"}
	nodeKind        = schema.GroupKind{Kind: "Node"}
	pdbKind         = schema.GroupKind{Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}
	ruleOverlayKind = schema.GroupKind{Group: rulesv1alpha1.GroupVersion.Group, Kind: "RuleOverlay"}
)

var clusterScoped = map[schema.GroupKind]bool{namespaceKind: true, nodeKind: true, ruleOverlayKind: true}

// kindsOf lists all kinds of the API groups that are celvpa's to judge.
var kindsOf = map[string][]string{
	vpaKind.Group:         {vpaKind.Kind, checkpointKind.Kind},
	ruleOverlayKind.Group: {document.KindRuleSet, document.KindPipeline, document.KindOverlay, document.KindRuleTest},
}

// apiVersions are those of kinds that no other API is known to have.
var apiVersions = map[string]schema.GroupVersion{
	vpaKind.Kind:         vpav1.GroupVersion,
	checkpointKind.Kind:  vpav1.GroupVersion,
	ruleOverlayKind.Kind: rulesv1alpha1.GroupVersion,
}

// misnamed refuses documents that would be passed over as none of celvpa's kinds, though they are meant as such.
func misnamed(d *Document) error {
	known, judged := kindsOf[d.Group()]
	meant, ours := apiVersions[d.Kind]
	switch {
	case judged && !slices.Contains(known, d.Kind):
		return fmt.Errorf("%s: kind %s is not known in %s; known: %s", d.Source, d.Kind, d.Group(), strings.Join(known, ", "))
	case !judged && ours:
		return fmt.Errorf("%s: a %s has apiVersion %s; write %s", d.Source, d.Kind, d.APIVersion, meant)
	}
	return nil
}

// Of lists the documents of a kind in the given versions; other versions are an error.
func (s *Set) Of(kind schema.GroupKind, versions ...string) ([]Document, error) {
	var out []Document
	var errs []error
	for _, d := range s.Documents {
		if d.groupKind() != kind {
			continue
		}
		if version := d.APIVersion[strings.LastIndex(d.APIVersion, "/")+1:]; !slices.Contains(versions, version) {
			group := schema.GroupVersion{Group: kind.Group, Version: versions[0]}
			errs = append(errs, fmt.Errorf("%s: %s has apiVersion %s; write %s", d.Source, &d, d.APIVersion, group))
			continue
		}
		out = append(out, d)
	}
	return out, faults.Join(errs...)
}

// decode ignores unknown fields.
func (d *Document) decode(into any) error {
	err := quantity.Unmarshal(d.JSON, into)
	if err == nil {
		return nil
	}
	if !errors.As(err, new(*quantity.Fault)) {
		err = cmp.Or(unreadableQuantity(d.JSON, into), quantity.MismatchIn(d.JSON, into), err)
	}
	return fmt.Errorf("%s: %s cannot be read: %w", d.Source, d, err)
}

// unreadableQuantity names an invalid quantity, which the error of Unmarshal omits.
func unreadableQuantity(text []byte, into any) error {
	var fault *quantity.Fault
	if !errors.As(quantity.Decode(text, into), &fault) {
		return nil
	}
	written := strconv.Quote(fault.Text)
	if fault.Text == "true" || fault.Text == "false" { // YAML took it for one of these
		written = fault.Text
	}
	return fmt.Errorf("%s is %s, which is not a quantity: write it like %s", fault.Field, written, quantity.Example)
}

// decodeAll continues after errors. It calls read on all cores, and keeps the order.
func decodeAll[T any](documents []Document, read func(*Document) (T, error)) ([]T, error) {
	all, errs := make([]T, len(documents)), make([]error, len(documents))
	parallel.Each(len(documents), func(i int) { all[i], errs[i] = read(&documents[i]) })
	out := all[:0]
	for i := range all {
		if errs[i] == nil {
			out = append(out, all[i])
		}
	}
	return out, faults.Join(errs...)
}

// decoded are the documents of a kind in version v1, decoded. complete completes what was decoded.
func decoded[T any](s *Set, kind schema.GroupKind, complete func(*T, *Document)) ([]T, error) {
	documents, err := s.Of(kind, "v1")
	out, errs := decodeAll(documents, func(d *Document) (out T, err error) {
		err = d.decode(&out)
		complete(&out, d)
		return out, err
	})
	return out, faults.Join(err, errs)
}

// VPAs returns the VPAs as written, so that objects that do not fit the type can be judged too.
func (s *Set) VPAs() ([]Document, error) { return s.Of(vpaKind, vpav1.GroupVersion.Version) }

// Labels are those of the object; none if they cannot be read.
func (d *Document) Labels() labels.Set {
	var object struct {
		Metadata struct {
			Labels labels.Set `json:"labels"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(d.JSON, &object) // the schema says what is wrong with labels
	return object.Metadata.Labels
}

// VPA decodes a document from VPAs.
func (d *Document) VPA() (vpav1.VerticalPodAutoscaler, error) {
	out, err := vpav1.Decode(d.JSON)
	if err != nil {
		return vpav1.VerticalPodAutoscaler{}, fmt.Errorf("%s: %s cannot be used: %w", d.Source, d, err)
	}
	out.Namespace = d.Namespace
	return *out, nil
}

// Checkpoints returns the VerticalPodAutoscalerCheckpoints.
func (s *Set) Checkpoints() ([]vpav1.VerticalPodAutoscalerCheckpoint, error) {
	return decoded(s, checkpointKind, func(c *vpav1.VerticalPodAutoscalerCheckpoint, d *Document) { c.Namespace, c.Name = d.Namespace, d.Name })
}

// HPAs returns the HorizontalPodAutoscalers, v1 ones converted to v2, and KEDA's ScaledObjects as
// HPAs of that kind.
func (s *Set) HPAs() ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	documents, err := s.Of(hpaKind, "v2", "v1")
	out, errs := decodeAll(documents, func(d *Document) (out autoscalingv2.HorizontalPodAutoscaler, err error) {
		if d.APIVersion == autoscalingv2.SchemeGroupVersion.String() {
			err = d.decode(&out)
		} else {
			var old autoscalingv1.HorizontalPodAutoscaler
			err = d.decode(&old)
			out = fromV1(&old)
		}
		out.Namespace = d.Namespace
		return out, err
	})
	scaled, unread := s.scaledObjects()
	return append(out, scaled...), faults.Join(err, errs, unread)
}

// defaultHPAUtilization is the CPU utilization, in percent, of an HPA without metrics.
const defaultHPAUtilization = 80

// fromV1 converts v1, whose only metric is CPU utilization, to v2.
func fromV1(old *autoscalingv1.HorizontalPodAutoscaler) autoscalingv2.HorizontalPodAutoscaler {
	utilization := int32(defaultHPAUtilization)
	if percent := old.Spec.TargetCPUUtilizationPercentage; percent != nil {
		utilization = *percent
	}
	return autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: old.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(old.Spec.ScaleTargetRef),
			MinReplicas:    old.Spec.MinReplicas,
			MaxReplicas:    old.Spec.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name:   corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
				},
			}},
		},
	}
}

// PodDisruptionBudgets returns the PodDisruptionBudgets.
func (s *Set) PodDisruptionBudgets() ([]policyv1.PodDisruptionBudget, error) {
	return decoded(s, pdbKind, func(b *policyv1.PodDisruptionBudget, d *Document) { b.Namespace, b.Name = d.Namespace, d.Name })
}

// RuleOverlays refuses unknown fields: an overlay must not silently do less than it says.
func (s *Set) RuleOverlays() ([]rulesv1alpha1.RuleOverlay, error) {
	documents, err := s.Of(ruleOverlayKind, rulesv1alpha1.GroupVersion.Version)
	out, errs := decodeAll(documents, func(d *Document) (out rulesv1alpha1.RuleOverlay, err error) {
		read, unknown, err := rulesv1alpha1.Decode(d.JSON)
		if err = faults.Join(append(unknown, err)...); err != nil {
			err = fmt.Errorf("%s: %s cannot be read: %w", d.Source, d, err)
		}
		return *read, err
	})
	return out, faults.Join(err, errs)
}

// scaledObjects are KEDA's autoscalers, as the HPAs that KEDA makes of them.
func (s *Set) scaledObjects() ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var documents []Document
	for i := range s.Documents {
		if s.Documents[i].groupKind() == scaledKind {
			documents = append(documents, s.Documents[i])
		}
	}
	return decodeAll(documents, func(d *Document) (out autoscalingv2.HorizontalPodAutoscaler, err error) {
		var object struct {
			Spec struct {
				ScaleTargetRef autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
				Triggers       []struct {
					Type       string                         `json:"type"`
					MetricType autoscalingv2.MetricTargetType `json:"metricType"`
					Metadata   struct {
						Type          autoscalingv2.MetricTargetType `json:"type"` // as older versions have it
						ContainerName string                         `json:"containerName"`
					} `json:"metadata"`
				} `json:"triggers"`
			} `json:"spec"`
		}
		if err := d.decode(&object); err != nil {
			return out, err
		}
		out.TypeMeta = metav1.TypeMeta{APIVersion: d.APIVersion, Kind: facts.ScaledObject}
		out.Namespace, out.Name = d.Namespace, d.Name
		out.Spec.ScaleTargetRef = object.Spec.ScaleTargetRef
		if out.Spec.ScaleTargetRef.Kind == "" { // as KEDA defaults it
			out.Spec.ScaleTargetRef.Kind, out.Spec.ScaleTargetRef.APIVersion = "Deployment", "apps/v1"
		}
		for _, trigger := range object.Spec.Triggers {
			metric := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType}
			name := corev1.ResourceName(trigger.Type)
			aims := autoscalingv2.MetricTarget{Type: cmp.Or(trigger.MetricType, trigger.Metadata.Type)}
			switch {
			case name != corev1.ResourceCPU && name != corev1.ResourceMemory:
			case trigger.Metadata.ContainerName != "":
				metric.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: trigger.Metadata.ContainerName, Target: aims}
			default:
				metric.Resource = &autoscalingv2.ResourceMetricSource{Name: name, Target: aims}
			}
			out.Spec.Metrics = append(out.Spec.Metrics, metric)
		}
		return out, nil
	})
}
