package podupdate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

func TestEvictionsAndResizesAreCountedByOwner(t *testing.T) {
	yes, begin := true, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(name, owner string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, Controller: &yes}}}}
	}
	web, api := pod("web-a", "web"), pod("api-a", "api")
	both := []*corev1.Pod{web, api}
	var m Memory
	at := func(after time.Duration, of *corev1.Pod) (hour, day facts.Updates, countedFor time.Duration) {
		owner, _ := target.DirectOwner(of)
		g := facts.Group{LastHour: facts.Updates{Evictions: 9}}
		m.RecallGroups(map[target.Key]*facts.Group{owner: &g}, begin.Add(after))
		return g.LastHour, g.LastDay, g.CountedFor
	}
	equal := func(after time.Duration, of *corev1.Pod, wantHour, wantDay facts.Updates, why string) {
		t.Helper()
		hour, day, countedFor := at(after, of)
		require.Equal(t, wantHour, hour, why)
		require.Equal(t, wantDay, day, why)
		require.Equal(t, after, countedFor, why)
	}
	none := facts.Updates{}
	equal(0, web, none, none, "before the first cycle")
	m.Look(both, begin)
	equal(time.Minute, web, none, none, "nothing was done")
	for i := range 3 {
		m.NoteEvicted(web, begin.Add(time.Duration(i)*time.Minute))
	}
	m.NoteSent(web, nil, time.Time{})
	require.Zero(t, m.Resized("web-a"), "it is about to be sent")
	m.NoteSent(web, nil, begin.Add(30*time.Minute))
	require.Equal(t, begin.Add(30*time.Minute), m.Resized("web-a"))
	all := facts.Updates{Evictions: 3, Resizes: 1}
	equal(time.Hour, web, all, all, "all in the last hour")
	equal(time.Hour, api, none, none, "another owner")
	equal(64*time.Minute, web, all, all, "to five minutes")
	equal(65*time.Minute, web, facts.Updates{Resizes: 1}, all, "evictions are more than an hour ago")
	m.Look(both, begin.Add(2*time.Hour))
	equal(2*time.Hour, web, none, all, "all are more than an hour ago")
	m.Look(both[1:], begin.Add(150*time.Minute))
	equal(150*time.Minute, web, none, all, "the owner is without pods for half an hour")
	m.Look(both[1:], begin.Add(200*time.Minute))
	equal(200*time.Minute, web, none, none, "the owner is without pods for more than an hour")
	require.Zero(t, m.Len())
}

func TestWhatIsKeptOfAnOwnerIsBounded(t *testing.T) {
	var m Memory
	pod := &corev1.Pod{}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	owner, _ := target.DirectOwner(pod)
	for range 3 * 24 * 60 {
		now = now.Add(time.Minute)
		m.Look([]*corev1.Pod{pod}, now)
		m.NoteEvicted(pod, now)
	}
	require.LessOrEqual(t, len(m.rates.of[owner].steps), 289)
	var g facts.Group
	m.RecallRates(owner, &g, now)
	require.InDelta(t, 60, g.LastHour.Evictions, 5)
	require.InDelta(t, 24*60, g.LastDay.Evictions, 5)
	m.Look([]*corev1.Pod{pod}, now.Add(25*time.Hour))
	require.Empty(t, m.rates.of, "all are more than a day ago")
}
