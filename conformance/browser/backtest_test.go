package browser

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/page"
	"github.com/celvpa/celvpa/backtest/page/pagetest"
)

// backtests are made anew for each test.
var backtests = map[string]func() *backtest.Report{"sweep": pagetest.Sweep, "dense": pagetest.Dense, "hostile": pagetest.Hostile, "empty": pagetest.Empty}

func openBacktest(t *testing.T, r *backtest.Report, width int64) *tab {
	t.Helper()
	return openPage(t, func(out io.Writer) error { return page.Write(out, r) }, width)
}

func eachBacktest(t *testing.T, test func(t *testing.T, name string, r *backtest.Report)) {
	for name, r := range backtests {
		t.Run(name, func(t *testing.T) { test(t, name, r()) })
	}
}

func TestAxeFindsNothingInABacktest(t *testing.T) {
	browser(t)
	source := axe(t)
	eachBacktest(t, func(t *testing.T, name string, r *backtest.Report) {
		for _, width := range []int64{wide, narrow} {
			b := openBacktest(t, r, width)
			ask[chromedp.Void](b, unfold)
			ask[chromedp.Void](b, source+"; 0")
			found := ask[[]string](b, `axe.run().then(r => [...r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.failureSummary + ' ' + n.html.slice(0, 300))), r.passes.length < 12 ? 'only ' + r.passes.length + ' rules ran' : ''].filter(Boolean))`)
			require.Empty(t, found, "%d pixels", width)
		}
	})
}

func TestABacktestDoesNotScrollSideways(t *testing.T) {
	eachBacktest(t, func(t *testing.T, name string, r *backtest.Report) {
		for _, width := range []int64{narrow, 768, wide} {
			b := openBacktest(t, r, width)
			if width == narrow {
				b.keep("backtest-" + name + "-narrow")
			}
			require.Empty(t, ask[string](b, widest), "is wider than the page of %d pixels", width)
			ask[chromedp.Void](b, unfold)
			require.Empty(t, ask[string](b, widest), "is wider than the page of %d pixels, unfolded", width)
		}
	})
}

// unfoldSome opens what is in the first two containers; the others have the same parts.
const unfoldSome = "[...document.querySelectorAll('details')].slice(0, 12).forEach(e => e.open = true)"

func TestContrastOfABacktest(t *testing.T) {
	eachBacktest(t, func(t *testing.T, name string, r *backtest.Report) {
		b := openBacktest(t, r, wide)
		ask[chromedp.Void](b, unfoldSome)
		for _, at := range []struct{ medium, scheme string }{{"screen", "light"}, {"screen", "dark"}, {"print", "dark"}} {
			b.media(at.medium, at.scheme)
			require.Empty(t, ask[[]string](b, contrast), "on %s, %s", at.medium, at.scheme)
			b.keep("backtest-" + name + "-" + at.medium + "-" + at.scheme)
		}
	})
}

func TestABacktestReadsOnPaper(t *testing.T) {
	b := openBacktest(t, pagetest.Sweep(), wide)
	b.media("print", "dark")
	require.Equal(t, "none", ask[string](b, "getComputedStyle(document.querySelector('nav')).display"))
	require.True(t, ask[bool](b, "document.querySelector('.time').checkVisibility()"), "charts that are open on the screen are printed")
	pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF())
	require.NoError(t, err)
	require.Contains(t, string(pdf[:8]), "%PDF")
	if *screenshots != "" {
		require.NoError(t, os.WriteFile(filepath.Join(*screenshots, "backtest.pdf"), pdf, 0o644))
	}
}

func TestManyContainersOfABacktestStayUsable(t *testing.T) {
	b := openBacktest(t, pagetest.Large(500), wide)
	text := b.text()
	require.Less(t, ask[int](b, countElements), 20_000, "what folds hold is built once they open")
	require.Contains(t, text, "containers, 426 to 500 of 500")
	require.Less(t, ask[float64](b, "document.documentElement.scrollHeight"), 15000.0, "pixels")
	ask[bool](b, openFold("containers, 426"))
	require.Contains(t, b.text(), "app of Deployment web/search-494", "each container is named")
	require.Greater(t, ask[int](b, "[...document.querySelectorAll('details.container')].filter(e => e.checkVisibility()).length"), 90)
	b.keep("backtest-large")
}

// TestPointsOfABacktestLeadToTheirPolicy, by keyboard too; and stand where their numbers are.
func TestPointsOfABacktestLeadToTheirPolicy(t *testing.T) {
	b := openBacktest(t, pagetest.Sweep(), wide)
	var order []string
	for range 30 {
		b.do(chromedp.KeyEvent(kb.Tab))
		order = append(order, ask[string](b, "(document.activeElement.querySelector('title') || document.activeElement).textContent"))
	}
	require.Equal(t, "Skip to Policies", order[0])
	require.Contains(t, order, "5 shipped[estimate.marginFraction=0.05]: 6.4 cores requested, 21.1% time over the CPU request")
	b.do(chromedp.Click("svg.plot a[href='#policy-5']"))
	require.Equal(t, "#policy-5", ask[string](b, "location.hash"))

	at := ask[[]float64](b, `(() => {
		const plot = document.querySelector('svg.plot'), box = plot.getBoundingClientRect();
		const middle = e => { const r = e.getBoundingClientRect(); return r.left + r.width / 2 - box.left; };
		const tick = [...plot.querySelectorAll('text')].find(e => e.textContent == '10');
		return [middle(plot.querySelector("a[href='#policy-1'] rect")) / (5596 / 336), middle(tick) / 10];
	})()`)
	require.InEpsilon(t, at[0], at[1], 0.01)
}

