package history

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// promql accepts all that a server may: which of it the server knows, it says itself.
var promql = parser.NewParser(parser.Options{
	EnableExperimentalFunctions: true, ExperimentalDurationExpr: true,
	EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true,
})

// Matchers are what the labels of series have to be like; all must hold. It is a pflag.Value that can
// be repeated.
type Matchers []*labels.Matcher

// unquoted is a matcher whose quotes a shell took away.
var unquoted = regexp.MustCompile("^\\s*([A-Za-z_][A-Za-z0-9_]*)\\s*(=~|!~|!=|=)\\s*([^\"'`{},\\s]*)\\s*$")

// ParseMatchers reads matchers as PromQL has them between braces, such as cluster="a",
// namespace=~"b|c". A single one needs no quotes.
func ParseMatchers(text string) (Matchers, error) {
	selector := "{" + text + "}"
	if parts := unquoted.FindStringSubmatch(text); parts != nil {
		selector = "{" + parts[1] + parts[2] + strconv.Quote(parts[3]) + "}"
	}
	out, err := promql.ParseMetricSelector(selector)
	if err == nil && len(out) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf(`%q is not a list of PromQL matchers such as cluster="a" or namespace=~"b|c", pod!~"test-.*": %w`, text, err)
	}
	for _, m := range out {
		if m.Name == prommodel.MetricNameLabel {
			return nil, fmt.Errorf("%q chooses a metric: use --history-cpu-metric and --history-memory-metric", text)
		}
	}
	return out, nil
}

// Set implements pflag.Value.
func (m *Matchers) Set(text string) error {
	more, err := ParseMatchers(text)
	*m = append(*m, more...)
	return err
}

// Type implements pflag.Value.
func (m *Matchers) Type() string { return "matchers" }

// String is how PromQL writes them, without braces.
func (m *Matchers) String() string {
	var out []string
	for _, matcher := range *m {
		out = append(out, matcher.String())
	}
	return strings.Join(out, ", ")
}

// names are those of the labels.
func (m Matchers) names() (out []string) {
	for _, matcher := range m {
		out = append(out, matcher.Name)
	}
	return out
}

// into adds the matchers to each selector of an expression.
func (m Matchers) into(expr parser.Expr) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			selector.LabelMatchers = append(selector.LabelMatchers, m...)
		}
		return nil
	})
}
