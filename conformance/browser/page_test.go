package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/page/pagetest"
)

const wide = 1200

func large() *explain.Report { return pagetest.Large(500) }

// reports are made anew for each test. A page of large has the parts of the others, many times.
var reports = map[string]func() *explain.Report{
	"blocked": pagetest.Blocked, "resized": pagetest.Resized, "hostile": pagetest.Hostile,
	"empty": func() *explain.Report { return &explain.Report{Subject: "Pod web/lonely", Now: pagetest.Now} },
}

func each(t *testing.T, test func(t *testing.T, name string, report *explain.Report)) {
	for name, report := range reports {
		t.Run(name, func(t *testing.T) { test(t, name, report()) })
	}
}

func TestThePageSaysWhyFromTheVerdictDown(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	require.Equal(t, "Deployment web/shop: why?", ask[string](b, "document.title"))
	text, at := b.text(), 0
	for _, want := range []string{
		"Deployment web/shop", "✕ Misconfigured The updater's next step: Skip eligibility/too-few-replicas",
		"One thing is not known",
		"hpa-same-resource HorizontalPodAutoscaler web/shop", "What to do: Scale by another metric",
		"container app cpu 100m → 476m memory 512Mi → 933Mi",
		"percentile 90 414m", "unset → 414m", "414m → 476m", "rules/estimate.yaml:68:13", "lower bound 83m",
		"New pods request 476m", "Pods now request 100m", "percentile 90, used", "beyond the scale",
		"Next Why Difference Change", "467% needs more, outside the range", "19ce9c5a03c3", "TooFewReplicas", "celvpa-updater", "pods/proxy",
	} {
		next := strings.Index(text[at:], want)
		require.GreaterOrEqual(t, next, 0, "%q comes after what is before it in this test; the page goes on: %s", want, text[at:min(len(text), at+600)])
		at += next
	}
	require.NotContains(t, text, "requests.cpu unset → 476m", "folded until it is asked for")
	require.Empty(t, ask[[]string](b, broken))
	b.keep("blocked-light")
}

// broken are the names and numbers that are too wide for their place, and go on in another line.
const broken = `[...document.querySelectorAll('td.word, .amount strong')].filter(e => {
	const text = document.createRange();
	text.selectNodeContents(e);
	return e.checkVisibility() && text.getClientRects().length > 1;
}).map(e => e.innerText)`

func TestTheFlowGoesFromLeftToRight(t *testing.T) {
	b := open(t, pagetest.Resized(), wide)
	lefts := ask[[]float64](b, "[...document.querySelector('.flow').children].map(e => e.getBoundingClientRect().left)")
	require.Len(t, lefts, 5)
	require.IsIncreasing(t, lefts)
	tops := ask[[]float64](b, "[...document.querySelector('.flow').children].map(e => e.getBoundingClientRect().top)")
	require.Equal(t, tops[0], tops[4])

	// A mark stands where its value is: the target of 627m, at its share of the axis, whose tick at 500m says where that is.
	at := ask[[]float64](b, `(() => {
		const row = name => [...document.querySelectorAll('.bars th')].find(e => e.innerText == name).parentNode;
		const middle = e => { const r = e.getBoundingClientRect(); return r.left + r.width / 2; };
		const plot = row('target').querySelector('svg').getBoundingClientRect();
		const tick = [...document.querySelectorAll('.bars tfoot text')].find(e => e.textContent == '500m');
		return [(middle(row('target').querySelector('circle')) - plot.left) / 627, (middle(tick) - plot.left) / 500, row('percentile 90, used').querySelector('rect').getBoundingClientRect().width / 545];
	})()`)
	require.InEpsilon(t, at[0], at[1], 0.01)
	require.InEpsilon(t, at[0], at[2], 0.01)
	b.keep("resized-light")
}

// TestRolesNamesAndHeadings reads what a screen reader would.
func TestRolesNamesAndHeadings(t *testing.T) {
	b := open(t, pagetest.Resized(), wide)
	tree, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) ([]*accessibility.Node, error) {
		out, err := cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		return out.Nodes, err
	})
	require.NoError(t, err)
	said := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	var all []string
	for _, node := range tree {
		if !node.Ignored {
			all = append(all, said(node.Role)+": "+said(node.Name))
		}
	}
	for _, want := range []string{
		"RootWebArea: VerticalPodAutoscaler mail/relay: why?", "banner: ", "main: ", "contentinfo: ", "navigation: Contents", "region: Verdict",
		"region: Findings", "region: Pods", "group: Pods", "list: Way of cpu of container relay", "heading: container relay",
		"table: Usage against request, target and bounds of memory", "columnheader: Difference", "rowheader: percentile 90, used",
		"image: memory over time: the target falls from 700Mi to 243Mi, in 6d4h", "DisclosureTriangle: container relay",
	} {
		require.Condition(t, func() bool {
			for _, got := range all {
				if strings.HasPrefix(got, want) {
					return true
				}
			}
			return false
		}, "%q is not in\n%s", want, strings.Join(all, "\n"))
	}
	levels := ask[[]int](b, "[...document.querySelectorAll('h1, h2, h3, h4, h5')].map(e => +e.tagName[1])")
	for i, level := range levels[1:] {
		require.LessOrEqual(t, level, levels[i]+1, "heading %d skips a level", i+1)
	}
	require.Equal(t, "en", ask[string](b, "document.documentElement.lang"))
}

