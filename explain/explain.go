package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/explain/ask"
	"github.com/celvpa/celvpa/simulate"
)

// Options say what to read, and how.
type Options struct {
	Client client.Client // not cached
	// Ask asks the processes about a VPA; nil = do not.
	Ask func(ctx context.Context, namespace, name string) (*ask.Result, error)
	// Simulate computes what the processes would say; nil = do not.
	Simulate func(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (Simulated, error)
	// Rules are those that the processes are taken to run, with the RuleOverlays of the cluster, for what
	// no process reports: whether a VPA changes new pods, which policy a container has, and which VPA of a
	// target comes first; nil = unknown.
	Rules *compile.Rulebook
	// Unknown is what could not be found out about the rules.
	Unknown []string
	Now     time.Time
	// Selector chooses the VPA of a subject without a name; nil = by none.
	Selector labels.Selector

	// Where manifests stand for a cluster:
	plan    *simulate.Plan // of all pods
	written func(namespace, name string) map[string]time.Time
}

// Simulated is what recommender and updater would answer, computed by the same rules without asking them.
type Simulated struct {
	Recommender *answers.Recommender
	Updater     *answers.Updater
	Notes       []string
}

// Explain reports on a subject. The error says why there is no report.
func Explain(ctx context.Context, o Options, s Subject) (*Report, error) {
	of, err := find(ctx, o.Client, s, o.Selector, orderBy(o.Rules))
	if err != nil {
		return nil, err
	}
	r, updater, err := o.about(ctx, &of)
	if err != nil {
		return nil, err
	}
	if other := of.controlledBeside(updater); other.Name != "" {
		v := &vpav1.VerticalPodAutoscaler{}
		if o.Client.Get(ctx, other, v) == nil {
			of.vpa = v
			r, _, err = o.about(ctx, &of)
		}
	}
	return r, err
}

// controlledBeside is the VPA that controls the pods of a subject, if several have its target and the
// updater says that it is another one. Of a VPA that was asked for, it is none.
func (f *found) controlledBeside(u *answers.Updater) (out types.NamespacedName) {
	if f.vpa == nil || f.Kind == vpaKind || u == nil {
		return out
	}
	for i := range u.Pods {
		p := &u.Pods[i]
		if f.pod != nil && p.Pod != f.pod.Namespace+"/"+f.pod.Name || p.VPA == "" {
			continue
		}
		if out.Namespace, out.Name, _ = strings.Cut(p.VPA, "/"); out.Name == f.vpa.Name {
			return types.NamespacedName{}
		}
		return out
	}
	return out
}

// about reports on a subject that was found. It also returns what the updater says.
func (o *Options) about(ctx context.Context, of *found) (*Report, *answers.Updater, error) {
	r := &Report{Subject: of.String(), Now: o.Now, Findings: []Finding{}, Processes: []answers.Process{}, Unknown: slices.Clone(o.Unknown)}
	if of.vpa == nil {
		r.Findings = append(r.Findings, finding("no-vpa", "", "create a VerticalPodAutoscaler with that target", "%s", of.why))
		r.Verdict = verdict(r, nil, o.Now)
		return r, nil, nil
	}
	v := of.vpa
	r.VPA, r.Target, r.Mode = v.Namespace+"/"+v.Name, TargetText(v), v.Mode()
	replies, wrong := &ask.Result{}, error(nil)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if o.Ask != nil {
			replies, wrong = o.Ask(ctx, v.Namespace, v.Name)
		}
	}()
	around := gather(ctx, o.Client, v, o.plan != nil)
	around.ruledBy(o.Rules)
	<-asked
	if wrong != nil {
		return nil, nil, wrong
	}
	if o.plan != nil {
		around.planned(o.plan, replies.Updater)
		around.written = o.written(v.Namespace, v.Name)
	}
	r.Unknown = append(r.Unknown, replies.Unknown...)
	if (replies.Recommender == nil || replies.Updater == nil) && o.Simulate != nil {
		r.simulate(ctx, *o, v, replies)
	}
	r.compose(around, replies)
	if r.Rules.Digest == "" && o.Rules != nil { // no process says by which it decides
		r.Rules = policy.DescribeRules(policy.For(o.Rules, v))
	}
	r.Unknown = append(r.Unknown, around.unknown...)
	if of.pod != nil {
		r.only(v, replies.Updater, of.pod.Namespace, of.pod.Name)
	}
	r.Verdict = verdict(r, replies.Updater, o.Now)
	return r, replies.Updater, nil
}

