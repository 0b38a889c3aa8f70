package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

// cycleOf is a cycle of an updater.
func cycleOf(name string, ours bool, changed, most int, span float64, rss uint64) result {
	return result{Program: harness.Program{Name: name, Ours: ours}, steps: map[string]float64{"total": span + 1, "EvictPods": span}, changed: changed, most: most,
		span: span, half: span / 2, cpu: 4, acting: 2, rss: rss, end: rss, own: 40 << 20, peak: rss, asked: float64(changed), answer: 0.01, events: 2 * changed}
}

func benchOf(vpas int) *bench {
	return &bench{settings: settings{vpas: vpas}, Workloads: &harness.Workloads{Count: vpas, Replicas: replicas}}
}

func TestTheTableTellsWhatIsAskedAndWhetherItIsKept(t *testing.T) {
	upstream := cycleOf("upstream 1.8.1", false, 888, 1, 60, 90<<20)
	slow := cycleOf("celvpa", true, 400, 1, 60, 60<<20)
	slow.half = 0
	for name, tt := range map[string]struct {
		bench   *bench
		trial   trial
		results []result
		want    []string
	}{
		"in time and within memory": {benchOf(1000), trial{pace: paces[0]}, []result{upstream, cycleOf("celvpa", true, 1000, 1, 20, 60<<20)}, []string{
			"updater with default flags: 1000 VPAs, 2000 pods out of range, of which one eviction a VPA is permitted in a cycle",
			"upstream 1.8.1 celvpa part target",
			"pods in the first cycle 888 1000 1.126 all 1000 met",
			"most of one VPA 1 1 1.000 ≤ 1 met",
			"first to last eviction 60.000 s 20.000 s 0.333 ≤ 25 s for all met",
			"· to half of them 30.000 s 10.000 s 0.333",
			"cycle 61.000 s 21.000 s 0.344",
			"· EvictPods 60.000 s 20.000 s 0.333",
			"CPU to the end of it 4.000 s 4.000 s 1.000",
			"· from the first eviction 2.000 s 2.000 s 1.000",
			"RSS in it, median 90.0 MiB 60.0 MiB 0.667 ≤ 2/3 of upstream's met",
			"RSS at its end 90.0 MiB 60.0 MiB 0.667 ≤ 2/3 of upstream's met",
			"· without the program's file 40.0 MiB 40.0 MiB 1.000",
			"RSS, highest 90.0 MiB 60.0 MiB 0.667",
			"API: evictions asked for 888 1000 1.126",
			"API: · time for each 0.010 s 0.010 s 1.000",
			"API: scales read 0 0",
			"API: events, at its end 1776 2000 1.126",
		}},
		"soon over, because not all were evicted": {benchOf(1000), trial{pace: paces[1]}, []result{upstream, cycleOf("celvpa", true, 999, 2, 5, 61<<20)}, []string{
			"updater with --kube-api-qps=1000 --kube-api-burst=2000: 1000 VPAs, 2000 pods out of range, of which one eviction a VPA is permitted in a cycle",
			"upstream 1.8.1 celvpa part target",
			"pods in the first cycle 888 999 1.125 all 1000 MISSED",
			"most of one VPA 1 2 2.000 ≤ 1 MISSED",
			"first to last eviction 60.000 s 5.000 s 0.083 ≤ 6 s for all MISSED",
			"· to half of them 30.000 s 2.500 s 0.083",
			"cycle 61.000 s 6.000 s 0.098",
			"· EvictPods 60.000 s 5.000 s 0.083",
			"CPU to the end of it 4.000 s 4.000 s 1.000",
			"· from the first eviction 2.000 s 2.000 s 1.000",
			"RSS in it, median 90.0 MiB 61.0 MiB 0.678 ≤ 2/3 of upstream's MISSED",
		}},
		"alone, and of another size": {benchOf(50), trial{pace: paces[0]}, []result{cycleOf("celvpa", true, 50, 1, 5, 60<<20)}, []string{
			"updater with default flags: 50 VPAs, 100 pods out of range, of which one eviction a VPA is permitted in a cycle",
			"celvpa target",
			"pods in the first cycle 50 all 50 met",
			"most of one VPA 1 ≤ 1 met",
			"first to last eviction 5.000 s",
		}},
		"half of them did not come": {benchOf(1000), trial{pace: paces[0]}, []result{upstream, slow}, []string{
			"updater with default flags: 1000 VPAs, 2000 pods out of range, of which one eviction a VPA is permitted in a cycle",
			"upstream 1.8.1 celvpa part target",
			"pods in the first cycle 888 400 0.450 all 1000 MISSED",
			"most of one VPA 1 1 1.000 ≤ 1 met",
			"first to last eviction 60.000 s 60.000 s 1.000 ≤ 25 s for all MISSED",
			"· to half of them 30.000 s –",
		}},
		"resizes have no targets": {benchOf(1000), trial{pace: paces[0], inPlace: true}, []result{upstream, cycleOf("celvpa", true, 1000, 1, 20, 60<<20)}, []string{
			"updater with default flags: 1000 VPAs, 2000 pods out of range, of which one resize a VPA is permitted in a cycle",
			"upstream 1.8.1 celvpa part target",
			"pods in the first cycle 888 1000 1.126",
			"most of one VPA 1 1 1.000",
			"first to last resize 60.000 s 20.000 s 0.333",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			tt.bench.print(&out, tt.trial, tt.results)
			var got []string
			for line := range strings.Lines(out.String()) {
				if words := strings.Fields(line); len(words) > 0 {
					got = append(got, strings.Join(words, " "))
				}
			}
			require.Equal(t, tt.want, got[:min(len(got), len(tt.want))])
		})
	}
}