func TestABacktestSaysItsChartsInWords(t *testing.T) {
	b := openBacktest(t, pagetest.Sweep(), wide)
	labels := ask[[]string](b, "[...document.querySelectorAll('[role=img]')].map(e => e.getAttribute('aria-label'))")
	require.Contains(t, labels[0], "CPU of container app with policy shipped: usage up to ")
	require.Contains(t, labels[0], "6 evictions, 0 resizes, 4 OOM kills")
	levels := ask[[]int](b, "[...document.querySelectorAll('h1, h2, h3, h4, h5')].map(e => +e.tagName[1])")
	for i, level := range levels[1:] {
		require.LessOrEqual(t, level, levels[i]+1, "heading %d skips a level", i+1)
	}
}

func TestABacktestSaysWhatCameOut(t *testing.T) {
	b := openBacktest(t, pagetest.Sweep(), wide)
	ask[chromedp.Void](b, unfold)
	text, at := b.text(), 0
	for _, want := range []string{
		"celvpa backtest What would this policy have done?", "Compared with the requests in the manifests, policy shipped would have requested 6.8 cores (−59%) and 6.76 GiB of memory (−46%), at a cost of 77.6",
		"There would have been 8 OOM kills, and 8 with the manifests", "CPU requested −59% 16.7 → 6.8 cores", "OOM kills 8 manifests: 8",
		"2026-02-02 00:00 to 2026-02-16 00:00 UTC", "6 with 6 containers", "0.03 a core-hour, 0.004 a GiB-hour",
		"1 manifest unbeaten", "2 hindsight", "4 shipped decides as upstream does", "5 shipped[estimate.marginFraction=0.05]",
		"OOM kills against GiB requested", "Most OOM kills", "search web Deployment 4 4", "Most unused CPU",
		"app of Deployment web/search", "4 OOM kills", "pod evicted, 6 times", "OOM kill, 4 times", "16 steps, with the rules that decided",
		"new target CPU none → 1.2", "estimate/bounds/target, estimate/bounds/add-safety-margin", "pod evicted CPU 3.2 → 1.2", "update/outside-recommended-range Its requests are outside the recommended range",
		"OOM kill memory limit and usage 1.92Gi → ", "All policies for container app of web/search", "Charts with other policies", "Policy manifest",
		"pod resized", "A container is OOM-killed when a sample of its memory exceeds the limit in force.", "hindsight The lowest constant request",
	} {
		next := strings.Index(text[at:], want)
		require.GreaterOrEqual(t, next, 0, "%q comes after what is before it in this test; the page goes on: %s", want, text[at:min(len(text), at+1500)])
		at += next
	}
}

// TestABrowserReadsEachPath to its end, however long: it draws the part before a fault, and reports nothing to who opens the page.
func TestABrowserReadsEachPath(t *testing.T) {
	eachBacktest(t, func(t *testing.T, name string, r *backtest.Report) {
		b := openBacktest(t, r, wide)
		longest := ask[int](b, "Math.max(0, ...[...document.querySelectorAll('path')].map(e => e.getAttribute('d').length))")
		require.Equal(t, name != "empty", longest > 0)
		require.True(t, name != "dense" || longest > 2400, "longer than any text of a report may be")
		require.Empty(t, ask[[]string](b, `[...document.querySelectorAll('path')].map(e => e.getAttribute('d')).filter(d => !CSS.supports('d', 'path("' + d + '")'))`))
	})
}

