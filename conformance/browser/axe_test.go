package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain"
)

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
