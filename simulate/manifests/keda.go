package manifests

import (
	"cmp"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
)

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
