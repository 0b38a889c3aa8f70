package browser

import (
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/page"
	"github.com/celvpa/celvpa/explain/page/pagetest"
)

// allPages runs a test on each kind of page.
func allPages(t *testing.T, test func(t *testing.T, b *tab)) {
	t.Run("backtest", func(t *testing.T) {
		eachBacktest(t, func(t *testing.T, _ string, r *backtest.Report) { test(t, openBacktest(t, r, wide)) })
	})
	each(t, func(t *testing.T, _ string, r *explain.Report) { test(t, open(t, r, wide)) })
	for name, r := range map[string]*explain.Report{
		"large": pagetest.Large(60), "no facts": {}, "no pods": {Subject: "a", Resources: []explain.Amounts{{Resource: "cpu", Target: "25m"}}},
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t, r, wide)) })
	}
	t.Run("no policies", func(t *testing.T) { test(t, openBacktest(t, &backtest.Report{}, wide)) })
}

// malformed are the faults of a document.
const malformed = `(() => {
	const all = [...document.querySelectorAll('*')], ids = all.map(e => e.id).filter(Boolean), out = [];
	const fault = (of, text) => of && out.push(text);
	fault(document.querySelectorAll('h1').length !== 1, 'not one h1');
	fault(new Set(ids).size !== ids.length, 'an id is there twice');
	fault(document.scripts.length !== 3, document.scripts.length + ' scripts');
	for (const e of all) {
		const to = e.getAttribute('href'), by = e.getAttribute('aria-labelledby');
		fault(to && !ids.includes(to.slice(1)), 'a link leads to ' + to);
		fault(by && !ids.includes(by), 'nothing is ' + by);
		fault(/^(img|iframe|object|embed|link|base|form|input)$/.test(e.localName), e.localName);
		for (const a of e.attributes) fault(/^(on.*|style|src)$/.test(a.name), e.localName + ' has ' + a.name);
	}
	for (const text of document.body.innerText.match(/.{0,40}(\bNaN\b|undefined|\[object|\bnull\b|Infinity).{0,40}/g) ?? []) out.push(text);
	return out;
})()`

func TestPagesAreWellFormed(t *testing.T) {
	allPages(t, func(t *testing.T, b *tab) {
		ask[chromedp.Void](b, unfold)
		require.Empty(t, ask[[]string](b, malformed))
	})
}

func TestAPageHoldsAllOfAReport(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	ask[chromedp.Void](b, unfold)
	text := b.text()
	for _, want := range []string{
		"Deployment web/shop", "✕ Misconfigured", "The updater's next step: Skip eligibility/too-few-replicas",
		"What to do: Scale by another metric, or take cpu out of controlledResources", "Until: 2 pods are healthy", "Until: It has 2 live pods", "hpa-same-resource HorizontalPodAutoscaler web/shop",
		"percentile 90 414m", "414m → 476m", "estimate/bounds/add-safety-margin 1.0.0 rules/estimate.yaml:68:13",
		"933Mi 978270031", "lower bound 83m", "upper bound 229 228956m", "83m to 229",
		"web/shop-7c5687bd57-2x8lq Running, Burstable, node-1", "467% needs more, outside the range", "Until: the workload has 2 live pods",
		"Rules that set the bounds of cpu of container app", "476m 228956m estimate/bounds/widen-upper-bound",
		"app: limits.memory 1Gi → 1.82Gi", "container app: target.memory 888Mi → 933Mi",
		"decision 19ce9c5a03c0", "container app: target.cpu 310m → 402m", "TooFewReplicas", "14 times",
		"celvpa-recommender-7c5687bd57-5p758", "65895351f390", "What the admission controller did: pods/proxy",
	} {
		require.Contains(t, text, want)
	}
	b = open(t, pagetest.Resized(), wide)
	require.Contains(t, b.text(), "overlay RuleOverlay mail, overlays/mail.yaml:14:11")
	require.Contains(t, b.text(), "request, 2 pods", "pods that differ are counted")
	require.Contains(t, open(t, &explain.Report{Resources: []explain.Amounts{{Resource: "cpu", Target: "25m"}}}, wide).text(), "Neither usage nor the rules that set these targets are known.")
	require.Contains(t, open(t, pagetest.Large(2), wide).text(), "0f1e2d3c4b5a differs", "processes that run different rules")
}

