package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

func pod(uid string, generation int64, terminates bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", UID: types.UID(uid), Generation: generation, Labels: map[string]string{"app": "w"}}}
	if terminates {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(100, 0)}
	}
	return m
}

func TestPodsCountAsEvictedOrResizedOnce(t *testing.T) {
	begin := time.Unix(100, 0)
	for name, tt := range map[string]struct {
		inPlace bool
		notices [][2]*metav1.PartialObjectMetadata
		want    int
	}{
		"evicted, then gone":             {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("a", 2, true), nil}}, 1},
		"gone at once":                   {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), nil}}, 1},
		"two pods":                       {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("b", 1, false), pod("b", 2, true)}}, 2},
		"a new status or annotation":     {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 1, false)}}, 0},
		"resized in a trial of evicting": {false, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, false)}}, 0},
		"resized, then annotated":        {true, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, false)}, {pod("a", 2, false), pod("a", 2, false)}}, 1},
		"evicted in a trial of resizing": {true, [][2]*metav1.PartialObjectMetadata{{pod("a", 1, false), pod("a", 2, true)}, {pod("a", 2, true), nil}}, 0},
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

func TestUpdaterValuesAreOfTheCycleThatEnded(t *testing.T) {
	begin := time.Unix(100, 0)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	of := func(seconds float64, name string) change {
		return change{at: at(seconds), workload: client.ObjectKey{Name: name}}
	}
	c := &changes{list: []change{of(10, "a"), of(12, "b"), of(13, "c"), of(14, "a"), of(23, "d")}} // the last belongs to the next cycle
	var seen samples
	for i, rss := range []uint64{10, 30, 50, 40, 70, 80} {
		seen = append(seen, sample{at(9.5 + float64(i)), harness.Footprint{CPU: float64(i + 1), RSS: rss << 20, Peak: 90 << 20, Own: rss << 19}})
	}
	table := newTable("", []program{us}, [][][]value{{updaterValues(c.within(9), map[string]float64{"total": 9, "EvictPods": 5}, seen, 8)}})
	require.Equal(t, []string{"celvpa target", "VPAs 8", "pods changed in the first cycle 4", "· of those permitted 50%", "· most of one VPA 2",
		"first to last change 4.000 s", "cycle 9.000 s", "· EvictPods 5.000 s", "CPU since the start 6.000 s", "· since the first change 5.000 s",
		"RSS during changes, median 40.0 MiB", "RSS after the cycle 80.0 MiB", "· without the program's file 40.0 MiB", "RSS, peak 90.0 MiB"}, lines(t, table))
}
