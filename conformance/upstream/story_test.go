package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
)

// story is a sequence of events in a cluster, for both recommenders. As text it is a line of flags
// and a line for each event.
type story struct {
	Flags  flags     `json:"flags,omitempty"`
	PerVPA bool      `json:"perVPA,omitempty"` // the gate PerVPAConfig
	Raw    bool      `json:"raw,omitempty"`    // shows the deliberate differences, which are evened out otherwise
	Events []happens `json:"events"`
}

// flags are upstream's names; unset ones have upstream's defaults.
type flags map[string]string

// Kinds of event.
const (
	doVPA     = "vpa"      // is created or updated
	doNoVPA   = "no-vpa"   // is deleted
	doPod     = "pod"      // is created or updated
	doNoPod   = "no-pod"   // is deleted
	doCPU     = "cpu"      // a sample in milli-cores
	doMemory  = "memory"   // a sample in bytes
	doOOM     = "oom"      // of so many bytes
	doCollect = "collect"  // garbage
	doRestart = "restart"  // from checkpoints, of its own
	doSwap    = "exchange" // a restart from the checkpoints of the other
	doCompare = "compare"
)

// happens is one event.
type happens struct {
	At         span                            `json:"at"` // since the beginning
	Do         string                          `json:"do"`
	Namespace  string                          `json:"namespace,omitempty"` // empty = ns
	Name       string                          `json:"name,omitempty"`      // of the VPA or the pod
	Container  string                          `json:"container,omitempty"`
	Amount     int64                           `json:"amount,omitempty"`
	Later      span                            `json:"later,omitempty"` // the sample's time, from the time at which it comes
	Labels     map[string]string               `json:"labels,omitempty"`
	Containers []string                        `json:"containers,omitempty"`
	Init       []string                        `json:"init,omitempty"`
	Ended      bool                            `json:"ended,omitempty"`    // the pod succeeded
	Age        int                             `json:"age,omitempty"`      // of the VPA, in seconds before the beginning
	Selector   string                          `json:"selector,omitempty"` // of the VPA
	Whole      []string                        `json:"whole,omitempty"`    // containers for which the VPA wants whole cores
	Policies   []vpav1.ContainerResourcePolicy `json:"policies,omitempty"`
}

// span is a duration in Go's notation.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

func (h happens) namespace() string {
	if h.Namespace == "" {
		return "ns"
	}
	return h.Namespace
}

func (h happens) String() string { return string(mustJSON(h)) }

func (s story) String() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Flags)) {
		fmt.Fprintf(&out, "--%s=%s ", name, s.Flags[name])
	}
	if s.PerVPA {
		out.WriteString("PerVPAConfig")
	}
	for _, e := range s.Events {
		fmt.Fprintf(&out, "\n  %s", e)
	}
	return out.String() + "\n"
}

// duration, float and whole parse flags.
func (f flags) duration(name string, unset time.Duration) time.Duration {
	return read(f, name, unset, time.ParseDuration)
}

func (f flags) float(name string, unset float64) float64 {
	return read(f, name, unset, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func (f flags) whole(name string, unset int) int { return read(f, name, unset, strconv.Atoi) }

func read[T any](f flags, name string, unset T, parse func(string) (T, error)) T {
	text, ok := f[name]
	if !ok {
		return unset
	}
	v, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("--%s=%s: %v", name, text, err)) // a fault of the test
	}
	return v
}

// upstreamVPA is the VPA of an event.
func (h happens) upstreamVPA(begin time.Time) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{}
	v.Namespace, v.Name = h.namespace(), h.Name
	v.CreationTimestamp.Time = begin.Add(-time.Duration(h.Age) * time.Second)
	v.Spec.TargetRef = &crossVersion{APIVersion: "apps/v1", Kind: "Deployment", Name: h.Name}
	for _, c := range h.Whole {
		if v.Annotations == nil {
			v.Annotations = map[string]string{}
		}
		v.Annotations["vpa-post-processor.kubernetes.io/"+c+"_integerCPU"] = "true"
	}
	if len(h.Policies) > 0 {
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: h.Policies}
		text, again := mustJSON(v.Spec.ResourcePolicy), &vpav1.PodResourcePolicy{}
		if err := json.Unmarshal(text, again); err != nil {
			panic(err) // a fault of the test
		}
		v.Spec.ResourcePolicy = again // a copy: upstream looks at the pointer
	}
	return v
}

// phase is the pod's.
func (h happens) phase() corev1.PodPhase {
	if h.Ended {
		return corev1.PodSucceeded
	}
	return corev1.PodRunning
}