func TestTextsOfAReportRunNothing(t *testing.T) {
	for _, b := range []*tab{open(t, pagetest.Hostile(), wide), openBacktest(t, backtests["hostile"](), wide)} {
		require.False(t, ask[bool](b, "'hacked' in window"))
		require.Contains(t, b.text(), `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1></style></title>&lt;{}%s[U+0000][U+001B][31m[U+202E]evil[U+2066][U+200B]`+"\uFFFD שלום")
		require.False(t, ask[bool](b, `/[^\P{Cc}\n\t]|\p{Cf}/u.test(document.body.innerText + [...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.value)).join(''))`))
		require.True(t, ask[bool](b, `[...document.querySelectorAll('h1, td, p, dd, code')].every(e => getComputedStyle(e).unicodeBidi == 'isolate')`))
		b.keep("hostile-light")
	}
}

// TestThePolicyForbidsOtherScripts and styles, even if a text became markup.
func TestThePolicyForbidsOtherScripts(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	b.violates = true
	require.Equal(t, []string{"script-src-elem", "style-src-elem"}, ask[[]string](b, `(async () => {
		const said = [];
		for (const [name, textContent] of [['script', 'window.hacked = 1'], ['style', 'body { display: none }']]) {
			await new Promise(done => {
				document.addEventListener('securitypolicyviolation', e => done(said.push(e.effectiveDirective)), {once: true});
				document.body.append(Object.assign(document.createElement(name), {textContent}));
			});
		}
		return said;
	})()`))
	require.False(t, ask[bool](b, "'hacked' in window"))
}

func TestWithoutJavaScriptThePageSaysTheVerdict(t *testing.T) {
	off := command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b := openPage(t, func(out io.Writer) error { return page.Write(out, pagetest.Blocked()) }, narrow, off)
	text := b.text()
	require.Contains(t, text, "Deployment web/shop: why?")
	require.Contains(t, text, pagetest.Blocked().Verdict.Text)
	require.Contains(t, text, "The rest of this page needs JavaScript")
}

// TestEmptyPartsAreLeftOut: sections said that they had nothing to say.
func TestEmptyPartsAreLeftOut(t *testing.T) {
	b := open(t, &explain.Report{Subject: "a", Resources: []explain.Amounts{{Resource: "cpu", Target: "25m"}}}, wide)
	require.Equal(t, []string{"Resources"}, ask[[]string](b, "[...document.querySelectorAll('h2')].map(e => e.innerText)"))
	require.Equal(t, []string{"Target"}, ask[[]string](b, "[...document.querySelectorAll('.flow h5')].map(e => e.innerText)"))
	r := backtests["sweep"]()
	for i := range r.Policies {
		for j := range r.Policies[i].Workloads {
			r.Policies[i].Workloads[j].OOMs = 0
		}
		r.Policies[i].Fleet.CPU.ThrottledCoreSeconds = 0
	}
	text := openBacktest(t, r, wide).text()
	require.NotContains(t, text, "Most OOM kills")
	require.NotContains(t, text, "Throttled core-hours")
}

// TestNamesOfPodsBreakAtHyphens, on a page however narrow.
func TestNamesOfPodsBreakAtHyphens(t *testing.T) {
	for _, width := range []int64{narrow, 768, wide} {
		b := open(t, pagetest.Blocked(), width)
		require.Empty(t, ask[[]string](b, `[...document.querySelectorAll('.scroll th[scope=row], .scroll td')].flatMap(e => [...e.childNodes]).filter(e => e.nodeType == 3 && e.parentNode.checkVisibility()).flatMap(text => {
			const line = i => { const at = document.createRange(); at.setStart(text, i); at.setEnd(text, i + 1); return at.getBoundingClientRect().top; };
			return [...text.data].map((_, i) => i).filter(i => i > 0 && /\w/.test(text.data[i]) && /\w/.test(text.data[i - 1]) && line(i) > line(i - 1) + 5).map(i => text.data.slice(0, i) + '|' + text.data.slice(i));
		})`), "%d pixels", width)
	}
}

