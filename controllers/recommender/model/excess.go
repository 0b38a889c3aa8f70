package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Excess counts samples of more than the rules accept (rule set plausible-usage), OOM kills
// included.
type Excess struct {
	Count int
	First Sample // by time
	Most  int64  // that was accepted then
}

// Plausible reports whether rules accept an amount, and the most that they do.
func Plausible(w facts.Window, r Resource, amount int64) (most int64, ok bool) {
	most = w.MaxMemory
	if r == CPU {
		most = w.MaxCPU
	}
	return most, most == 0 || amount <= most
}

// Add counts a sample.
func (e *Excess) Add(s Sample, most int64) {
	e.Merge(Excess{Count: 1, First: s, Most: most})
}

// Merge counts others.
func (e *Excess) Merge(o Excess) {
	if o.Count > 0 && (e.Count == 0 || sooner(&o.First, &e.First)) {
		e.First, e.Most = o.First, o.Most
	}
	e.Count += o.Count
}

func sooner(a, b *Sample) bool {
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Pod.Namespace, b.Pod.Namespace), strings.Compare(a.Pod.Name, b.Pod.Name),
		strings.Compare(a.Container, b.Container), cmp.Compare(a.Resource, b.Resource)) < 0
}

// String says how many there are, and where the first is; empty if there are none.
func (e Excess) String() string {
	if e.Count == 0 {
		return ""
	}
	samples := "1 sample"
	if e.Count > 1 {
		samples = fmt.Sprintf("%d samples", e.Count)
	}
	return fmt.Sprintf("%s left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is %s %s of container %s of pod %s/%s at %s, where at most %s is accepted",
		samples, amountText(e.First.Resource, e.First.Amount), e.First.Resource, e.First.Container, e.First.Pod.Namespace, e.First.Pod.Name, e.First.At.UTC().Format(time.RFC3339), amountText(e.First.Resource, e.Most))
}

// amountText is the shorter one of the ways to write an amount: 64Ti, and 90T.
func amountText(r Resource, amount int64) string {
	if r == CPU {
		q := facts.CPUQuantity(amount)
		return q.String()
	}
	binary, decimal := resource.NewQuantity(amount, resource.BinarySI).String(), resource.NewQuantity(amount, resource.DecimalSI).String()
	if len(decimal) < len(binary) {
		return decimal
	}
	return binary
}

// TakeExcess returns the implausible samples since the last call.
func (c *Cluster) TakeExcess() Excess {
	out := c.excess
	c.excess = Excess{}
	return out
}
