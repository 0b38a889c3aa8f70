package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

var (
	them = program{name: "upstream 1.8.1"}
	us   = program{name: celvpa, ours: true}
)

// measured is a round: so many seconds of a cycle, and bytes.
func measured(cycle, rss float64, steps ...string) []value {
	out := []value{{"cycle", seconds, cycle}}
	for _, step := range steps {
		out = append(out, value{"· " + step, seconds, cycle / 2})
	}
	return append(out, value{"RSS", mebibytes, rss})
}

func lines(t *testing.T, of *table) (out []string) {
	t.Helper()
	var text strings.Builder
	require.NoError(t, of.write(&text))
	for line := range strings.Lines(text.String()) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

func TestTableHoldsMediansSideBySide(t *testing.T) {
	of := newTable("a title", []program{them, us}, [][][]value{
		{measured(20, 90<<20, "LoadVPAs"), measured(22, 90<<20, "LoadVPAs"), measured(90, 100<<20, "LoadVPAs")},
		{measured(10, 30<<20, "LoadVPAs", "Sweep"), measured(12, 60<<20, "LoadVPAs", "Sweep")},
	})
	require.Equal(t, []string{
		"a title",
		"upstream 1.8.1 celvpa ratio target",
		"cycle 22.000 s 11.000 s 0.500",
		"· LoadVPAs 11.000 s 5.500 s 0.500",
		"· Sweep – 5.500 s",
		"RSS 90.0 MiB 45.0 MiB 0.500",
	}, lines(t, of))
}

func TestTableOfOneProgramHasNoRatio(t *testing.T) {
	of := newTable("alone", []program{us}, [][][]value{{measured(10, 1<<20)}})
	require.Equal(t, []string{"alone", "celvpa target", "cycle 10.000 s", "RSS 1.0 MiB"}, lines(t, of))
}

func TestMedianOfAnEvenNumberIsTheMeanOfTheMiddle(t *testing.T) {
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{9, 2, 1}), 0)
	require.InDelta(t, 2.5, median([]float64{9, 2, 3, 1}), 0)
}

