package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/soak/watcher"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// churn changes all that celvpa reads.
type churn struct {
	*soak
	random      *rand.Rand
	slots       []*workload
	generations int
	rules       *rulesChurn
	done        map[string]int // by what was done
}

// change is something that happens again and again; the more weight, the more often.
type change struct {
	name   string
	weight int
	do     func(*churn, context.Context, int) error
}

var changes = []change{
	{"workload replaced", 2, (*churn).replace},
	{"VPA deleted or created", 2, (*churn).toggleVPA},
	{"VPA changed", 6, (*churn).changeVPA},
	{"Deployment scaled", 3, (*churn).scale},
	{"Deployment rolled out", 2, (*churn).rollOut},
	{"pod deleted", 3, (*churn).deletePod},
	{"container out of memory", 3, (*churn).killContainer},
	{"usage shifted", 8, (*churn).shiftUsage},
	{"PodDisruptionBudget changed", 2, (*churn).changePDB},
	{"RuleOverlay changed", 2, (*churn).changeOverlay},
	{"rules directory changed", 2, (*churn).changeRules},
}

// fill creates the workloads.
func (c *churn) fill(ctx context.Context) error {
	for _, name := range namespaces {
		if err := c.cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	for i := range c.slots {
		if err := c.create(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// run changes something about once a second with 50 workloads, until the context ends.
func (c *churn) run(ctx context.Context) error {
	all := 0
	for _, change := range changes {
		all += change.weight
	}
	every := min(5*time.Second, 50*time.Second/time.Duration(len(c.slots)))
	for pause(ctx, every) {
		if err := c.rules.repair(); err != nil {
			return err
		}
		drawn := c.random.IntN(all)
		slot := c.random.IntN(len(c.slots))
		for _, change := range changes {
			if drawn -= change.weight; drawn >= 0 {
				continue
			}
			if err := change.do(c, ctx, slot); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s (%s/%s): %w", change.name, c.slots[slot].namespace, c.slots[slot].name, err)
			}
			c.done[change.name]++
			break
		}
	}
	return nil
}

// answered is how long the API server may be away.
const answered = 10 * time.Minute

// try asks the API server until it answers for good. What does not exist any more, or already, is what was wanted.
func try(ctx context.Context, ask func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 300*time.Millisecond, answered, true, func(ctx context.Context) (bool, error) {
		last = ask(ctx)
		switch {
		case last == nil, apierrors.IsNotFound(last), apierrors.IsAlreadyExists(last):
			return true, nil
		case apierrors.IsInvalid(last), apierrors.IsForbidden(last) && !apierrors.HasStatusCause(last, corev1.NamespaceTerminatingCause), apierrors.IsBadRequest(last):
			return false, last
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return errors.Join(err, last)
	}
	return err
}

func (c *churn) create(ctx context.Context, slot int) error {
	c.generations++
	w := newWorkload(c.random, slot, c.generations)
	c.slots[slot] = w
	if err := try(ctx, func(ctx context.Context) error { return c.cluster.Create(ctx, w.deployment()) }); err != nil {
		return fmt.Errorf("creating Deployment %s/%s: %w", w.namespace, w.name, err)
	}
	if err := try(ctx, func(ctx context.Context) error { return c.cluster.Create(ctx, w.vpa()) }); err != nil {
		return fmt.Errorf("creating VerticalPodAutoscaler %s/%s: %w", w.namespace, w.name, err)
	}
	return nil
}

func (c *churn) remove(ctx context.Context, o client.Object) error {
	return try(ctx, func(ctx context.Context) error {
		return c.cluster.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

func (c *churn) replace(ctx context.Context, slot int) error {
	w := c.slots[slot]
	for _, o := range []client.Object{w.vpa(), w.deployment(), w.pdb()} {
		if err := c.remove(ctx, o); err != nil {
			return err
		}
	}
	c.usage.shifts.Delete(w.namespace + "/" + w.name)
	return c.create(ctx, slot)
}

func (c *churn) toggleVPA(ctx context.Context, slot int) error {
	w := c.slots[slot]
	if w.hasVPA = !w.hasVPA; !w.hasVPA {
		return c.remove(ctx, w.vpa())
	}
	return try(ctx, func(ctx context.Context) error { return c.cluster.Create(ctx, w.vpa()) })
}

// update changes an object as it is stored now.
func update[T client.Object](ctx context.Context, c *churn, o T, change func(T)) error {
	return try(ctx, func(ctx context.Context) error {
		if err := c.cluster.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return c.cluster.Update(ctx, o)
	})
}

func (c *churn) changeVPA(ctx context.Context, slot int) error {
	w := c.slots[slot]
	w.spec = w.randomSpec(c.random)
	return update(ctx, c, w.vpa(), func(v *vpav1.VerticalPodAutoscaler) { v.Spec = w.spec })
}

func (c *churn) scale(ctx context.Context, slot int) error {
	w := c.slots[slot]
	w.replicas = int32(1 + c.random.IntN(4))
	return update(ctx, c, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = &w.replicas })
}

func (c *churn) rollOut(ctx context.Context, slot int) error {
	w := c.slots[slot]
	w.rollouts++
	return update(ctx, c, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Template.Annotations = w.deployment().Spec.Template.Annotations })
}

// pick draws a pod of a workload; nil, if it has none.
func (c *churn) pick(ctx context.Context, slot int) (*corev1.Pod, error) {
	w := c.slots[slot]
	var found corev1.PodList
	err := try(ctx, func(ctx context.Context) error {
		return c.cluster.List(ctx, &found, client.InNamespace(w.namespace), client.MatchingLabels{watcher.App: w.name})
	})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	return &found.Items[c.random.IntN(len(found.Items))], nil
}

func (c *churn) deletePod(ctx context.Context, slot int) error {
	pod, err := c.pick(ctx, slot)
	if err != nil || pod == nil {
		return err
	}
	return c.remove(ctx, pod)
}

// killContainer reports, as a kubelet would, that a container ran out of memory and runs again.
func (c *churn) killContainer(ctx context.Context, slot int) error {
	pod, err := c.pick(ctx, slot)
	if err != nil || pod == nil {
		return err
	}
	return try(ctx, func(ctx context.Context) error {
		if err := c.cluster.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) == 0 {
			return nil
		}
		s, now := &pod.Status.ContainerStatuses[0], metav1.Now()
		s.RestartCount++
		s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled",
			StartedAt: pod.CreationTimestamp, FinishedAt: now}}
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		return c.cluster.Status().Update(ctx, pod)
	})
}

func (c *churn) shiftUsage(_ context.Context, slot int) error {
	w := c.slots[slot]
	c.usage.shifts.Store(w.namespace+"/"+w.name, 0.25+2.5*c.random.Float64())
	return nil
}

func (c *churn) changePDB(ctx context.Context, slot int) error {
	w := c.slots[slot]
	if c.random.IntN(2) == 0 {
		return c.remove(ctx, w.pdb())
	}
	if err := try(ctx, func(ctx context.Context) error { return c.cluster.Create(ctx, w.pdb()) }); err != nil {
		return err
	}
	return update(ctx, c, w.pdb(), func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = w.pdb().Spec.MinAvailable })
}

func (c *churn) changeOverlay(ctx context.Context, _ int) error { return c.rules.changeOverlay(ctx, c) }

func (c *churn) changeRules(context.Context, int) error { return c.rules.changeFile(c) }

// calm ends what is wrong on purpose, and gives each workload a VPA and a replica at least.
func (c *churn) calm(ctx context.Context) error {
	if err := c.rules.calm(ctx, c); err != nil {
		return err
	}
	for slot, w := range c.slots {
		if !w.hasVPA {
			if err := c.toggleVPA(ctx, slot); err != nil {
				return err
			}
		}
		c.usage.shifts.Delete(w.namespace + "/" + w.name)
	}
	return nil
}

// namespaces are those in which everything happens. Pods with resources at pod level are in the first one only.
var namespaces = []string{"soak-1", "soak-2", "soak-3", "soak-4"}

// workload is a Deployment and its VPA as they should be.
type workload struct {
	namespace, name string
	replicas        int32
	containers      int
	podLevel        bool
	rollouts        int
	hasVPA          bool
	spec            vpav1.VerticalPodAutoscalerSpec
}

func (w *workload) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, Labels: map[string]string{watcher.App: w.name}}
}

