package updater

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func keepsDecisions(o *Options) {
	o.Decisions = answers.NewLog(answers.LogOptions{Component: "updater", Kept: 100})
}

// recordedNow are the decisions about a VPA since the last call, as "ACTION pod rule", sorted.
func (w *world) recordedNow(vpa string, seen *int) []string {
	all := w.Decisions.Of(types.NamespacedName{Namespace: "ns", Name: vpa})
	var out []string
	for _, d := range all[*seen:] {
		out = append(out, d.Action+" "+d.Pod+" "+d.Rule)
	}
	*seen = len(all)
	slices.Sort(out)
	return out
}

func TestDecisionsAreRecordedWhenTheyChange(t *testing.T) {
	w, seen := newWorld(t, keepsDecisions), 0
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	w.cycle()
	require.Equal(t, []string{"Evict web-01 update/evict", "Evict web-02 update/evict", "Wait web-03 update/budget-spent", "Wait web-04 update/budget-spent"}, w.recordedNow("web", &seen))
	first := w.Decisions.Of(types.NamespacedName{Namespace: "ns", Name: "web"})[0]
	require.Equal(t, []string{"container app: requests.cpu 100m → 500m", "container app: requests.memory 128Mi → 512Mi"}, first.Changes)
	require.Equal(t, w.clock.Now().UTC(), first.Time)
	require.Equal(t, "Its requests are outside the recommended range", first.Reason)
	require.NotEmpty(t, first.Inputs)
	w.cycle()
	require.Empty(t, w.recordedNow("web", &seen), "a steady state adds nothing")
	said, err := w.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	require.Len(t, said.Decisions, 4)
	require.Equal(t, first.Rules, said.Rules.Digest)
}

func TestRefusalsAreRecorded(t *testing.T) {
	w, seen := newWorld(t, keepsDecisions), 0
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.refusing("evict", budgetRefusal(2))
	w.cycle()
	require.Equal(t, []string{"EvictionRefused web-01 update/evict", "Wait web-02 update/disruption-budget"}, w.recordedNow("web", &seen))
	require.Contains(t, w.Decisions.Of(types.NamespacedName{Namespace: "ns", Name: "web"})[0].Reason, "The disruption budget keep needs 2 healthy pods")

	w.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	w.refusing("resize", forbidden("exceeded quota: small", ""))
	w.clock.Step(time.Minute)
	seen = 0
	w.cycle()
	require.Subset(t, w.recordedNow("tall", &seen), []string{"ResizeRefused tall-03 update/resize", "Wait tall-03 resize/over-quota"})
}

func TestSettledPodsAndDelaysAreRecordedOnce(t *testing.T) {
	w, seen := newWorld(t, func(o *Options) { keepsDecisions(o); o.FirstCycle = 1 }), 0
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	w.workload("fine", 2, vpav1.UpdateModeOff)
	w.cycle()
	require.Equal(t, []string{"Evict web-01 update/evict", "Wait web-02 update/evict", "Wait web-03 update/evict", "Wait web-04 update/evict"}, w.recordedNow("web", &seen))
	require.Contains(t, w.Decisions.Of(types.NamespacedName{Namespace: "ns", Name: "web"})[1].Reason, "left to a later cycle: first-cycles")
	none := 0
	require.Empty(t, w.recordedNow("fine", &none))
	said, err := w.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	require.Equal(t, "first-cycles", said.Pods[0].Postponed)
	require.Equal(t, 2, *said.FirstCycles, "the limit doubles")
}
