package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// recommenderDifference is a deliberate difference between the history or the recommendations of
// celvpa and upstream. Its name is a heading of the table in docs/upstream-differences.md.
type recommenderDifference struct {
	name  string
	why   string
	kind  string // of mismatch
	story string // in YAML, that differs in this and in nothing else
	often bool   // it depends on the order of upstream's maps: recommendations are compared many times, and nothing else
}

var deliberateOfRecommender = []recommenderDifference{
	{
		name: "resources without samples",
		why:  "Upstream recommends the minimum at once for what was never sampled, and pods are resized to it before anybody knows what they use.",
		kind: kindAmounts,
		story: `flags: {recommendation-min-samples: "1"}
events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}`,
	},
	{
		name: "removed containers",
		why:  "A container that no pod has any more needs nothing, and would take its share of the least that a pod is given.",
		kind: kindAmounts,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a, version: "1"}, containers: [app, old]}
- {at: 1m, do: no-pod, name: p}
- {at: 1m, do: pod, name: q, labels: {app: a, version: "2"}, containers: [app]}`,
	},
	{
		name: "a first memory sample of nothing",
		why:  "Metrics often begin with 0 bytes. To upstream that is the peak of its window, which nothing replaces until the window ends.",
		kind: kindMemory,
		story: `flags: {zero-memory-is-peak: "false"}
events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 0}
- {at: 1m, do: memory, name: p, container: app, amount: 1000000000}`,
	},
	{
		name: "samples from the future",
		why:  "One sample of next year, from a clock that is wrong, would make all samples until then old.",
		kind: kindAccepted,
		story: `events:
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: cpu, name: p, container: app, amount: 100, later: 2h}`,
	},
	{
		name: "memory samples that come again",
		why:  "A source of usage that stands still gives the same samples again. They change nothing, but if they were accepted nobody would notice.",
		kind: kindAccepted,
		story: `events:
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 1000000000}
- {at: 0s, do: memory, name: p, container: app, amount: 1000000000}`,
	},
	{
		name: "samples of more than any machine has",
		why:  "What measured it has failed. One sample would be the peak of memory for days, and pods would be evicted for a size that no node has.",
		kind: kindAccepted,
		story: `flags: {max-usage-cpu: "10k", max-usage-memory: 64Ti}
events:
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 9000000000000000000}`,
	},
	{
		name: "the end of restored history",
		why:  "History from a checkpoint ends like all other, not only when the recommender is started anew.",
		kind: kindContainers,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app, old]}
- {at: 0s, do: cpu, name: p, container: old, amount: 100}
- {at: 1m, do: no-pod, name: p}
- {at: 1m, do: restart}
- {at: 240h, do: collect}`,
	},
	{
		name: "VPAs that come back",
		why:  "A VPA that is deleted, perhaps with its CRD, and created again has the history of its checkpoint. Otherwise the few samples since would replace it there.",
		kind: kindContainers,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: cpu, name: p, container: app, amount: 100}
- {at: 1m, do: no-pod, name: p}
- {at: 1m, do: restart}
- {at: 1m, do: no-vpa, name: v}
- {at: 2m, do: vpa, name: v, selector: app=a}`,
	},
	{
		name: "what a restart loses",
		why:  "Upstream's checkpoints have neither the peak of the open memory window nor the time of the newest CPU sample. celvpa's have, in a field that upstream does not read.",
		kind: kindMemory,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 1000000000}
- {at: 1m, do: restart}`,
	},
	{
		name: "samples of pods whose labels changed",
		why:  "To upstream such a pod's samples are lost once the history that it had after the change has ended.",
		kind: kindContainers,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 1m, do: pod, name: p, labels: {app: a, tier: web}, containers: [app]}
