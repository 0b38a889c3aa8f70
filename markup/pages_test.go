package markup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	backtestpage "github.com/celvpa/celvpa/backtest/page"
	backtests "github.com/celvpa/celvpa/backtest/page/pagetest"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/explain"
	explainpage "github.com/celvpa/celvpa/explain/page"
	explanations "github.com/celvpa/celvpa/explain/page/pagetest"
	"github.com/celvpa/celvpa/markup"
)

// What viewers make of a page is tested by conformance/browser, in Chromium. Here is what is written.

func written(t *testing.T, report any) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, write(&out, report))
	return out.String()
}

func write(out io.Writer, report any) error {
	if r, is := report.(*backtest.Report); is {
		return backtestpage.Write(out, r)
	}
	return explainpage.Write(out, report.(*explain.Report))
}

// reports are made anew for each test.
var reports = map[string]func() any{
	"blocked": func() any { return explanations.Blocked() }, "resized": func() any { return explanations.Resized() },
	"hostile": func() any { return explanations.Hostile() }, "no facts": func() any { return &explain.Report{} },
	"backtest": func() any { return backtests.Sweep() }, "hostile backtest": func() any { return backtests.Hostile() }, "empty backtest": func() any { return backtests.Empty() },
}

var script = regexp.MustCompile(`(?s)<script(?: type="application/json" id="(\w+)")?>(.*?)</script>`)

// scripts are those of a page by id; that of the viewer has none.
func scripts(page string) map[string]string {
	out := map[string]string{}
	for _, m := range script.FindAllStringSubmatch(page, -1) {
		out[m[1]] = m[2]
	}
	return out
}

func TestAPageHasItsReportAsJSON(t *testing.T) {
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			page := written(t, report())
			require.Equal(t, page, written(t, report()), "a page is written the same way each time")
			r := report()
			if of, is := r.(*backtest.Report); is {
				withoutSeries(of)
			}
			want, err := json.Marshal(r)
			require.NoError(t, err)
			require.JSONEq(t, string(want), scripts(page)["report"])
		})
	}
}

func withoutSeries(r *backtest.Report) {
	for i := range r.Policies {
		for j := range r.Policies[i].Containers {
			r.Policies[i].Containers[j].Series = nil
		}
	}
}

// TestTextsOfAReportStayTexts in the file itself: none is markup, ends a script or turns the text around it.
func TestTextsOfAReportStayTexts(t *testing.T) {
	for _, name := range []string{"hostile", "hostile backtest"} {
		text := written(t, reports[name]())
		require.Len(t, regexp.MustCompile(`(?i)<script`).FindAllString(text, -1), 3, name)
		require.Len(t, regexp.MustCompile(`(?i)</(script|title|style)`).FindAllString(text, -1), 5, name)
		require.NotContains(t, text, "<img")
		for _, r := range text {
			require.False(t, r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)), "%U is in the page %s", r, name)
		}
		require.Contains(t, text, `\u003cscript\u003e`)
		require.Contains(t, text, `\u202eevil\u2066\u200b`)
	}
	hostile := written(t, reports["hostile"]())
	require.Contains(t, hostile, "&lt;script&gt;window.hacked=1&lt;/script&gt;", "the title, and what is said without JavaScript")
	require.Contains(t, hostile, "[U+0000][U+001B][31m[U+202E]evil[U+2066][U+200B]\uFFFD שלום")
}

// TestThePageForbidsTheNetwork, and all scripts and styles but its own.
func TestThePageForbidsTheNetwork(t *testing.T) {
	for name, report := range reports {
		text := written(t, report())
		digest := func(of string) string {
			sum := sha256.Sum256([]byte(of))
			return base64.StdEncoding.EncodeToString(sum[:])
		}
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)[1]
		require.Contains(t, text, `content="default-src 'none'; style-src 'sha256-`+digest(style)+`'; script-src 'sha256-`+digest(scripts(text)[""])+`'; base-uri 'none'; form-action 'none'"`, name)
		require.NotContains(t, strings.ReplaceAll(style+scripts(text)[""], "http://www.w3.org/", ""), "//www", "but for the names of XHTML and SVG")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFaultOfTheWriterIsReported(t *testing.T) {
	for name, report := range reports {
		require.ErrorContains(t, write(broken{}, report()), "disk full", name)
	}
	require.ErrorContains(t, markup.Page{Report: math.NaN()}.Write(io.Discard), "NaN")
}

func TestPagesAreBounded(t *testing.T) {
	require.Less(t, len(written(t, explanations.Large(500))), 2<<20)
	require.Less(t, len(written(t, backtests.Large(500))), 9<<20)
	require.Less(t, len(written(t, explanations.Blocked())), 64<<10)
}

// TestAnExplanationCarriesItsAmounts as numbers and as tables in a terminal write them, so that its viewer parses and rounds none.
func TestAnExplanationCarriesItsAmounts(t *testing.T) {
	r := explanations.Blocked()
	r.Resources[0].LowerBound, r.Resources[1].UpperBound = "1e999", "-3"
	var amounts map[string]struct {
		Value float64
		Short string
	}
	require.NoError(t, json.Unmarshal([]byte(scripts(written(t, r))["charts"]), &amounts))
	for text, value := range map[string]float64{"978270031": 978270031, "476m": 0.476, "512Mi": 512 << 20, "228956m": 228.956, "1e999": math.MaxInt64, "-3": 0} {
		require.InEpsilon(t, 1+value, 1+amounts[text].Value, 1e-9, text)
		require.Equal(t, quantity.Short(text), amounts[text].Short)
	}
	require.Equal(t, "container app: target.memory 888Mi → 933Mi", amounts["container app: target.memory 931135488 → 978270031"].Short)
	require.NotContains(t, amounts, "Skip")
}

// charts are what a backtest's viewer draws.
type charts struct {
	Closely int
	Order   []int
	Series  []struct {
		Policy, Container, Steps int
		StepSeconds              int64
		CPU, Memory              map[string][]*float64
	}
}

func chartsOf(t *testing.T, r *backtest.Report) (out charts) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(scripts(written(t, r))["charts"]), &out))
	return out
}

