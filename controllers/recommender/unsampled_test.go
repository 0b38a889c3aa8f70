package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// What a resource without samples is recommended: UPSTREAM.md Appendix B 11.

func (w *world) cpu(id model.PodID, container string, milli int64, after time.Duration) {
	w.Add([]model.Sample{{Pod: id, Container: container, Resource: model.CPU, Amount: milli, At: start.Add(after)}}, start.Add(after))
}

// targets are those in the status, by container and then by resource.
func (w *world) targets() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, c := range w.v.Status.Recommendation.ContainerRecommendations {
		out[c.ContainerName] = map[string]string{}
		for name, q := range c.Target {
			out[c.ContainerName][string(name)] = q.String()
		}
	}
	return out
}

// provided is condition RecommendationProvided, with reason and message.
func (w *world) provided() []string {
	c := w.condition(vpav1.RecommendationProvided)
	return []string{string(c.Status), c.Reason, c.Message}
}

type byResource = map[string]string

func TestHazard11AResourceWithoutSamplesIsRecommendedNothing(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.pod("p", "a")
	require.True(t, w.cycle())
	require.Empty(t, w.targets())
	require.Equal(t, []string{"False", "UsageUnknown", "too little usage is known to recommend cpu and memory of container a"}, w.provided())
	require.Nil(t, w.condition(vpav1.LowConfidence), "there is nothing to have confidence in")

	w.cpu(id, "a", 100, 0)
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "126m"}}, w.targets())
	require.Equal(t, []string{"True", "UsageUnknown", "too little usage is known to recommend memory of container a"}, w.provided())
	require.NotNil(t, w.condition(vpav1.LowConfidence))

	w.memory(id, "a", 1<<30, 0)
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "126m", "memory": "1238659775"}}, w.targets())
	require.Equal(t, []string{"True", "", ""}, w.provided())
}

func TestHazard11AContainerThatIsAddedIsRecommendedNothingBeforeItsFirstSample(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p-1", "a")
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "25m", "memory": "250Mi"}}, w.targets())

	added := w.pod("p-2", "a", "b")
	w.idle(added, "a")
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "12m", "memory": "125Mi"}}, w.targets(), "it shares the minimum of the pod from the start")
	require.Equal(t, []string{"True", "UsageUnknown", "too little usage is known to recommend cpu and memory of container b"}, w.provided())

	w.cluster.KeepPods(map[model.PodID]bool{added: true})
	w.idle(added, "b")
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "12m", "memory": "125Mi"}, "b": {"cpu": "12m", "memory": "125Mi"}}, w.targets())
}

func TestHazard11AnOOMIsASampleAndAPeakOfNothingIsNone(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.pod("p", "a", "b")
	w.memory(id, "b", 0, 0)
	w.memory(id, "b", 1<<30, time.Minute) // is hidden by the one before: hazard 12
	taken, _ := w.AddOOM(model.OOM{Pod: id, Container: "a", Memory: 1 << 30, At: start}, start)
	require.Equal(t, model.Accepted, taken)
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"memory": "1555165137"}}, w.targets())
	require.Equal(t, "too little usage is known to recommend cpu of container a; cpu and memory of container b", w.provided()[2])
}

func TestHazard11UsageThatEndedIsNoUsage(t *testing.T) {
	w := newWorld(t, policy.Options{})
	w.idlePod("p", "a")
	require.True(t, w.cycle())
	require.Equal(t, "True", w.provided()[0])
	w.cluster.CollectGarbage(start.Add(8 * 24 * time.Hour))
	require.True(t, w.cycle())
	require.Empty(t, w.targets())
	require.Equal(t, []string{"False", "UsageUnknown", "the last usage is too long ago of container a"}, w.provided())
}

func TestHazard11AnOperatorMayAskForMoreSamplesOrNone(t *testing.T) {
	w := newWorld(t, policy.Options{Params: map[string]string{"estimate.minSamples": "2"}})
	id := w.pod("p", "a")
	for i, want := range []map[string]byResource{{}, {"a": {"cpu": "126m"}}} {
		w.cpu(id, "a", 100, time.Duration(i)*time.Minute)
		w.cycle()
		require.Equal(t, want, w.targets())
	}
	w = newWorld(t, upstreamsStart)
	w.pod("p", "a")
	require.True(t, w.cycle())
	require.Equal(t, map[string]byResource{"a": {"cpu": "25m", "memory": "250Mi"}}, w.targets())
	require.Equal(t, []string{"True", "", ""}, w.provided())
}

// TestHazard11ARestartTakesNothingBack: the memory of a window that is not over is in no
// checkpoint.
func TestHazard11ARestartTakesNothingBack(t *testing.T) {
	recommended := &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "a",
		Target: amountsOf("25m", "700Mi"), LowerBound: amountsOf("25m", "600Mi"), UpperBound: amountsOf("25m", "800Mi"), UncappedTarget: amountsOf("25m", "700Mi")}}}
	restarted := func(samples int) *world {
		w := newWorld(t, policy.Options{})
		w.v.Status.Recommendation = recommended.DeepCopy()
		w.v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue}}
		seen := w.see()
		from := checkpointOf("v", "a", samples).Status
		if samples == 0 {
			from.FirstSampleStart, from.LastSampleStart, from.CPUHistogram.BucketWeights = metav1.Time{}, metav1.Time{}, nil
		}
		require.NoError(t, seen.model.Restore(facts.DefaultWindow(), "a", &from, time.Now()))
		w.pod("p", "a")
		return w
	}
	w := restarted(1000)
	w.cycle()
	c := w.v.Status.Recommendation.ContainerRecommendations[0]
	require.Equal(t, []string{"600Mi", "700Mi", "800Mi"}, []string{c.LowerBound.Memory().String(), c.Target.Memory().String(), c.UpperBound.Memory().String()})
	require.Greater(t, c.Target.Cpu().MilliValue(), int64(4000), "from the checkpoint")
	require.Equal(t, []string{"True", "", ""}, w.provided())
	w.memory(model.PodID{Namespace: "ns", Name: "p"}, "a", 1<<30, 0)
	require.True(t, w.cycle())
	require.Equal(t, "1238659775", w.targets()["a"]["memory"], "from the first sample on that counts")

	// Upstream writes checkpoints without samples, too, and the minimums beside them.
	w = restarted(0)
	w.cycle()
	require.Empty(t, w.targets())
	require.Equal(t, "False", w.provided()[0])
}

// TestAnOOMBeforeTheFirstCPUSampleIsRemembered: the pods of a CronJob may live for seconds. What was learned
// of them was forgotten within an hour, and the next ones ran out of the same memory.
func TestAnOOMBeforeTheFirstCPUSampleIsRemembered(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.pod("p", "a")
	taken, _ := w.AddOOM(model.OOM{Pod: id, Container: "a", Memory: 1 << 30, At: start}, start)
	require.Equal(t, model.Accepted, taken)
	require.True(t, w.cycle())
	want := map[string]byResource{"a": {"memory": "1555165137"}}
	require.Equal(t, want, w.targets())
	w.cluster.KeepPods(nil)
	for _, after := range []time.Duration{time.Hour, 8*24*time.Hour - 1} {
		w.cluster.CollectGarbage(start.Add(after))
		w.cycle()
		require.Equal(t, want, w.targets(), after)
	}
	w.cluster.CollectGarbage(start.Add(8 * 24 * time.Hour))
	w.cycle()
	require.Empty(t, w.targets())
}
