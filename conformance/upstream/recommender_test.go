package upstream

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// imagined is how many stories of each kind run.
const imagined = 70

var storyKinds = map[string]storyKind{
	"one history of each container":  {one: true},
	"pods and VPAs come and go":      {},
	"labels change":                  {relabel: true, restart: true},
	"garbage is collected":           {collect: true},
	"restarts from checkpoints":      {collect: true, restart: true},
	"one history and restarts":       {one: true, collect: true, restart: true},
	"VPAs choose what is remembered": {perVPA: true, collect: true, restart: true},
}

// TestCelvpaRecommendsAsUpstreamDoes replays generated stories on both recommenders. Each mismatch
// is a bug in celvpa, or needs an entry in the table of deliberate differences.
func TestCelvpaRecommendsAsUpstreamDoes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(storyKinds)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			replayMany(t, storyKinds[name], func(s story, begin time.Time) recommending { return newByCelvpa(s, begin) })
		})
	}
}

// TestTheStateRecommendsAsUpstreamDoes is the same for the status of VPAs.
func TestTheStateRecommendsAsUpstreamDoes(t *testing.T) {
	for name, kind := range map[string]storyKind{
		"plain": {noEnd: true, relabel: true}, "VPAs choose what is remembered": {noEnd: true, perVPA: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			replayMany(t, kind, func(s story, begin time.Time) recommending { return newByState(s, begin) })
		})
	}
}

// replayMany replays stories of a kind, and shows the first mismatch of each kind with a story that
// is as short as possible.
func replayMany(t *testing.T, kind storyKind, celvpa func(story, time.Time) recommending) {
	defer newByUpstream(story{}, time.Time{}) // upstream's configuration is global
	counts, sorts := map[string]int{}, map[string]int{}
	for seed := range seeds(t, cases(imagined)) {
		s := imagine(seed, kind)
		out := replay(t, s, celvpa)
		for k, n := range out.Counts {
			counts[k] += n
		}
		if len(out.Mismatches) == 0 {
			continue
		}
		sort := out.Mismatches[0].Kind
		if sorts[sort]++; sorts[sort] > 1 {
			continue
		}
		small := shorten(s, func(s story) bool {
			m := replay(t, s, celvpa).Mismatches
			return len(m) > 0 && m[0].Kind == sort
		})
		t.Errorf("seed %d: %s", seed, explainStory(small, replay(t, small, celvpa)))
	}
	for sort, n := range sorts {
		t.Errorf("%d stories differ in %s", n, sort)
	}
	t.Log(countsText(counts))
}

func explainStory(s story, out replayed) string {
	var text strings.Builder
	text.WriteString(s.String())
	for _, m := range out.Mismatches {
		fmt.Fprintf(&text, "%s: %s\n", m.Kind, m.Text)
	}
	return text.String()
}

func countsText(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s: %d", name, counts[name]))
	}
	return strings.Join(out, ", ")
}

// FuzzRecommender is the same test for any seed and kind.
func FuzzRecommender(f *testing.F) {
	names := slices.Sorted(maps.Keys(storyKinds))
	for i := range names {
		f.Add(uint64(imagined), i)
		f.Add(uint64(533), i)
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind int) {
		if kind < 0 || kind >= len(names) {
			t.Skip("there is no such kind")
		}
		defer newByUpstream(story{}, time.Time{})
		s := imagine(seed, storyKinds[names[kind]])
		out := replayBoth(t, s)
		require.Empty(t, out.Mismatches, "%s", s)
	})
}

type crossVersion = autoscalingv1.CrossVersionObjectReference

// recommending is a recommender without a cluster: the test feeds it events.
type recommending interface {
	setVPA(h happens)
	dropVPA(namespace, name string)
	setPod(h happens)
	dropPod(namespace, name string)
	// add adds a sample or an OOM and reports whether it counts.
	add(h happens) bool
	collect()
	// look returns history and recommendations by namespace/name of the VPA.
	look() map[string]*known
	// checkpoints returns those of all containers, by checkpointID.
	checkpoints() map[checkpointID][]byte
	// restart keeps only these checkpoints and the objects of the cluster: VPAs and pods, in order
	// of creation.
	restart(from map[checkpointID][]byte)
}