// simulate fills in for the processes that could not be asked.
func (r *Report) simulate(ctx context.Context, o Options, v *vpav1.VerticalPodAutoscaler, replies *ask.Result) {
	made, err := o.Simulate(ctx, v)
	if err != nil {
		r.Unknown = append(r.Unknown, fmt.Sprintf("the rules of this program: %v", err))
	}
	for _, note := range made.Notes {
		if !slices.Contains(r.Unknown, note) { // both read RuleOverlays
			r.Unknown = append(r.Unknown, note)
		}
	}
	if replies.Recommender == nil && made.Recommender != nil {
		replies.Recommender = made.Recommender
		r.Unknown = append(r.Unknown, "the usage since the last checkpoints: the recommender could not be asked, so its numbers are computed from checkpoints by the rules of this program")
	}
	if replies.Updater == nil && made.Updater != nil {
		replies.Updater = made.Updater
		r.Unknown = append(r.Unknown, "what the updater remembers, such as refused resizes and evictions: it could not be asked, so its decisions are computed by the rules of this program")
	}
}

// compose puts together what was found.
func (r *Report) compose(around *objects, replies *ask.Result) {
	v := around.vpa
	r.Resources = amounts(v, replies.Recommender)
	if u := replies.Updater; u != nil {
		r.Pods = around.podsOf(u.Pods)
		r.Decisions = append(r.Decisions, u.Decisions...)
		r.addProcess(u.Process)
	} else {
		r.Pods = around.podsOf(nil)
	}
	if rec := replies.Recommender; rec != nil {
		r.Decisions = append(r.Decisions, rec.Decisions...)
		r.addProcess(rec.Process)
	}
	r.Findings = append(r.Findings, recommendationFindings(around, replies.Recommender, r.Now)...)
	r.Findings = append(r.Findings, around.webhookFindings()...)
	for i := range replies.Admission {
		a := &replies.Admission[i]
		r.Decisions = append(r.Decisions, a.Decisions...)
		r.addProcess(a.Process)
		r.Findings = append(r.Findings, admissionFindings(a)...)
	}
	if f := lastAdmission(replies.Admission); f != nil {
		r.Findings = append(r.Findings, *f)
	}
	for _, c := range v.Status.Conditions {
		if c.Type == vpav1.UpdatesHaveNoEffect && c.Status == corev1.ConditionTrue {
			r.Findings = append(r.Findings, finding("updates-have-no-effect", "", "", "%s", c.Message))
		}
	}
	r.Findings = append(r.Findings, updateFindings(replies.Updater, r.Pods, v)...)
	if r.mayEvict() {
		r.Findings = append(r.Findings, around.budgetFindings()...)
	}
	r.Findings = append(r.Findings, around.scalerFindings()...)
	r.Findings = append(r.Findings, around.quotaFindings(r.Pods)...)
	r.Findings = append(r.Findings, around.limitFindings(r.Pods)...)
	r.Findings = append(r.Findings, ruleFindings(r.Processes)...)
	for _, text := range replies.Differences {
		r.Findings = append(r.Findings, finding("processes-differ", "", "let replicas elect a leader (--leader-elect)", "%s", text))
	}
	if replies.Rules != "" {
		r.Findings = append(r.Findings, finding("rules-differ", "", "give all of them the same rule files, RuleOverlays and feature gates, unless policy flags of one component are the reason",
			"the processes have rules with different digests: %s", replies.Rules))
	}
	r.Findings = sorted(r.Findings)
	slices.SortStableFunc(r.Decisions, func(a, b answers.Decision) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Component, b.Component), strings.Compare(a.ID, b.ID))
	})
	r.addHistory()
	r.Events, r.EventsCut = around.events, around.eventsCut
}

