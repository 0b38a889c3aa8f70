package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine/compile"
)

// TestImplausibleSamplesAreNamedOnEachPath: those of history vanished without a word.
func TestImplausibleSamplesAreNamedOnEachPath(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Params: map[string]string{"plausible-usage.sample.cpu": "1500m"}})
	require.NoError(t, err)
	objects := workload("shop", "app")
	objects[2].(*appsv1.Deployment).Spec.Selector.MatchLabels = map[string]string{"app": "shop"}
	pod := podNamed("shop-new", "shop", "app")
	c := newCluster(t, objects[0], pod, objects[2])
	c.Rules = func() *compile.Rulebook { return book }
	c.History, c.Checkpoints = prometheusWith(t, []string{"shop-new"}), nil // which uses two cores
	c.cycle()
	require.Equal(t, 1, c.count("history has unusable samples"))
	require.Equal(t, 1, c.count("samples left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 2 cpu of container app of pod ns/shop-new at "))
	require.Equal(t, 1, c.count("where at most 1500m is accepted"))

	for range 2 {
		c.usage = []model.Sample{{Pod: model.PodID{Namespace: "ns", Name: "shop-new"}, Container: "app", Resource: model.CPU, Amount: 9000, At: time.Now()}}
		c.RunOnce(t.Context())
	}
	require.Equal(t, 1, c.count("metrics source returned unusable samples"), "once")
	require.Equal(t, 1, c.count("1 sample left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 9 cpu of container app of pod ns/shop-new at "))
}
