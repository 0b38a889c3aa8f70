package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/explain/ask"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Manifests stand for a cluster.
type Manifests struct {
	Cluster *simulate.Cluster
	Set     *manifests.Set
	// Usage is what a recommender sees, whose recommendations then replace those in the status of VPAs; nil = it starts with the
	// VerticalPodAutoscalerCheckpoints.
	Usage    *usagefile.Usage
	Remember model.Settings // for how long usage counts
	Now      time.Time
}

// Offline reports on a subject in manifests, or on their only VPA if the subject has no name. There
// are no processes to ask. The error says what cannot be used; the report is nil if that is the
// subject.
func Offline(ctx context.Context, m Manifests, s Subject) (*Report, error) {
	cluster, set, now := m.Cluster, m.Set, m.Now
	recommends, written, unfed := m.recommender()
	plan, unplanned := cluster.Plan(true)
	list, _ := cluster.VPAs() // the plan has reported what cannot be read
	pods, _ := cluster.Pods()
	budgets, _ := set.PodDisruptionBudgets()
	scalers, unreadScalers := set.HPAs()
	wrong := faults.Once(unfed, unplanned, unreadScalers) // all of them read the VPAs
	v, why, several := s.in(list, plan, orderBy(cluster.Rules()))
	if several != nil {
		return nil, faults.Join(wrong, several)
	}
	r := &Report{Now: now, Findings: []Finding{}, Processes: []answers.Process{}, Unknown: []string{
		"what the processes know, events, and whether the webhook is registered: manifests were read, and no cluster"}}
	switch {
	case v == nil && why == "":
		return nil, faults.Join(wrong, s.nobody(list))
	case v == nil:
		r.Subject = s.String()
		r.Findings = append(r.Findings, finding("no-vpa", "", "create a VerticalPodAutoscaler with that target", "%s", why))
		r.Verdict = verdict(r, nil, now)
		return r, wrong
	}
	r.Subject, r.VPA, r.Target, r.Mode = s.of(v).String(), v.Namespace+"/"+v.Name, TargetText(v), v.Mode()
	around := &objects{vpa: v, budgets: budgets, scalers: scalers, problem: plan.Gone[v.Namespace+"/"+v.Name], written: written(v.Namespace, v.Name)}
	around.ruledBy(cluster.Rules())
	around.budgets = slices.DeleteFunc(around.budgets, func(b policyv1.PodDisruptionBudget) bool { return b.Namespace != v.Namespace })
	around.scalers = slices.DeleteFunc(around.scalers, func(h autoscalingv2.HorizontalPodAutoscaler) bool { return h.Namespace != v.Namespace })
	u := updaterOf(v, list, plan)
	for _, planned := range u.Pods {
		for i := range pods {
			if pods[i].Namespace+"/"+pods[i].Name == planned.Pod {
				around.pods = append(around.pods, pods[i])
			}
		}
	}
	around.sortPods()
	replies := &ask.Result{Updater: u}
	var unexplained error
	if replies.Recommender, unexplained = recommends(ctx, v); unexplained != nil {
		wrong = faults.Join(wrong, unexplained)
	}
	if m.Usage == nil && replies.Recommender != nil {
		r.Unknown = append(r.Unknown, "the usage since the last checkpoints: the numbers are computed from VerticalPodAutoscalerCheckpoints; name a file of usage with --usage")
	}
	r.compose(around, replies)
	r.Rules = policy.DescribeRules(policy.For(cluster.Rules(), v))
	if s.Kind == "Pod" {
		r.only(v, u, s.Namespace, s.Name)
	}
	r.Verdict = verdict(r, u, now)
	return r, wrong
}

