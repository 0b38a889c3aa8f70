package backtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/simulate/usagefile"
)

// TestNobodyWantsWhatNoMachineHas: one jump of a counter made hindsight ask for a million cores, and
// policies OOM-kill and throttle.
func TestNobodyWantsWhatNoMachineHas(t *testing.T) {
	jump := func(w *world) *world {
		w.usage(pod("shop", 0), 0, 2*time.Hour, 5*time.Minute, always(0.25), always(200<<20))
		at := epoch.Add(62 * time.Minute).UnixNano()
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.CPU}, at, 964_000_000)
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.Memory}, at, 90_000_000_000_000)
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.OOM}, at, 90_000_000_000_000)
		return w
	}
	objects := deployment("shop", "Auto", "{cpu: 100m, memory: 128Mi}", "{cpu: 500m, memory: 512Mi}")
	report, notes := jump(newWorld(t, objects)).runNoted(with(t, Upstream), with(t, Shipped))
	const first = "samples left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 964k cpu of container app of pod web/shop-7d9f8b6c5d-bbbbb at 2026-01-01T01:02:00Z, where at most 10k is accepted"
	require.Contains(t, notes, "3 "+first)
	require.Contains(t, report.Modelled, "3 "+first, "for those who see only the report")
	hindsight := of(t, report, Hindsight).Containers[0]
	require.InDelta(t, 0.25*2, hindsight.CPU.RequestedCoreHours, 0.01)
	require.InDelta(t, 200.0/1024*2, hindsight.Memory.RequestedGiBHours, 0.01)
	for _, policy := range report.Policies {
		require.Zero(t, policy.Containers[0].OOMs, policy.Name)
		require.Zero(t, policy.Containers[0].CPU.ThrottledCoreSeconds, policy.Name)
	}

	// The flags say what counts, and a policy that accepts less says so itself.
	report, notes = jump(newWorld(t, objects)).runNoted(with(t, Upstream), with(t, Shipped, "plausible-usage.sample.cpu", "2M"), with(t, "strict", "plausible-usage.sample.cpu", "200m"))
	require.Contains(t, notes, "2 samples left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 90T memory of container app of pod web/shop-7d9f8b6c5d-bbbbb at 2026-01-01T01:02:00Z, where at most 64Ti is accepted")
	require.InDelta(t, 964000*2, of(t, report, Hindsight).Containers[0].CPU.RequestedCoreHours, 1)
	require.Condition(t, func() bool {
		for _, note := range notes {
			if len(note) > 8 && note[:8] == "strict: " {
				return true
			}
		}
		return false
	}, notes)
}