- {at: 240h, do: collect}
- {at: 241h, do: cpu, name: p, container: app, amount: 100}`,
	},
	{
		name: "memory of pods whose labels changed",
		why:  "Upstream takes the peak of the open window out of a history that never had it, and forgets other peaks instead: 10 pods that were relabelled, and then use 500 MiB each, get a target of 105 MiB.",
		kind: kindMemory,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 100000000}
- {at: 1m, do: pod, name: p, labels: {app: a, tier: web}, containers: [app]}
- {at: 2m, do: memory, name: p, container: app, amount: 500000000}`,
	},
	{
		name: "usage without CPU samples",
		why:  "To upstream, usage ends eight days after its last CPU sample, and with its pods if it has none. Pods that run out of memory before their first CPU sample, as those of a CronJob may, are recommended the minimum an hour after each kill.",
		kind: kindContainers,
		story: `events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: oom, name: p, container: app, amount: 1073741824}
- {at: 1m, do: no-pod, name: p}
- {at: 1h, do: collect}`,
	},
	{
		name: "memory after usage has expired",
		why:  "Windows may have been made shorter since one began, so that usage expires before its window ends. Upstream forgets the usage, but not that the window has a peak, so the window's samples below that are in no history: the target falls to the minimum.",
		kind: kindMemory,
		story: `perVPA: true
events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 4000000000}
- {at: 1h, do: vpa, name: v, selector: app=a, policies: [{containerName: app, memoryAggregationIntervalSeconds: 60}]}
- {at: 2h, do: compare}
- {at: 2h, do: collect}
- {at: 3h, do: cpu, name: p, container: app, amount: 100}
- {at: 3h, do: memory, name: p, container: app, amount: 3000000000}`,
	},
	{
		name:  "history that others look at",
		why:   "Upstream moves the older of two histories to the time of the newer one when it merges them for one VPA, and what comes to almost nothing at that time is gone for every other VPA.",
		kind:  kindAmounts,
		often: true,
		story: `flags: {cpu-histogram-decay-half-life: 1h}
events:
- {at: 0s, do: vpa, name: all}
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: pod, name: q, labels: {app: b}, containers: [app]}
- {at: 0s, do: cpu, name: p, container: app, amount: 500}
- {at: 240h, do: cpu, name: q, container: app, amount: 100}`,
	},
	{
		name: "whose policy counts for shared pods",
		why:  "Where several VPAs select a pod, the oldest says how its usage is remembered. To upstream it is the one that changed last.",
		kind: kindMemory,
		story: `perVPA: true
events:
- {at: 0s, do: vpa, name: old, age: 60, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: vpa, name: new, selector: app=a, policies: [{containerName: app, oomMinBumpUp: 1Gi}]}
- {at: 0s, do: oom, name: p, container: app, amount: 1000000000}`,
	},
	{
		name: "settings that leave a policy",
		why:  "What a policy no longer says counts no longer. To upstream it does until the recommender is started anew.",
		kind: kindMemory,
		story: `perVPA: true
events:
- {at: 0s, do: vpa, name: v, selector: app=a, policies: [{containerName: app, oomMinBumpUp: 1Gi}]}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: vpa, name: v, selector: app=a, policies: [{containerName: app}]}
- {at: 0s, do: oom, name: p, container: app, amount: 1000000000}`,
	},
	{
		name: "OOMs that add nothing",
		why:  "AEP-8026 turns handling of OOMs off by a ratio of 1 with nothing added. Upstream still remembers what was requested as a sample.",
		kind: kindAccepted,
		story: `perVPA: true
events:
- {at: 0s, do: vpa, name: v, selector: app=a, policies: [{containerName: app, oomBumpUpRatio: "1", oomMinBumpUp: "0"}]}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: oom, name: p, container: app, amount: 1000000000}`,
	},
	{
		name: "containers of a pod that was replaced",
		why:  "Of a pod that is replaced by one of the same name between two cycles, as StatefulSets do, only the containers count that it has now.",
		kind: kindAccepted,
		story: `events:
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app, old]}
- {at: 1m, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 1m, do: memory, name: p, container: old, amount: 1000000}`,
	},
}

// TestEveryDifferenceOfTheRecommenderShows also keeps the table minimal: without its entry, an
// example shows no difference.
func TestEveryDifferenceOfTheRecommenderShows(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	for _, x := range deliberateOfRecommender {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			require.NotEmpty(t, x.why)
			s := storyOf(t, x.story)
			s.Raw = true
			celvpa := func(s story, begin time.Time) recommending { return newByCelvpa(s, begin) }
			if x.often {
				celvpa = func(s story, begin time.Time) recommending { return newByState(s, begin) }
				for range 50 {
					s.Events = append(s.Events, happens{At: s.Events[len(s.Events)-1].At, Do: doCompare})
				}
			}
			out := replay(t, s, celvpa)
			require.NotEmpty(t, out.Mismatches, "both do the same")
			require.Equal(t, x.kind, out.Mismatches[0].Kind, explainStory(s, out))
		})
	}
}

// TestStoriesThatDifferedOnce are regressions, each with its cause.
func TestStoriesThatDifferedOnce(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	for name, text := range map[string]string{
		"memory of pods that no VPA selects is windowed by --memory-aggregation-interval": `
flags: {memory-aggregation-interval: 10m}
events:
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 0s, do: memory, name: p, container: app, amount: 2000000000}
- {at: 30m, do: memory, name: p, container: app, amount: 1000000000}
- {at: 30m, do: vpa, name: v, selector: app=a}`,
		"an OOM is too old by the window of the policy": `
perVPA: true
events:
- {at: 0s, do: vpa, name: v, selector: app=a, policies: [{containerName: app, memoryAggregationIntervalSeconds: 600}]}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 2h, do: memory, name: p, container: app, amount: 1000000000}
- {at: 2h, do: oom, name: p, container: app, amount: 1000000000, later: -1h}
- {at: 2h, do: oom, name: p, container: app, amount: 1000000000, later: -5m}`,
		"a sample of 0 bytes in the second of an OOM is not that OOM again": `
events:
- {at: 0s, do: vpa, name: v, selector: app=a}
- {at: 0s, do: pod, name: p, labels: {app: a}, containers: [app]}
- {at: 1m, do: oom, name: p, container: app, amount: 1000000000}
- {at: 1m, do: memory, name: p, container: app, amount: 0}`,
		"a sample that is refused begins no history": `
perVPA: true
events:
- {at: 0s, do: vpa, name: v, selector: app=b}
- {at: 0s, do: pod, name: p, labels: {app: b}, containers: [app]}
- {at: 1h, do: memory, name: p, container: app, amount: 2000000000}
- {at: 240h, do: collect}
- {at: 240h, do: memory, name: p, container: app, amount: 1000000000, later: -239h30m}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := storyOf(t, text)
			out := replayBoth(t, s)
			require.Empty(t, out.Mismatches, explainStory(s, out))
		})
	}
}

func storyOf(t testing.TB, text string) story {
	t.Helper()
	var s story
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &s))
	return s
}