// openFold opens a fold by the beginning of its summary, and waits until what it holds is built.
func openFold(summary string) string {
	return fmt.Sprintf(`new Promise(done => {
		const fold = [...document.querySelectorAll('summary')].find(e => e.innerText.startsWith('%s')).parentNode;
		fold.addEventListener('toggle', () => done(true), {once: true});
		fold.open = true;
	})`, summary)
}

func TestManyContainersStayUsable(t *testing.T) {
	b := open(t, large(), wide)
	text := b.text()
	require.Less(t, ask[int](b, countElements), 20_000, "what folds hold is built once they open")
	require.Contains(t, text, "containers, 426 to 500 of 500")
	require.Contains(t, text, "little-history, 4 to 103 of 500", "findings that are alike are together")
	require.Equal(t, 3, ask[int](b, "document.querySelectorAll('details.container[open]').length"), "only the first containers are unfolded")
	require.NotContains(t, text, "container worker-499 cpu", "folded")
	require.Less(t, ask[float64](b, "document.documentElement.scrollHeight"), 15000.0, "pixels")
	ask[bool](b, openFold("containers, 426"))
	require.Contains(t, b.text(), "container worker-499 cpu 100m → 614m")
	b.keep("large-light")
}

func TestFindingsOfATokenAreTogether(t *testing.T) {
	various := large()
	for i := range various.Findings {
		various.Findings[i].Token += strconv.Itoa(i % 2)
	}
	text := open(t, various, wide).text()
	require.Contains(t, text, "little-history0, 4 to 103 of 250")
	require.Less(t, strings.Index(text, "little-history0, 4 to 103 of 250"), strings.Index(text, "little-history1 container"))
}

func TestLongTextsAreCut(t *testing.T) {
	long := pagetest.Blocked()
	long.Verdict.Text = strings.Repeat("ä", 3000)
	require.Contains(t, open(t, long, wide).text(), "ä… (1000 more characters)")
}

// focused is what has the focus: what it is, its text, and whether that is to be seen.
const focused = `(() => {
	const e = document.activeElement, style = getComputedStyle(e), at = e.getBoundingClientRect();
	return [e.tagName, (e.innerText || '').trim().split('\n')[0] || e.getAttribute('aria-label'),
		style.outlineStyle == 'solid' && parseFloat(style.outlineWidth) >= 2 && at.width > 0 && at.left >= 0 && at.bottom > 0 && at.top < innerHeight ? 'seen' : 'not seen'];
})()`

func TestAllCanBeReachedByKeyboard(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	want := ask[int](b, "[...document.querySelectorAll('a, summary, [tabindex]')].filter(e => e.checkVisibility()).length")
	var order []string
	for range want {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := ask[[]string](b, focused)
		require.Equal(t, "seen", at[2], "the focus on %v", at)
		order = append(order, at[0]+" "+at[1])
	}
	require.Equal(t, "A Skip to Findings", order[0])
	require.Contains(t, order, "A Findings 5")
	require.Contains(t, order, "SUMMARY Rules for pod web/shop-7c5687bd57-2x8lq")
	require.Contains(t, strings.Join(order, "\n"), "SUMMARY container app")
	distinct := map[string]bool{}
	for _, at := range order {
		distinct[at] = true
	}
	require.Len(t, distinct, want, "each has the focus once: %v", order)
}

func TestFoldsOpenByKeyboard(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	const rules = "Rules for pod"
	for range 50 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if strings.HasPrefix(ask[[]string](b, focused)[1], rules) {
			break
		}
	}
	require.NotContains(t, b.text(), "rules/requests.yaml:12:13")
	b.do(chromedp.KeyEvent(kb.Enter))
	require.Contains(t, b.text(), "rules/requests.yaml:12:13")
	b.do(chromedp.KeyEvent(" "))
	require.NotContains(t, b.text(), "rules/requests.yaml:12:13")
}

func TestTheContentsLeadThere(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	b.do(chromedp.Click("nav a[href='#decisions']"))
	require.InDelta(t, 0, ask[float64](b, "document.getElementById('decisions').getBoundingClientRect().top"), 60)
}

const narrow = 360

