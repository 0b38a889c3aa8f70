package manifests

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stub answers lists by kind, and gets with nothing found. conformance/integration has a real API server.
type stub struct {
	client.Client
	items  map[string][]string // JSON by kind
	errors map[string]error    // by kind
	scaled map[string]bool     // kinds with a scale subresource
	got    []string
}

func (s *stub) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	list := into.(*unstructured.UnstructuredList)
	kind := list.GetObjectKind().GroupVersionKind().Kind
	if err := s.errors[kind]; err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	list.Items = nil
	all := s.items[kind]
	at := len(o.Continue) // a page holds one object
	list.SetContinue("")
	if at < len(all) {
		var one unstructured.Unstructured
		if err := one.UnmarshalJSON([]byte(all[at])); err != nil {
			return err
		}
		list.Items = append(list.Items, one)
		if at+1 < len(all) {
			list.SetContinue(o.Continue + "x")
		}
	}
	return nil
}

func (s *stub) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind := into.GetObjectKind().GroupVersionKind().Kind
	s.got = append(s.got, kind+" "+key.String())
	if err := s.errors[kind]; err != nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
}

// SubResource answers for scales.
func (s *stub) SubResource(name string) client.SubResourceClient {
	return &stubScale{of: s, name: name}
}

type stubScale struct {
	client.SubResourceClient
	of   *stub
	name string
}

func (s *stubScale) Get(_ context.Context, object, _ client.Object, _ ...client.SubResourceGetOption) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	s.of.got = append(s.of.got, s.name+" of "+kind+" "+client.ObjectKeyFromObject(object).String())
	if err := s.of.errors[kind]; err != nil {
		return err
	}
	if !s.of.scaled[kind] {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, object.GetName())
	}
	return nil
}

func (s *stub) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion} {
		for kind := range scheme.Scheme.KnownTypes(gv) {
			mapper.Add(gv.WithKind(kind), meta.RESTScopeNamespace)
		}
	}
	return mapper
}

func TestAClusterIsReadPageByPage(t *testing.T) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"web","name":"a","managedFields":[{"manager":"kubelet"}]}}`
	c := &stub{items: map[string][]string{"Pod": {pod, strings.Replace(pod, `"a"`, `"b"`, 1), strings.Replace(pod, `"a"`, `"c"`, 1)}}}
	set, notes, err := Reader{Client: c, Namespace: "web"}.Read(t.Context(), append(PodKinds, VPAKind)...)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Len(t, set.Documents, 3)
	require.Equal(t, "the cluster", set.Documents[0].Source.String())
	require.NotContains(t, string(set.Documents[0].JSON), "managedFields")
}

func TestWhatAClusterRefusesIsNamedWithTheWayOut(t *testing.T) {
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(`User "jane" cannot list resource "`+resource+`"`))
	}
	c := &stub{
		items: map[string][]string{"VerticalPodAutoscaler": {`{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"namespace":"web","name":"v"}}`}},
		errors: map[string]error{
			"Pod": forbidden("pods"), "RuleOverlay": forbidden("ruleoverlays"), "Deployment": errors.New("connection refused"),
		},
	}
	set, notes, err := Reader{Client: c, Namespace: "web"}.Read(t.Context(), append(PodKinds, VPAKind)...)
	require.Len(t, set.Documents, 1, "the rest is there")
	require.EqualError(t, err, `cannot read deployments.apps in namespace web: connection refused
cannot read pods in namespace web: pods is forbidden: User "jane" cannot list resource "pods"; grant list on pods there, or read another namespace with -n`)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "the answer is without the RuleOverlays of the cluster: ")
	_, _, err = Reader{Client: c, Namespace: ""}.Read(t.Context(), podKind.WithVersion("v1"))
	require.ErrorContains(t, err, "cannot read pods in all namespaces: ")
	require.ErrorContains(t, err, "; grant list on pods, or read one namespace with -n")

	c.errors = map[string]error{"VerticalPodAutoscaler": &meta.NoKindMatchError{}, "RuleOverlay": &meta.NoKindMatchError{}}
	_, notes, err = Reader{Client: c, Namespace: "web"}.Read(t.Context(), VPAKind)
	require.EqualError(t, err, "the cluster has no VerticalPodAutoscalers: install the CRDs with `celvpa crd | kubectl apply --server-side -f -`")
	require.Empty(t, notes)
}

func TestKindsThatTheAnswerCanDoWithoutAreNotes(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
	c := &stub{errors: map[string]error{"Deployment": refused, "Job": errors.New("connection refused")}}
	_, notes, err := Reader{Client: c, Namespace: "web", Optional: WorkloadKinds}.Read(t.Context(), VPAKind)
	require.EqualError(t, err, "cannot read jobs in namespace web: connection refused")
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "the answer is without objects of kind Deployment: cannot read deployments.apps in namespace web: ")
	require.Contains(t, notes[0], "; grant list on deployments.apps there, or read another namespace with -n")
}

// discovering is a stub that knows which kinds have a scale subresource.
type discovering struct{ *stub }

// HasScale implements target.Kinds.
func (d discovering) HasScale(_ context.Context, kind schema.GroupKind) (has, known bool) {
	has, known = d.scaled[kind.Kind]
	return has, known
}

// TestAClusterSaysWhichKindsHaveAScale, even where their objects may not be read.
func TestAClusterSaysWhichKindsHaveAScale(t *testing.T) {
	vpa := func(kind string) string {
		return `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"namespace":"web","name":"` + strings.ToLower(kind) + `"},"spec":{"targetRef":{"apiVersion":"example.com/v1","kind":"` + kind + `","name":"a"}}}`
	}
	c := discovering{&stub{items: map[string][]string{"VerticalPodAutoscaler": {vpa("Bare"), vpa("Scaled"), vpa("Unserved")}}, scaled: map[string]bool{"Bare": false, "Scaled": true}}}
	set, _, err := Reader{Client: c, Namespace: "web"}.Read(t.Context(), VPAKind)
	require.NoError(t, err)
	for kind, want := range map[string][2]bool{"Bare": {false, true}, "Scaled": {true, true}, "Unserved": {false, false}} {
		has, known := set.HasScale(schema.GroupKind{Group: "example.com", Kind: kind})
		require.Equal(t, want, [2]bool{has, known}, kind)
	}
	require.Empty(t, c.got)
}
