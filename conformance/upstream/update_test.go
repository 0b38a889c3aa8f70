package upstream

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// generatedUpdates is how many cases of a kind run. The environment variable named below sets another number.
const generatedUpdates = 2400

const updatesVariable = "CELVPA_UPDATES"

var updateKinds = map[string]updateKind{
	"gates off": {part: 1, modes: list("Recreate", "Recreate", "Auto", "InPlaceOrRecreate", "InPlaceOrRecreate", "InPlaceOrRecreate"),
		flags: []map[string]any{defaultFlags, defaultFlags, boldFlags, anxiousFlags, eagerFlags, oneByOneFlags}},
	"mode InPlace": {part: 1, gates: gates{InPlace: true}, modes: list("InPlace", "InPlace", "InPlace", "InPlaceOrRecreate", "Recreate"),
		flags: []map[string]any{defaultFlags, defaultFlags, anxiousFlags, inPlaceFlags}},
	"settings of each VPA": {part: 3, gates: gates{PerVPAConfig: true}, modes: list("Recreate", "Auto", "InPlaceOrRecreate"), flags: []map[string]any{defaultFlags}},
	"startup boosts":       {part: 3, gates: gates{CPUStartupBoost: true}, modes: list("Recreate", "InPlaceOrRecreate"), flags: []map[string]any{defaultFlags}},
}

// TestCelvpaUpdatesAsUpstreamDoes runs a cycle of both updaters on generated workloads. Each
// mismatch is a bug in celvpa, or needs an entry in the table of deliberate differences.
func TestCelvpaUpdatesAsUpstreamDoes(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	number := cases(generatedUpdates)
	if text := os.Getenv(updatesVariable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, updatesVariable)
		number = n
	}
	met, ran := map[string]int{}, 0
	for _, name := range slices.Sorted(maps.Keys(updateKinds)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			manyUpdates(t, updateKinds[name], number/updateKinds[name].part, met)
			ran++
		})
	}
	t.Log(countsText(met))
	if ran == len(updateKinds) {
		for _, x := range deliberateOfUpdater {
			explainsSome(t, met, x.name)
		}
	}
}

func manyUpdates(t *testing.T, kind updateKind, number int, met map[string]int) {
	wrong, counts := mismatches{}, map[string]int{}
	for seed := range seeds(t, number) {
		c := generateUpdate(seed, kind)
		explained := false
		r, unexplained, err := judgeUpdate(c, func(entry string) {
			met[entry]++
			explained = true
		})
		require.NoError(t, err, "%s", c)
		switch {
		case len(unexplained) > 0:
			counts["differ"]++
		case explained:
			counts["differ on purpose"]++
		case len(r.Celvpa.Done) == 0:
			counts["both do nothing"]++
		default:
			counts["both do the same"]++
		}
		for _, d := range unexplained {
			wrong.add(d.signature(), c, seed)
		}
	}
	t.Log(countsText(counts))
	require.Greater(t, counts["both do the same"], number/10, "the generator makes too few workloads to compare")
	wrong.report(t, explainUpdate)
}

// explainUpdate shrinks a case as long as it still shows the mismatch, and prints both answers.
func explainUpdate(c testCase, signature string) string {
	small := shrink(c, func(candidate testCase) bool {
		if !isRunning(candidate) {
			return false // smaller, but another case
		}
		_, unexplained, err := judgeUpdate(candidate, nil)
		return err == nil && slices.ContainsFunc(unexplained, func(d updateDiscrepancy) bool { return d.signature() == signature })
	})
	return signature + "\n" + describeUpdate(small)
}