func TestWhichPolicyIsLookedAtClosely(t *testing.T) {
	for want, names := range map[string][]string{
		"mine":        {"manifest", "hindsight", "upstream", "shipped", "shipped[a=b]", "mine", "mine[a=b]", "other"},
		"shipped":     {"manifest", "hindsight", "upstream", "shipped", "shipped[a=b]"},
		"rules[a=b]":  {"manifest", "hindsight", "upstream", "rules[a=b]"},
		"upstream":    {"manifest", "hindsight", "upstream"},
		"shipped+pay": {"manifest", "hindsight", "upstream", "shipped", "shipped+pay"},
	} {
		r := backtests.Empty()
		for _, name := range names {
			p := backtest.Policy{Name: name}
			if strings.Contains(name, "[") {
				p.Params = map[string]string{"a": "b"}
			}
			r.Policies = append(r.Policies, p)
		}
		require.Equal(t, want, names[chartsOf(t, r).Closely])
	}
	require.Equal(t, -1, chartsOf(t, backtests.Empty()).Closely)
}

// TestContainersThatFareWorstHaveCharts first, and five of them those of other policies.
func TestContainersThatFareWorstHaveCharts(t *testing.T) {
	r := backtests.Large(8)
	of := chartsOf(t, r)
	list := r.Policies[of.Closely].Containers
	for i, index := range of.Order[1:] {
		require.GreaterOrEqual(t, list[of.Order[i]].OOMs, list[index].OOMs)
	}
	policies := map[int]int{}
	for _, s := range of.Series {
		policies[s.Container]++
	}
	for i, index := range of.Order {
		require.Equal(t, map[bool]int{true: 4, false: 1}[i < 5], policies[index], "position %d", i)
	}
	for i := range r.Policies {
		r.Policies[i].Containers = slices.Repeat(r.Policies[i].Containers, 200)
	}
	large := chartsOf(t, r)
	require.Len(t, large.Order, 1600)
	drawn := map[int]bool{}
	for _, s := range large.Series {
		drawn[s.Container] = true
	}
	require.Greater(t, len(drawn), 500)
	for i, index := range large.Order {
		require.Equal(t, i < len(drawn), drawn[index], "those that fare best lose their charts, at %d", i)
	}
}

// TestAPageOfManyContainersComparesThemWithTheManifestsOnly: each policy has a row for each container.
func TestAPageOfManyContainersComparesThemWithTheManifestsOnly(t *testing.T) {
	r := backtests.Large(1)
	withoutSeries(r)
	for i := range r.Policies {
		r.Policies[i].Containers, r.Policies[i].Workloads = slices.Repeat(r.Policies[i].Containers, 2600), slices.Repeat(r.Policies[i].Workloads, 2600)
	}
	var got backtest.Report
	require.NoError(t, json.Unmarshal([]byte(scripts(written(t, r))["report"]), &got))
	of := chartsOf(t, r)
	for i := range r.Policies {
		p := &got.Policies[i]
		require.Equal(t, r.Policies[i].Fleet, p.Fleet)
		if i == of.Closely || p.Name == backtest.Manifest {
			require.Len(t, p.Containers, 2600)
			require.Len(t, p.Workloads, 2600)
		} else {
			require.Empty(t, p.Containers)
			require.Empty(t, p.Workloads)
		}
	}
}

// TestSeriesAreThinned to what a chart shows: the mean of usage, the largest peak, and the last of the others.
func TestSeriesAreThinned(t *testing.T) {
	unknown := math.NaN()
	s := &backtest.Series{StepSeconds: 60, Steps: 2*backtestpage.Points - 1}
	for i := range s.Steps {
		value := float64(i % 2)
		if i >= 6 {
			value = unknown
		}
		for _, line := range []*backtest.Line{&s.CPU.Usage, &s.CPU.UsageMax, &s.CPU.Request} {
			*line = append(*line, value)
		}
		s.CPU.Limit = append(s.CPU.Limit, 1234567)
	}
	r := &backtest.Report{Window: backtest.Window{From: backtests.From, To: backtests.From.Add(8 * time.Hour)}, Policies: []backtest.Policy{{Name: "shipped", Containers: []backtest.Container{{Series: s}}}}}
	got := chartsOf(t, r).Series[0]
	require.Equal(t, backtestpage.Points, got.Steps)
	require.EqualValues(t, 120, got.StepSeconds)
	text := func(line string) string {
		out, err := json.Marshal(got.CPU[line])
		require.NoError(t, err)
		return string(out)
	}
	require.Equal(t, "[0.5,3,null,237]", text("usage"), "a value, and for how many steps it holds")
	require.Equal(t, "[1,3,null,237]", text("usageMax"))
	require.Equal(t, "[1,3,null,237]", text("request"))
	require.Equal(t, "[1234600,240]", text("limit"), "five digits")
	require.Equal(t, "[]", text("upper"))
}
