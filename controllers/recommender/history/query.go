package history

import (
	"slices"
	"strconv"
	"strings"

	prommodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// coreLabel names the core that a series is of: a cAdvisor outside kubelets has one series for each.
const coreLabel = "cpu"

// OfCore reports whether a series with this value of label cpu is of one core, and not of all.
func OfCore(value string) bool { return value != "" && value != "total" }

// cpuQuery asks for cores: the mean over one step of resolution. The series of a container that only
// differ in their core add up; others, such as those of replicas and of other jobs, are copies.
func (c *Config) cpuQuery() string {
	rate := func(cores labels.MatchType) string {
		allCores := &labels.Matcher{Type: cores, Name: coreLabel, Value: "|total"}
		return "rate(" + c.selector(c.CPUMetric, allCores) + "[" + c.Resolution.String() + "])"
	}
	return c.aggregate("max", rate(labels.MatchRegexp)+" or sum without ("+coreLabel+") ("+rate(labels.MatchNotRegexp)+")")
}

// memoryQuery asks for bytes.
func (c *Config) memoryQuery() string { return c.aggregate("max", c.selector(c.MemoryMetric)) }

// aggregate aggregates the series of each container. The server does it, as labels of series are much longer
// than those of containers: an answer has one series a container.
func (c *Config) aggregate(aggregation, query string) string {
	return aggregation + " by (" + labelTexts(c.identity()) + ") (" + query + ")"
}

// identity are the labels that distinguish containers.
func (c *Config) identity() []string {
	return []string{c.ContainerNamespaceLabel, c.ContainerPodLabel, c.ContainerNameLabel}
}

// selector picks the series of containers: of the job if there is one, with a pod, without the
// sandbox and the sums over a pod, which have no container name (UPSTREAM.md §2.18).
func (c *Config) selector(metric string, more ...*labels.Matcher) string {
	var terms []string
	if !prommodel.LegacyValidation.IsValidMetricName(metric) {
		terms = append(terms, strconv.Quote(metric))
		metric = ""
	}
	match := func(kind labels.MatchType, label, value string) {
		terms = append(terms, (&labels.Matcher{Type: kind, Name: label, Value: value}).String())
	}
	if c.CadvisorJob != "" {
		match(labels.MatchEqual, "job", c.CadvisorJob)
	}
	match(labels.MatchRegexp, c.ContainerPodLabel, ".+")
	match(labels.MatchNotEqual, c.ContainerNameLabel, "POD")
	match(labels.MatchNotEqual, c.ContainerNameLabel, "")
	if c.Namespace != "" {
		match(labels.MatchEqual, c.ContainerNamespaceLabel, c.Namespace)
	}
	for _, m := range slices.Concat(more, c.Matchers) {
		terms = append(terms, m.String())
	}
	return metric + "{" + strings.Join(terms, ", ") + "}"
}

// container matches the series of one container.
func (c *Config) container(id containerID) (out []*labels.Matcher) {
	for i, value := range []string{id.pod.Namespace, id.pod.Name, id.name} {
		out = append(out, &labels.Matcher{Type: labels.MatchEqual, Name: c.identity()[i], Value: value})
	}
	return out
}

// podLabels is the query for the labels of pods, with the matchers in it. expr is nil if it is not
// PromQL as Prometheus has it, which only matters with matchers.
func (c *Config) podLabels() (query string, expr parser.Expr, err error) {
	expr, err = promql.ParseExpr(c.PodLabelsQuery)
	switch {
	case err == nil && len(c.Matchers) > 0:
		c.Matchers.into(expr)
		return expr.String(), expr, nil
	case err == nil || len(c.Matchers) == 0:
		return c.PodLabelsQuery, expr, nil
	}
	return "", nil, err
}

// labelTexts are names of labels in PromQL.
func labelTexts(names []string) string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if !prommodel.LegacyValidation.IsValidLabelName(name) {
			name = strconv.Quote(name)
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}