// TestACurveStandsWhereItsValuesAre reads paths: unknown values leave gaps, and so does what is beyond the chart.
func TestACurveStandsWhereItsValuesAre(t *testing.T) {
	unknown := math.NaN()
	r := &backtest.Report{Window: backtest.Window{From: pagetest.From, To: pagetest.From.Add(4 * time.Hour)}}
	none := backtest.Line{unknown, unknown, unknown, unknown}
	s := &backtest.Series{StepSeconds: 3600, Steps: 4, Memory: backtest.Lines{Usage: none, UsageMax: none, Request: none, Limit: none, Target: none, Lower: none, Upper: none}, CPU: backtest.Lines{
		Usage: backtest.Line{1, 1, unknown, 2}, UsageMax: none, Request: backtest.Line{2, 2, 1, 1}, Limit: backtest.Line{100, 100, 100, 100},
		Target: none, Lower: none, Upper: none,
	}}
	r.Policies = []backtest.Policy{{Name: "shipped", Containers: []backtest.Container{{Series: s}}}}
	b := openBacktest(t, r, wide)
	path := func(class string) string {
		return ask[string](b, "document.querySelector('path."+class+"').getAttribute('d')")
	}
	// The top is 2.1, 5% above the largest: 1 is at 89 of 170 pixels, and 2 at 8.1.
	require.Equal(t, "M0 8.1H500V89H1000", path("request"))
	require.Equal(t, "M0 89H500M750 8.1H1000", path("mean"))
	require.Equal(t, "M0 89H500V170H0ZM750 8.1H1000V170H750Z", path("area"))
	require.Empty(t, path("limit"), "a far limit does not flatten the rest")
	require.Empty(t, path("target"))
	require.Equal(t, 1, ask[int](b, "document.querySelectorAll('figure.chart').length"), "nothing is known of memory")
	require.Equal(t, "2026-02-02 02:15 · limit 100 · request 1", ask[string](b, `(() => {
		const plot = document.querySelectorAll('.time > svg')[1], box = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * 0.5625}));
		return document.querySelector('.readout').textContent;
	})()`), "what stands under the pointer; usage is not known then")
}

// TestPoliciesThatCoverEachOtherShareAPoint: seven policies looked like three, of which the last drawn hid the others.
func TestPoliciesThatCoverEachOtherShareAPoint(t *testing.T) {
	r := &backtest.Report{Window: backtest.Window{Seconds: 3600}}
	for i, oom := range []int{0, 3, 3, 3, 1, 3} {
		p := backtest.Policy{Name: "p" + string(rune('1'+i))}
		p.Fleet.OOMs, p.Fleet.Memory.RequestedGiBHours = oom, float64(1000-100*min(i, 1)-i)
		r.Policies = append(r.Policies, p)
	}
	b := openBacktest(t, r, wide)
	plot := "[...document.querySelectorAll('figure')].find(e => e.innerText.startsWith('Memory'))"
	require.Equal(t, []string{"1", "2–4, 6", "5"}, ask[[]string](b, "[..."+plot+".querySelectorAll('text.in')].map(e => e.textContent)"))
	require.Contains(t, ask[[]string](b, "[..."+plot+".querySelectorAll('title')].map(e => e.textContent)")[1],
		"2 p2: 899 GiB requested, 3 OOM kills; 3 p3: 898 GiB requested, 3 OOM kills; 4 p4: ")
}

// TestNothingInAChartCoversAnother: points of a plot are joined, and marks below a chart have a row for each shape.
func TestNothingInAChartCoversAnother(t *testing.T) {
	for _, width := range []int64{narrow, 768, wide} {
		b := openBacktest(t, pagetest.Sweep(), width)
		require.Empty(t, ask[[]string](b, `[...document.querySelectorAll('svg.plot')].flatMap(plot => {
			const spots = [...plot.querySelectorAll('svg.spot rect')].map(e => [e.getBoundingClientRect(), e.parentNode.textContent]);
			return spots.flatMap(([a, text], i) => spots.slice(0, i).filter(([b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([, other]) => text + ' and ' + other));
		})`), "%d pixels", width)
		require.Empty(t, ask[[]string](b, `[...document.querySelectorAll('figure')].flatMap(figure => {
			const shapes = new Map();
			for (const e of figure.querySelectorAll('svg.mark path')) shapes.set(e.parentNode.getAttribute('y'), new Set([...shapes.get(e.parentNode.getAttribute('y')) ?? [], e.getAttribute('class')]));
			return [...shapes.values()].filter(set => set.size > 1).map(set => [...set].join(' and '));
		})`), "%d pixels", width)
		require.Equal(t, []string{"none"}, ask[[]string](b, "[...new Set([...document.querySelectorAll('.label')].filter(e => e.innerText == 'unbeaten').map(e => e.classList[1]))]"), "the colour does not praise")
	}
}

// TestAMonthIsNotADayShort: 30 days less 48 seconds were 29d.
func TestAMonthIsNotADayShort(t *testing.T) {
	r := pagetest.Empty()
	r.Window.Seconds = 30*24*3600 - 48
	require.Contains(t, openBacktest(t, r, wide).text(), "UTC 30d")
}

// TestAPageSaysWhichWorkloadsAreNeverUpdated, and why: it looked as if the policy had nothing to save.
func TestAPageSaysWhichWorkloadsAreNeverUpdated(t *testing.T) {
	r := pagetest.Sweep()
	for i := range r.Policies {
		r.Policies[i].Workloads[0].NeverUpdated = &backtest.Obstacle{Rule: "eligibility/too-few-replicas", Reason: "The workload has 1 live pod"}
	}
	text := openBacktest(t, r, wide).text()
	require.Contains(t, text, "It would never have updated the pods of 1 workload.")
	require.Contains(t, text, "Never evicted or resized Workload Why")
	require.Contains(t, text, "The workload has 1 live pod eligibility/too-few-replicas")
}
