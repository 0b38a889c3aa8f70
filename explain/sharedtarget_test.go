package explain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/explain/ask"
)

// Regression: a pod or a workload was explained by the oldest VPA of its target, even one in mode Off beside the one that
// controls its pods.
func TestPodsOfASharedTargetAreExplainedByTheVPAThatControlsThem(t *testing.T) {
	old, young := vpaOf("old", "Deployment", "web"), vpaOf("young", "Deployment", "web")
	old.CreationTimestamp, young.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	c := api(t, old, young,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		&appsv1.ReplicaSet{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1"}, "apps/v1", "Deployment", "web")},
		&corev1.Pod{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1-x", Labels: map[string]string{"app": "web"}}, "apps/v1", "ReplicaSet", "web-1")})
	var asked []string
	options := Options{Client: c, Now: time.Unix(3, 0), Ask: func(_ context.Context, _, name string) (*ask.Result, error) {
		asked = append(asked, name)
		pod := planned("web-1-x", "Evict", "update/evict", "")
		pod.VPA = "shop/young"
		if name == "old" {
			pod.Action, pod.Rule, pod.Reason = "Skip", "", "VerticalPodAutoscaler shop/young controls it (point vpa.order)"
		}
		return &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{pod}}, Recommender: &answers.Recommender{Known: true}}, nil
	}}
	for _, s := range []Subject{{Kind: "Pod", Name: "web-1-x"}, {Kind: "Deployment", Name: "web"}, {Name: "web"}} {
		s.Namespace, asked = "shop", nil
		r, err := Explain(t.Context(), options, s)
		require.NoError(t, err)
		require.Equal(t, "shop/young", r.VPA, "%+v", s)
		require.Equal(t, "update/evict", r.Verdict.Token)
		require.Equal(t, []string{"old", "young"}, asked)
	}
	r, err := Explain(t.Context(), options, Subject{Namespace: "shop", Name: "old"})
	require.NoError(t, err)
	require.Equal(t, "shop/old", r.VPA, "it was asked for by its name")
	require.Contains(t, r.Findings, Finding{Token: "pods-not-taken", Class: Misconfigured, About: "pod web-1-x", Text: "VerticalPodAutoscaler shop/young controls it (point vpa.order)",
		WayOut: "keep one VerticalPodAutoscaler for the target"})
}

// Regression: the verdict on pods that no rule was asked about was that it is not known.
func TestTheVerdictOnPodsThatAreNotLookedAtIsWhy(t *testing.T) {
	pod := planned("a", "Skip", "", "")
	pod.Reason = "The pod is terminating"
	r := composed(vpaOf("web", "Deployment", "web"), &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{pod}}})
	require.Equal(t, Verdict{"unknown", "Skip", "nothing to do: the pod is terminating"}, r.Verdict)
}
