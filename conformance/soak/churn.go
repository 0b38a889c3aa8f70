package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
