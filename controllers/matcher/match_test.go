package matcher

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// memory is a cache that hands out what it has without a copy, as the process does.
type memory struct {
	client.Client
	objects map[client.ObjectKey]client.Object
}

func (m memory) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	reflect.Indirect(reflect.ValueOf(into)).Set(reflect.Indirect(reflect.ValueOf(m.objects[key])))
	return nil
}

// cluster has Deployment web with ReplicaSet web-1.
func cluster(tb testing.TB) (*target.Resolver, *corev1.Pod) {
	tb.Helper()
	controls := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
	m := memory{objects: map[client.ObjectKey]client.Object{
		{Namespace: "ns", Name: "web"}: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		{Namespace: "ns", Name: "web-1"}: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1", OwnerReferences: controls("Deployment", "web")}},
	}}
	return &target.Resolver{Client: m}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"}, OwnerReferences: controls("ReplicaSet", "web-1")}}
}

func TestWhichVPAHasAPod(t *testing.T) {
	book := load(t, "")
	resolver, pod := cluster(t)
	moved := pod.DeepCopy()
	moved.Labels = map[string]string{"app": "moved"}
	recreate, initial, off := in(vpav1.UpdateModeRecreate), in(vpav1.UpdateModeInitial), in(vpav1.UpdateModeOff)
	without := func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef = nil }
	elsewhere := func(v *vpav1.VerticalPodAutoscaler) { v.Namespace = "elsewhere" }
	type vpas = []*vpav1.VerticalPodAutoscaler
	for name, tt := range map[string]struct {
		vpas                     vpas
		pod                      *corev1.Pod
		admission, update, boost string
	}{
		"the oldest":                  {vpas{vpaFor("young", "web", 1, recreate), vpaFor("old", "web", 2, recreate)}, pod, "old", "old", "old"},
		"of one age, the first name":  {vpas{vpaFor("b", "web", 1, recreate), vpaFor("a", "web", 1, recreate)}, pod, "a", "a", "a"},
		"another target":              {vpas{vpaFor("v", "other", 1, recreate)}, pod, "", "", ""},
		"no target":                   {vpas{vpaFor("v", "web", 1, recreate, without)}, pod, "", "", ""},
		"another namespace":           {vpas{vpaFor("v", "web", 1, recreate, elsewhere)}, pod, "", "", ""},
		"labels that do not match":    {vpas{vpaFor("v", "web", 1, recreate)}, moved, "", "", ""},
		"one that changes new pods":   {vpas{vpaFor("old", "web", 2, initial), vpaFor("young", "web", 1, recreate)}, pod, "old", "young", "old"},
		"the first leaves pods alone": {vpas{vpaFor("old", "web", 2, off), vpaFor("young", "web", 1, recreate)}, pod, "young", "young", "young"},
		"boosts must end":             {vpas{vpaFor("old", "web", 2, off), vpaFor("young", "web", 1, off)}, pod, "", "", "old"},
		"rules that are not loaded":   {vpas{vpaFor("old", "web", 2, recreate, pinned), vpaFor("young", "web", 1, recreate)}, pod, "old", "old", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*VPA
			byTarget := Targets{}
			for _, v := range tt.vpas {
				all = append(all, New(book, v, logr.Discard()))
				byTarget.Add(all[len(all)-1])
			}
			top, err := resolver.Topmost(t.Context(), tt.pod)
			require.NoError(t, err)
			for p, want := range map[Purpose]string{Admission: tt.admission, Update: tt.update, Boost: tt.boost} {
				for _, from := range [][]*VPA{all, byTarget.Of(top.Key)} {
					got := ""
					if v := Match(t.Context(), p, top, from, tt.pod, nil); v != nil {
						got = v.Object.Name
					}
					require.Equal(t, want, got, p)
				}
			}
		})
	}
	require.Nil(t, Match(t.Context(), Update, nil, []*VPA{New(book, vpaFor("v", "web", 1), logr.Discard())}, pod, nil), "a pod without a controller")
}

func TestAPodIsNotComparedWithVPAsOfOtherTargets(t *testing.T) {
	book, vpas := load(t, ""), Targets{}
	for _, v := range []*vpav1.VerticalPodAutoscaler{
		vpaFor("v", "web", 0), vpaFor("name", "other", 0),
		vpaFor("elsewhere", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.Namespace = "elsewhere" }),
		vpaFor("kind", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.Kind = "StatefulSet" }),
		vpaFor("none", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef = nil }),
		vpaFor("twin", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.APIVersion = "apps/v1beta1" }),
	} {
		vpas.Add(New(book, v, logr.Discard()))
	}
	for _, apiVersion := range []string{"apps/v1", "", "extensions/v1"} {
		found := vpas.Of(target.Key{Namespace: "ns", APIVersion: apiVersion, Kind: "Deployment", Name: "web"})
		require.Len(t, found, 2)
		require.Equal(t, []string{"v", "twin"}, []string{found[0].Object.Name, found[1].Object.Name})
	}
}

// BenchmarkMatchAmongFiveThousand finds the VPA of a pod in one namespace with many.
func BenchmarkMatchAmongFiveThousand(b *testing.B) {
	book, vpas := load(b, ""), Targets{}
	resolver, pod := cluster(b)
	for i := range 4999 {
		vpas.Add(New(book, vpaFor("v", fmt.Sprintf("web-%d", i), 0), logr.Discard()))
	}
	vpas.Add(New(book, vpaFor("v", "web", time.Hour), logr.Discard()))
	b.ReportAllocs()
	for b.Loop() {
		top, err := resolver.Topmost(b.Context(), pod)
		if err != nil {
			b.Fatal(err)
		}
		list := vpas.Of(top.Key)
		if v := Match(b.Context(), Update, top, list, pod, nil); len(list) != 1 || v == nil || v.Object.Spec.TargetRef.Name != "web" {
			b.Fatal(v, len(list))
		}
	}
}
