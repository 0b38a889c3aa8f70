package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/page"
	"github.com/celvpa/celvpa/backtest/page/pagetest"
)

func written(t *testing.T, r *backtest.Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, page.Write(&out, r))
	return out.String()
}

// shown is the text of a page, as a parser sees it, and its elements; each has to be closed.
func shown(t *testing.T, page string) (text string, elements []html.Token) {
	t.Helper()
	var open []string
	var out strings.Builder
	for tokens := html.NewTokenizer(strings.NewReader(page)); ; {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken:
			require.Empty(t, open, "elements are not closed")
			return strings.Join(strings.Fields(out.String()), " "), elements
		case html.TextToken:
			out.WriteString(tokens.Token().Data + " ")
		case html.StartTagToken, html.SelfClosingTagToken:
			one := tokens.Token()
			elements = append(elements, one)
			if kind == html.StartTagToken && one.Data != "meta" && one.Data != "br" {
				open = append(open, one.Data)
			}
		case html.EndTagToken:
			one := tokens.Token()
			require.NotEmpty(t, open)
			require.Equal(t, open[len(open)-1], one.Data)
			open = open[:len(open)-1]
		}
	}
}

func TestPagesAreWellFormed(t *testing.T) {
	for name, r := range map[string]*backtest.Report{"sweep": pagetest.Sweep(), "large": pagetest.Large(60), "hostile": pagetest.Hostile(), "empty": pagetest.Empty(), "nothing": {}} {
		text := written(t, r)
		_, elements := shown(t, text)
		ids := map[string]bool{}
		for _, e := range elements {
			for _, a := range e.Attr {
				if a.Key == "id" {
					require.False(t, ids[a.Val], "%s: id %s is there twice", name, a.Val)
					ids[a.Val] = true
				}
			}
		}
		for _, e := range elements {
			for _, a := range e.Attr {
				if to, ok := strings.CutPrefix(a.Val, "#"); ok && a.Key == "href" {
					require.True(t, ids[to], "%s: a link leads to #%s, which is not there", name, to)
				}
			}
		}
		require.Equal(t, text, written(t, r), "a page is written the same way each time")
		require.NotContains(t, text, "NaN", name)
	}
}

func TestAPageSaysWhatCameOut(t *testing.T) {
	r := pagetest.Sweep()
	text, _ := shown(t, written(t, r))
	at := 0
	for _, want := range []string{
		"celvpa backtest What would this policy have done?", "Policy shipped would have requested 2,285 core-hours of CPU (−59%) and 2,272 GiB-hours of memory (−46%) , at a cost of 77.6",
		"2026-02-02 00:00 to 2026-02-16 00:00 UTC", "6 with 6 containers", "0.03 a core-hour, 0.004 a GiB-hour",
		"1 manifest unbeaten", "2 hindsight", "4 shipped decides as upstream does", "5 shipped[estimate.marginFraction=0.05]",
		"OOM kills against memory requested in GiB-hours", "Killed most often", "search web Deployment 4 OOM kills 4 OOM kills", "Most CPU reserved and not used",
		"app of Deployment web/search", "4 OOM kills", "pod evicted, 6 times", "OOM kill, 4 times", "Each step, and the rules that caused it: 16 steps",
		"new target CPU none → 1.2", "estimate/bounds/target , estimate/bounds/add-safety-margin", "pod evicted CPU 3.2 → 1.2", "update/outside-recommended-range Its requests are outside the recommended range",
		"OOM kill memory limit and use 1.92Gi → ", "All policies for container app of web/search", "The same with policy manifest",
		"pod resized", "A container is OOM-killed when a sample of its memory exceeds the limit in force.", "hindsight The least constant request",
	} {
		next := strings.Index(text[at:], want)
		require.GreaterOrEqual(t, next, 0, "%q comes after what is before it in this test; the page goes on: %s", want, text[at:min(len(text), at+1500)])
		at += next
	}
}

