package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain/page/pagetest"
)

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
	require.Contains(t, order, "SUMMARY Rules that ran for pod web/shop-7c5687bd57-2x8lq")
	require.Contains(t, strings.Join(order, "\n"), "SUMMARY container app")
	distinct := map[string]bool{}
	for _, at := range order {
		distinct[at] = true
	}
	require.Len(t, distinct, want, "each has the focus once: %v", order)
}

func TestFoldsOpenByKeyboard(t *testing.T) {
	b := open(t, pagetest.Blocked(), wide)
	const rules = "Rules that ran for pod"
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
