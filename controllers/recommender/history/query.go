package history

import (
	"strconv"
	"strings"

	prommodel "github.com/prometheus/common/model"
)

// cpuQuery asks for cores: the mean over one step of resolution.
func (c *Config) cpuQuery() string {
	return "rate(" + c.selector(c.CPUMetric) + "[" + c.Resolution.String() + "])"
}

// memoryQuery asks for bytes.
func (c *Config) memoryQuery() string { return c.selector(c.MemoryMetric) }

// selector picks the series of containers: of the job if there is one, with a pod, without the
// sandbox and the sums over a pod, which have no container name (UPSTREAM.md §2.18).
func (c *Config) selector(metric string) string {
	var terms []string
	if !prommodel.LegacyValidation.IsValidMetricName(metric) {
		terms = append(terms, strconv.Quote(metric))
		metric = ""
	}
	match := func(label, operator, value string) {
		terms = append(terms, labelText(label)+operator+strconv.Quote(value))
	}
	if c.CadvisorJob != "" {
		match("job", "=", c.CadvisorJob)
	}
	match(c.ContainerPodLabel, "=~", ".+")
	match(c.ContainerNameLabel, "!=", "POD")
	match(c.ContainerNameLabel, "!=", "")
	if c.Namespace != "" {
		match(c.ContainerNamespaceLabel, "=", c.Namespace)
	}
	for _, m := range c.Matchers {
		match(m.Label, m.Operator, m.Value)
	}
	return metric + "{" + strings.Join(terms, ", ") + "}"
}

// labelText is a label's name in PromQL.
func labelText(label string) string {
	if !prommodel.LegacyValidation.IsValidLabelName(label) {
		return strconv.Quote(label)
	}
	return label
}
