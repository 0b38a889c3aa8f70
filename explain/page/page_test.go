package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/page"
	"github.com/celvpa/celvpa/explain/page/pagetest"
)

func written(t *testing.T, r *explain.Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, page.Write(&out, r))
	return out.String()
}

var reports = map[string]*explain.Report{
	"blocked": pagetest.Blocked(), "resized": pagetest.Resized(), "large": pagetest.Large(60), "hostile": pagetest.Hostile(),
	"no VPA":   {Subject: "Pod web/lonely", Verdict: explain.Verdict{Token: "no-vpa", Text: "No VPA controls it"}},
	"no pods":  {Subject: "a", Resources: []explain.Amounts{{Resource: "cpu", Target: "25m"}}},
	"no facts": {},
}

// An element is one that a parser sees, which is what the browser makes of the page.
type element struct {
	name string
	attr map[string]string
	text strings.Builder // of it and of all that it holds
}

// elements parses a page, and requires that each element is closed where it has to be.
func elements(t *testing.T, text string) (out []*element) {
	t.Helper()
	void := []string{"meta", "br", "col"}
	var open []*element
	for tokens := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			require.Empty(t, open, "elements are not closed")
			return out
		}
		token := tokens.Token()
		switch kind {
		case html.TextToken:
			for _, e := range open {
				e.text.WriteString(token.Data)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			e := &element{name: token.Data, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Key] = a.Val
			}
			out = append(out, e)
			if kind == html.StartTagToken && !slices.Contains(void, e.name) {
				open = append(open, e)
			}
		case html.EndTagToken:
			require.NotEmpty(t, open, "</%s>", token.Data)
			last := open[len(open)-1]
			require.Equal(t, last.name, token.Data, "closes another element, with the text %q", last.text.String())
			open = open[:len(open)-1]
		}
	}
}

func TestPagesAreWellFormed(t *testing.T) {
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			all := elements(t, written(t, report))
			ids := map[string]bool{}
			headings := 0
			for _, e := range all {
				if id := e.attr["id"]; id != "" {
					require.False(t, ids[id], "id %s is there twice", id)
					ids[id] = true
				}
				if e.name == "h1" {
					headings++
				}
			}
			require.Equal(t, 1, headings)
			for _, e := range all {
				if to, ok := strings.CutPrefix(e.attr["href"], "#"); ok {
					require.True(t, ids[to], "a link leads to #%s, which is not there", to)
				}
				if by := e.attr["aria-labelledby"]; by != "" {
					require.True(t, ids[by], "#%s, which names a section, is not there", by)
				}
			}
			require.Equal(t, written(t, report), written(t, report), "a page is written the same way each time")
		})
	}
}

func TestAPageHoldsAllOfAReport(t *testing.T) {
	text := ""
	for _, e := range elements(t, written(t, pagetest.Blocked())) {
		if e.name == "html" {
			text = strings.Join(strings.Fields(e.text.String()), " ")
		}
	}
	for _, want := range []string{
		"Deployment web/shop", "✕ Misconfigured", "The updater's next step: Skip eligibility/too-few-replicas",
		"Way out: Scale by another metric, or take cpu out of controlledResources", "Until: 2 pods are healthy", "hpa-same-resource HorizontalPodAutoscaler web/shop",
		"percentile 90 414m", "414m → 476m", "estimate/bounds/add-safety-margin 1.0.0 rules/estimate.yaml:68:13",
		"978270031 ≈ 932.9Mi", "lower bound 83m", "upper bound 228956m", "83m to 228956m",
		"web/shop-7c5687bd57-2x8lqRunning, Burstable, node-1", "4.671 up outside", "Until: the workload has 2 live pods",
		"Rules that set the bounds of cpu of container app", "476m228956mestimate/bounds/widen-upper-bound",
		"container app: limits.memory 1Gi → 1956540062",
		"decision 19ce9c5a03c0", "container app: target.cpu 310m → 402m", "TooFewReplicas", "14 times",
		"celvpa-recommender-7c5687bd57-5p758", "65895351f390", "What the admission controller did: pods/proxy",
	} {
		require.Contains(t, text, want)
	}
	resized := written(t, pagetest.Resized())
	require.Contains(t, resized, "overlay RuleOverlay mail, overlays/mail.yaml:14:11")
	require.Contains(t, resized, "request, 2 pods", "pods that differ are counted")
	require.Contains(t, resized, "the target falls from 700Mi to 243Mi, in 6d4h", "a chart says in words what it shows")
	require.Contains(t, written(t, reports["no pods"]), "Which rules set the target is not known.")
	require.Contains(t, written(t, pagetest.Large(2)), "<strong>differs</strong>", "processes that run different rules")
}

func TestTextsOfAReportStayTexts(t *testing.T) {
	text := written(t, pagetest.Hostile())
	allowed := strings.Fields("html head meta title style body a header h1 small div p span strong code dl dt dd nav ul li main section h2 h3 h4 h5 ol " +
		"details summary article table caption colgroup col thead tbody tfoot tr th td svg rect circle line text figure figcaption time br footer")
	for _, e := range elements(t, text) {
		require.Contains(t, allowed, e.name)
		for key, value := range e.attr {
			require.False(t, strings.HasPrefix(key, "on") || key == "style" || key == "src", "%s has %s=%q", e.name, key, value)
		}
	}
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "<img")
	for _, r := range text {
		require.False(t, r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)), "%U is in the page", r)
	}
	for _, want := range []string{"&lt;script&gt;", "[U+0000][U+001B][31m[U+202E]evil[U+2066][U+200B]\uFFFD שלום", "&amp;lt;{}%s"} {
		require.Contains(t, text, want)
	}
}

func TestThePageForbidsTheNetwork(t *testing.T) {
	text := written(t, pagetest.Blocked())
	_, rest, _ := strings.Cut(text, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	digest := sha256.Sum256([]byte(style))
	require.Contains(t, text, fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'", base64.StdEncoding.EncodeToString(digest[:])))
}

func TestPagesAreBounded(t *testing.T) {
	text := written(t, pagetest.Large(500))
	require.Less(t, len(text), 8<<20)
	require.Contains(t, text, "containers, 426 to 500 of 500")
	require.NotContains(t, text, "left out: the page is full")
	require.Contains(t, text, "little-history, 4 to 103 of 500", "findings that are alike are together")
	require.Equal(t, 3, strings.Count(text, `<details class="container" open>`), "only the first containers are unfolded")

	text = written(t, pagetest.Large(1000))
	require.Less(t, len(text), 10<<20)
	require.Contains(t, text, "left out: the page is full. <code>-o json</code> has them")

	various := pagetest.Large(500)
	for i := range various.Findings {
		various.Findings[i].Token += strconv.Itoa(i % 2)
	}
	text = written(t, various)
	require.Less(t, strings.Index(text, "little-history0, 4 to 103 of 250"), strings.Index(text, "<code>little-history1</code>"))

	long := pagetest.Blocked()
	long.Verdict.Text = strings.Repeat("ä", 3000)
	require.Contains(t, written(t, long), "ä… (1000 more characters)")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFaultOfTheWriterIsReported(t *testing.T) {
	require.ErrorContains(t, page.Write(broken{}, pagetest.Blocked()), "disk full")
	require.ErrorContains(t, page.Write(broken{}, pagetest.Large(100)), "disk full")
}
