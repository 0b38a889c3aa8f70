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
