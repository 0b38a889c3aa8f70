package simulate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
)

// Plan is what the updater would do in one cycle.
type Plan struct {
	Items []answers.PlannedPod `json:"items"`
	VPAs  int                  `json:"-"` // with or without pods
	// Left are the VPAs that leave all running pods alone, by namespace/name, and why.
	Left map[string]engine.Verdict `json:"-"`
	// Gone says of VPAs without pods why their target cannot be used, by namespace/name.
	Gone map[string]string `json:"-"`
	// Beside says of the VPAs that are not selected whether they have pods, by namespace/name.
	Beside map[string]bool `json:"-"`
	// Blocked names the PodDisruptionBudgets that never allow the eviction of pods that are to be evicted, by the pods' namespace/name.
	Blocked map[string]string `json:"-"`

	objects *updater
}

// Client serves what was planned with: VPAs, pods, their owners, stand-ins among them, and
// PodDisruptionBudgets; and more objects.
func (p *Plan) Client(more ...client.Object) client.Client {
	u := p.objects
	for _, v := range u.vpas {
		more = append(more, v.Object)
	}
	for _, pod := range u.pods {
		more = append(more, pod)
	}
	for i := range u.budgets {
		more = append(more, &u.budgets[i])
	}
	return u.set.Client(u.known(), more...)
}

// updater is the updater's view of manifests.
type updater struct {
	*world
	pods    []*corev1.Pod
	byOwner map[target.Key][]*corev1.Pod // by direct owner
	budgets []policyv1.PodDisruptionBudget
	now     time.Time
	why     map[*corev1.Pod]string // which VPA controls it, or why none does
	evicted []*corev1.Pod          // in order

	unboosted map[*corev1.Pod]bool // pods whose startup boost would end
	beside    map[string]bool      // see Plan
	blocked   map[string]string    // see Plan
}

// Plan returns what the updater would do with every pod, in its order: by VPA, then by priority;
// pods that it ignores come last. explain adds steps.
func (c *Cluster) Plan(explain bool) (*Plan, error) {
	w, unusable := c.world()
	w.ask(updates)
	u := &updater{world: w, now: c.clock.Now(), why: map[*corev1.Pod]string{}, unboosted: map[*corev1.Pod]bool{}, beside: map[string]bool{}, blocked: map[string]string{}}
	pods, unread := c.pods()
	u.setPods(pods)
	budgets, unreadBudgets := c.budgets()
	c.noteTwice("PodDisruptionBudget")
	u.budgets = budgets
	u.addOwners(u.pods)
	left := map[string]engine.Verdict{}
	for _, v := range u.vpas {
		if leaves, why := leaves(v); leaves {
			left[v.Key()] = why
		}
	}
	items := u.items(explain)
	return &Plan{Items: items, VPAs: len(u.vpas) - len(u.beside), Left: left, Gone: u.gone, Beside: u.beside, Blocked: u.blocked, objects: u}, faults.Join(unusable, unread, unreadBudgets)
}

// budgets are the PodDisruptionBudgets, by namespace and name. The first of several of one name counts.
func (c *Cluster) budgets() ([]policyv1.PodDisruptionBudget, error) {
	list, err := c.set.PodDisruptionBudgets()
	list = firsts(list, func(b *policyv1.PodDisruptionBudget) string { return b.Namespace + "/" + b.Name })
	slices.SortStableFunc(list, func(a, b policyv1.PodDisruptionBudget) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list, err
}

// pods are those of the manifests, by namespace and name. The first of several of one name counts.
func (c *Cluster) pods() (out []*corev1.Pod, err error) {
	pods, err := c.set.Pods()
	for i := range pods {
		out = append(out, &pods[i])
	}
	out = firsts(out, func(p **corev1.Pod) string { return keyOfPod(*p) })
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(keyOfPod(a), keyOfPod(b)) })
	return out, err
}

func (u *updater) setPods(pods []*corev1.Pod) {
	u.pods, u.byOwner = pods, map[target.Key][]*corev1.Pod{}
	for _, pod := range pods {
		owner, _ := target.DirectOwner(pod)
		u.byOwner[owner] = append(u.byOwner[owner], pod)
	}
}