// isRunning reports whether all pods of a case, and the containers of each, have distinct names.
func isRunning(c testCase) bool {
	in, err := readUpdate(c)
	if err != nil {
		return false
	}
	var names []string
	for _, pod := range in.Pods {
		if pod.Name == "" || slices.Contains(names, pod.Name) || len(pod.Spec.Containers) == 0 {
			return false
		}
		names = append(names, pod.Name)
		var containers []string
		for i := range pod.Spec.Containers {
			if name := pod.Spec.Containers[i].Name; name == "" || slices.Contains(containers, name) {
				return false
			} else {
				containers = append(containers, name)
			}
		}
		if controllerOf(pod) == nil {
			return false // no VPA controls such pods, on either side
		}
		for _, ref := range pod.OwnerReferences {
			if ref.Kind == "" || ref.Name == "" || ref.APIVersion == "" || ref.Kind == "Job" && in.owner(ref.Kind, ref.Name) == nil {
				return false
			}
		}
		for i := range pod.Status.ContainerStatuses {
			if end := pod.Status.ContainerStatuses[i].LastTerminationState.Terminated; end != nil && (end.StartedAt.IsZero() || end.FinishedAt.IsZero()) {
				return false
			}
		}
	}
	for _, o := range in.Owners {
		if o.Kind == "" || o.Name == "" || o.Kind != "Job" && o.Replicas == nil {
			return false
		}
	}
	return len(names) > 0
}

func describeUpdate(c testCase) string {
	r, unexplained, err := judgeUpdate(c, nil)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%supstream %scelvpa %s", c, &r.Upstream, &r.Celvpa)
	for _, d := range unexplained {
		fmt.Fprintf(&out, "%s (%s)\n", d.signature(), d.Text)
	}
	return out.String()
}

// TestEveryDifferenceOfTheUpdaterHasAnExample also keeps the table minimal: an example needs its
// own entry and no other.
func TestEveryDifferenceOfTheUpdaterHasAnExample(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for _, x := range deliberateOfUpdater {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			require.NotEmpty(t, x.why)
			var met []string
			c := readCase(t, x.example)
			_, unexplained, err := judgeUpdate(c, func(entry string) { met = append(met, entry) })
			require.NoError(t, err)
			require.Empty(t, unexplained, describeUpdate(c))
			require.Equal(t, []string{x.name}, met, describeUpdate(c))
		})
	}
}

// FuzzUpdater is the same test for any seed and kind.
func FuzzUpdater(f *testing.F) {
	names := slices.Sorted(maps.Keys(updateKinds))
	for i := range names {
		f.Add(uint64(generatedUpdates), i)
	}
	f.Add(uint64(1263), 1) // a CPU target that is reached, and memory that is recommended but not controlled
	f.Cleanup(func() { _ = setUpstreamGates(gates{}) })
	f.Fuzz(func(t *testing.T, seed uint64, kind int) {
		if kind < 0 || kind >= len(names) {
			t.Skip("there is no such kind")
		}
		c := generateUpdate(seed, updateKinds[names[kind]])
		_, unexplained, err := judgeUpdate(c, nil)
		require.NoError(t, err)
		for _, d := range unexplained {
			t.Error(explainUpdate(c, d.signature()))
		}
	})
}

