package manifests

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/target"
)

func TestHowManyPodsAWorkloadShouldHave(t *testing.T) {
	for name, tt := range map[string]struct {
		text      string // of a workload called w
		want      int
		uncounted string
	}{
		"a StatefulSet":                     {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}, spec: {replicas: 3}}", 3, ""},
		"a StatefulSet without a number":    {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}}", 1, ""},
		"a DaemonSet":                       {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}, status: {desiredNumberScheduled: 4}}", 4, ""},
		"a DaemonSet without status":        {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}}", 0, "has no status.desiredNumberScheduled"},
		"a Job":                             {"{apiVersion: batch/v1, kind: Job, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}}", 7, ""},
		"a custom workload":                 {"{apiVersion: example.com/v1, kind: Rollout, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}, spec: {replicas: 2}}", 2, ""},
		"a custom workload of none":         {"{apiVersion: example.com/v1, kind: Rollout, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}, spec: {replicas: 0}}", 0, ""},
		"a custom workload without":         {"{apiVersion: example.com/v1, kind: Rollout, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}}", 0, "has no spec.replicas"},
		"a custom workload with other ones": {"{apiVersion: example.com/v1, kind: Rollout, metadata: {name: w, creationTimestamp: 2026-01-31T09:00:00Z}, spec: {replicas: {min: 1}}}", 0, "has no spec.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := read(tt.text)
			require.NoError(t, err)
			workloads, err := set.Workloads()
			require.NoError(t, err)
			key := target.Key{Namespace: "default", APIVersion: set.Documents[0].APIVersion, Kind: set.Documents[0].Kind, Name: "w"}
			if len(workloads) == 0 {
				w, found, err := set.Custom(schema.GroupKind{Group: "example.com", Kind: "Rollout"}, "default", "w")
				require.NoError(t, err)
				require.True(t, found)
				workloads = append(workloads, w)
			}
			require.Equal(t, tt.uncounted, workloads[0].Uncounted())
			demand, err := (&target.Resolver{Client: (&Set{}).Client(workloads)}).Demand(context.Background(), key, 7)
			require.NoError(t, err)
			require.Equal(t, tt.want, demand.Replicas)
			require.Equal(t, "2026-01-31T09:00:00Z", demand.Created.UTC().Format(time.RFC3339))
		})
	}
	standIn, err := StandIn(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", "shop", nil)
	require.NoError(t, err)
	require.Equal(t, "is not in the manifests", standIn.Uncounted())
}

func TestPodDisruptionBudgetsAreRead(t *testing.T) {
	set, err := read("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {maxUnavailable: 30%}, status: {disruptionsAllowed: 2}}\n---\n{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: old}}\n---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: odd}, spec: []}")
	require.NoError(t, err)
	budgets, err := set.PodDisruptionBudgets()
	require.ErrorContains(t, err, "standard input:3: PodDisruptionBudget default/old has apiVersion policy/v1beta1; write policy/v1")
	require.ErrorContains(t, err, "standard input:5: PodDisruptionBudget default/odd cannot be read")
	require.Len(t, budgets, 1)
	require.Equal(t, "default/a", budgets[0].Namespace+"/"+budgets[0].Name)
	require.Equal(t, int32(2), budgets[0].Status.DisruptionsAllowed)
}
