package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// noon is when clusters of these tests are looked at.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

const shop = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {namespace: web, name: shop}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: web, name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: app, image: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: web, name: shop-7d9f8b6c5, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, uid: u, controller: true}]}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: app, image: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: web, name: shop-7d9f8b6c5-2x4kq, labels: {app: shop}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: shop-7d9f8b6c5, uid: r, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app, image: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {namespace: web, name: shop-7d9f8b6c5-z5bnt, labels: {app: shop}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: shop-7d9f8b6c5, uid: r, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app, image: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}
status: {phase: Running}
---
`

// shopHistory is a month of 1 core and 1 GiB.
const shopHistory = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscalerCheckpoint
metadata: {namespace: web, name: shop-app}
spec: {vpaObjectName: shop, containerName: app}
status:
  version: v3
  lastUpdateTime: "2026-01-31T11:59:00Z"
  firstSampleStart: "2026-01-01T00:00:00Z"
  lastSampleStart: "2026-01-31T11:59:00Z"
  totalSamplesCount: 43000
  cpuHistogram: {referenceTimestamp: "2026-01-31T00:00:00Z", bucketWeights: {"36": 10000}, totalWeight: 100}
  memoryHistogram: {referenceTimestamp: "2026-02-01T00:00:00Z", bucketWeights: {"36": 10000}, totalWeight: 30}
---
`

// compiled are rule sets that several tests use.
var compiled = &compile.Cache{}

func shipped(t testing.TB) *compile.Rulebook {
	t.Helper()
	book, err := policy.Load(policy.Options{Cache: compiled})
	require.NoError(t, err)
	return book
}

func clusterOf(t testing.TB, text string, book *compile.Rulebook) *Cluster {
	t.Helper()
	set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(text))
	require.NoError(t, err)
	c, err := Load(set, book, At(noon))
	require.NoError(t, err)
	return c
}

func amounts(list corev1.ResourceList) string {
	return fmt.Sprintf("%s %s", list.Cpu(), list.Memory())
}

func TestARecommendationIsRestoredFromCheckpoints(t *testing.T) {
	c := clusterOf(t, shop+shopHistory, shipped(t))
	r, err := c.Restored()
	require.NoError(t, err)
	require.Empty(t, c.Notes())

	status := r.Status("web", "shop")
	require.Len(t, status.Recommendation.ContainerRecommendations, 1)
	one := status.Recommendation.ContainerRecommendations[0]
	require.Equal(t, "app", one.ContainerName)
	require.Equal(t, "1168m 1168723596", amounts(one.Target))
	require.Equal(t, "1167m 1168645322", amounts(one.LowerBound))
	require.Equal(t, "1207m 1207862246", amounts(one.UpperBound))
	explained := r.State.Explain(r.Workload("web", "shop"), r.now)
	require.Len(t, explained, 1)
	require.Equal(t, "app", explained[0].Container)
	var margins []string
	for _, step := range explained[0].Steps {
		if step.Rule == "add-safety-margin" && step.Field == "now.cpu" && step.Item == "target" {
			margins = append(margins, step.From+" → "+step.To)
		}
	}
	require.Equal(t, []string{"1016m → 1168m"}, margins)
}

func TestOtherRulesRecommendOtherwiseFromTheSameHistory(t *testing.T) {
	c := clusterOf(t, shop+shopHistory, shipped(t))
	r, err := c.Restored()
	require.NoError(t, err)
	doubled, err := policy.Load(policy.Options{Cache: compiled, Params: map[string]string{"estimate.marginFraction": "1"}})
	require.NoError(t, err)
	target := func() string {
		return amounts(r.Status("web", "shop").Recommendation.ContainerRecommendations[0].Target)
	}
	before := target()
	r.State.UseRules(doubled)
	require.Equal(t, "2032m 2032562776", target())
	r.State.UseRules(c.book)
	require.Equal(t, before, target())
}

func TestWithoutAUsableCheckpointNothingIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		replace, with string
		err           string
	}{
		"no checkpoint":               {shopHistory, "", ""},
		"another version":             {"version: v3", "version: v2", `VerticalPodAutoscalerCheckpoint web/shop-app cannot be used: status.version is "v2"; this celvpa reads "v3"`},
		"of a VPA that is gone":       {"vpaObjectName: shop", "vpaObjectName: other", ""},
		"made by another recommender": {"spec: {targetRef: {", "spec: {recommenders: [{name: other}], targetRef: {", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(t, strings.Replace(shop+shopHistory, tt.replace, tt.with, 1), shipped(t))
			r, err := c.Restored()
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
			require.Nil(t, r.Workload("web", "shop"))
			require.Nil(t, r.Status("web", "shop"))
		})
	}
}
