package manifests

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// targeting is a VPA with a target.
func targeting(name, apiVersion, kind, of string) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"namespace":"web","name":%q},"spec":{"targetRef":{"apiVersion":%q,"kind":%q,"name":%q}}}`, name, apiVersion, kind, of)
}

// ownedBy is an object that another controls.
func ownedBy(apiVersion, kind, name, ownerVersion, ownerKind, owner string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"web","name":%q,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"controller":true}]}}`, apiVersion, kind, name, ownerVersion, ownerKind, owner)
}

// Reading each of 5,000 workflows took minutes, and failed for those who may not read them.
func TestOnlyTargetsAreReadOfCustomKinds(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "clusters"}, "", errors.New("no"))
	for name, tt := range map[string]struct {
		pods, workloads, vpas []string
		got                   []string
		err                   string
	}{
		"targets, each once": {
			vpas: []string{targeting("a", "argoproj.io/v1alpha1", "Rollout", "shop"), targeting("b", "argoproj.io/v1", "Rollout", "shop"), targeting("c", "argoproj.io/v1alpha1", "Rollout", "other")},
			got:  []string{"Rollout web/shop", "Rollout web/other"},
		},
		"no targets of Kubernetes' own kinds": {vpas: []string{targeting("a", "apps/v1", "Deployment", "shop")}},
		"no faulty references":                {vpas: []string{targeting("a", "a/b/c", "Rollout", "shop"), targeting("b", "argoproj.io/v1alpha1", "Rollout", "")}},
		"no owners of pods": {
			pods: []string{ownedBy("v1", "Pod", "a", "argoproj.io/v1alpha1", "Workflow", "build"), ownedBy("v1", "Pod", "b", "v1", "Node", "n")},
			vpas: []string{targeting("a", "argoproj.io/v1alpha1", "Rollout", "shop")},
			got:  []string{"Rollout web/shop"},
		},
		"no owners of workloads": {workloads: []string{ownedBy("apps/v1", "ReplicaSet", "a", "argoproj.io/v1alpha1", "Rollout", "shop")}},
		"one error for a kind that may not be read": {
			vpas: []string{targeting("a", "example.com/v1", "Cluster", "a"), targeting("b", "example.com/v1", "Cluster", "b")},
			got:  []string{"Cluster web/a", "Cluster web/b"},
			err:  "cannot read clusters a in namespace web: " + forbidden.Error() + "; grant get on clusters there, or read another namespace with -n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &stub{
				items:  map[string][]string{"Pod": tt.pods, "ReplicaSet": tt.workloads, "VerticalPodAutoscaler": tt.vpas},
				errors: map[string]error{"Workflow": forbidden, "Cluster": forbidden},
			}
			_, notes, err := Reader{Client: c, Namespace: "web"}.Read(t.Context(), append(PodKinds, VPAKind)...)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
			require.Empty(t, notes)
			require.Equal(t, tt.got, c.got)
		})
	}
}

// A scalable owner makes a target unsupported.
func TestOwnersOfTargetsAreAskedForTheirScale(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "secrets"}, "", errors.New("no"))
	set := func(name, kind, owner string) string {
		return ownedBy("apps/v1", "StatefulSet", name, "example.com/v1", kind, owner)
	}
	db, web := targeting("db", "apps/v1", "StatefulSet", "db"), targeting("web", "apps/v1", "StatefulSet", "web")
	for name, tt := range map[string]struct {
		sets, vpas []string
		got        []string
		scalable   map[string]bool // known ones, by kind/name
		notes      []string
		err        string
	}{
		"one with a scale":       {sets: []string{set("db", "Scaled", "a")}, vpas: []string{db}, got: []string{"scale of Scaled web/a"}, scalable: map[string]bool{"Scaled/a": true}},
		"one without":            {sets: []string{set("db", "Plain", "a")}, vpas: []string{db}, got: []string{"scale of Plain web/a"}, scalable: map[string]bool{"Plain/a": false}},
		"one of two, once":       {sets: []string{set("db", "Scaled", "a"), set("web", "Scaled", "a")}, vpas: []string{db, web, db}, got: []string{"scale of Scaled web/a"}, scalable: map[string]bool{"Scaled/a": true}},
		"not of what no VPA has": {sets: []string{set("db", "Scaled", "a")}, vpas: []string{web}},
		"not one that is a target": {
			sets: []string{set("db", "Scaled", "a")}, vpas: []string{db, targeting("a", "example.com/v2", "Scaled", "a")}, got: []string{"Scaled web/a"},
		},
		"not Kubernetes' own kinds": {sets: []string{ownedBy("apps/v1", "StatefulSet", "db", "apps/v1", "Deployment", "a"), ownedBy("apps/v1", "StatefulSet", "web", "v1", "Node", "n")}, vpas: []string{db, web}},
		"one note for a kind whose scales may not be read": {
			sets: []string{set("db", "Secret", "a"), set("web", "Secret", "b")}, vpas: []string{db, web}, got: []string{"scale of Secret web/a", "scale of Secret web/b"},
			notes: []string{"the answer is without the scales of kind Secret: reading the scale of example.com/v1.Secret/a in namespace web: " + forbidden.Error() + "; grant get on secrets/scale"},
		},
		"an error where there is no answer": {
			sets: []string{set("db", "Down", "a")}, vpas: []string{db}, got: []string{"scale of Down web/a"},
			err: "cannot tell whether the owner of a target can be scaled: reading the scale of example.com/v1.Down/a in namespace web: connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &stub{
				items:  map[string][]string{"StatefulSet": tt.sets, "VerticalPodAutoscaler": tt.vpas},
				errors: map[string]error{"Secret": forbidden, "Down": errors.New("connection refused")}, scaled: map[string]bool{"Scaled": true},
			}
			read, notes, err := Reader{Client: c, Namespace: "web"}.Read(t.Context(), append(PodKinds, VPAKind, ScaleKind)...)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
			require.Equal(t, tt.notes, notes)
			require.Equal(t, tt.got, c.got)
			for _, kind := range []string{"Scaled", "Plain", "Secret", "Down"} {
				for _, of := range []string{"a", "b"} {
					scalable, known := read.Scalable(schema.GroupKind{Group: "example.com", Kind: kind}, "web", of)
					want, wanted := tt.scalable[kind+"/"+of]
					require.Equal(t, wanted, known, "%s %s", kind, of)
					require.Equal(t, want, scalable, "%s %s", kind, of)
				}
			}
			c.got = nil
			_, _, err = Reader{Client: c, Namespace: "web"}.Read(t.Context(), append(PodKinds, VPAKind)...)
			require.NoError(t, err)
			require.NotContains(t, fmt.Sprint(c.got), "scale of", "unless they are wanted")
		})
	}
}
