package vpareview

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestWhatWorksAgainstTheObjectIsWarnedAbout(t *testing.T) {
	hpa := func(name, target string, metrics ...autoscalingv2.MetricSpec) autoscalingv2.HorizontalPodAutoscaler {
		return autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}, Metrics: metrics,
			},
		}
	}
	resource := func(name corev1.ResourceName) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: name}}
	}
	ofContainer := func(container string) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: container}}
	}
	inGroup := func(h autoscalingv2.HorizontalPodAutoscaler, apiVersion string) autoscalingv2.HorizontalPodAutoscaler {
		h.Spec.ScaleTargetRef.APIVersion = apiVersion
		return h
	}
	other := func(name, namespace, spec string) vpav1.VerticalPodAutoscaler {
		v, err := vpav1.Decode(vpa(t, spec))
		require.NoError(t, err)
		v.Name, v.Namespace = name, namespace
		return *v
	}
	const cpu, memory = "cpu", "memory"
	const fight = " scales the same target on "
	for name, tt := range map[string]struct {
		spec   string
		beside facts.Beside
		want   []string
	}{
		"nothing": {beside: facts.Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("web", "shop", ""), other("web", "elsewhere", "")}, HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "db")}}},
		"an HPA on CPU and another on both": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("b", "web", resource(cpu), resource(memory)), hpa("a", "web", resource(cpu))}},
			want: []string{"HorizontalPodAutoscaler a, HorizontalPodAutoscaler b scale the same target on cpu", "HorizontalPodAutoscaler b" + fight + "memory"}},
		"an HPA of several clusters is named once": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", resource(cpu)), hpa("a", "web", resource(memory)), hpa("a", "web", resource(cpu))}},
			want: []string{"HorizontalPodAutoscaler a" + fight + "cpu", "HorizontalPodAutoscaler a" + fight + "memory"}},
		"an HPA on a container that is left alone": {spec: `resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [memory]}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"))}}},
		"an HPA on a container that the wildcard leaves alone": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: other}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"))}}},
		"an HPA on a container that is sized": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"), ofContainer("other"))}},
			want:   []string{"HorizontalPodAutoscaler a (container app)" + fight + "cpu"}},
		"an HPA on the extensions group of its target": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{inGroup(hpa("a", "web"), "extensions/v1beta1")}},
			want: []string{"HorizontalPodAutoscaler a" + fight + "cpu"}},
		"an HPA on a kind of the same name elsewhere": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{inGroup(hpa("a", "web"), "example.com/v1")}}},
		"an HPA that names no metric":                 {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}}, want: []string{"HorizontalPodAutoscaler a" + fight + "cpu"}},
		"an HPA on what is not controlled": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [memory]}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", resource(cpu))}}},
		"recommendations only": {spec: `updatePolicy: {updateMode: "Off"}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}, VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", "")}}},
		"another VPA": {beside: facts.Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", ""), other("c", "shop", `updatePolicy: {updateMode: "Off"}`)}},
			want: []string{"VerticalPodAutoscaler b has the same target"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := Read(vpa(t, tt.spec), nil, "")
			request.Beside = tt.beside
			answer := Review(plan(t), request)
			require.True(t, answer.Allowed())
			got := lines(answer.Warnings)
			require.Len(t, got, len(tt.want), "%q", got)
			for i := range tt.want {
				require.Contains(t, got[i], "spec.targetRef: "+tt.want[i])
			}
		})
	}
}
