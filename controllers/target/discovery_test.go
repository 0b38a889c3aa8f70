package target

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAKindWithoutScaleIsToldFromAMissingObject: API servers answer both with Not Found, and it was
// said of both that the object does not exist.
func TestAKindWithoutScaleIsToldFromAMissingObject(t *testing.T) {
	const missing = "Cannot read targetRef. Reason: Thing ns/t does not exist"
	for name, tt := range map[string]struct {
		resources map[string][]string // by version
		want      string
	}{
		"its kind has no scale": {resources: map[string][]string{"v1": {"things", "things/status"}, "v2": {"things", "others/scale"}},
			want: "Cannot read targetRef. Reason: kind Thing of example.com/v1 has no scale subresource, so the pods of ns/t cannot be found; name the workload that creates the pods, or add the subresource to the CustomResourceDefinition"},
		"another version has one":        {resources: map[string][]string{"v1": {"things"}, "v2": {"things", "things/scale"}}, want: missing},
		"a version cannot be discovered": {resources: map[string][]string{"v1": {"things"}}, want: missing},
	} {
		t.Run(name, func(t *testing.T) {
			api, asked := newScaleAPI(always(errGone), "v1", "v2"), 0
			discovering := NewDiscovering(api.Client, func(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
				asked++
				names, served := tt.resources[groupVersion[len("example.com/"):]]
				if !served {
					return nil, errors.New("down")
				}
				list := &metav1.APIResourceList{}
				for _, name := range names {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
				}
				return list, nil
			}, api.clock)
			for _, scales := range []*Scales{nil, NewScales(discovering, api.clock, func() float64 { return 0 })} {
				r := &Resolver{Client: discovering, Scales: scales}
				for range 2 {
					_, problem := r.Selector(t.Context(), vpaOfThing("t"))
					require.Equal(t, &Unsupported{Message: tt.want, Missing: tt.want == missing}, problem)
				}
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: []metav1.OwnerReference{controlledBy("example.com/v1", "Thing", "t")}}}
				_, err := r.Top(t.Context(), pod, nil)
				if tt.want == missing {
					require.ErrorContains(t, err, "Thing ns/t does not exist or cannot be scaled")
				} else {
					require.ErrorContains(t, err, "the kind of Thing ns/t has no scale subresource, so no VPA can have it as its target")
				}
			}
			require.LessOrEqual(t, asked, 2, "once for each version")
			before := asked
			api.clock.Step(discoveryFresh + time.Second)
			discovering.HasScale(t.Context(), thing("t").groupKind())
			require.Greater(t, asked, before)
		})
	}
}

func TestACronJobWithoutLabelsSaysSo(t *testing.T) {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	r := resolver(nil, cron)
	v := aimedAt("batch/v1", "CronJob")
	_, problem := r.Selector(t.Context(), v)
	require.Equal(t, &Unsupported{Message: "Cannot read targetRef. Reason: the pod template of CronJob ns/web has no labels, so its pods cannot be found; add one to spec.jobTemplate.spec.template.metadata.labels, such as app: web"}, problem)

	cron.Spec.JobTemplate.Spec.Template.Labels = map[string]string{"app": "web"}
	selector, problem := resolver(nil, cron).Selector(t.Context(), v)
	require.Nil(t, problem)
	require.Equal(t, "app=web", selector.String())
}

// TestAReplicationControllerWithoutLabelsSelectsNothing: an empty selector matched every pod, but no API server accepts one.
func TestAReplicationControllerWithoutLabelsSelectsNothing(t *testing.T) {
	controller := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	_, problem := resolver(nil, controller).Selector(t.Context(), aimedAt("v1", "ReplicationController"))
	require.Equal(t, &Unsupported{Message: "Cannot read targetRef. Reason: ReplicationController ns/web has no selector; add spec.selector"}, problem)

	controller.Spec.Selector = map[string]string{"app": "web"}
	selector, problem := resolver(nil, controller).Selector(t.Context(), aimedAt("v1", "ReplicationController"))
	require.Nil(t, problem)
	require.Equal(t, "app=web", selector.String())
}
