package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

var boostSchema = lang.Bind("StartupBoost",
	lang.RecordFrom("cpu", cpuBoostSchema.Schema, "", func(b *vpav1.StartupBoost) *lang.Record {
		if b.CPU == nil {
			return nil
		}
		return cpuBoostSchema.Of(b.CPU)
	}))

var cpuBoostSchema = lang.Bind("CPUBoost",
	lang.TextFrom("type", "Factor or Quantity", func(b *vpav1.StartupBoostResource) vpav1.ScaleType { return b.Type }),
	lang.IntIf("factor", lang.Int, "", func(b *vpav1.StartupBoostResource) (int32, bool) { return given(b.Factor) }),
	lang.IntIf("quantity", lang.IntOf(CPU), "", func(b *vpav1.StartupBoostResource) (int64, bool) {
		q, ok := given(b.Quantity)
		return MilliCPU(q), ok
	}),
	lang.IntIf("lasts", lang.IntOf(Duration), "durationSeconds: how long after the pod becomes ready", func(b *vpav1.StartupBoostResource) (time.Duration, bool) {
		seconds, ok := given(b.DurationSeconds)
		return time.Duration(seconds) * time.Second, ok
	}))

// BeforeBoost encodes a container's CPU and memory for AnnotationStartupBoost (UPSTREAM.md §1.6).
func BeforeBoost(c *corev1.Container) string {
	return writeStanza(c.Resources.Requests, c.Resources.Limits)
}

// boosting is a container's startup boost, read from its pod.
type boosting struct {
	note string // annotation value
	on   bool
}

var boostedSchema = lang.Bind("Boosted",
	lang.ForRules[boosting]("cpu", lang.IntOf(CPU),
		"CPU while the new pod starts; if set, annotation vpaCpuStartupBoost keeps what the container had before"),
	lang.BoolIf("on", "the running pod has that annotation; unset if not", func(b boosting) (bool, bool) { return true, b.on }),
	lang.RecordFrom("before", stanzaSchema.Schema, "what the annotation says; unset if it cannot be read", func(b boosting) *lang.Record {
		requests, limits, ok := readStanza(b.note)
		if !ok {
			return nil
		}
		return stanzaSchema.Of(stanza{requests, limits})
	}),
	lang.ForRules[boosting]("over", lang.Bool, "it ends now; unset if not"),
	lang.ForRules[boosting]("remaining", lang.IntOf(Duration), "time until it is over, if known"))

// boost binds a container's startup boost. A new pod has none yet.
func (b *boundPod) boost(container string) *lang.Record {
	if b.in.Creating {
		return boostedSchema.Empty()
	}
	note, on := b.in.Pod.Annotations[AnnotationStartupBoost+container]
	if !on {
		return boostedSchema.Empty()
	}
	return boostedSchema.Of(boosting{note, on})
}

// template binds what the pod template of the owner has for a container.
func (b *boundPod) template(container string) *lang.Record {
	for i := range b.in.Template {
		if c := &b.in.Template[i]; c.Name == container {
			return stanzaSchema.Of(stanza{c.Resources.Requests, c.Resources.Limits})
		}
	}
	return stanzaSchema.Empty()
}

func boostOf(r *lang.Record) (b Boost) {
	_, b.Raised = r.Int("cpu")
	on := r.Bool("on")
	b.Over = on && r.Bool("over")
	b.On = on && !b.Over
	if n, ok := r.Int("remaining"); ok && b.On {
		b.Remaining = time.Duration(n)
	}
	return b
}

var startSchema = lang.Bind("Start",
	lang.IntIf("ready", lang.IntOf(Duration), "for how long the pod has been ready; unset while it is not", (*boundPod).readyFor))

func (b *boundPod) readyFor() (time.Duration, bool) {
	if b.in.Creating || b.in.Now.IsZero() {
		return 0, false
	}
	for i := range b.in.Pod.Status.Conditions {
		if c := &b.in.Pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return max(b.in.Now.Sub(c.LastTransitionTime.Time), 0), true
		}
	}
	return 0, false
}
