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
