package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpaclient "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	vpalisters "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/listers/autoscaling.k8s.io/v1"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	updaterlogic "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
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

// Upstream's loop reads VPAs, pods and their owners from these.
type (
	oneVPALister struct {
		vpalisters.VerticalPodAutoscalerLister
		vpa *upstreamv1.VerticalPodAutoscaler
	}
	podsLister struct {
		listersv1.PodLister
		pods []*corev1.Pod
	}
	anyPod      struct{}
	oneTopOwner struct{}
)

func (l oneVPALister) List(labels.Selector) ([]*upstreamv1.VerticalPodAutoscaler, error) {
	return []*upstreamv1.VerticalPodAutoscaler{l.vpa}, nil
}
func (l podsLister) List(labels.Selector) ([]*corev1.Pod, error) { return l.pods, nil }

func (anyPod) Fetch(context.Context, *upstreamv1.VerticalPodAutoscaler) (labels.Selector, error) {
	return labels.Everything(), nil
}

func (oneTopOwner) FindTopMostWellKnownOrScalable(context.Context, *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return &controllerfetcher.ControllerKeyWithAPIVersion{ControllerKey: controllerfetcher.ControllerKey{Namespace: "shop", Kind: "Deployment", Name: "d"}}, nil
}

// inside sets an unexported field of another package.
func inside[T any](object any, name string, value T) {
	*(*T)(unsafe.Pointer(reflect.ValueOf(object).Elem().FieldByName(name).UnsafeAddr())) = value
}

// TestTheCycleOfUpstreamIsItsOwn also runs upstream's whole loop: on generated workloads it does
// the same as the cycle that the other tests use. The loop reads the clock itself, so all times are
// shifted to the present.
func TestTheCycleOfUpstreamIsItsOwn(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	loop := newLoop(t)
	did := 0
	for name, kind := range updateKinds {
		for seed := range seeds(t, cases(600)) {
			c := generateUpdate(seed, kind)
			in, err := readUpdate(c)
			require.NoError(t, err)
			cycle, err := updateByUpstream(in.copy(), c.Gates, ways{})
			require.NoError(t, err)
			if cycle.Panicked != "" || in.NoAdmission || strings.Contains(string(in.VPA), "gpu") {
				continue // of three resources upstream adds up the differences in any order, so that pods alike may differ in the last digit
			}
			var ran []string
			synctest.Test(t, func(t *testing.T) { // so that no time passes from here to where the loop reads the clock
				in.toThePresent()
				var panicked bool
				ran, panicked = runLoop(t, loop, in)
				require.False(t, panicked, "seed %d: %s", seed, c)
			})
			want := slices.DeleteFunc(cycle.Done, func(step string) bool { return strings.HasPrefix(step, doneRemember) })
			require.Equal(t, want, ran, "%s, seed %d: %s", name, seed, c)
			did += len(want)
		}
	}
	require.Greater(t, did, cases(500))
}

// newLoop creates upstream's updater, which must first list VPAs from a server.
func newLoop(t *testing.T) updaterlogic.Updater {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, `{"kind":"VerticalPodAutoscalerList","apiVersion":"autoscaling.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"VerticalPodAutoscaler","apiVersion":"autoscaling.k8s.io/v1",
"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-over: // nobody stops the client, which asks again as often as it is cut off, and the server would wait for the answer
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	vpas, err := vpaclient.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	core := fake.NewClientset()
	nothing := informers.NewSharedInformerFactory(core, 0)
	require.NoError(t, setUpstreamGates(gates{}))
	loop, err := updaterlogic.NewUpdater(core, vpas, nothing, nothing, 1, 0, 1, 0.5, false, false, 0, 0, 0, "", "", 0,
		nil, nil, anyPod{}, oneTopOwner{}, priority.NewProcessor(), "", nil, nil)
	require.NoError(t, err)
	return loop
}

// runLoop runs upstream's loop once.
func runLoop(t *testing.T, loop updaterlogic.Updater, in updateInput) (done []string, panicked bool) {
	v, err := in.upstreamVPA()
	require.NoError(t, err)
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}
	c := newUpstreamCycle(in, v)
	factory := c.factory()
	inside(loop, "vpaLister", vpalisters.VerticalPodAutoscalerLister(oneVPALister{vpa: v}))
	inside(loop, "podLister", listersv1.PodLister(podsLister{pods: in.Pods}))
	inside(loop, "restrictionFactory", factory)
	inside(loop, "recommendationProcessor", c.capping)
	inside(loop, "evictionAdmission", c.admission)
	inside(loop, "infeasibleAttempts", c.infeasible)
	inside(loop, "defaultUpdateThreshold", in.Flags.threshold())
	inside(loop, "podLifetimeUpdateThreshold", in.Flags.lifetime())
	inside(loop, "evictAfterOOMThreshold", in.Flags.evictAfterOOM())
	defer func() { panicked = recover() != nil }()
	loop.RunOnce(context.Background())
	return c.out.Done, false
}

// toThePresent shifts all times that upstream compares with the system clock.
func (in *updateInput) toThePresent() {
	later := time.Since(updateNow)
	move := func(at *metav1.Time) { at.Time = at.Add(later) }
	for _, pod := range in.Pods {
		if pod.Status.StartTime != nil {
			move(pod.Status.StartTime)
		}
		for i := range pod.Status.ContainerStatuses {
			if end := pod.Status.ContainerStatuses[i].LastTerminationState.Terminated; end != nil {
				move(&end.StartedAt)
				move(&end.FinishedAt)
			}
		}
	}
}