func TestTargetsAreJudged(t *testing.T) {
	for name, tt := range map[string]struct {
		targets string
		theirs  []value
		ours    []value
		want    []string // target and verdict of each row
	}{
		"amounts":                {`[{metric: cycle, max: 60}, {metric: RSS, max: 1Mi}]`, measured(1, 1), measured(60, 2<<20), []string{"≤ 60.000 s met", "≤ 1.0 MiB MISSED"}},
		"from and to":            {`[{metric: cycle, min: 10, max: 60}]`, measured(1, 1), measured(9, 1), []string{"≥ 10.000 s, ≤ 60.000 s MISSED", " "}},
		"ratios":                 {`[{metric: cycle, maxRatio: 0.5}, {metric: RSS, minRatio: 1.8}]`, measured(20, 10), measured(10, 17), []string{"≤ 0.5 times met", "≥ 1.8 times MISSED"}},
		"a ratio of celvpa only": {`[{metric: cycle, maxRatio: 0.5}]`, nil, measured(10, 1), []string{" ", " "}},
	} {
		t.Run(name, func(t *testing.T) {
			var targets []target
			require.NoError(t, yaml.UnmarshalStrict([]byte(tt.targets), &targets))
			programs, rounds := []program{us}, [][][]value{{tt.ours}}
			if tt.theirs != nil {
				programs, rounds = []program{them, us}, [][][]value{{tt.theirs}, {tt.ours}}
			}
			of := newTable("", programs, rounds)
			require.NoError(t, of.judge(targets))
			var got []string
			for _, r := range of.rows {
				got = append(got, r.target+" "+r.verdict)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTargetOfAnUnknownMetricIsAnError(t *testing.T) {
	of := newTable("", []program{us}, [][][]value{{measured(1, 1)}})
	require.EqualError(t, of.judge([]target{{Metric: "cycel"}}), `no metric "cycel"; known: cycle; RSS`)
}

// What each benchmark measures has the rows that targets.yaml names.
func TestTargetsNameMetricsThatAreMeasured(t *testing.T) {
	now := time.Now()
	seen := samples{{at: now}, {at: now.Add(time.Second)}}
	steps := map[string]float64{"total": 1}
	ends := []cycleEnd{{}, {at: now, cycles: 1}, {at: now.Add(time.Minute), cycles: 2, steps: steps}}
	evicted := evictions{count: 1, first: now, last: now}
	values := map[string][]value{
		"recommender/idle": recommenderValues(ends, seen, 1),
		"updater/default":  updaterValues(evicted, ends[1], ends[2], seen, 1),
		"updater/fast":     updaterValues(evicted, ends[1], ends[2], seen, 1),
		"pods/load":        podValues([]time.Duration{1}, seen, seen),
	}
	for _, size := range []string{"10000", "50000"} {
		values["scale/recommender/"+size] = scaleRecommenderValues(1, 60, ends, seen)
		values["scale/updater/"+size] = scaleUpdaterValues(1, 1, ends, 1, seen)
	}
	all, err := loadTargets()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for trial, targets := range all {
		require.Contains(t, values, trial)
		require.NoError(t, newTable("", []program{us}, [][][]value{{values[trial]}}).judge(targets), trial)
	}
}

func TestTheTablesOfThePageAreReplaced(t *testing.T) {
	measured := func(vpas int, rss, cpu float64) size {
		return size{vpas: vpas, recommender: []value{{"minutes", count, 60}, {"RSS, peak", mebibytes, rss}, {"CPU per minute", seconds, cpu}},
			updater: []value{{"RSS, peak", mebibytes, rss / 2}, {"CPU per minute", seconds, cpu}, {"pods per second", count, 41234.5}}}
	}
	page := sizes{measured(100, 60<<20, 0.3), measured(50000, 3<<30, 24)}
	file := filepath.Join(t.TempDir(), "sizing.md")
	require.NoError(t, os.WriteFile(file, []byte("before\n"+tablesBegin+"\nold\n"+tablesEnd+"\nafter\n"), 0o600))
	for range 2 {
		require.NoError(t, page.replaceIn(file, "which were busy"))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "old")
	require.Contains(t, string(text), "before\n"+tablesBegin+"\n| VPAs |")
	require.Contains(t, string(text), "| 100 | 300 | 600 | 50m | 128Mi | 50 | 50m | 64Mi |")
	require.Contains(t, string(text), "| 50,000 | 150,000 | 300,000 | 800m | 3840Mi | 500 |")
	require.Contains(t, string(text), "| 41,234 |")
	require.Contains(t, string(text), "cores, which were busy, for 60 minutes of the cluster's time:")
	require.Contains(t, string(text), "adds\n62 KiB and 0.47 ms of CPU a minute to the recommender, and 31 KiB")
	require.Contains(t, string(text), tablesEnd+"\nafter\n")
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	require.ErrorContains(t, page.replaceIn(file, "which were busy"), "has no lines")
}

func TestPaceFollowsTheSize(t *testing.T) {
	minute, qps := pace(50000)
	require.Equal(t, "21s", minute.String())
	require.Equal(t, 500.0, qps)
	_, qps = pace(100)
	require.Equal(t, 50.0, qps)
}

func TestReviewIsOfAPodOfItsReplicaSet(t *testing.T) {
	r, err := reviewOf(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-5d", UID: "u1",
		Labels:          map[string]string{"pod-template-hash": "5d"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Controller: ptr.To(true)}}}})
	require.NoError(t, err)
	var asked admissionv1.AdmissionReview
	require.NoError(t, yaml.UnmarshalStrict(r, &asked))
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(asked.Request.Object.Raw, &pod))
	require.Equal(t, "shop", asked.Request.Namespace)
	require.Equal(t, map[string]string{"app": "web", "pod-template-hash": "5d"}, pod.Labels)
	require.Equal(t, "web-5d", pod.OwnerReferences[0].Name)
	require.Len(t, pod.Spec.Containers, 2)
}
