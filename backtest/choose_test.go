package backtest

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest/history"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// offered is a report of an hour on two classes by policy upstream and three others.
func offered() *Report {
	class := func(name string, cores, gib, over float64, ooms, evictions int) Class {
		return Class{Name: name, Measures: Measures{CPU: CPU{RequestedCoreHours: cores, OverRequestShare: over}, Memory: Memory{RequestedGiBHours: gib}, OOMs: ooms, Evictions: evictions, Resizes: 1}}
	}
	policy := func(name string, classes ...Class) Policy { return Policy{Name: name, Classes: classes} }
	return &Report{Window: Window{Seconds: 3600}, Policies: []Policy{
		policy(Upstream, class("batch", 4, 8, 0.1, 2, 5), class("web", 2, 4, 0.01, 0, 3)),
		policy("shipped", class("batch", 4, 8, 0.1, 2, 5), class("web", 2, 4, 0.01, 0, 3)),
		policy("small", class("batch", 3, 8, 0.2, 1, 9), class("web", 1, 6, 0.02, 1, 9)),
		policy("large", class("batch", 6, 9, 0.05, 0, 5), class("web", 2, 4, 0.01, 0, 3)),
	}}
}

func TestTheBestPolicyThatSatisfiesTheConditionIsChosen(t *testing.T) {
	for name, tt := range map[string]struct {
		condition, least, batch, web string
		nearest                      string // of batch; empty = one was found
		unmet                        []string
	}{
		"the least of all":          {condition: "true", least: "cores", batch: "small", web: "small"},
		"the earlier one of two":    {condition: "cpuOver <= upstream.cpuOver", least: "gib", batch: "shipped", web: "shipped"},
		"relative to upstream":      {condition: "ooms <= 0.5 * upstream.ooms", least: "cores", batch: "small", web: "shipped"},
		"whole numbers":             {condition: "ooms == 0 && changes < 2 * 5", least: "cores", batch: "large", web: "shipped"},
		"changes are both":          {condition: "changes == evictions + resizes", least: "evictions", batch: "shipped", web: "shipped"},
		"a footprint counts memory": {condition: "true", least: "footprint", batch: "small", web: "small"},
		"one of two":                {condition: "ooms == 0 || cores <= 4", least: "cpuOver", batch: "large", web: "shipped"},
		"none: the one that misses by least": {condition: "cores <= 2 && ooms <= 3", least: "cores", batch: "shipped", web: "small",
			nearest: "small", unmet: []string{"cores <= 2 (3 and 2)"}},
		"none: by all that it misses": {condition: "cpuOver < 0.04 && ooms == 0 && evictions < 5", least: "cores", batch: "shipped", web: "shipped",
			nearest: "large", unmet: []string{"cpuOver < 0.04 (0.05 and 0.04)", "evictions < 5 (5 and 5)"}},
		"none, and nothing is compared": {condition: "!(cores > 0)", least: "gib", batch: "shipped", web: "shipped",
			nearest: "shipped", unmet: []string{"!(cores > 0)"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := NewCondition(tt.condition, tt.least)
			require.NoError(t, err)
			got, err := c.Choose(offered(), []string{"shipped", "small", "large"})
			require.NoError(t, err)
			require.Equal(t, ClassChoice{Class: "batch", Policy: tt.batch, Nearest: tt.nearest, Unmet: tt.unmet}, got[0])
			require.Equal(t, []string{"web", tt.web}, []string{got[1].Class, got[1].Policy})
		})
	}
}

