package monitoring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// series are values by name and labels.
type series map[string]float64

func (s series) add(v *vpav1.VerticalPodAutoscaler, name string, value float64, labels ...string) {
	labels = append(labels, "namespace="+v.Namespace, "verticalpodautoscaler="+v.Name)
	slices.Sort(labels)
	s[name+"{"+strings.Join(labels, ",")+"}"] = value
}

// stateMetricsAreWhatVPAsHave compares the metrics with the objects, at a moment at which both are of the same time.
func (s *stage) stateMetricsAreWhatVPAsHave(t *testing.T) {
	ctx := t.Context()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var all vpav1.VerticalPodAutoscalerList
		require.NoError(t, s.cluster.List(ctx, &all))
		want := series{}
		for i := range all.Items {
			want.of(&all.Items[i])
		}
		got := s.scraped(t)
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
		for name, value := range want {
			require.InEpsilon(t, value+1, got[name]+1, 1e-9, name)
		}
	}, hang.Limit, 500*time.Millisecond)
}

// of adds what kube-state-metrics should export for a VPA.
func (s series) of(v *vpav1.VerticalPodAutoscaler) {
	const status, policy = "kube_verticalpodautoscaler_status_recommendation_", "kube_verticalpodautoscaler_spec_resourcepolicy_"
	amounts := func(name string, list corev1.ResourceList, labels ...string) {
		for resource, unit := range map[corev1.ResourceName]string{corev1.ResourceCPU: "core", corev1.ResourceMemory: "byte"} {
			if q, ok := list[resource]; ok {
				s.add(v, name, q.AsApproximateFloat64(), append(labels, "resource="+string(resource), "unit="+unit)...)
			}
		}
	}
	s.add(v, "kube_verticalpodautoscaler_created", float64(v.CreationTimestamp.Unix()))
	for _, mode := range []vpav1.UpdateMode{vpav1.UpdateModeOff, vpav1.UpdateModeInitial, vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlace, vpav1.UpdateModeAuto} {
		set := 0.0
		if mode == *v.Spec.UpdatePolicy.UpdateMode {
			set = 1
		}
		s.add(v, "kube_verticalpodautoscaler_spec_updatepolicy_updatemode", set, "update_mode="+string(mode))
	}
	for _, c := range v.Status.Conditions {
		holds := 0.0
		if c.Status == corev1.ConditionTrue {
			holds = 1
		}
		s.add(v, "kube_verticalpodautoscaler_status_condition", holds, "condition="+string(c.Type))
	}
	var labels []string
	for key, value := range v.Labels {
		labels = append(labels, fmt.Sprintf("label_%s=%s", key, value))
	}
	if len(labels) > 0 {
		s.add(v, "kube_verticalpodautoscaler_labels", 1, labels...)
	}
	if p := v.Spec.ResourcePolicy; p != nil {
		for _, c := range p.ContainerPolicies {
			amounts(policy+"container_policies_minallowed", c.MinAllowed, "container="+c.ContainerName)
			amounts(policy+"container_policies_maxallowed", c.MaxAllowed, "container="+c.ContainerName)
		}
		amounts(policy+"pod_policies_minallowed", p.PodPolicies.MinAllowed)
		amounts(policy+"pod_policies_maxallowed", p.PodPolicies.MaxAllowed)
	}
	if v.Status.Recommendation == nil {
		return
	}
	for _, c := range v.Status.Recommendation.ContainerRecommendations {
		for name, list := range map[string]corev1.ResourceList{"target": c.Target, "lowerbound": c.LowerBound, "upperbound": c.UpperBound, "uncappedtarget": c.UncappedTarget} {
			amounts(status+"containerrecommendations_"+name, list, "container="+c.ContainerName)
		}
	}
	if p := v.Status.Recommendation.PodRecommendation; p != nil {
		for name, list := range map[string]corev1.ResourceList{"target": p.Target, "lowerbound": p.LowerBound, "upperbound": p.UpperBound, "uncappedtarget": p.UncappedTarget} {
			amounts(status+"podrecommendation_"+name, list)
		}
	}
}

// everywhere are labels that all series of VPAs have; their values are checked once.
var everywhere = map[string]string{
	"customresource_group": "autoscaling.k8s.io", "customresource_version": "v1", "customresource_kind": "VerticalPodAutoscaler",
	"target_api_version": "apps/v1", "target_kind": "Deployment", "target_name": "",
}

// scraped are the metrics of VPAs.
func (s *stage) scraped(t require.TestingT) series {
	text, err := harness.Get(context.Background(), "http://"+s.stateMetrics+"/metrics")
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	out := series{}
	for name, family := range families {
		if !strings.HasPrefix(name, "kube_verticalpodautoscaler_") {
			continue
		}
		for _, m := range family.Metric {
			var labels []string
			found := 0
			for _, l := range m.Label {
				value, common := everywhere[l.GetName()]
				if !common {
					labels = append(labels, l.GetName()+"="+l.GetValue())
					continue
				}
				found++
				if value != "" {
					require.Equal(t, value, l.GetValue(), "%s of %s", l.GetName(), name)
				}
			}
			require.Len(t, everywhere, found, "labels of %s: %v", name, m.Label)
			slices.Sort(labels)
			value := m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			out[name+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}
