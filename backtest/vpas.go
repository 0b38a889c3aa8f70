package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/simulate"
)

// liveVPA is a VPA during a replay. Its status changes, so it is matched anew after that.
type liveVPA struct {
	*matcher.VPA
	served    *recommender.Workload // nil: another recommender serves it
	workloads []int                 // whose pods it selects
	version   int                   // of its recommendation
}

// useVPAs gives the VPAs to the recommender, and judges them.
func (r *replay) useVPAs() {
	selectors := target.Selectors{Resolver: r.Resolver, Clock: simulate.At(clock(r.from))}
	for _, v := range r.in.vpas {
		v = r.policy.vpa(v).DeepCopy()
		v.UID, v.ResourceVersion = types.UID(v.Namespace+"/"+v.Name), "0"
		live := &liveVPA{VPA: matcher.New(r.policy.Book, v, logr.Discard())}
		if err := live.Rules.Err; err != nil {
			r.note("%s: %v; it gets no recommendation", live, err)
		}
		found := selectors.For(nowhere, v)
		if recommender.Asks(v, recommender.DefaultName) {
			live.served = r.state.SetVPA(v, found)
		} else {
			r.note("%s asks for another recommender; it gets no recommendation", live)
		}
		for i := range r.in.slots {
			if w := r.in.slots[i].workload; found.Problem == nil && !slices.Contains(live.workloads, w) && found.Selector.Matches(labels.Set(r.in.slots[i].staged.First.Labels)) {
				live.workloads = append(live.workloads, w)
			}
		}
		r.vpas = append(r.vpas, live)
	}
	slices.SortFunc(r.vpas, func(a, b *liveVPA) int {
		return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Name, b.Object.Name))
	})
}

// match is the VPA that has a pod; nil = none.
func (r *replay) match(p matcher.Purpose, pod *corev1.Pod) *liveVPA {
	var candidates []*matcher.VPA
	for _, v := range r.vpas {
		if v.Object.Namespace == pod.Namespace {
			candidates = append(candidates, v.VPA)
		}
	}
	if len(matcher.Competing(p, candidates)) == 0 {
		return nil
	}
	top, err := r.Resolver.Topmost(nowhere, pod)
	if err != nil {
		r.note("pods of %s: which VerticalPodAutoscaler they belong to is unknown: %v", ownerOf(pod), err)
		return nil
	}
	best := matcher.Match(nowhere, p, top, candidates, pod, nil)
	for _, v := range r.vpas {
		if v.VPA == best {
			return v
		}
	}
	return nil
}

// assign finds the VPAs of the pod in a slot.
func (r *replay) assign(p *livePod) {
	p.changer, p.other, p.assessed = r.match(matcher.Update, p.pod), "", nil
	if p.changer != nil && !p.changer.Takes(matcher.Update) {
		p.changer = nil
	}
	if v := r.match(matcher.Admission, p.pod); v != nil && v != p.changer {
		p.other = v.Object.Name
	}
}

// ownerOf names the owner of a staged pod.
func ownerOf(pod *corev1.Pod) string {
	key, _ := target.DirectOwner(pod)
	return fmt.Sprintf("%s %s/%s", key.Kind, key.Namespace, strings.TrimSuffix(key.Name, "-%"))
}

// note notes a remark once.
func (r *replay) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// noteSink turns errors of the recommender into notes.
type noteSink struct{ to *replay }

// Init implements logr.LogSink.
func (*noteSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (*noteSink) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (*noteSink) Info(int, string, ...any) {}

// Error implements logr.LogSink.
func (s *noteSink) Error(err error, message string, _ ...any) { s.to.note("%s: %v", message, err) }

// WithName implements logr.LogSink.
func (s *noteSink) WithName(string) logr.LogSink { return s }

// WithValues implements logr.LogSink.
func (s *noteSink) WithValues(...any) logr.LogSink { return s }
