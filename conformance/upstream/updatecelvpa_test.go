package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// params are the flags as rule parameters.
func (f updateFlags) params() map[string]string {
	out := map[string]string{}
	if f.MinReplicas != nil {
		out["minReplicas"] = strconv.Itoa(*f.MinReplicas)
	}
	if f.EvictionTolerance != nil {
		out["evictionTolerance"] = fmt.Sprint(*f.EvictionTolerance)
	}
	if f.UpdateThreshold != nil {
		out["updateThreshold"] = fmt.Sprint(*f.UpdateThreshold)
	}
	if f.Lifetime != nil {
		out["eligibility.lifetimeThreshold"] = f.Lifetime.Duration.String()
	}
	if f.EvictAfterOOM != nil {
		out["evictAfterOOM"] = f.EvictAfterOOM.Duration.String()
	}
	if f.SkipBudget {
		out["skipDisruptionBudget"] = "true"
	}
	return out
}

var updateBooks = map[string]*compile.Rulebook{}

// updateRules are compiled once for each set of flags, because compiling is slow.
func updateRules(g gates, f updateFlags) (*compile.Rulebook, error) {
	params := f.params()
	if len(params) == 0 {
		return shippedRules(g)
	}
	booksMutex.Lock()
	defer booksMutex.Unlock()
	key := fmt.Sprint(g, params)
	if book, ok := updateBooks[key]; ok {
		return book, nil
	}
	book, err := policy.Load(policy.Options{Gates: g.asMap(), Params: params})
	if err != nil {
		return nil, fmt.Errorf("loading celvpa's rules: %w", err)
	}
	updateBooks[key] = book
	return book, nil
}

// ownerReader implements the part of a client with which celvpa reads owners of pods.
type (
	ownerReader struct {
		client.Client
		in *updateInput
	}
	scaleReader struct {
		client.SubResourceClient
		in *updateInput
	}
)

func (r ownerReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	var kind string
	switch object.(type) {
	case *appsv1.ReplicaSet:
		kind = "ReplicaSet"
	case *appsv1.StatefulSet:
		kind = "StatefulSet"
	case *appsv1.DaemonSet:
		kind = "DaemonSet"
	case *corev1.ReplicationController:
		kind = "ReplicationController"
	case *batchv1.Job:
		kind = "Job"
	}
	owner := r.in.owner(kind, key.Name)
	if owner == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		o.Spec.Replicas = owner.Replicas
	case *appsv1.StatefulSet:
		o.Spec.Replicas = owner.Replicas
	case *appsv1.DaemonSet:
		if owner.Replicas != nil {
			o.Status.DesiredNumberScheduled = *owner.Replicas
		}
	case *corev1.ReplicationController:
		o.Spec.Replicas = owner.Replicas
	}
	return nil
}

func (r ownerReader) RESTMapper() meta.RESTMapper                 { return meta.NewDefaultRESTMapper(nil) }
func (r ownerReader) SubResource(string) client.SubResourceClient { return scaleReader{in: r.in} }

func (r scaleReader) Get(_ context.Context, object, scale client.Object, _ ...client.SubResourceGetOption) error {
	owner := r.in.owner(object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	if owner == nil || owner.Replicas == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "scale"}, object.GetName())
	}
	scale.(*unstructured.Unstructured).Object["spec"] = map[string]any{"replicas": int64(*owner.Replicas)}
	return nil
}

// notEligible are the rows of rule set update for pods that need no update, notJudged the rows
// before them.
var (
	notJudged   = []string{"mode-off", "mode-initial", "in-place-gate-off", "mode-unknown", "no-recommendation", "boosted"}
	notEligible = []string{"oom-without-change", "oom-not-counted", "within-recommended-range", "eviction-requirements-unmet"}
)