// unfold opens all folds.
const unfold = "document.querySelectorAll('details').forEach(e => e.open = true)"

// widest is the first element that makes the page wider than it is shown, or empty.
const widest = `(() => {
	if (document.documentElement.scrollWidth <= innerWidth) return '';
	const e = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg')).find(e => e.getBoundingClientRect().right > innerWidth + 1);
	return document.documentElement.scrollWidth + ': ' + (e ? e.outerHTML.slice(0, 200) : '?');
})()`

func TestANarrowPageDoesNotScrollSideways(t *testing.T) {
	each(t, func(t *testing.T, name string, report *explain.Report) {
		b := open(t, report, narrow)
		b.keep(name + "-narrow")
		require.Empty(t, ask[string](b, widest), "is wider than the page")
		ask[chromedp.Void](b, unfold)
		require.Empty(t, ask[string](b, widest), "is wider than the page, unfolded")
	})
	b := open(t, large(), narrow)
	require.Empty(t, ask[string](b, widest), "is wider than the page")
	b.keep("large-narrow")
}
func TestTheFlowGoesDownOnANarrowPage(t *testing.T) {
	b := open(t, pagetest.Resized(), narrow)
	tops := ask[[]float64](b, "[...document.querySelector('.flow').children].map(e => e.getBoundingClientRect().top)")
	require.IsIncreasing(t, tops)
}

//go:embed contrast.js
var contrast string

// TestContrast: text is to have 4.5:1 to what is behind it, and what charts draw 3:1 (WCAG 2.2, 1.4.3 and 1.4.11).
func TestContrast(t *testing.T) {
	each(t, func(t *testing.T, name string, report *explain.Report) {
		b := open(t, report, wide)
		ask[chromedp.Void](b, unfold)
		for _, at := range []struct{ medium, scheme string }{{"screen", "light"}, {"screen", "dark"}, {"print", "dark"}} {
			b.media(at.medium, at.scheme)
			faults := ask[[]string](b, contrast)
			require.Empty(t, faults, "on %s, %s", at.medium, at.scheme)
			back := ask[string](b, "getComputedStyle(document.documentElement).backgroundColor")
			if at.medium == "screen" && at.scheme == "dark" {
				require.Equal(t, "rgb(13, 17, 23)", back)
				b.keep(name + "-dark")
			} else {
				require.Equal(t, "rgb(255, 255, 255)", back, "on %s, %s", at.medium, at.scheme)
			}
		}
	})
}

func TestThePageReadsOnPaper(t *testing.T) {
	b := open(t, pagetest.Blocked(), 718) // A4 with the margins that Chromium leaves
	b.media("print", "dark")
	require.Equal(t, "none", ask[string](b, "getComputedStyle(document.querySelector('nav')).display"))
	require.True(t, ask[bool](b, "[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth + 1)"), "no table is cut")
	require.True(t, ask[bool](b, "document.querySelector('.flow').checkVisibility()"), "what is open on the screen is printed")
	tops := ask[[]float64](b, "[...document.querySelector('.flow').children].map(e => e.getBoundingClientRect().top)")
	require.Equal(t, tops[0], tops[4], "the flow goes from left to right")
	require.Empty(t, ask[[]string](b, broken))
	each(t, func(t *testing.T, name string, report *explain.Report) {
		b := open(t, report, wide)
		pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF())
		require.NoError(t, err)
		require.Contains(t, string(pdf[:8]), "%PDF")
		if *screenshots != "" {
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".pdf"), pdf, 0o644))
		}
	})
}

// axe is the source of axe-core, which npm fetches once and then has in its cache.
func axe(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("no npm to fetch axe-core: install one, as by `apt-get install npm`")
	}
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("axe", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o644))
	}
	fetch := exec.Command("npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	fetch.Dir = folder
	if said, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("npm cannot fetch axe-core, which needs its registry once: %v: %s", err, said)
	}
	text, err := os.ReadFile(filepath.Join(folder, "node_modules/axe-core/axe.min.js"))
	require.NoError(t, err)
	return string(text)
}

// TestAxeFindsNothing runs the rules of axe-core for WCAG 2.2 AA and its best practices.
func TestAxeFindsNothing(t *testing.T) {
	browser(t)
	source := axe(t)
	each(t, func(t *testing.T, name string, report *explain.Report) {
		width := int64(wide)
		if name == "resized" {
			width = narrow // where tables are stacked
		}
		b := open(t, report, width)
		ask[chromedp.Void](b, unfold)
		ask[chromedp.Void](b, source+"; 0")
		found := ask[[]string](b, `axe.run().then(r => [...r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.failureSummary + ' ' + n.html.slice(0, 300))), r.passes.length < 15 ? 'only ' + r.passes.length + ' rules ran' : ''].filter(Boolean))`)
		require.Empty(t, found)
	})
}