// budgetTable is the table of UPSTREAM.md §5.9. Statuses identify pods; all pods should grow by the
// same amount.
var budgetTable = []struct {
	name      string
	mode      string // empty = Recreate
	flags     string
	replicas  int
	tolerance float64
	pods      []string
	first     []string // what is done with each pod if it is the first; of a resize that is not waited for, "evict"
	done      []string // what is done with all of them
	// celvpa is what celvpa does if that differs; see the table of differences.
	celvpaFirst, celvpaDone []string
}{
	{name: "half of 3 is 1", replicas: 3, tolerance: 0.5, pods: list3("running"), first: list3("evict"), done: []string{"evict p0"}},
	{name: "half of 4 is 2", replicas: 4, tolerance: 0.5, pods: list3("running", "running"), first: list3("evict", "evict"), done: []string{"evict p0", "evict p1"}},
	{name: "one of 4 is gone already", replicas: 4, tolerance: 0.5, pods: list3("running"), first: list3("evict"), done: []string{"evict p0"}},
	{name: "a tolerance of none lets one go", replicas: 3, tolerance: 0.1, pods: list3("running"), first: list3("evict"), done: []string{"evict p0"}},
	{name: "a tolerance of none lets none go while one is missing", replicas: 3, tolerance: 0.1, pods: []string{"running", "running"}, first: []string{"nothing", "nothing"}},
	{name: "a pod that has not started may always go", replicas: 3, tolerance: 0.5, pods: []string{"running", "pending", "running"},
		first: []string{"nothing", "evict", "nothing"}, done: []string{"evict p1"}},
	{name: "all pods that have not started may go", replicas: 4, tolerance: 0.5, pods: []string{"running", "pending", "pending", "pending"},
		first: []string{"nothing", "evict", "evict", "evict"}, done: []string{"evict p1", "evict p2", "evict p3"}},
	{name: "a single pod stays", replicas: 1, tolerance: 0.5, pods: []string{"running"}, first: []string{"nothing"}},
	{name: "a single pod goes where one is enough", flags: "min-replicas: 1", replicas: 1, tolerance: 0.5, pods: []string{"running"}, first: []string{"evict"}, done: []string{"evict p0"}},
	{name: "a single pod with a boost", replicas: 1, tolerance: 0.5, pods: []string{"boosted"}, first: []string{"evict"}, done: []string{"evict p0"},
		celvpaFirst: []string{"nothing"}, celvpaDone: []string{}},
	{name: "infeasible resizes count as pods that run", replicas: 3, tolerance: 0.5, pods: []string{"running", "Infeasible", "Infeasible"},
		first: list3("evict"), done: []string{"evict p0"}},
	{name: "an infeasible resize does not help where one is missing", replicas: 4, tolerance: 0.1, pods: []string{"running", "running", "Infeasible"}, first: list3("nothing")},
	{name: "a tolerance of all", replicas: 3, tolerance: 1, pods: []string{"running", "running", "Infeasible"}, first: list3("evict"), done: []string{"evict p0", "evict p1", "evict p2"}},
	{name: "resizes before evictions", mode: "InPlaceOrRecreate", replicas: 3, tolerance: 0.1, pods: []string{"Infeasible", "InProgress", "running"},
		first: []string{"evict", "nothing", "resize"}, done: []string{"resize p2"}, celvpaDone: []string{"evict p0"}},
}

// list3 is one text three times, and others.
func list3(text string, more ...string) []string { return append([]string{text, text, text}, more...) }

// TestBudgets runs on both sides (UPSTREAM.md §5.9).
func TestBudgets(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	for _, x := range budgetTable {
		t.Run(x.name, func(t *testing.T) {
			var pods []string
			for i, status := range x.pods {
				pod := running(fmt.Sprintf("p%d", i), map[string]string{"pending": "phase: Pending", "Infeasible": resizing("PodResizePending", "Infeasible", 0),
					"InProgress": resizing("PodResizeInProgress", "", 0)}[status])
				if status == "boosted" {
					pod = strings.Replace(pod, "metadata: {", `metadata: {annotations: {vpaCpuStartupBoost/a: "{}"}, `, 1)
				}
				pods = append(pods, pod)
			}
			mode := x.mode
			if mode == "" {
				mode = "Recreate"
			}
			text := runningCase(mode, x.replicas, pods...)
			flags := fmt.Sprintf("flags: {eviction-tolerance: %g", x.tolerance)
			if x.flags != "" {
				flags += ", " + x.flags
			}
			c := readCase(t, strings.Replace(text, "flags: {min-replicas: 1", flags, 1))
			in, err := readUpdate(c)
			require.NoError(t, err)

			var theirs, ours []string
			for _, pod := range in.Pods {
				others := map[string]bool{}
				for _, other := range in.Pods {
					others[other.Name] = other != pod
				}
				upstream, err := updateByUpstream(in.copy(), c.Gates, ways{leave: others})
				require.NoError(t, err)
				celvpa, err := updateByCelvpa(in.copy(), c.Gates, others)
				require.NoError(t, err)
				theirs, ours = append(theirs, upstream.doneWith(pod.Name)), append(ours, celvpa.doneWith(pod.Name))
			}
			upstream, err := updateByUpstream(in.copy(), c.Gates, ways{})
			require.NoError(t, err)
			celvpa, err := updateByCelvpa(in.copy(), c.Gates, nil)
			require.NoError(t, err)
			require.Equal(t, x.first, theirs)
			require.Equal(t, x.done, upstream.Done)
			first, done := x.first, x.done
			if x.celvpaFirst != nil {
				first = x.celvpaFirst
			}
			if x.celvpaDone != nil {
				done = x.celvpaDone
			}
			require.Equal(t, first, ours, &celvpa)
			require.Equal(t, append([]string(nil), done...), celvpa.Done, &celvpa)
		})
	}
}