func newWorkload(random *rand.Rand, slot, generation int) *workload {
	w := &workload{namespace: namespaces[slot%len(namespaces)], name: fmt.Sprintf("w%d-%d", slot, generation),
		replicas: int32(1 + random.IntN(4)), containers: 1 + random.IntN(2), hasVPA: true}
	w.podLevel = w.namespace == namespaces[0] && random.IntN(5) > 0
	w.spec = w.randomSpec(random)
	return w
}

// modes are those that VPAs get; one that changes pods more often than one that does not.
var modes = []vpav1.UpdateMode{vpav1.UpdateModeOff, vpav1.UpdateModeInitial, vpav1.UpdateModeInPlace, vpav1.UpdateModeRecreate, vpav1.UpdateModeRecreate,
	vpav1.UpdateModeAuto, vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlaceOrRecreate}

func (w *workload) randomSpec(random *rand.Rand) vpav1.VerticalPodAutoscalerSpec {
	spec := vpav1.VerticalPodAutoscalerSpec{
		TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: w.name},
		UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: &modes[random.IntN(len(modes))]},
	}
	if random.IntN(3) == 0 {
		spec.UpdatePolicy.MinReplicas = ptr.To(int32(1 + random.IntN(3)))
	}
	if random.IntN(6) == 0 {
		spec.UpdatePolicy.EvictAfterOOMSeconds = ptr.To(int32(30 + random.IntN(60)))
	}
	policy := vpav1.ContainerResourcePolicy{ContainerName: "*"}
	if random.IntN(3) > 0 {
		policy.MinAllowed = list(15+random.Int64N(40), 30+random.Int64N(60))
		policy.MaxAllowed = list(300+random.Int64N(700), 300+random.Int64N(700))
	}
	switch random.IntN(6) {
	case 0:
		policy.ControlledValues = ptr.To(vpav1.ContainerControlledValuesRequestsOnly)
	case 1:
		policy.OOMBumpUpRatio = ptr.To(*resource.NewMilliQuantity(1500, resource.DecimalSI))
		policy.MemoryAggregationIntervalSeconds = ptr.To(int32(60))
	case 2:
		spec.StartupBoost = &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: "Factor", Factor: ptr.To(int32(2)), DurationSeconds: ptr.To(int32(5 + random.IntN(20)))}}
	}
	spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{policy}}
	if w.podLevel && random.IntN(2) == 0 {
		spec.ResourcePolicy.PodPolicies = &vpav1.PodPolicies{MinAllowed: list(120, 200), MaxAllowed: list(2000, 2048)}
	}
	return spec
}

