package browser

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/explain/page/pagetest"
)

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