// TestPriorities runs on both sides (UPSTREAM.md §5.10).
func TestPriorities(t *testing.T) {
	cpu := func(name, request, target, more string) (container, recommendation string) {
		return fmt.Sprintf("{name: %s, resources: {requests: {%s}}}", name, request), fmt.Sprintf("{containerName: %s, target: {%s}%s}", name, target, more)
	}
	type amounts struct{ request, target, bounds string }
	for _, x := range []struct {
		name       string
		containers []amounts
		want       standing
	}{
		{"2 to 10", []amounts{{"cpu: 2", "cpu: 10", ""}}, standing{Diff: 4, ScaleUp: true}},
		{"4 to 2", []amounts{{"cpu: 4", "cpu: 2", ""}}, standing{Diff: 0.5}},
		{"10m to 900m", []amounts{{"cpu: 10m", "cpu: 900m", ""}}, standing{Diff: 89, ScaleUp: true}},
		{"4 to 10 below its bounds", []amounts{{"cpu: 4", "cpu: 10", ", lowerBound: {cpu: 6}, upperBound: {cpu: 14}"}}, standing{Diff: 1.5, ScaleUp: true, Outside: true}},
		{"8 to 2 above its bounds", []amounts{{"cpu: 8", "cpu: 2", ", lowerBound: {cpu: 1}, upperBound: {cpu: 3}"}}, standing{Diff: 0.75, Outside: true}},
		{"both resources grow", []amounts{{"cpu: 3, memory: 10M", "cpu: 6, memory: 20M", ""}}, standing{Diff: 2, ScaleUp: true}},
		{"one grows and one shrinks", []amounts{{"cpu: 4, memory: 10M", "cpu: 2, memory: 20M", ""}}, standing{Diff: 1.5, ScaleUp: true}},
		{"two containers grow", []amounts{{"cpu: 1", "cpu: 4", ""}, {"cpu: 2", "cpu: 8", ""}}, standing{Diff: 3, ScaleUp: true}},
		{"two containers shrink", []amounts{{"cpu: 3", "cpu: 1", ""}, {"cpu: 7", "cpu: 2", ""}}, standing{Diff: 0.7}},
		{"no request of memory", []amounts{{"cpu: 1", "cpu: 1, memory: 1", ""}}, standing{Diff: 999, ScaleUp: true, Outside: true}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var containers, recommendations []string
			for i, a := range x.containers {
				container, recommendation := cpu(string(rune('a'+i)), a.request, a.target, a.bounds)
				containers, recommendations = append(containers, container), append(recommendations, recommendation)
			}
			r, unexplained, err := judgeUpdate(readCase(t, fmt.Sprintf(`object: {pods: [{metadata: {name: p, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]}, spec: {containers: [%s]}}], vpa: {status: {recommendation: {containerRecommendations: [%s]}}}}`,
				strings.Join(containers, ", "), strings.Join(recommendations, ", "))), nil)
			require.NoError(t, err)
			require.Empty(t, unexplained)
			for side, got := range map[string]standing{"upstream": r.Upstream.Pods["p"], "celvpa": r.Celvpa.Pods["p"]} {
				require.InDelta(t, x.want.Diff, got.Diff, 1e-12, side)
				require.Equal(t, []bool{x.want.Outside, x.want.ScaleUp}, []bool{got.Outside, got.ScaleUp}, side)
			}
		})
	}
}