// recommender is what answers for a VPA as a recommender with the usage would; its answer is nil where nothing is known of any. written is when
// the checkpoints of a VPA were, by container, if it starts with those.
func (m *Manifests) recommender() (recommends func(context.Context, *vpav1.VerticalPodAutoscaler) (*answers.Recommender, error), written func(namespace, name string) map[string]time.Time, wrong error) {
	var state *recommender.State
	var workload func(namespace, name string) *recommender.Workload
	written = func(string, string) map[string]time.Time { return nil }
	if m.Usage != nil {
		var fed simulate.Fed
		fed, wrong = m.Cluster.Feed(m.Usage, m.Remember)
		state, workload = fed.State(), fed.Workload
	} else {
		var restored *simulate.Restored
		restored, wrong = m.Cluster.Restored(m.Remember)
		state, workload, written = restored.State, restored.Workload, restored.Written
	}
	return func(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (*answers.Recommender, error) {
		w := workload(v.Namespace, v.Name)
		if w == nil {
			return nil, nil
		}
		answer, err := state.ExplainAlone(ctx, w, m.Now, sampled)
		return &answer, err
	}, written, wrong
}

// in finds the VPA of a subject; why says that none controls it. Both are empty if there is no such
// subject. Of several with one target it is the one that controls the pods, or without pods the first by
// compare. The error is that it is in several namespaces.
func (s *Subject) in(list []*vpav1.VerticalPodAutoscaler, plan *simulate.Plan, compare order) (v *vpav1.VerticalPodAutoscaler, why string, err error) {
	here := slices.DeleteFunc(slices.Clone(list), func(v *vpav1.VerticalPodAutoscaler) bool { return s.Namespace != "" && s.Namespace != v.Namespace })
	if s.Name == "" && len(here) == 1 {
		return here[0], "", nil
	}
	first := func(fits func(*vpav1.VerticalPodAutoscaler) bool) (*vpav1.VerticalPodAutoscaler, error) {
		var namespaces []string
		var found *vpav1.VerticalPodAutoscaler
		for _, one := range here {
			if fits(one) {
				if found == nil || compare(one, found) < 0 {
					found = one
				}
				namespaces = append(namespaces, one.Namespace)
			}
		}
		return found, s.several(namespaces)
	}
	v, err = first(func(v *vpav1.VerticalPodAutoscaler) bool {
		return v.Name == s.Name && (s.Kind == "" || s.Kind == vpaKind)
	})
	if v != nil {
		return v, "", err
	}
	if pod, err := s.podIn(plan); pod != nil || err != nil {
		if err != nil {
			return nil, "", err
		}
		s.Kind, s.Namespace = "Pod", strings.TrimSuffix(pod.Pod, "/"+s.Name)
		if i := slices.IndexFunc(list, func(v *vpav1.VerticalPodAutoscaler) bool { return v.Namespace+"/"+v.Name == pod.VPA }); i >= 0 {
			return list[i], "", nil
		}
		return nil, pod.Why, nil
	}
	v, err = first(func(v *vpav1.VerticalPodAutoscaler) bool {
		of := target.Of(v)
		return of.Name == s.Name && (s.Kind == "" || strings.EqualFold(of.Kind, s.Kind))
	})
	if v != nil { // of several, the one that controls the pods
		if u := updaterOf(v, list, plan); len(u.Pods) > 0 {
			for _, other := range list {
				if other.Namespace+"/"+other.Name == u.Pods[0].VPA {
					return other, "", err
				}
			}
		}
	}
	return v, "", err
}

// podIn finds the pod that a subject may be; nil if there is none.
func (s *Subject) podIn(plan *simulate.Plan) (*answers.PlannedPod, error) {
	if s.Kind != "" && s.Kind != "Pod" {
		return nil, nil
	}
	var found *answers.PlannedPod
	var namespaces []string
	for i := range plan.Items {
		namespace, name, _ := strings.Cut(plan.Items[i].Pod, "/")
		if name == s.Name && (s.Namespace == "" || s.Namespace == namespace) {
			found = cmp.Or(found, &plan.Items[i])
			namespaces = append(namespaces, namespace)
		}
	}
	return found, s.several(namespaces)
}

// several is the error of a subject that is in more than one namespace.
func (s *Subject) several(namespaces []string) error {
	slices.Sort(namespaces)
	if namespaces = slices.Compact(namespaces); len(namespaces) < 2 {
		return nil
	}
	return fmt.Errorf("%s is in namespaces %s; choose one with -n", s, simulate.Few(namespaces))
}

// nobody is the error of a subject that is not there.
func (s *Subject) nobody(list []*vpav1.VerticalPodAutoscaler) error {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.Namespace + "/" + v.Name
	}
	slices.Sort(names)
	have := "there is no VerticalPodAutoscaler"
	if len(names) > 0 {
		have = "there are the VerticalPodAutoscalers " + simulate.Few(names)
	}
	if s.Name == "" {
		return fmt.Errorf("name one object to explain: %s", have)
	}
	return fmt.Errorf("no VerticalPodAutoscaler, pod or target of a VerticalPodAutoscaler is called %s: %s", s, have)
}