func (w *workload) vpa() *vpav1.VerticalPodAutoscaler {
	return &vpav1.VerticalPodAutoscaler{ObjectMeta: w.meta(), Spec: w.spec}
}

func (w *workload) deployment() *appsv1.Deployment {
	labels := map[string]string{watcher.App: w.name}
	d := &appsv1.Deployment{ObjectMeta: w.meta(), Spec: appsv1.DeploymentSpec{Replicas: &w.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	d.Spec.RevisionHistoryLimit = ptr.To(int32(0))
	d.Spec.Template.Labels = labels
	d.Spec.Template.Annotations = map[string]string{"soak/rollout": fmt.Sprint(w.rollouts)}
	pod := &d.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To(int64(1))
	for i := range w.containers {
		pod.Containers = append(pod.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/app:1",
			Resources: corev1.ResourceRequirements{Requests: list(100, 128), Limits: list(200, 256)}})
	}
	if w.podLevel {
		pod.Resources = &corev1.ResourceRequirements{Requests: list(300, 400), Limits: list(600, 800)}
	}
	return d
}

func (w *workload) pdb() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: w.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{watcher.App: w.name}}, MinAvailable: ptr.To(intstr.FromInt32(max(0, w.replicas-1)))}}
}

// list is an amount of CPU in millicores and one of memory in MiB.
func list(milli, mebi int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(mebi<<20, resource.BinarySI),
	}
}

// usage is what pods use: each workload has a level of its own, which moves up and down in some minutes and which the churn shifts.
type usage struct {
	pods   client.Reader
	shifts sync.Map // workload → factor, float64
}

// of is the usage of the pods that run.
func (u *usage) of(namespace string) (out []metricsv1beta1.PodMetrics) {
	var list corev1.PodList
	if err := u.pods.List(context.Background(), &list, client.InNamespace(namespace)); err != nil {
		return nil // the cache has not started
	}
	now := time.Now()
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.CreationTimestamp.After(now) {
			continue
		}
		podUsage := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels},
			Timestamp: metav1.NewTime(now), Window: metav1.Duration{Duration: 15 * time.Second}}
		for _, c := range pod.Spec.Containers {
			podUsage.Containers = append(podUsage.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: u.used(pod, c.Name, now)})
		}
		out = append(out, podUsage)
	}
	return out
}

func (u *usage) used(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.Labels[watcher.App] + "/" + container))
	n := float64(h.Sum32() % 1000)
	period := 120 + n/4 // seconds
	level := 1 + 0.6*math.Sin(2*math.Pi*(float64(now.Unix()%3600)/period+n/1000))
	if shift, ok := u.shifts.Load(pod.Namespace + "/" + pod.Labels[watcher.App]); ok {
		level *= shift.(float64)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(level*(20+n/4)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(level*(40+n/4))<<20, resource.BinarySI),
	}
}
