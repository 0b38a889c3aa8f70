package simulate

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
)

// Impact is what other rules would change in a cluster.
type Impact struct {
	Items  []VPAImpact `json:"items"` // VPAs of which something changes, by impact, largest first
	Totals Totals      `json:"totals"`
}

// VPAImpact is about one VPA and the pods that belong to it by the other rules, or else by those in
// force.
type VPAImpact struct {
	VPA      string `json:"vpa"`      // namespace/name
	Requests Delta  `json:"requests"` // of all its pods
	// Recommendation lists the targets that change, e.g. target.cpu.
	Recommendation []answers.Change `json:"recommendation,omitempty"`
	Pods           []PodImpact      `json:"pods"` // those that change, by name
	Before         Planned          `json:"before"`
	After          Planned          `json:"after"`

	impact *big.Int
}

// PodImpact is what other rules would change for one running pod.
type PodImpact struct {
	Pod      string `json:"pod"`      // namespace/name
	Requests Delta  `json:"requests"` // of the pod that would replace it
	// Resources lists what admission would give its replacement otherwise.
	Resources []answers.Change `json:"resources,omitempty"`
	// Refusal is why admission would refuse the replacement, if that changes.
	Refusal *Answers `json:"refusal,omitempty"`
	Before  Action   `json:"before"` // what the updater would do with it now
	After   Action   `json:"after"`
}

// Answers are the same answer by the rules in force and by the other ones; empty = none.
type Answers struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Action is what the updater would do with a pod.
type Action struct {
	Action string `json:"action"` // Evict, InPlace, Wait or Skip
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Planned counts what the updater would do in one cycle with the pods of which something changes.
type Planned struct {
	Evictions int `json:"evictions"`
	Resizes   int `json:"resizes"`
	Waiting   int `json:"waiting"` // for a later cycle
}

// Totals add up what would change in the whole cluster.
type Totals struct {
	Requests Delta   `json:"requests"`
	VPAs     int     `json:"vpas"` // of which something changes
	OfVPAs   int     `json:"ofVPAs"`
	Pods     int     `json:"pods"` // of which something changes
	OfPods   int     `json:"ofPods"`
	Before   Planned `json:"before"`
	After    Planned `json:"after"`
}

// Delta is a change of requests, exact and signed.
type Delta struct {
	CPU    Milli `json:"cpu"`
	Memory Bytes `json:"memory"`
}

// Milli is an amount of CPU in thousandths of a core.
type Milli struct{ big.Int }

// Bytes is an amount of memory.
type Bytes struct{ big.Int }

// MarshalJSON writes a quantity, e.g. "-250m".
func (m Milli) MarshalJSON() ([]byte, error) { return []byte(`"` + m.Int.String() + `m"`), nil }

// MarshalJSON writes a quantity in bytes, e.g. "1048576".
func (b Bytes) MarshalJSON() ([]byte, error) { return []byte(`"` + b.Int.String() + `"`), nil }

// Cores is the amount with a sign and three digits, which is exact.
func (m *Milli) Cores() string { return decimal(&m.Int, 1000) }

// GiB is the amount with a sign and three digits, rounded half away from zero.
func (b *Bytes) GiB() string { return decimal(&b.Int, 1<<30) }

// decimal writes n/unit with a sign and three digits.
func decimal(n *big.Int, unit int64) string {
	thousandths := new(big.Int).Mul(new(big.Int).Abs(n), big.NewInt(2000))
	thousandths.Add(thousandths, big.NewInt(unit))
	thousandths.Quo(thousandths, big.NewInt(2*unit))
	if thousandths.Sign() == 0 {
		if n.Sign() == 0 {
			return "0"
		}
	}
	sign := "+"
	if n.Sign() < 0 {
		sign = "-"
	}
	whole, part := new(big.Int).QuoRem(thousandths, big.NewInt(1000), new(big.Int))
	text := part.String()
	return sign + whole.String() + "." + strings.Repeat("0", 3-len(text)) + text
}

func (d *Delta) add(other *Delta) {
	d.CPU.Add(&d.CPU.Int, &other.CPU.Int)
	d.Memory.Add(&d.Memory.Int, &other.Memory.Int)
}

// coreInBytes is how much memory counts as much as a core in the order of VPAs.
const coreInBytes = 4 << 30

// weight is |CPU| + |memory| in bytes / 1000, with a core as 4 GiB.
func (d *Delta) weight() *big.Int {
	cpu := new(big.Int).Mul(new(big.Int).Abs(&d.CPU.Int), big.NewInt(coreInBytes))
	memory := new(big.Int).Mul(new(big.Int).Abs(&d.Memory.Int), big.NewInt(1000))
	return cpu.Add(cpu, memory)
}

func (p *Planned) add(other Planned) {
	p.Evictions += other.Evictions
	p.Resizes += other.Resizes
	p.Waiting += other.Waiting
}

func (p *Planned) count(a Action) {
	switch a.Action {
	case facts.DoEvict:
		p.Evictions++
	case facts.DoInPlace:
		p.Resizes++
	case facts.DoWait:
		p.Waiting++
	}
}

// requestsOf is what a pod requests as a whole, as a scheduler counts it.
func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

func difference(before, after corev1.ResourceList) (out Delta) {
	milli := func(list corev1.ResourceList) *big.Int { return scaled(list[corev1.ResourceCPU], resource.Milli) }
	bytes := func(list corev1.ResourceList) *big.Int { return scaled(list[corev1.ResourceMemory], 0) }
	out.CPU.Sub(milli(after), milli(before))
	out.Memory.Sub(bytes(after), bytes(before))
	return out
}

// scaled rounds up, as schedulers do.
func scaled(q resource.Quantity, scale resource.Scale) *big.Int {
	return big.NewInt(q.ScaledValue(scale))
}

// sort puts the VPAs with the largest impact first: the sum over their pods of how much requests
// change, a core counting as 4 GiB; then those with more pods that change; then by name.
func (i *Impact) sort() {
	slices.SortFunc(i.Items, func(a, b VPAImpact) int {
		return cmp.Or(b.impact.Cmp(a.impact), cmp.Compare(len(b.Pods), len(a.Pods)), strings.Compare(a.VPA, b.VPA))
	})
}