type checkpointID struct{ Namespace, VPA, Container string }

// known is what a recommender knows of a VPA.
type known struct {
	Pods        int
	Containers  map[string]*usage
	Recommended []recommended
}

// usage is the input of a container's recommendation.
type usage struct {
	First, Last time.Time
	Samples     int
	CPU, Memory []float64 // at each of percentiles
}

// percentiles are compared; the outermost only if there is a single history.
var percentiles = []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}

// inner are the percentiles that do not depend on the order in which histories are merged.
func inner(values []float64) []float64 { return values[2 : len(values)-2] }

// recommended is the recommendation for a container.
type recommended struct {
	Container                      string
	Target, Lower, Upper, Uncapped corev1.ResourceList
}

// taken is the timestamp of a sample.
func (h happens) taken(begin time.Time) time.Time {
	return begin.Add(time.Duration(h.At)).Add(time.Duration(h.Later))
}

// remembered are the objects that a recommender sees again after a restart.
type remembered struct {
	vpas, pods []happens
}

// leaving is a list without one object.
func leaving(list []happens, namespace, name string) []happens {
	var out []happens
	for _, h := range list {
		if h.namespace() != namespace || h.Name != name {
			out = append(out, h)
		}
	}
	return out
}

// with replaces an object in its place, or appends it.
func with(list []happens, h happens) []happens {
	for i := range list {
		if list[i].namespace() == h.namespace() && list[i].Name == h.Name {
			list[i] = h
			return list
		}
	}
	return append(list, h)
}

// again sends all objects to a restarted recommender, pods after what restore does.
func (r *remembered) again(to recommending, restore func()) {
	old := *r
	*r = remembered{}
	for _, h := range old.vpas {
		to.setVPA(h)
	}
	restore()
	for _, h := range old.pods {
		to.setPod(h)
	}
}

// TestCheckpointsGoBackAndForth repeatedly restarts each recommender from the checkpoints of the
// other. Both must then have the same history, and the same as two of upstream's: celvpa's own field
// of checkpoints changes nothing for upstream.
func TestCheckpointsGoBackAndForth(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	exchanges, withMore := 0, 0
	for seed := range seeds(t, cases(40)) {
		s := imagine(seed, storyKind{one: true, restart: true})
		last := 0
		for i := range s.Events {
			if e := &s.Events[i]; e.Do == doRestart || e.Do == doCPU && i-last > 150 {
				*e = happens{At: e.At, Do: doSwap}
				last = i
				exchanges++
			}
		}
		mixed := replayBoth(t, s)
		require.Empty(t, mixed.Mismatches, s)
		withMore += mixed.Counts[checkpointsWithMore]
		pure := replay(t, s, func(s story, begin time.Time) recommending { return newByUpstream(s, begin) })
		require.Empty(t, pure.Mismatches, s)
		compareViews(func(checkpointID) bool { return true }, pure.Last, mixed.Last, true, mixed.Counts, func(kind, format string, args ...any) {
			t.Errorf("seed %d: "+kind+": "+format, append([]any{seed}, args...)...)
		})
	}
	require.Greater(t, exchanges, cases(40))
	require.Greater(t, withMore, cases(40))
}

