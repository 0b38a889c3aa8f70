package browser

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
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
		"One thing could not be found out",
		"hpa-same-resource HorizontalPodAutoscaler web/shop", "Way out: Scale by another metric",
		"container app cpu 100m → 476m memory 512Mi → 978270031",
		"percentile 90 414m", "unset → 414m", "414m → 476m", "rules/estimate.yaml:68:13", "lower bound 83m",
		"Admission request 476m", "Pods now request 100m", "percentile 90, used", "beyond the scale",
		"Next Why Priority Change", "4.671 up outside", "Decisions over time", "19ce9c5a03c3", "TooFewReplicas", "celvpa-updater", "pods/proxy",
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
		"table: Usage against request, target and bounds of memory", "columnheader: Priority", "rowheader: percentile 90, used",
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
