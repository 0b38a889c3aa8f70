package browser

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/page/pagetest"
)

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