// Amounts and scales.

// TestAmountsReadAsInATerminal: both have three digits, and all of them beside it where that leaves some out.
func TestAmountsReadAsInATerminal(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	for _, text := range []string{"978270031", "1956540062", "228956m", "476m", "2Gi"} {
		require.Equal(t, quantity.Short(text), ask[string](b, "short('"+text+"')"), text)
	}
	require.Equal(t, "container app: target.memory 888Mi → 933Mi", ask[string](b, "short('container app: target.memory 931135488 → 978270031')"))
	require.Equal(t, "toString", ask[string](b, "short('toString')"))
	require.InDelta(t, 0.476, ask[float64](b, "drawn('476m')"), 1e-9)
	require.True(t, ask[bool](b, "drawn('nonsense') === null && drawn('constructor') === null"))

	b = openBacktest(t, backtests["empty"](), wide)
	for _, value := range []int64{1, 1000, 95491088, 587804717, 978270031, 1175609434, 12345678901, 470547884911, 1 << 30} {
		require.Equal(t, quantity.Short(strconv.FormatInt(value, 10)), ask[string](b, fmt.Sprintf("bytes(%d)", value)))
	}
	for _, milli := range []int64{1, 50, 476, 999, 1000, 12000, 228956} {
		require.Equal(t, quantity.Short(resource.NewMilliQuantity(milli, resource.DecimalSI).String()), ask[string](b, fmt.Sprintf("cores(%d / 1000)", milli)))
	}
}

func TestTicksAreRound(t *testing.T) {
	b := open(t, &explain.Report{}, wide)
	for _, c := range []struct {
		resource, most, want string
	}{
		{"cpu", "0.476", "200m 400m"}, {"cpu", "3", "1 2 3"}, {"cpu", "0.003", "1m 2m 3m"}, {"cpu", "900", "500"}, {"cpu", "9e3", "5k"},
		{"memory", "978270031", "256Mi 512Mi 768Mi"}, {"memory", "2 ** 31", "1Gi 2Gi"}, {"memory", "0", ""}, {"cpu", "8e18", ""}, {"cpu", "NaN", ""}, {"cpu", "1e999", ""},
	} {
		script := "ticks(1.04 * " + c.most + ", '" + c.resource + "' !== 'cpu')"
		require.Equal(t, c.want, ask[string](b, script+".map(([, text]) => text).join(' ')"), c.most)
		require.True(t, ask[bool](b, script+".every(([at]) => at > 0 && at <= 1)"))
	}
}

func TestAFarUpperBoundDoesNotFlattenTheChart(t *testing.T) {
	b := open(t, &explain.Report{Resources: []explain.Amounts{{Resource: "cpu", LowerBound: "100m", Target: "400m", Uncapped: "1100m", UpperBound: "228956m"}}}, wide)
	require.InDelta(t, 1.04*0.4, ask[float64](b, "topOf(['400m', '100m'], ['228956m'])"), 1e-9)
	require.InDelta(t, 1.04*1.1, ask[float64](b, "topOf(['400m'], ['1100m'])"), 1e-9)
}

func TestDurationsAreThoseOfKubectl(t *testing.T) {
	b := open(t, &explain.Report{}, wide)
	for seconds, want := range map[string]string{
		"0": "0s", "119": "119s", "120": "2m", "150": "2m30s", "3600": "60m", "10800": "3h", "12300": "3h25m", "90000": "25h", "172800": "2d", "534000": "6d4h", "864000": "10d", "94608000": "3y", "95472000": "3y10d",
	} {
		require.Equal(t, want, ask[string](b, "duration("+seconds+")"))
	}
}