func TestWhichPolicyIsLookedAtClosely(t *testing.T) {
	named := func(names ...string) *backtest.Report {
		r := pagetest.Empty()
		for _, name := range names {
			p := backtest.Policy{Name: name}
			if strings.Contains(name, "[") {
				p.Params = map[string]string{"a": "b"}
			}
			r.Policies = append(r.Policies, p)
		}
		return r
	}
	for want, names := range map[string][]string{
		"mine":        {"manifest", "hindsight", "upstream", "shipped", "shipped[a=b]", "mine", "mine[a=b]", "other"},
		"shipped":     {"manifest", "hindsight", "upstream", "shipped", "shipped[a=b]"},
		"rules[a=b]":  {"manifest", "hindsight", "upstream", "rules[a=b]"},
		"upstream":    {"manifest", "hindsight", "upstream"},
		"shipped+pay": {"manifest", "hindsight", "upstream", "shipped", "shipped+pay"},
	} {
		text, _ := shown(t, written(t, named(names...)))
		require.Contains(t, text, "Looked at closely policy "+want+" ")
	}
}

func TestTextsOfAReportStayTexts(t *testing.T) {
	text := written(t, pagetest.Hostile())
	_, elements := shown(t, text)
	allowed := strings.Fields("html head meta title style body a header h1 small div p span strong em code dl dt dd nav ul li main section h2 h3 " +
		"details summary article table thead tbody tr th td svg rect circle line path text figure figcaption time br footer")
	inSVG := 0
	for _, e := range elements {
		require.Contains(t, allowed, e.Data)
		for _, a := range e.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src", "%s has %s=%q", e.Data, a.Key, a.Val)
		}
		if e.Data == "path" {
			inSVG++
		}
	}
	require.Positive(t, inSVG)
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "<img")
	for _, r := range text {
		require.False(t, r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)), "%U is in the page", r)
	}
	require.Contains(t, text, "&lt;script&gt;")
	require.Contains(t, text, "default-src 'none'; style-src 'sha256-")
}

func TestPagesAreBounded(t *testing.T) {
	text := written(t, pagetest.Large(500))
	require.Less(t, len(text), 9<<20)
	require.Contains(t, text, "containers, 426 to 500 of 500")
	plain, _ := shown(t, text)
	require.Contains(t, plain, "app of Deployment web/search-494", "each container is named")

	long := pagetest.Large(1)
	s := long.Policies[3].Containers[0].Series
	for _, line := range []*backtest.Line{&s.CPU.Usage, &s.CPU.UsageMax, &s.CPU.Request, &s.CPU.Limit, &s.CPU.Target, &s.CPU.Lower, &s.CPU.Upper} {
		for range 5 {
			*line = append(*line, *line...)
		}
	}
	s.Steps = len(s.CPU.Usage)
	require.Less(t, len(written(t, long)), 200_000, "charts are thinned")
}

// TestPathsAreWhole: a path of a chart whose values change at each point is longer than any text of a report may be, and was
// cut like one, with "… (349 more characters)" in its middle.
func TestPathsAreWhole(t *testing.T) {
	whole, longest := regexp.MustCompile(`^([ML]-?[\d.]+ -?[\d.]+|[HV]-?[\d.]+|Z)*$`), 0
	for name, r := range map[string]*backtest.Report{"dense": pagetest.Dense(), "sweep": pagetest.Sweep(), "hostile": pagetest.Hostile()} {
		_, elements := shown(t, written(t, r))
		for _, e := range elements {
			for _, a := range e.Attr {
				if e.Data == "path" && a.Key == "d" {
					require.Regexp(t, whole, a.Val, name)
					longest = max(longest, len(a.Val))
				}
			}
		}
	}
	require.Greater(t, longest, 2400, "a chart of 240 points has a longer path than 2,000 characters")
}

