package updater

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
)

// candidate is a pod with what was decided on it.
type candidate struct {
	*podupdate.Pod
	request podupdate.Request
	group   *facts.Group
	log     logr.Logger

	verdict engine.Verdict
	asked   facts.Group // the group as the verdict saw it
}

// countShare is the part of the interval after which the replicas of a custom owner are not waited for any more.
const countShare = 0.1

// updateVPA decides on the pods of one VPA and does what was decided, one pod after the other in the order of the rules, because
// each changes what the budget of its group allows. A panic stays with this VPA.
func (r *run) updateVPA(ctx context.Context, w *workload) {
	v := w.vpa
	log := r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
	defer r.contain(log, "the pods of this VPA are left alone")
	limits, err := limitranges.Of(ctx, r.Client, v.Namespace)
	if err != nil {
		log.Error(err, "the pods of this VPA are left alone; trying again next cycle")
		return
	}
	counting, cancel := context.WithTimeout(ctx, part(r.Interval, countShare))
	defer cancel()
	groups := podupdate.Groups(counting, r.Resolver, w.pods, func(owner target.Key, err error) {
		log.V(4).Info("the replicas of a group are not known", "owner", owner.String(), "error", err.Error())
	})
	for _, pod := range w.pods {
		if owner, _ := target.DirectOwner(pod); r.sent.unseen(pod, r.now) || r.Beside != nil && r.Beside(pod) {
			groups[owner].Disrupted++
		}
	}
	for owner, g := range groups {
		g.Evictions, g.Resizes = r.backOffs.of(refusedTo{owner: owner}, r.now)
		r.breaker.tell(owner, g, r.now)
	}
	list := r.decideAll(w, podupdate.Request{VPA: v, Limits: limits, Now: r.now, NoAdmission: r.noAdmission}, groups, log)
	for _, c := range list {
		if ctx.Err() != nil {
			break
		}
		r.updatePod(ctx, w, c)
	}
	r.tellHeld(ctx, w, groups, list, log)
}

// contain keeps a panic to what it is about. Defer it.
func (u *Updater) contain(log logr.Logger, consequence string) {
	if p := recover(); p != nil {
		panics.Inc()
		log.Error(fmt.Errorf("panic: %v", p), consequence+"; please report this", "stack", string(debug.Stack()))
	}
}

// decideAll decides on all pods of a VPA as if each were the only one, and puts them into order. of has what they have in common.
func (r *run) decideAll(w *workload, of podupdate.Request, groups map[target.Key]*facts.Group, log logr.Logger) []*candidate {
	list, byPod := make([]*podupdate.Pod, 0, len(w.pods)), make(map[*podupdate.Pod]*candidate, len(w.pods))
	for _, pod := range w.pods {
		c := &candidate{request: of, log: log.WithValues("pod", pod.Name)}
		resize := r.resizes.seen(pod, of.Now)
		c.request.ResizeSeen, c.request.Replaced, c.request.ReplacedAt = resize.since, resize.replaced, resize.replacedAt
		c.request.Pod, c.request.Infeasible = pod, r.infeasible.tried(pod.UID)
		var failed []*engine.RuleError
		c.Pod, failed = podupdate.Assess(w.rules.Plan, c.request, nil)
		policy.Report(c.log, "its values are left as they were", failed...)
		c.group = groups[c.Owner]
		c.Evictions, c.Resizes = r.backOffs.of(refusedTo{pod: pod.UID}, r.now)
		if r.sent.unseen(pod, of.Now) { // what the cache shows is from before it
			c.Resize = facts.Resize{Status: facts.ResizeSent}
		}
		r.decide(w, c)
		w.tally.candidate(c.verdict)
		r.audit(c, w.rules.Shadows, c.verdict, c.log)
		list, byPod[c.Pod] = append(list, c.Pod), c
	}
	podupdate.Sort(list)
	sorted := make([]*candidate, len(list))
	for i, one := range list {
		sorted[i] = byPod[one]
	}
	return sorted
}

// decide asks the rules.
func (r *run) decide(w *workload, c *candidate) {
	c.asked = *c.group
	c.verdict = c.Decide(w.rules.Plan, c.asked, nil)
	policy.Report(c.log, "the pod is left alone", c.verdict.Err)
	c.log.V(5).Info("decided", "do", c.verdict.Do, "rule", c.verdict.Rule, "reason", c.verdict.Reason)
}

// tellHeld finds out of which groups no pod is evicted because their successors come back unchanged, and tells so in an event and
// in a condition of the VPA, and when it is over.
func (r *run) tellHeld(ctx context.Context, w *workload, groups map[target.Key]*facts.Group, list []*candidate, log logr.Logger) {
	wanted := map[target.Key]bool{} // groups with pods for which something is left to be done
	for _, c := range list {
		if c.group.Unchanged == 0 {
			continue
		}
		wanted[c.Owner] = wanted[c.Owner] || c.verdict.Do != facts.DoSkip
		if c.verdict.Do != facts.DoEvict && c.verdict.Do != facts.DoInPlace && r.breaker.held(c.Owner) == "" {
			without := *c.group
			without.Unchanged, without.UnchangedAge = 0, 0
			if other := c.Decide(w.rules.Plan, without, nil); other.Do == facts.DoEvict {
				r.breaker.hold(c.Owner, c.verdict.Rule)
			}
		}
	}
	rule := ""
	for _, owner := range slices.SortedFunc(maps.Keys(groups), func(a, b target.Key) int { return strings.Compare(a.String(), b.String()) }) {
		if !wanted[owner] {
			r.breaker.hold(owner, "")
		} else if held := r.breaker.held(owner); rule == "" {
			rule = held
		}
	}
	r.tellNoEffect(ctx, w.vpa, rule, log)
}