// mayEvict reports whether a pod is to be evicted, or may come to be.
func (r *Report) mayEvict() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool {
		return p.Action == facts.DoEvict || p.Priority != nil && p.Priority.MayEvict && (p.acts() || p.Class != Settled && p.Rule != "")
	})
}

func (r *Report) addProcess(p answers.Process) {
	if p.Component == "" {
		return // it was computed here
	}
	r.Processes = append(r.Processes, p)
	if r.Rules.Digest == "" {
		r.Rules = p.Rules
	}
}

// only keeps what is about one pod.
func (r *Report) only(v *vpav1.VerticalPodAutoscaler, u *answers.Updater, namespace, name string) {
	key := namespace + "/" + name
	r.Pods = slices.DeleteFunc(r.Pods, func(p Pod) bool { return p.Pod != key })
	if len(r.Pods) > 0 { // the findings of rules are about it alone, with its own reason
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
			return f.Token == "pods-not-taken" && f.About != "" || strings.Contains(f.Token, "/") && (u == nil || f.Token != u.IgnoredRule || f.Token != r.Pods[0].Rule)
		})
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Token == "target-capped" })
		r.Findings = sorted(append(append(r.Findings, cappedFindings(r.Pods)...), podFindings(u, r.Pods, v)...))
	}
	r.Decisions = slices.DeleteFunc(r.Decisions, func(d answers.Decision) bool { return d.Pod != "" && d.Pod != name && d.Pod != key })
}

// admissionFindings are about one replica of the admission controller.
func admissionFindings(a *answers.Admission) (out []Finding) {
	about := "admission controller " + a.Instance
	if a.Registered != "" {
		out = append(out, finding("admission-not-registered", about, "see its log", "%s", a.Registered))
	}
	if a.Reachable != nil && !*a.Reachable {
		out = append(out, finding("admission-unreachable", about, "check its Service, NetworkPolicies, firewalls between the control plane and the nodes, and the CA in the MutatingWebhookConfiguration",
			"the API server does not reach the webhook, so new pods keep the resources of their template"))
	}
	if a.Expires != nil && a.Expires.Before(a.Now) {
		out = append(out, finding("admission-untrusted", about, "renew it", "its certificate expired at %s", a.Expires.UTC().Format(time.RFC3339)))
	}
	return out
}

// lastAdmission is about the newest pod that any replica admitted.
func lastAdmission(list []answers.Admission) *Finding {
	var last answers.Admitted
	for i := range list {
		for _, admission := range list[i].Admissions {
			if admission.Time.After(last.Time) {
				last = admission
			}
		}
	}
	if last.Time.IsZero() {
		return nil
	}
	did := cmp.Or(last.Updates, "nothing to change")
	if !last.Allowed {
		did = "it was refused: " + last.Message
	}
	about := "pod " + last.Pod
	if owner, unnamed := strings.CutSuffix(last.Pod, "%"); unnamed { // the API server names it after admission
		about = "a new pod of " + strings.TrimSuffix(owner, "-")
	}
	f := finding("last-admission", about, "", "the admission controller saw it at %s: %s", last.Time.UTC().Format(time.RFC3339), did)
	return &f
}

// ruleFindings are about the rules of the processes.
func ruleFindings(list []answers.Process) (out []Finding) {
	for _, p := range list {
		for _, name := range p.Rules.Audited {
			f := finding("overlay-audited", "RuleOverlay "+name, "", "%s evaluates it and does not enforce it", p.Component)
			if !slices.ContainsFunc(out, func(other Finding) bool { return other.About == f.About }) {
				out = append(out, f)
			}
		}
		if p.Rules.Fault != "" {
			out = append(out, finding("pipeline-gone", p.Component, "change the annotation that pins the pipeline, or install its version again", "%s", p.Rules.Fault))
		}
	}
	return out
}

// TargetText is the target of a VPA, e.g. Deployment/shop; empty without one.
func TargetText(v *vpav1.VerticalPodAutoscaler) string {
	of := target.Of(v)
	return strings.Trim(of.Kind+"/"+of.Name, "/")
}