func pod(uid string, generation int64, terminates bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", UID: types.UID(uid), Generation: generation, Labels: map[string]string{"app": "w"}}}
	if terminates {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
	}
	return m
}

func TestPodsAreTakenForEvictedOrResizedOnce(t *testing.T) {
	begin := time.Unix(100, 0)
	for name, tt := range map[string]struct {
		inPlace bool
		notices [][2]*metav1.PartialObjectMetadata
		want    int
	}{
		"evicted, then gone":               {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("a", 2, true), nil}}, 1},
		"gone at once":                     {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), nil}}, 1},
		"two pods":                         {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("b", 1, false), pod("b", 2, true)}}, 2},
		"another status or annotation":     {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 1, false)}}, 0},
		"resized, where that is no matter": {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, false)}}, 0},
		"resized, and marked":              {true, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, false)}, {pod("a", 2, false), pod("a", 2, false)}}, 1},
		"evicted instead of resized":       {true, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("a", 2, true), nil}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &changes{inPlace: tt.inPlace, seen: map[types.UID]bool{}}
			for i, n := range tt.notices {
				c.notice(begin.Add(time.Duration(i)*time.Second), n[0], n[1])
			}
			require.Equal(t, tt.want, c.count())
			for _, one := range c.within(10) {
				require.Equal(t, client.ObjectKey{Namespace: "n", Name: "w"}, one.workload)
			}
		})
	}
}

func TestTheSummaryIsOfTheCycleThatHasEnded(t *testing.T) {
	begin := time.Unix(100, 0)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	of := func(seconds float64, name string) change {
		return change{at: at(seconds), workload: client.ObjectKey{Name: name}}
	}
	c := &changes{list: []change{of(10, "a"), of(12, "b"), of(13, "c"), of(14, "a"), of(23, "d")}} // the last belongs to the next cycle
	looks := func(values ...uint64) (out []sample) {
		for i, rss := range values {
			out = append(out, sample{at(9.5 + float64(i)), harness.Footprint{CPU: float64(i + 1), RSS: rss, Peak: 90, Own: rss / 10}})
		}
		return out
	}
	got := summary(c, map[string]float64{"total": 15, "EvictPods": 7}, map[string]float64{"total": 6, "EvictPods": 2}, looks(10, 30, 50, 40, 70, 80), 6)
	require.Equal(t, result{
		steps: map[string]float64{"total": 9, "EvictPods": 5}, changed: 4, most: 2, span: 4, half: 3, cpu: 6, acting: 5, rss: 50, end: 80, own: 8, peak: 90,
	}, got)
	got = summary(c, map[string]float64{"total": 9}, nil, looks(10)[:1], 10)
	require.Zero(t, got.half, "half of all did not come")
	require.Equal(t, uint64(10), got.rss, "it was over between two looks")
}

func TestTrialsAreThoseThatWereAskedFor(t *testing.T) {
	got, err := settings{pace: "default,fast", resizes: true}.trials()
	require.NoError(t, err)
	var names []string
	for _, one := range got {
		names = append(names, one.name+" "+one.what())
	}
	require.Equal(t, []string{"default eviction", "fast eviction", "default resize", "fast resize"}, names)
	_, err = settings{pace: "slow"}.trials()
	require.EqualError(t, err, `-pace: there is no "slow"; known: default, fast`)
}