// TestACurveStandsWhereItsValuesAre reads paths: unknown values leave gaps, and so does what is
// beyond the chart.
func TestACurveStandsWhereItsValuesAre(t *testing.T) {
	unknown := math.NaN()
	r := &backtest.Report{Window: backtest.Window{From: pagetest.From, To: pagetest.From.Add(4 * time.Hour)}}
	none := backtest.Line{unknown, unknown, unknown, unknown}
	s := &backtest.Series{StepSeconds: 3600, Steps: 4, Memory: backtest.Lines{Usage: none, UsageMax: none, Request: none, Limit: none, Target: none, Lower: none, Upper: none}, CPU: backtest.Lines{
		Usage: backtest.Line{1, 1, unknown, 2}, UsageMax: none, Request: backtest.Line{2, 2, 1, 1}, Limit: backtest.Line{100, 100, 100, 100},
		Target: none, Lower: none, Upper: none,
	}}
	r.Policies = []backtest.Policy{{Name: "shipped", Containers: []backtest.Container{{Series: s}}}}
	text := written(t, r)
	path := func(class string) string {
		m := regexp.MustCompile(`<path class="` + class + `" d="([^"]*)"/>`).FindStringSubmatch(text)
		require.NotNil(t, m, class)
		return m[1]
	}
	// The top is 2.1, 5% above the largest: 1 is at 89 of 170 pixels, and 2 at 8.1.
	require.Equal(t, "M0 8.1H500V89H1000", path("request"))
	require.Equal(t, "M0 170V89H500V170ZM750 170V8.1H1000V170Z", path("area"))
	require.Empty(t, path("limit"), "a far limit does not flatten the rest")
	require.Empty(t, path("target"))
	require.Equal(t, 1, strings.Count(text, `<figure class="chart">`), "nothing is known of memory")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFaultOfTheWriterIsReported(t *testing.T) {
	require.ErrorContains(t, page.Write(broken{}, pagetest.Empty()), "disk full")
	require.ErrorContains(t, page.Write(broken{}, pagetest.Large(50)), "disk full")
}

// TestPoliciesThatCoverEachOtherShareAPoint: seven policies looked like three, of which the last drawn
// hid the others.
func TestPoliciesThatCoverEachOtherShareAPoint(t *testing.T) {
	r := &backtest.Report{}
	for i, oom := range []int{0, 3, 3, 3, 1, 3} {
		p := backtest.Policy{Name: fmt.Sprintf("p%d", i+1)}
		p.Fleet.OOMs, p.Fleet.Memory.RequestedGiBHours = oom, float64(1000-100*min(i, 1)-i)
		r.Policies = append(r.Policies, p)
	}
	text := written(t, r)
	plot := text[strings.Index(text, "<figcaption>Memory"):]
	require.Equal(t, []string{"1", "2–4, 6", "5"}, func() (out []string) {
		for _, m := range regexp.MustCompile(`<text class="in"[^>]*>([^<]*)<`).FindAllStringSubmatch(plot, -1) {
			out = append(out, m[1])
		}
		return out
	}())
	require.Contains(t, plot, "<title>2 p2: 899 memory requested, 3 OOM kills; 3 p3: 898 memory requested, 3 OOM kills; 4 p4: ")
}

// TestAMonthIsNotADayShort: 30 days less 48 seconds were 29d.
func TestAMonthIsNotADayShort(t *testing.T) {
	r := pagetest.Empty()
	r.Window.Seconds = 30*24*3600 - 48
	require.Contains(t, written(t, r), "<small> 30d</small>")
}

// TestAPageSaysWhichWorkloadsAreNeverUpdated, and why: it looked as if the policy had nothing to save.
func TestAPageSaysWhichWorkloadsAreNeverUpdated(t *testing.T) {
	r := pagetest.Sweep()
	for i := range r.Policies {
		r.Policies[i].Workloads[0].NeverUpdated = &backtest.Obstacle{Rule: "eligibility/too-few-replicas", Reason: "The workload has 1 live pod"}
	}
	text, _ := shown(t, written(t, r))
	require.Contains(t, text, "Of 1 workload it would never have updated a pod")
	require.Contains(t, text, "Never evicted or resized Workload Why")
	require.Contains(t, text, "The workload has 1 live pod eligibility/too-few-replicas")
}
