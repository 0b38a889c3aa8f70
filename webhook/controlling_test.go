package webhook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// shop is a Deployment and its ReplicaSet in namespace ns, and one of another name.
func shop() (out []client.Object) {
	for _, name := range []string{"web", "other"} {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		out = append(out,
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: appsv1.DeploymentSpec{Selector: selector}},
			&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-1", OwnerReferences: []metav1.OwnerReference{controlledBy("apps/v1", "Deployment", name)}},
				Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	}
	return out
}

func controlledBy(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}
}

// sized is a VPA of Deployment web, so many hours old, with a change.
func sized(name string, hours int, change func(*vpav1.VerticalPodAutoscaler)) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(hours) * time.Hour))}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	if change != nil {
		change(v)
	}
	return v
}

func inMode(mode vpav1.UpdateMode) func(*vpav1.VerticalPodAutoscaler) {
	return func(v *vpav1.VerticalPodAutoscaler) { v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode} }
}

func at(apiVersion, kind, name string) func(*vpav1.VerticalPodAutoscaler) {
	return func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// scales is an API server that answers for the scales of custom kinds by name, and counts.
type scales struct {
	client.Client
	clock *testclock.FakeClock
	reads int
}

// newScales gives a scale to all custom objects that are not called none; those called hung are never answered for.
func newScales(t *testing.T) *scales {
	s := &scales{clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	s.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, o client.Object, into client.Object, _ ...client.SubResourceGetOption) error {
			s.reads++ // one at a time: who asks waits for it
			switch o.GetName() {
			case "none":
				return apierrors.NewNotFound(appsv1.Resource("things"), "none")
			case "broken":
				return apierrors.NewInternalError(errors.New("conversion failed"))
			case "hung":
				<-t.Context().Done()
				return t.Context().Err()
			}
			into.(*unstructured.Unstructured).Object = map[string]any{"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": "app=" + o.GetName()}}
			return nil
		},
	}).Build()
	return s
}

// shipped are the rules as they come.
// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

var shipped = sync.OnceValues(func() (*compile.Rulebook, error) { return policy.Load(policy.Options{Cache: &compiledSets}) })

// reviewer is a handler with the shipped rules that knows objects, and its log.
func reviewer(t *testing.T, objects ...client.Object) (h *Handler, api *scales, log *strings.Builder) {
	t.Helper()
	book, err := shipped()
	require.NoError(t, err)
	api = newScales(t)
	log = &strings.Builder{}
	reader := cached{Client: api, from: cacheOf(t, objects...)}
	return &Handler{Client: reader, Limits: &limitranges.Cache{Reader: reader}, Resolver: &target.Resolver{Client: reader, Scales: target.NewScales(reader, api.clock, nil)},
		Rules: func() *compile.Rulebook { return book }, Log: funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{})}, api, log
}

func (h *Handler) of(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	v, err := h.controllingVPA(t.Context(), admission.Request{}, h.Rules(), pod)
	switch {
	case err != nil:
		return err.Error()
	case v == nil:
		return "none"
	}
	return v.Object.Name
}

func podOf(app string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": app}, OwnerReferences: owners}}
}

