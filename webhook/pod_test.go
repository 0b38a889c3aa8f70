package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// noRanges cannot list LimitRanges.
type noRanges struct{ client.Client }

func (n noRanges) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if _, ok := into.(*corev1.LimitRangeList); ok {
		return errors.New("no such luck")
	}
	return n.Client.List(ctx, into, opts...)
}

func TestNewPods(t *testing.T) {
	var web vpav1.VerticalPodAutoscaler
	require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"namespace":"ns","name":"v","uid":"u"},"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
		"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"4"}}]}}}`), &web))
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	defaults := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}
	reader := cached{from: cacheOf(t, &web, deployment, defaults)}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"PodLevelResources": true}})
	require.NoError(t, err)

	const owned = `"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","controller":true}]`
	const podLevel = `"spec":{"resources":{"requests":{"cpu":"2"}},"containers":[{"name":"app"},{"name":"side","resources":{"requests":{"cpu":"1"}}}]}`
	const plain = `"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}`
	for _, tt := range []struct {
		name, pod string
		change    func(*admission.Request)
		api       client.Client
		refused   string
		patches   int
		lines     []string
	}{
		{name: "of a VPA", pod: `{"metadata":{"name":"p","annotations":{},` + owned + `},` + plain + `}`, patches: 3},
		{name: "with a name yet to be made", pod: `{"metadata":{"generateName":"p-","annotations":{},` + owned + `},` + plain + `}`, patches: 3},
		{name: "of nobody", pod: `{"metadata":{"name":"p"},` + plain + `}`},
		{name: "already created", pod: `{"metadata":{"name":"p",` + owned + `},` + plain + `}`, change: func(r *admission.Request) { r.Operation = admissionv1.Update }},
		{name: "of a version to come", pod: `{"metadata":{"name":"p",` + owned + `},` + plain + `}`, change: func(r *admission.Request) { r.Kind.Version = "v2" },
			lines: []string{`"the pod is admitted unchanged" "error"="pods of version v2 are not supported"`}},
		{name: "that cannot be read", pod: `{"metadata":{"name":"p",` + owned + `},"spec":{"containers":[{"resources":{"requests":{"cpu":"1.5.2"}}}]}}`,
			lines: []string{`"the pod is admitted unchanged" "error"="reading the pod: `}},
		{name: "while LimitRanges cannot be listed", pod: `{"metadata":{"name":"p",` + owned + `},` + plain + `}`, api: noRanges{reader},
			lines: []string{`"the pod is admitted unchanged" "error"="listing the LimitRanges of namespace ns: no such luck"`}},
		{name: "of which not all is recommended", pod: `{"metadata":{"name":"p","annotations":{},` + owned + `},` + podLevel + `}`, patches: 1,
			lines: []string{`"No recommendation found for pod, skipping"`, `"No recommendation found for container, skipping"`}},
		{name: "that a rule refuses, be they of nobody", pod: `{"metadata":{"name":"p","namespace":"other"},` + podLevel + `}`,
			refused: `Pod "p" is invalid: spec.resources: pods with resources at pod level are refused in a namespace with a LimitRange of type Container: defaults; `,
			lines:   []string{`"pod refused"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			var api client.Client = reader
			if tt.api != nil {
				api = tt.api
			}
			h := &Handler{Client: api, Limits: &limitranges.Cache{Reader: api}, Resolver: &target.Resolver{Client: reader}, Rules: func() *compile.Rulebook { return book },
				Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Namespace: "ns", Name: "p", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: []byte(tt.pod)},
			}}
			if tt.change != nil {
				tt.change(&req)
			}
			resp := h.Handle(t.Context(), req)
			require.Equal(t, tt.refused == "", resp.Allowed)
			require.Len(t, resp.Patches, tt.patches)
			if tt.refused != "" {
				require.Contains(t, resp.Result.Message, tt.refused)
				require.Equal(t, "spec.resources", resp.Result.Details.Causes[0].Field)
				require.Equal(t, "Pod", resp.Result.Details.Kind)
			}
			require.Len(t, lines, len(tt.lines), "%s", lines)
			for i, want := range tt.lines {
				require.Contains(t, lines[i], want)
			}
		})
	}
}

func TestTheLogHasALineForEachPatchedPod(t *testing.T) {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	answer := &podreview.Answer{Patch: []jsonpatch.Operation{podpatch.Annotate(podpatch.AnnotationUpdates, "what was written")}}
	for verbosity, want := range map[int][]string{
		0: nil,
		1: {`"level"=1 "msg"="pod patched" "pod"="p"`},
		4: {`"level"=1 "msg"="pod patched" "pod"="p"`},
		5: {`"level"=1 "msg"="pod patched" "pod"="p" "updates"="what was written"`},
	} {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: verbosity})
		logAnswer(&subject{log: log, values: []any{"pod", "p"}}, answer, v)
		require.Equal(t, want, lines, "-v=%d", verbosity)
	}
}

const ownedReview = reviewHead + `{"uid":"u1","kind":{"version":"v1","kind":"Pod"},"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},
  "namespace":"ns","operation":"CREATE","object":{"metadata":{"name":"p","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",
  "name":%q,"uid":%q,"controller":true}]},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}}}`

// TestReviewsOfMissingOwnersLeaveSlotsToOthers: time stands still, so a review that waits for its owner does so until the end.
func TestReviewsOfMissingOwnersLeaveSlotsToOthers(t *testing.T) {
	h, api, _ := reviewer(t, append(shop(), sized("v", 1, func(v *vpav1.VerticalPodAutoscaler) {
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}
	}))...)
	s, _ := testServer(t, h.Handle, func(o *ServerOptions) { o.Concurrent = 2 })
	h.Resolver.Scales.LimitWaits(s.Slots() / 2)
	first := make(chan bool, 1)
	go func() { first <- post(t, s, "/", fmt.Sprintf(ownedReview, "never", "uid-0")).Allowed }()
	hang.Until(t, api.clock.HasWaiters)
	for i := range 5 {
		answered := post(t, s, "/", fmt.Sprintf(ownedReview, "never", fmt.Sprint("uid-", i+1)))
		require.True(t, answered.Allowed)
		require.Empty(t, answered.Patch)
		require.NotEmpty(t, post(t, s, "/", fmt.Sprintf(ownedReview, "web-1", "uid-web-1")).Patch, "a pod of an owner that exists")
	}
	api.clock.Step(time.Second)
	require.True(t, <-first)
}

// TestAnOverlayThatMakesPodsInvalidIsNamed in the pod's annotation, in a warning, in the log and in a metric; the resource stays.
func TestAnOverlayThatMakesPodsInvalidIsNamed(t *testing.T) {
	book := writeOverlay(t, `{change: [{after: valid-limits/within-pod, stage: {name: careless, each: container, rules: [{name: too-much, when: has(limits.memory), set: {requests.memory: limits.memory * 2}}]}}]}`)
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: list("100m", "200Mi")}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("500m", "512Mi"), Limits: list("1", "1Gi")}}}}}
	answer := podreview.Review(policy.For(book, v).Plan, podreview.Request{Pod: pod, VPA: v}, nil)
	const why = "its memory request of 800Mi would exceed its limit of 400Mi, with the rules of RuleOverlay mine"
	require.Equal(t, []string{"VerticalPodAutoscaler web: memory of container app stays as it is: " + why}, answer.Warnings)
	require.Contains(t, updates(&answer), "memory is not changed: "+why)

	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	before := testutil.ToFloat64(withheldTotal.WithLabelValues("mine"))
	logAnswer(&subject{log: log}, &answer, v)
	require.Equal(t, before+1, testutil.ToFloat64(withheldTotal.WithLabelValues("mine")))
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], `"overlays"=["mine"]`)
	require.Contains(t, logged[0], why)
}
