package usagefile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// measure says how a metric measures usage.
type measure struct {
	kind    Kind
	counter bool // of CPU seconds; otherwise it is in cores or bytes
	// second: another metric of the same answer goes first, wherever it stands.
	second bool
}

// known are the metrics of usage that kubelets and cAdvisor have.
var known = map[string]measure{
	"container_cpu_usage_seconds_total":  {kind: CPU, counter: true},
	"container_memory_working_set_bytes": {kind: Memory},
	"container_memory_usage_bytes":       {kind: Memory, second: true}, // with the page cache
}

// usageText is what a note says of metrics that are not usage.
const usageText = "usage is container_cpu_usage_seconds_total, container_memory_working_set_bytes and recording rules of them; " +
	`give another metric a label to count it: label_replace(METRIC, "resource", "memory", "", "")`

// errNotUsage is the error of a series whose metric is not one of usage.
var errNotUsage = errors.New("its metric is not one of usage")

// measured reads the kind from the label resource, else from the name of the metric: one that is known,
// or a recording rule of usage.
func measured(metric map[string]string) (measure, error) {
	name := metric["__name__"]
	resource, labeled := metric["resource"]
	switch {
	case strings.Contains(name, "kube_"): // kube-state-metrics labels requests and limits with their resource
		return measure{}, errNotUsage
	case labeled:
		kind, ok := kinds[resource]
		if !ok {
			return measure{}, fmt.Errorf("its label resource is %q and not cpu, memory or oom", resource)
		}
		return measure{kind: kind}, nil
	case name == "":
		return measure{}, errors.New("neither a label resource nor the name of its metric says what it is about; " +
			`give rates one: label_replace(rate(…), "resource", "cpu", "", "")`)
	}
	if m, ok := known[name]; ok {
		return m, nil
	}
	if m, ok := recorded(name); ok {
		return m, nil
	}
	return measure{}, errNotUsage
}

// otherWords say, in the name of a recording rule, that it is not in cores or bytes.
var otherWords = []string{"ratio", "percent", "utili", "increase", "delta", "request", "limit", "quota"}

// recorded reads the name of a recording rule of a known metric, level:metric:operations, where a part may be
// missing. Rules with a rate leave out the end _total.
func recorded(name string) (out measure, ok bool) {
	parts := strings.Split(name, ":")
	if len(parts) == 1 || slices.ContainsFunc(otherWords, func(word string) bool { return strings.Contains(name, word) }) {
		return measure{}, false
	}
	for _, part := range parts {
		for _, metric := range []string{part, part + "_total"} {
			if out, ok = known[metric]; ok {
				out.counter = out.counter && !strings.Contains(name, "rate")
				return out, true
			}
		}
	}
	return measure{}, false
}

// names are the metrics that count, one for each container and resource: two are two measurements of the
// same, and the larger of each time would be neither.
type names struct {
	of   map[Series]string
	lost map[[2]string]*lostName
}

// lostName is a metric that another one keeps out.
type lostName struct {
	kind       Kind
	containers map[Series]bool
	first      Series
}

// count reports whether a metric counts for a series. The first one does.
func (n *names) count(of Series, name string) bool {
	first, taken := n.of[of]
	if !taken {
		n.of[of] = name
		return true
	}
	if first == name || of.Kind == OOM {
		return true
	}
	key := [2]string{first, name}
	lost := n.lost[key]
	if lost == nil && len(n.lost) >= mostKept {
		return false
	}
	if lost == nil {
		lost = &lostName{kind: of.Kind, containers: map[Series]bool{}, first: of}
		n.lost[key] = lost
	}
	lost.containers[of] = true
	return false
}

// mostPairs is how many pairs of metrics are named.
const mostPairs = 5

func (n *names) notes() (out []string) {
	pairs := slices.SortedFunc(maps.Keys(n.lost), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range pairs[:min(mostPairs, len(pairs))] {
		lost := n.lost[key]
		resource, of := "CPU", "1 container"
		if lost.kind == Memory {
			resource = "memory"
		}
		if many := len(lost.containers); many > 1 {
			of = fmt.Sprintf("%d containers", many)
		}
		out = append(out, fmt.Sprintf("two metrics of %s are not mixed: %s counts, and %s is left out for %s, e.g. %s of pod %s/%s",
			resource, key[0], key[1], of, lost.first.Container, lost.first.Pod.Namespace, lost.first.Pod.Name))
	}
	return out
}

// nameOf is what a series measures by.
func nameOf(metric map[string]string) string {
	if name := metric["__name__"]; name != "" {
		return name
	}
	return fmt.Sprintf("{resource=%q}", metric["resource"])
}