// updatesThatDifferedOnce are regressions, each with its cause.
var updatesThatDifferedOnce = map[string]string{
	"an empty list of observed containers is one": strings.Replace(runningCase("Recreate", 1, running("p0", "")), "name: p0", `name: p0, annotations: {vpaObservedContainers: ""}`, 1),
	"a pod that has not started is not evicted for its resize": runningCase("InPlaceOrRecreate", 1,
		strings.Replace(running("p0", resizing("PodResizePending", "Infeasible", 0)), "conditions", "phase: Pending, conditions", 1)),
	"a pod that has not started is evicted whatever its resize does": runningCase("Recreate", 1,
		strings.Replace(running("p0", resizing("PodResizePending", "Deferred", 0)), "conditions", "phase: Pending, conditions", 1)),
	"a container that admission did not see may lack requests": `object: {flags: {min-replicas: 1}, owners: [{kind: ReplicaSet, name: r, replicas: 1}],
pods: [{metadata: {name: p0, annotations: {vpaObservedContainers: b}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]},
spec: {containers: [{name: a}, {name: b, resources: {requests: {cpu: 400m, memory: 512Mi}}}]}}],
vpa: {spec: {updatePolicy: {evictionRequirements: [{resources: [cpu], changeRequirement: TargetHigherThanRequests}]}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {memory: 1Gi}}, {containerName: b, target: {cpu: 100m}, upperBound: {cpu: 250m}}]}}}}`,
	"what the policy leaves alone stays as requested where an infeasible resize asked for more": `gates: {InPlace: true}
object: {infeasible: {p0: {a: {cpu: 150m}}}, flags: {min-replicas: 1}, owners: [{kind: ReplicaSet, name: r, replicas: 1}],
pods: [{metadata: {name: p0, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]},
spec: {containers: [{name: a, resources: {requests: {cpu: 100m, memory: 128Mi}}}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: a, controlledResources: [memory]}]}, updatePolicy: {updateMode: InPlace}},
status: {recommendation: {containerRecommendations: [{containerName: a, target: {cpu: 200m, memory: 1Gi}, lowerBound: {cpu: 150m, memory: 512Mi}}]}}}}`,
	"a container with mode Off may not lack requests": `object: {flags: {min-replicas: 1}, owners: [{kind: ReplicaSet, name: r, replicas: 1}],
pods: [{metadata: {name: p0, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]},
spec: {containers: [{name: b, resources: {requests: {cpu: 100m, memory: 128Mi}}}, {name: c}]}}],
vpa: {spec: {resourcePolicy: {containerPolicies: [{containerName: c, mode: "Off"}]}, updatePolicy: {evictionRequirements: [{resources: [cpu], changeRequirement: TargetLowerThanRequests}]}},
status: {recommendation: {containerRecommendations: [{containerName: b, target: {cpu: 400m}, lowerBound: {cpu: 105m}}, {containerName: c, target: {memory: 256Mi}}]}}}}`,
}

func TestUpdatesThatDifferedOnce(t *testing.T) {
	for _, name := range slices.Sorted(mapKeys(updatesThatDifferedOnce)) {
		t.Run(name, func(t *testing.T) {
			c := readCase(t, updatesThatDifferedOnce[name])
			_, unexplained, err := judgeUpdate(c, nil)
			require.NoError(t, err)
			require.Empty(t, unexplained, describeUpdate(c))
		})
	}
}
