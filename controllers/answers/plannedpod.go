package answers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine"
)

// PlannedPod is what the updater would do with one pod.
type PlannedPod struct {
	Pod      string        `json:"pod"`             // namespace/name
	VPA      string        `json:"vpa"`             // namespace/name; empty = none
	Action   string        `json:"action"`          // Evict, InPlace, Wait or Skip
	Rule     string        `json:"rule"`            // set/rule; empty = no rule ran
	Class    string        `json:"class,omitempty"` // of the rule: Settled, Waiting or Misconfigured; empty = none
	Reason   string        `json:"reason"`
	Until    string        `json:"until,omitempty"`    // what has to happen for another decision; with steps only
	Priority *Priority     `json:"priority,omitempty"` // nil for pods without a recommendation to compare with
	Change   []Change      `json:"change,omitempty"`   // what the rules want, whether done now or not
	Capped   []Capped      `json:"capped,omitempty"`   // where that is not the target
	Steps    []engine.Step `json:"steps,omitempty"`    // set if explain was requested

	Why string `json:"-"` // which VPA controls it, or why none does
}

// Priority is how far a pod is from its recommendation.
type Priority struct {
	OutsideRecommendedRange bool   `json:"outsideRecommendedRange"`
	ScaleUp                 bool   `json:"scaleUp"`
	ResourceDiff            Number `json:"resourceDiff"`
	MayEvict                bool   `json:"mayEvict,omitempty"` // the pod may come to be evicted
}

// String is the priority in a column: how far the pod is from its target, whether it needs more of
// something, and whether it is outside the recommended range.
func (p *Priority) String() string {
	if p == nil {
		return "-"
	}
	words := []string{strconv.FormatFloat(math.Round(float64(p.ResourceDiff)*1000)/1000, 'f', -1, 64)}
	if p.ScaleUp {
		words = append(words, "up")
	}
	if p.OutsideRecommendedRange {
		words = append(words, "outside")
	}
	return strings.Join(words, " ")
}

// Number is null in JSON if rules produced NaN or infinity.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Change is an amount before and after a change, both as quantities.
type Change struct {
	Container string `json:"container,omitempty"` // empty = the pod as a whole
	Field     string `json:"field"`               // e.g. requests.cpu
	From      string `json:"from,omitempty"`      // empty = unset
	To        string `json:"to"`                  // Unset where it is removed
}

// Capped is a target of which a pod gets more or less, because something bounds it, such as a LimitRange.
type Capped struct {
	Container string              `json:"container,omitempty"` // empty = the pod as a whole
	Resource  corev1.ResourceName `json:"resource"`
	Target    string              `json:"target"` // in the VPA's status
	Gets      string              `json:"gets"`
	Why       string              `json:"why"`
}

// Short says it as people read it.
func (c Capped) Short() string {
	return fmt.Sprintf("%s gets %s %s, and not the target of %s: %s", subject(c.Container), c.Resource, quantity.Short(c.Gets), quantity.Short(c.Target), c.Why)
}

// Unset is what an amount changes to that is removed.
const Unset = "unset"

// ChangesOf lists the changes between two lists of CPU and memory, such as the requests of a
// container; the resource is the end of the field.
func ChangesOf(container, field string, before, after corev1.ResourceList) (out []Change) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		from, had := before[name]
		to, has := after[name]
		if had == has && from.Cmp(to) == 0 {
			continue
		}
		change := Change{Container: container, Field: field + "." + string(name), To: Unset}
		if had {
			change.From = from.String()
		}
		if has {
			change.To = to.String()
		}
		out = append(out, change)
	}
	return out
}

// String describes the change exactly.
func (c Change) String() string { return c.subject() + c.FromTo(true) }

// Short describes the change as people read it.
func (c Change) Short() string { return c.subject() + c.FromTo(false) }

// FromTo is e.g. 128Mi → 561Mi, exact or as people read it.
func (c Change) FromTo(exact bool) string {
	from := cmp.Or(c.From, Unset)
	if exact {
		return from + " → " + c.To
	}
	return quantity.FromTo(from, c.To)
}

func (c Change) subject() string { return subject(c.Container) + ": " + c.Field + " " }

func subject(container string) string {
	if container == "" {
		return "the pod"
	}
	return "container " + container
}

// ParseChange reads what String has written, whatever follows it; ok is false for other texts.
func ParseChange(text string) (c Change, ok bool) {
	m := changeText.FindStringSubmatch(text)
	if m == nil {
		return c, false
	}
	c = Change{Container: m[1], Field: m[2], From: m[3], To: m[4]}
	if c.From == Unset {
		c.From = ""
	}
	return c, true
}

var changeText = regexp.MustCompile(`^(?:the pod|container (\S+)): (\S+) (\S+) → (\S+)`)
