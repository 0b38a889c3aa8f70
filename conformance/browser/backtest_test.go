package browser

import (
	"io"
	"os"
	"path/filepath"
	"testing"

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

func TestTextsOfABacktestRunNothing(t *testing.T) {
	b := openBacktest(t, pagetest.Hostile(), wide)
	require.False(t, ask[bool](b, "'hacked' in window"))
	require.Zero(t, ask[int](b, "document.querySelectorAll('script, img, iframe, object, [onerror]').length"))
	require.Contains(t, b.text(), `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1></style></title>&lt;{}%s[U+0000]`)
}

func TestManyContainersOfABacktestStayUsable(t *testing.T) {
	b := openBacktest(t, pagetest.Large(500), wide)
	text := b.text()
	require.Less(t, ask[int](b, countElements), 300_000)
	require.Contains(t, text, "containers, 426 to 500 of 500")
	require.Less(t, ask[float64](b, "document.documentElement.scrollHeight"), 15000.0, "pixels")
	ask[bool](b, "[...document.querySelectorAll('summary')].find(e => e.innerText.startsWith('containers, 426')).parentNode.open = true")
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
	require.Contains(t, order, "5 shipped[estimate.marginFraction=0.05]: 2,150 CPU requested, 21.1% time over the CPU request")
	b.do(chromedp.Click("svg.plot a[href='#policy-5']"))
	require.Equal(t, "#policy-5", ask[string](b, "location.hash"))

	at := ask[[]float64](b, `(() => {
		const plot = document.querySelector('svg.plot'), box = plot.getBoundingClientRect();
		const middle = e => { const r = e.getBoundingClientRect(); return r.left + r.width / 2 - box.left; };
		const tick = [...plot.querySelectorAll('text')].find(e => e.textContent == '4,000');
		return [middle(plot.querySelector("a[href='#policy-1'] rect")) / 5596, middle(tick) / 4000];
	})()`)
	require.InEpsilon(t, at[0], at[1], 0.01)
}

// TestABrowserReadsEachPath to its end: it draws the part before a fault, and reports nothing to who opens the page.
func TestABrowserReadsEachPath(t *testing.T) {
	eachBacktest(t, func(t *testing.T, name string, r *backtest.Report) {
		b := openBacktest(t, r, wide)
		require.Equal(t, name != "empty", ask[int](b, "document.querySelectorAll('path').length") > 0)
		require.Empty(t, ask[[]string](b, `[...document.querySelectorAll('path')].map(e => e.getAttribute('d')).filter(d => !CSS.supports('d', 'path("' + d + '")'))`))
	})
}

func TestABacktestSaysItsChartsInWords(t *testing.T) {
	b := openBacktest(t, pagetest.Sweep(), wide)
	labels := ask[[]string](b, "[...document.querySelectorAll('[role=img]')].map(e => e.getAttribute('aria-label'))")
	require.Contains(t, labels[0], "CPU of container app with policy shipped: use up to ")
	require.Contains(t, labels[0], "6 evictions, 0 resizes, 4 OOM kills")
	levels := ask[[]int](b, "[...document.querySelectorAll('h1, h2, h3, h4, h5')].map(e => +e.tagName[1])")
	for i, level := range levels[1:] {
		require.LessOrEqual(t, level, levels[i]+1, "heading %d skips a level", i+1)
	}
}
