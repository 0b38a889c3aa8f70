package vpareview

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		beside Beside
		want   []string
	}{
		"nothing": {beside: Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("web", "shop", ""), other("web", "elsewhere", "")}, HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "db")}}},
		"an HPA on CPU and another on both": {beside: Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("b", "web", resource(cpu), resource(memory)), hpa("a", "web", resource(cpu))}},
			want: []string{"HorizontalPodAutoscaler a, b" + fight + "cpu", "HorizontalPodAutoscaler b" + fight + "memory"}},
		"an HPA that names no metric": {beside: Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}}, want: []string{"HorizontalPodAutoscaler a" + fight + "cpu"}},
		"an HPA on what is not controlled": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [memory]}]}`,
			beside: Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", resource(cpu))}}},
		"recommendations only": {spec: `updatePolicy: {updateMode: "Off"}`,
			beside: Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}, VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", "")}}},
		"another VPA": {beside: Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", ""), other("c", "shop", `updatePolicy: {updateMode: "Off"}`)}},
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