func keyOfPod(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

type podsOf struct {
	alive   []*corev1.Pod
	ignored []*corev1.Pod
}

// items plans for every pod.
func (u *updater) items(explain bool) []answers.PlannedPod {
	changed := make([]changedBy, len(u.pods))
	of := map[*matcher.VPA]*podsOf{}
	var alone []answers.PlannedPod
	for i, pod := range u.pods {
		changed[i] = u.controlling(pod)
		u.why[pod] = changed[i].why
		v := changed[i].vpa
		if v == nil {
			v = u.leaving(pod)
		}
		ignored := podupdate.IgnoredReason(pod)
		if v == nil {
			if !u.selection.pod(pod.Namespace, nil) {
				continue
			}
			why := changed[i].why
			alone = append(alone, u.skip(nil, pod, engine.Verdict{Reason: cmp.Or(ignored, strings.ToUpper(why[:1])+why[1:])}))
			continue
		}
		if of[v] == nil {
			of[v] = &podsOf{}
		}
		if ignored == "" {
			of[v].alive = append(of[v].alive, pod)
		} else {
			of[v].ignored = append(of[v].ignored, pod)
		}
	}
	u.noteStale(u.pods, changed)
	vpas := u.sortedVPAs()
	slices.SortStableFunc(vpas, func(a, b *matcher.VPA) int { return strings.Compare(a.Key(), b.Key()) })
	out := []answers.PlannedPod{}
	for i, v := range vpas {
		u.progress("planning for VerticalPodAutoscalers", i, len(vpas))
		if !u.Selects(v.Object) {
			u.beside[v.Key()] = of[v] != nil
			continue
		}
		u.noteTried(v)
		if of[v] == nil {
			u.noteIdle(v, of)
			continue
		}
		out = append(out, u.planVPA(v, of[v].alive, explain)...)
		for _, pod := range of[v].ignored {
			out = append(out, u.skip(v, pod, engine.Verdict{Reason: podupdate.IgnoredReason(pod)}))
		}
	}
	u.noteBudgets()
	return append(out, alone...)
}

// skip is the plan for an ignored pod; v is nil without a VPA, the rule empty if none ran.
func (u *updater) skip(v *matcher.VPA, pod *corev1.Pod, why engine.Verdict) answers.PlannedPod {
	var vpa *vpav1.VerticalPodAutoscaler
	if v != nil {
		vpa = v.Object
	}
	out := podupdate.LeftAlone(pod, vpa, why)
	out.Why = u.why[pod]
	return out
}

// noteIdle notes why a VPA has no pods, and keeps it if the target is why; addOwners reports missing targets.
func (u *updater) noteIdle(v *matcher.VPA, of map[*matcher.VPA]*podsOf) {
	if u.gone[v.Key()] != "" {
		return
	}
	w := u.owners[targetOf(v)]
	for _, i := range u.byTarget[targetOf(v)] {
		if other := u.vpas[i]; of[other] != nil && w != nil {
			u.note("%s: the pods of its target, %s, belong to %s, which has the same", v, w, other)
			return
		}
	}
	if _, problem := u.resolver.Selector(context.Background(), v.Object); problem != nil {
		u.gone[v.Key()] = problem.Message
		u.note("%s cannot be used: %s", v, problem.Message)
		return
	}
	if w != nil {
		u.note("%s: no pod in the manifests belongs to its target, %s; add running pods with -f, as kubectl get pod -o yaml prints them", v, w)
	}
}

// noteTried notes what non-enforced overlays would decide at vpa.update.
func (u *updater) noteTried(v *matcher.VPA) {
	if v.Rules.Err != nil {
		return
	}
	for _, shadow := range v.Rules.Shadows {
		if differs := v.Differs(matcher.Update, shadow); len(differs) > 0 {
			u.note("%s: RuleOverlay %s (%s) would change whether running pods are changed: %s", v.Key(), shadow.Overlay, shadow.Mode, strings.Join(differs, "; "))
		}
	}
}