func TestWhichVPAChangesANewPod(t *testing.T) {
	web := []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", "web-1")}
	thing := func(name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{controlledBy("example.com/v1", "Thing", name)}
	}
	for _, tt := range []struct {
		name   string
		vpas   []client.Object
		owners []metav1.OwnerReference // default: a ReplicaSet of Deployment web
		app    string                  // default web
		want   string                  // default none
		log    string                  // default nothing
		reads  int                     // of scales
	}{
		{name: "there is none"},
		{name: "the only one", vpas: []client.Object{sized("v", 1, nil)}, want: "v"},
		{name: "the oldest one", vpas: []client.Object{sized("a", 1, nil), sized("b", 3, nil), sized("c", 2, nil)}, want: "b"},
		{name: "the first by name of those of one age", vpas: []client.Object{sized("c", 1, nil), sized("a", 1, nil), sized("b", 1, nil)}, want: "a"},
		{name: "one that is Off makes room for another", vpas: []client.Object{sized("off", 9, inMode(vpav1.UpdateModeOff)), sized("initial", 1, inMode(vpav1.UpdateModeInitial))}, want: "initial"},
		{name: "one that is Off changes nothing", vpas: []client.Object{sized("off", 9, inMode(vpav1.UpdateModeOff))}},
		{name: "one that cannot be read makes room for another", want: "good", log: `"VPA skipped: it cannot be decoded completely" "namespace"="ns" "vpa"="bad"`,
			vpas: []client.Object{sized("bad", 9, func(v *vpav1.VerticalPodAutoscaler) { v.SpecUnreadable = "it is odd" }), sized("good", 1, nil)}},
		{name: "one of another namespace is not asked", vpas: []client.Object{sized("v", 1, func(v *vpav1.VerticalPodAutoscaler) { v.Namespace = "elsewhere" })}},
		{name: "one of another Deployment is not", vpas: []client.Object{sized("v", 1, at("apps/v1", "Deployment", "other"))}},
		{name: "one whose target has an owner is not", vpas: []client.Object{sized("below", 9, at("apps/v1", "ReplicaSet", "web-1"))}},
		{name: "one without a target is not", vpas: []client.Object{sized("v", 1, func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef = nil })}},
		{name: "one whose target's selector does not match has no part in it", vpas: []client.Object{sized("v", 1, nil)}, app: "moved"},
		{name: "the version of the target does not matter", vpas: []client.Object{sized("v", 1, at("apps/v1beta2", "Deployment", "web"))}, want: "v"},
		{name: "a pod that nobody owns has none", vpas: []client.Object{sized("v", 1, nil)}, owners: []metav1.OwnerReference{}},
		{name: "a pod of a Node has none", vpas: []client.Object{sized("v", 1, at("v1", "Node", "n"))}, owners: []metav1.OwnerReference{controlledBy("v1", "Node", "n")}},
		{name: "an owner that does not control a pod does not count", vpas: []client.Object{sized("v", 1, nil)},
			owners: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1"}}},

		{name: "one of a custom kind", vpas: []client.Object{sized("v", 1, at("example.com/v1", "Thing", "t"))}, owners: thing("t"), app: "t", want: "v", reads: 1},
		{name: "one of a custom kind in a version of its own", vpas: []client.Object{sized("v", 1, at("example.com/v2", "Thing", "t"))}, owners: thing("t"), app: "t", want: "v", reads: 2},
		{name: "one of a custom kind whose selector does not match", vpas: []client.Object{sized("v", 1, at("example.com/v1", "Thing", "t"))}, owners: thing("t"), app: "u", reads: 1},
		{name: "owners of custom kinds are not looked up where no VPA can be meant", vpas: []client.Object{sized("v", 1, nil)}, owners: thing("t")},
		{name: "they are where one might own them", vpas: []client.Object{sized("v", 1, at("example.com/v1", "Thing", "u"))}, owners: thing("t"), reads: 1},
		{name: "an owner without a scale is logged", vpas: []client.Object{sized("v", 1, at("example.com/v1", "Thing", "none"))}, owners: thing("none"), reads: 1,
			want: "finding the topmost controller of pod ns/p: Thing ns/none does not exist or cannot be scaled"},
		{name: "an owner that cannot be read is logged", vpas: []client.Object{sized("v", 1, at("example.com/v1", "Thing", "broken"))}, owners: thing("broken"), reads: 1,
			want: "finding the topmost controller of pod ns/p: reading the scale of example.com/v1.Thing/broken in namespace ns: Internal error occurred: conversion failed"},
		{name: "a VPA whose target cannot be read makes room for another", owners: thing("t"), app: "t", want: "good", reads: 1, log: `"the VPA is left out, because its selector cannot be determined" "namespace"="ns" "vpa"="bad"`,
			vpas: []client.Object{sized("bad", 9, at("exa/mple/v1", "Thing", "t")), sized("good", 1, at("example.com/v1", "Thing", "t"))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, api, log := reviewer(t, append(shop(), tt.vpas...)...)
			if tt.owners == nil {
				tt.owners = web
			}
			if tt.want == "" {
				tt.want = "none"
			}
			if tt.app == "" {
				tt.app = "web"
			}
			require.Equal(t, tt.want, h.of(t, podOf(tt.app, tt.owners...)))
			if tt.log == "" {
				require.Empty(t, log.String())
			}
			require.Contains(t, log.String(), tt.log)
			require.Equal(t, tt.reads, api.reads)
			reads := api.reads
			require.Equal(t, tt.want, h.of(t, podOf(tt.app, tt.owners...)))
			require.Equal(t, reads, api.reads, "the next pod has it from memory")
		})
	}
}

// TestAnAPIServerThatDoesNotAnswerLetsPodsThrough unpatched, with the reason in the log.
func TestAnAPIServerThatDoesNotAnswerLetsPodsThrough(t *testing.T) {
	h, api, log := reviewer(t, sized("v", 1, at("example.com/v1", "Thing", "hung")))
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Namespace: "ns",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}}
	req.Object.Raw = []byte(`{"metadata":{"name":"p","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"hung","uid":"7","controller":true}]}}`)
	first := make(chan admission.Response)
	go func() { first <- h.Handle(t.Context(), req) }()
	hang.Until(t, api.clock.HasWaiters)
	api.clock.Step(target.Patience)
	resp := <-first
	require.True(t, resp.Allowed)
	require.Empty(t, resp.Patches)
	require.Contains(t, log.String(), "Thing/hung in namespace ns: the API server has not answered yet")
	resp = h.Handle(t.Context(), req) // time stands still: whoever waited now would do so for ever
	require.True(t, resp.Allowed)
	require.Empty(t, resp.Patches)
}

// An overlay that is only audited is asked about every VPA whose pod it would be, and no other.
func TestAnAuditedOverlayIsAskedAboutTheVPAsWhosePodItWouldBe(t *testing.T) {
	book := writeOverlay(t, "{mode: Audit, change: [{disable: admission-mode/mode-off}]}")
	h, _, _ := reviewer(t, append(shop(),
		sized("mine", 2, inMode(vpav1.UpdateModeOff)), sized("mine-too", 1, inMode(vpav1.UpdateModeOff)), sized("applied", 9, nil),
		sized("other", 1, func(v *vpav1.VerticalPodAutoscaler) {
			inMode(vpav1.UpdateModeOff)(v)
			at("apps/v1", "Deployment", "other")(v)
		}))...)
	recorder := events.NewFakeRecorder(10)
	h.Rules = func() *compile.Rulebook { return book }
	h.Shadows = &policy.Shadows{Component: "admission", Recorder: recorder, Clock: testclock.NewFakeClock(time.Now()), Log: h.Log}
	require.Equal(t, "applied", h.of(t, podOf("web", controlledBy("apps/v1", "ReplicaSet", "web-1"))))
	require.Len(t, recorder.Events, 2)
	for range 2 {
		require.Contains(t, <-recorder.Events, "would change whether new pods are changed: Ignore (admission-mode/mode-off) → Apply (admission-mode/applied)")
	}
	require.Equal(t, "applied", h.of(t, podOf("web", controlledBy("apps/v1", "ReplicaSet", "web-1"))))
	require.Equal(t, "none", h.of(t, podOf("moved", controlledBy("apps/v1", "ReplicaSet", "web-1"))))
	require.Empty(t, recorder.Events)
}