// TestCheckpointsAtTheEdge restores in both what upstream or its rounding may have written.
func TestCheckpointsAtTheEdge(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	begin := time.Now().Truncate(time.Second)
	stamp := begin.Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, histogram := range map[string]string{
		"the first bucket comes to less than the least weight (kubernetes/autoscaler#7726)": `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.5, "bucketWeights": {"0": 1, "50": 10000}}`,
		"the last bucket comes to less than the least weight":                               `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.5, "bucketWeights": {"50": 10000, "175": 1}}`,
		"all buckets come to less than the least weight":                                    `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.00005, "bucketWeights": {"50": 10000, "60": 1}}`,
		"weights of nothing":      `{"referenceTimestamp": "` + stamp + `", "totalWeight": 5, "bucketWeights": {"50": 0}}`,
		"a total without weights": `{"referenceTimestamp": "` + stamp + `", "totalWeight": 5}`,
		"nothing at all":          `{"referenceTimestamp": null}`,
		"a total of nothing":      `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0, "bucketWeights": {"50": 10000}}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"version": "v3", "firstSampleStart": "` + stamp + `", "lastSampleStart": "` + stamp + `", "totalSamplesCount": 3,
				"cpuHistogram": ` + histogram + `, "memoryHistogram": ` + histogram + `}`
			from := map[checkpointID][]byte{{Namespace: "ns", VPA: "v", Container: "app"}: []byte(text)}
			upstream, celvpa := newByUpstream(story{}, begin), newByCelvpa(story{}, begin)
			for _, r := range []recommending{upstream, celvpa} {
				r.setVPA(happens{Do: doVPA, Name: "v", Selector: "app=a"})
				r.restart(from)
				r.setPod(happens{Do: doPod, Name: "p", Labels: map[string]string{"app": "a"}, Containers: []string{"app"}})
			}
			for _, sample := range []happens{{}, {Do: doCPU, Name: "p", Container: "app", Amount: 100}, {Do: doMemory, Name: "p", Container: "app", Amount: 1e9}} {
				if sample.Do != "" {
					require.Equal(t, upstream.add(sample), celvpa.add(sample))
				}
				compareViews(func(checkpointID) bool { return true }, upstream.look(), celvpa.look(), true, map[string]int{}, func(kind, format string, args ...any) {
					t.Errorf(kind+": "+format, args...)
				})
			}
		})
	}
}

// windows are the lengths of the memory windows of containers with history.
func (u *byUpstream) windows() map[model.ContainerID]time.Duration {
	out := map[model.ContainerID]time.Duration{}
	for pod, state := range u.cluster.Pods() {
		for name, c := range state.Containers {
			id := model.ContainerID{PodID: pod, ContainerName: name}
			if u.history(id) != nil {
				out[id] = c.GetMemoryAggregationIntervalDuration()
			}
		}
	}
	return out
}

// lastMemory is the time of the newest memory sample of a container, which upstream keeps to itself.
func lastMemory(c *model.ContainerState) time.Time {
	return *(*time.Time)(reflect.ValueOf(c).Elem().FieldByName("lastMemorySampleStart").Addr().UnsafePointer())
}

// history is that of the containers of this name in pods with the same labels, nil without one.
// Upstream has no question about it that does not begin one.
func (u *byUpstream) history(id model.ContainerID) *model.AggregateContainerState {
	key := u.cluster.MakeAggregateStateKey(u.cluster.Pods()[id.PodID], id.ContainerName)
	found := reflect.ValueOf(u.cluster).Elem().FieldByName("aggregateStateMap").MapIndex(reflect.ValueOf(key))
	if !found.IsValid() {
		return nil
	}
	return (*model.AggregateContainerState)(found.UnsafePointer())
}

// remember records a memory sample that counted: upstream knows the time of CPU samples alone.
func (u *byUpstream) remember(id model.ContainerID, at time.Time) {
	a := u.history(id)
	if a != nil && u.cluster.GetContainer(id).GetMaxMemoryPeak() > 0 && at.After(u.memory[a]) {
		u.memory[a] = at
	}
}

// lasting makes upstream keep usage as long as celvpa does, until either resource's last sample is too
// old, and returns what takes that back.
func (u *byUpstream) lasting() (undo func()) {
	type times struct {
		last    time.Time
		samples int
	}
	before := map[*model.AggregateContainerState]times{}
	for a, last := range u.memory {
		if last.After(a.LastSampleStart) {
			before[a] = times{a.LastSampleStart, a.TotalSamplesCount}
			a.LastSampleStart, a.TotalSamplesCount = last, max(a.TotalSamplesCount, 1)
		}
	}
	return func() {
		for a, was := range before {
			a.LastSampleStart, a.TotalSamplesCount = was.last, was.samples
		}
	}
}
