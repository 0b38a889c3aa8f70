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

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate"
)

// liveVPA is a VPA during a replay. Its status changes.
type liveVPA struct {
	vpa       *vpav1.VerticalPodAutoscaler
	chosen    compile.Selection
	served    *recommender.Workload // nil: another recommender serves it
	workloads []int                 // whose pods it selects
	version   int                   // of its recommendation

	admits   bool      // it changes new pods
	takes    bool      // it changes running pods
	competes bool      // no other VPA gets the pods that it selects
	obstacle *Obstacle // why it changes no running pods; nil = it does
}

// useVPAs gives the VPAs to the recommender, and judges them.
func (r *replay) useVPAs() {
	selectors := target.Selectors{Resolver: r.Resolver, Clock: simulate.At(clock(r.from))}
	for _, v := range r.in.vpas {
		v = v.DeepCopy()
		v.UID, v.ResourceVersion = types.UID(v.Namespace+"/"+v.Name), "0"
		if r.policy.Unpinned {
			delete(v.Annotations, policy.AnnotationPipeline)
		}
		one := &liveVPA{vpa: v, chosen: policy.For(r.policy.Book, v)}
		if one.chosen.Err != nil {
			r.note("VerticalPodAutoscaler %s/%s: %v; it gets no recommendation", v.Namespace, v.Name, one.chosen.Err)
		}
		found := selectors.For(nowhere, v)
		if recommender.Asks(v, recommender.DefaultName) {
			one.served = r.state.SetVPA(v, found)
		} else {
			r.note("VerticalPodAutoscaler %s/%s asks for another recommender; it gets no recommendation", v.Namespace, v.Name)
		}
		for i := range r.in.slots {
			if w := r.in.slots[i].workload; found.Problem == nil && !slices.Contains(one.workloads, w) && found.Selector.Matches(labels.Set(r.in.slots[i].staged.First.Labels)) {
				one.workloads = append(one.workloads, w)
			}
		}
		r.judge(one)
		r.vpas = append(r.vpas, one)
	}
	slices.SortFunc(r.vpas, func(a, b *liveVPA) int {
		return cmp.Or(strings.Compare(a.vpa.Namespace, b.vpa.Namespace), strings.Compare(a.vpa.Name, b.vpa.Name))
	})
}

// judge asks the rules whether a VPA changes new pods, and running ones.
func (r *replay) judge(v *liveVPA) {
	v.admits, v.takes, v.competes = false, false, v.chosen.Err != nil
	if v.vpa.Unreadable() != "" {
		return
	}
	v.admits = v.chosen.Plan != nil && v.chosen.Plan.Decide(facts.PodAdmit, facts.AdmitFacts(v.vpa), nil).Do == facts.DoApply
	if v.chosen.Err == nil {
		verdict := v.chosen.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v.vpa), nil)
		if v.takes = verdict.Do == facts.DoApply; !v.takes {
			v.obstacle = &Obstacle{verdict.Rule, verdict.Reason}
		}
	}
	v.competes = v.competes || v.takes
}

// admitterOf is the VPA that changes a new pod, nil = none.
func (r *replay) admitterOf(pod *corev1.Pod) *liveVPA {
	return r.controlling(pod, func(v *liveVPA) bool { return v.admits })
}

// changerOf is the VPA that changes a running pod, nil = none.
func (r *replay) changerOf(pod *corev1.Pod) *liveVPA {
	v := r.controlling(pod, func(v *liveVPA) bool { return v.competes })
	if v == nil || !v.takes {
		return nil
	}
	return v
}

// boosterOf is the VPA that ends the startup boost of a pod, nil = none: see policy.Boosting.
func (r *replay) boosterOf(pod *corev1.Pod) *liveVPA {
	return cmp.Or(r.admitterOf(pod), r.controlling(pod, func(v *liveVPA) bool { return v.vpa.Unreadable() == "" }))
}

// assign finds the VPAs of the pod in a slot.
func (r *replay) assign(p *livePod) {
	p.changer, p.other, p.looked = r.changerOf(p.pod), "", nil
	if v := r.admitterOf(p.pod); v != nil && v != p.changer {
		p.other = v.vpa.Name
	}
}

// controlling is the VPA that a pod belongs to, among those that count.
func (r *replay) controlling(pod *corev1.Pod, counts func(*liveVPA) bool) *liveVPA {
	candidates := target.ByTarget{}
	for _, v := range r.vpas {
		if v.vpa.Namespace == pod.Namespace && counts(v) {
			candidates.Add(v.vpa)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	best, err := r.Resolver.ControllingVPA(nowhere, pod, candidates.Of, policy.Precedence(r.policy.Book, logr.Discard()))
	if err != nil {
		r.note("pods of %s: which VerticalPodAutoscaler they belong to is unknown: %v", ownerOf(pod), err)
		return nil
	}
	for _, v := range r.vpas {
		if v.vpa == best {
			return v
		}
	}
	return nil
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