func TestConditionsThatCannotBeUsed(t *testing.T) {
	const names = "figures are cores, gib, footprint, cpuSlack, memSlack, cpuOver, memOver, throttled, ooms, evictions, resizes, changes, flaps, and those of policy upstream, such as upstream.cores"
	for name, tt := range map[string]struct{ condition, least, want string }{
		"an unknown figure":         {"ooms <= 1 && oom == 0", "cores", "there is no figure oom; did you mean ooms? " + names},
		"a typo":                    {"evictoins <= 1", "cores", "there is no figure evictoins; did you mean evictions? " + names},
		"a typo of upstream's":      {"cores <= upstream.corse", "cores", "there is no figure upstream.corse; did you mean cores? " + names},
		"another policy":            {"cores <= manifest.cores", "cores", "there is no figure manifest.cores; "},
		"all of upstream":           {"cores <= upstream", "cores", "there is no figure upstream; "},
		"a field of a figure":       {"cores.mean < 1", "cores", "there is no figure cores.mean; "},
		"a deep field":              {"upstream.cores.mean < 1", "cores", "column 15: type 'double' does not support field selection"},
		"no condition":              {"cores", "cores", "it is not a condition but of type double: compare it with something, such as cores <= upstream.cores"},
		"nothing":                   {"", "cores", "it is empty: write a condition, such as ooms <= upstream.ooms"},
		"half a condition":          {"cores <=", "cores", "column 9: Syntax error: "},
		"a number against text":     {"cores < '1'", "cores", "column 7: found no matching overload for '_<_' applied to '(double, string)'"},
		"a macro":                   {"[1].all(x, x > 0)", "cores", "there is no figure x; "},
		"least of what is none":     {"true", "core", "there is no figure core; did you mean cores? "},
		"least of upstream's":       {"true", "upstream.cores", "there is no figure upstream.cores; did you mean cores? "},
		"an unknown figure by name": {"true", "", "there is no figure ; "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewCondition(tt.condition, tt.least)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestWhereAHistoryIsSplit(t *testing.T) {
	for name, tt := range map[string]struct {
		length time.Duration
		share  float64
		first  time.Duration
		want   time.Duration
		fails  string
	}{
		"a share":            {length: 10 * day, share: 0.7, want: 7 * day},
		"a time":             {length: 10 * day, first: 30 * time.Hour, want: 30 * time.Hour},
		"just long enough":   {length: 2 * day, share: 0.5, want: day},
		"a short first part": {length: 10 * day, share: 0.05, fails: "the history is 10d long, the first part would be 12h and the rest 9d: either must be 24h or longer, the time in which a sample loses half its weight; replay a longer history"},
		"a short rest":       {length: 2 * day, share: 0.7, fails: "the first part would be 33h and the rest 14h: "},
		"an hour":            {length: time.Hour, share: 0.7, fails: "the history is 60m long, the first part would be 42m and the rest 18m: "},
		"a moment":           {share: 0.7, fails: "the history is 0s long, "},
		"more than there is": {length: 2 * day, first: 3 * day, fails: "the first part would be 3d and the rest 0s: "},
	} {
		t.Run(name, func(t *testing.T) {
			at := epoch.UnixNano()
			got, err := Split([]history.Span{{First: at + int64(tt.length/2), Last: at + int64(tt.length)}, {First: at, Last: at}}, tt.share, tt.first, day)
			if tt.fails != "" {
				require.ErrorContains(t, err, tt.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, epoch.Add(tt.want), got)
		})
	}
	_, err := Split(nil, 0.7, 0, day)
	require.NoError(t, err, "a replay says that the history is empty")
}

// TestBothPartsAddUpToTheWhole, also where pods, samples and series are cut in two.
func TestBothPartsAddUpToTheWhole(t *testing.T) {
	replayed := func(change func(*Options)) *Policy {
		w := randomWorld(t, 5, 3)
		w.options.Class = func(v *vpav1.VerticalPodAutoscaler) string { return v.Name }
		change(&w.options)
		report, _ := w.runNoted(with(t, Shipped))
		return of(t, report, Shipped)
	}
	cut := epoch.Add(40*time.Hour + 90*time.Second)
	whole := replayed(func(*Options) {})
	first := replayed(func(o *Options) { o.Until = cut })
	rest := replayed(func(o *Options) { o.Since = cut })
	require.NotZero(t, first.Fleet.Evictions+first.Fleet.Resizes)
	require.NotZero(t, rest.Fleet.Evictions+rest.Fleet.Resizes)
	for name, of := range map[string]func(m *Measures) float64{
		"cores": func(m *Measures) float64 { return m.CPU.RequestedCoreHours }, "used": func(m *Measures) float64 { return m.Memory.UsedGiBHours },
		"gib": func(m *Measures) float64 { return m.Memory.RequestedGiBHours }, "throttled": func(m *Measures) float64 { return m.CPU.ThrottledCoreSeconds },
		"ooms": func(m *Measures) float64 { return float64(m.OOMs) }, "evictions": func(m *Measures) float64 { return float64(m.Evictions) },
		"resizes": func(m *Measures) float64 { return float64(m.Resizes) }, "observed": func(m *Measures) float64 { return m.ObservedSeconds },
		"flaps": func(m *Measures) float64 { return float64(m.Flaps) },
	} {
		require.InDelta(t, of(&whole.Fleet.Measures), of(&first.Fleet.Measures)+of(&rest.Fleet.Measures), 1e-6*of(&whole.Fleet.Measures), name)
		for i := range whole.Classes {
			require.InDelta(t, of(&whole.Classes[i].Measures), of(&first.Classes[i].Measures)+of(&rest.Classes[i].Measures), 1e-6*of(&whole.Classes[i].Measures), name)
		}
	}
}

// TestTheFirstPartKnowsNothingOfTheRest: usage after it, and pods that begin after it, leave its figures as they are.
func TestTheFirstPartKnowsNothingOfTheRest(t *testing.T) {
	run := func(after func(w *world)) string {
		w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{memory: 1Gi}"), deployment("late", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"))
		w.options.Until = epoch.Add(2 * day)
		w.usage(pod("shop", 0), 0, 3*day, 5*time.Minute, func(since time.Duration) float64 { return 0.1 + 0.01*math.Mod(since.Hours(), 5) }, always(3e8))
		after(w)
		report, _ := w.runNoted(with(t, Shipped))
		text, err := json.Marshal(report)
		require.NoError(t, err)
		return string(text)
	}
	want := run(func(*world) {})
	require.Contains(t, want, `"to":"2026-01-03T00:00:00Z"`)
	require.Equal(t, want, run(func(w *world) {
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.CPU}, epoch.Add(3*day).UnixNano(), 90_000)
		w.usage(pod("late", 0), 2*day+time.Hour, day, 5*time.Minute, always(5), always(1<<33))
	}))
}