// updateByCelvpa does with the pods of a VPA what a cycle of celvpa's updater does. Pods to be left
// alone count as replicas and are not examined.
func updateByCelvpa(in updateInput, g gates, leave map[string]bool) (out updateAnswer, err error) {
	v, err := in.celvpaVPA()
	if err != nil {
		return out, err
	}
	book, err := updateRules(g, in.Flags)
	if err != nil {
		return out, err
	}
	plan := book.Default()
	out.Pods, out.Resized = map[string]standing{}, map[string]*corev1.Pod{}
	defer func() {
		if p := recover(); p != nil {
			out = updateAnswer{Panicked: fmt.Sprint(p)}
		}
	}()
	if verdict := matcher.Ask(plan, matcher.Update, v, nil); verdict.Err != nil || verdict.Do != facts.DoApply {
		for _, pod := range in.Pods {
			out.Pods[pod.Name] = standing{Unranked: true, Rule: verdict.Rule}
		}
		return out, asError(verdict)
	}
	resolver := &target.Resolver{Client: ownerReader{in: &in}}
	groups := podupdate.Groups(context.Background(), resolver, in.Pods, updateNow, func(target.Key, error) {})
	step := &podupdate.Step{VPA: v, Plan: plan, Dry: true, Now: updateNow, Actuator: carriesOut{&in, &out}}
	var pods []*podupdate.Candidate
	for _, pod := range in.Pods {
		request := podupdate.Request{Pod: pod, VPA: v, Now: updateNow}
		if seen, ok := in.Noticed[pod.Name]; ok && (seen.UID == "" || seen.UID == pod.UID) {
			request.ResizeSeen = updateNow.Add(-seen.Age.Duration)
		}
		if tried, ok := in.Infeasible[pod.Name]; ok {
			request.Infeasible = facts.Requests(tried)
		}
		if in.NoAdmission {
			request.NoAdmission = "the lease is old"
		}
		owner, _ := target.DirectOwner(pod)
		candidate, failed := step.Candidate(request, groups[owner], nil)
		for _, e := range failed {
			err = errors.Join(err, e)
		}
		pods = append(pods, candidate)
	}
	podupdate.Sort(pods)
	for _, pod := range pods {
		name := pod.Request.Pod.Name
		if leave[name] {
			continue
		}
		step.Decide(pod)
		rule := pod.Verdict.Rule
		row := rowOf(rule)
		s := standing{Outside: pod.Priority.OutsideRecommendedRange, ScaleUp: pod.Priority.ScaleUp, Diff: pod.Priority.ResourceDiff, Rule: rule,
			Unranked: slices.Contains(notJudged, row), Eligible: !slices.Contains(notEligible, row) && !slices.Contains(notJudged, row)}
		if s.Eligible {
			out.Order = append(out.Order, name)
		}
		err = errors.Join(err, asError(pod.Verdict))
		step.Take(pod)
		if pod.Attempt.Refused != "" {
			s.Rule += ", " + pod.Verdict.Rule
			err = errors.Join(err, asError(pod.Verdict))
		}
		if pod.Verdict.Do == facts.DoRememberInfeasible {
			out.Done = append(out.Done, doneRemember+name)
		}
		out.Pods[name] = s
	}
	return out, err
}

func asError(verdict engine.Verdict) error {
	if verdict.Err == nil {
		return nil
	}
	return verdict.Err
}

// rowOf is the name of a row without its rule set.
func rowOf(rule string) string { return rule[strings.LastIndexByte(rule, '/')+1:] }

// carriesOut records what celvpa does with the pods of a case.
type carriesOut struct {
	in  *updateInput
	out *updateAnswer
}

// Evict implements podupdate.Actuator.
func (c carriesOut) Evict(candidate *podupdate.Candidate) podupdate.Answer {
	c.out.Done = append(c.out.Done, doneEvict+candidate.Request.Pod.Name)
	return podupdate.Answer{}
}

// Resize implements podupdate.Actuator.
func (c carriesOut) Resize(candidate *podupdate.Candidate, change facts.PodChange) podupdate.Answer {
	pod := candidate.Request.Pod
	if refusal := c.in.Refusals[pod.Name]; refusal != "" {
		c.out.Done = append(c.out.Done, doneTry+pod.Name)
		return podupdate.Answer{Outcome: podupdate.Declined, Refused: facts.Refusal(refusal), Message: refusalOf(refusal).Error()}
	}
	c.out.Done = append(c.out.Done, doneResize+pod.Name)
	after := podAnswer{Patch: mustJSON(podpatch.Resources(pod, change))}
	after.apply(pod.DeepCopy())
	c.out.Resized[pod.Name] = after.Pod
	if after.Failed != "" {
		c.out.Panicked = after.Failed
	}
	return podupdate.Answer{}
}
