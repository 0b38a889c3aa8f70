package facts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sums "k8s.io/component-helpers/resource" // API servers sum containers with it, too

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/engine/lang"
)

// keepValid takes out of the change what an API server would refuse the pod for, whatever rules and overlays
// did: the resource of that container, or of the whole pod, stays as it is. Left says so. What the
// server refuses even then is Refused. lessCPU reports whether CPU stays anywhere.
func (c *PodChange) keepValid(in PodInput) (lessCPU bool) {
	pod := in.Pod
	if !in.Creating {
		pod = replacementOf(in.Pod, in.Limits)
	}
	for _, name := range ScaledResources {
		after := PodAfter(pod, *c)
		for i := range c.Containers {
			of := &c.Containers[i]
			if !of.writes(name) {
				continue
			}
			if why := in.Limits.refusesContainer(name, &after.Spec.Containers[of.Index].Resources); why != "" {
				c.Left = append(c.Left, fmt.Sprintf("%s of container %s stays as it is: %s", name, of.Name, why))
				of.withhold(name, why)
				of.Boost.keep(name)
				lessCPU = lessCPU || name == corev1.ResourceCPU
				after = PodAfter(pod, *c)
			}
		}
		if why := in.Limits.refusesPod(name, after); why != "" && c.writes(name) {
			c.Left = append(c.Left, fmt.Sprintf("%s stays as it is: %s", name, why))
			for i := range c.Containers {
				c.Containers[i].withhold(name, why)
				c.Containers[i].Boost.keep(name)
			}
			if c.Pod != nil {
				c.Pod.withhold(name, why)
			}
			lessCPU = lessCPU || name == corev1.ResourceCPU
			after = PodAfter(pod, *c)
		}
		if c.Refused == "" {
			c.Refused = in.Limits.Refuses(name, after)
		}
	}
	return lessCPU
}

// replacementOf has only the resources of a running pod, as rules see them, with those that LimitRanges give to new
// pods.
func replacementOf(pod *corev1.Pod, limits *LimitRanges) *corev1.Pod {
	out := withDefaults(pod, nil)
	for i := range out.Spec.Containers {
		r := &out.Spec.Containers[i].Resources
		r.Requests, r.Limits = CurrentResources(pod, i)
	}
	if requests, limits, ok := podResourcesOf(pod); ok {
		out.Spec.Resources.Requests, out.Spec.Resources.Limits = requests, limits
	}
	if limits != nil {
		return withDefaults(out, limits.stored)
	}
	return out
}

// withDefaults has only the resources of a pod, with the defaults of API servers and LimitRanges.
func withDefaults(pod *corev1.Pod, ranges []corev1.LimitRange) *corev1.Pod {
	out := &corev1.Pod{Spec: corev1.PodSpec{Resources: pod.Spec.Resources.DeepCopy(),
		Containers: slices.Clone(pod.Spec.Containers), InitContainers: slices.Clone(pod.Spec.InitContainers)}}
	poddefaults.BeforeWebhooks(out, ranges)
	return out
}

// Refuses is why an API server refuses a pod for its amounts of a resource, of a container or of all
// together. Empty if it does not.
func (l *LimitRanges) Refuses(name corev1.ResourceName, pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if why := l.refusesContainer(name, &pod.Spec.Containers[i].Resources); why != "" {
			return fmt.Sprintf("container %d: %s", i, why)
		}
	}
	for i := range pod.Spec.InitContainers {
		if why := l.refusesContainer(name, &pod.Spec.InitContainers[i].Resources); why != "" {
			return fmt.Sprintf("init container %s: %s", pod.Spec.InitContainers[i].Name, why)
		}
	}
	return l.refusesPod(name, pod)
}

// writes reports whether a container or the pod as a whole gets another amount of a resource.
func (c *PodChange) writes(name corev1.ResourceName) bool {
	return c.Pod != nil && c.Pod.writes(name) || slices.ContainsFunc(c.Containers, func(of ContainerChange) bool { return of.ResourceChange.writes(name) })
}

func (c *ResourceChange) writes(name corev1.ResourceName) bool {
	_, request := c.Requests.Of(name)
	_, limit := c.Limits.Of(name)
	return request || limit
}

// withhold leaves a resource as it is. Notes about it are no longer true.
func (c *ResourceChange) withhold(name corev1.ResourceName, why string) {
	if !c.writes(name) {
		return
	}
	other := func(q Quantity) bool { return q.Resource != name }
	c.Requests, c.Limits = kept(c.Requests, other), kept(c.Limits, other)
	c.Notes = append(kept(c.Notes, func(note string) bool {
		return !strings.HasPrefix(note, string(name)+" ") && !strings.HasPrefix(note, string(name)+":")
	}), string(name)+" is not changed: "+why)
	c.Withheld = strings.TrimPrefix(c.Withheld+"; "+why, "; ")
	c.Target, c.LowerBound, c.UpperBound = without(c.Target, name), without(c.LowerBound, name), without(c.UpperBound, name)
}

func kept[T any](list []T, keep func(T) bool) (out []T) {
	for _, one := range list {
		if keep(one) {
			out = append(out, one)
		}
	}
	return out
}

// without is a record of resources that lacks one.
func without(r *lang.Record, name corev1.ResourceName) *lang.Record {
	if r == nil {
		return nil
	}
	out := resourcesSchema.New()
	for _, other := range ScaledResources {
		if n, ok := r.Int(string(other)); ok && other != name {
			out.SetInt(string(other), n)
		}
	}
	return out
}

// keep leaves a startup boost as it is where CPU stays.
func (b *Boost) keep(name corev1.ResourceName) {
	if name == corev1.ResourceCPU {
		*b = Boost{On: b.On || b.Over, Remaining: b.Remaining}
	}
}

// refusesContainer is why a container with these resources is refused: for its own values, or by a
// LimitRange of type Container. Empty if it is not.
func (l *LimitRanges) refusesContainer(name corev1.ResourceName, r *corev1.ResourceRequirements) string {
	request, limit := amountsIn(r.Requests, name), amountsIn(r.Limits, name)
	if request == nil {
		request = limit // which API servers fill in
	}
	for _, q := range []*resource.Quantity{request, limit} {
		if q != nil && q.Sign() < 0 {
			return fmt.Sprintf("it would have %s of %s", q, name)
		}
	}
	if request != nil && limit != nil && request.Cmp(*limit) > 0 {
		return fmt.Sprintf("its %s request of %s would exceed its limit of %s", name, request, limit)
	}
	return l.outside(corev1.LimitTypeContainer, name, request, limit)
}

// refusesPod is why a pod is refused for what its containers have together, or for its pod-level resources. Empty if
// it is not.
func (l *LimitRanges) refusesPod(name corev1.ResourceName, pod *corev1.Pod) string {
	own := PodLevel(pod) != nil
	if !own && !l.boundsPods() {
		return ""
	}
	after := withDefaults(pod, nil)
	poddefaults.PodLevel(&after.Spec)
	if own {
		if why := refusesPodLevel(name, after); why != "" {
			return why
		}
	}
	options := sums.PodResourcesOptions{ExcludeOverhead: true}
	return l.outside(corev1.LimitTypePod, name, amountsIn(sums.PodRequests(after, options), name), amountsIn(sums.PodLimits(after, options), name))
}

// refusesPodLevel is why the resources of a pod as a whole do not go with those of its containers (KEP-2837).
func refusesPodLevel(name corev1.ResourceName, pod *corev1.Pod) string {
	request, limit := amountsIn(pod.Spec.Resources.Requests, name), amountsIn(pod.Spec.Resources.Limits, name)
	together := amountsIn(sums.AggregateContainerRequests(pod, sums.PodResourcesOptions{}), name)
	if request != nil && together != nil && together.Cmp(*request) > 0 {
		return fmt.Sprintf("its containers would request %s of %s together but the pod %s", together, name, request)
	}
	if request != nil && limit != nil && request.Cmp(*limit) > 0 {
		return fmt.Sprintf("the pod's %s request of %s would exceed its limit of %s", name, request, limit)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if of := amountsIn(list[i].Resources.Limits, name); of != nil && limit != nil && of.Cmp(*limit) > 0 {
				return fmt.Sprintf("the %s limit of a container would be %s and that of the pod %s", name, of, limit)
			}
		}
	}
	return ""
}

// amountsIn is the amount of a resource in a list, or nil.
func amountsIn(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	q, ok := list[name]
	if !ok {
		return nil
	}
	return &q
}

// ofType are the bounds of LimitRanges of a type.
func (l *LimitRanges) ofType(kind corev1.LimitType) iter.Seq[*corev1.LimitRangeItem] {
	return func(yield func(*corev1.LimitRangeItem) bool) {
		if l == nil {
			return
		}
		for i := range l.stored {
			for j := range l.stored[i].Spec.Limits {
				if item := &l.stored[i].Spec.Limits[j]; item.Type == kind && !yield(item) {
					return
				}
			}
		}
	}
}

func (l *LimitRanges) boundsPods() bool {
	for range l.ofType(corev1.LimitTypePod) {
		return true
	}
	return false
}

// outside is what the LimitRanger plugin has against a request and a limit; nil is none.
func (l *LimitRanges) outside(kind corev1.LimitType, name corev1.ResourceName, request, limit *resource.Quantity) string {
	for item := range l.ofType(kind) {
		refuse := func(bound string, q resource.Quantity, what string) string {
			return fmt.Sprintf("LimitRanges "+bound+" for each %s (%s)", q.String(), name, strings.ToLower(string(kind)), what)
		}
		if least, ok := item.Min[name]; ok {
			const bound = "require at least %s of %s"
			asked, used, bounded := inUnits(request, limit, least)
			if request == nil || asked < bounded {
				return refuse(bound, least, wouldBe(request, "request"))
			} else if limit != nil && used < bounded {
				return refuse(bound, least, wouldBe(limit, "limit"))
			}
		}
		if most, ok := item.Max[name]; ok {
			const bound = "allow at most %s of %s"
			asked, used, bounded := inUnits(request, limit, most)
			if limit == nil || used > bounded {
				return refuse(bound, most, wouldBe(limit, "limit"))
			} else if request != nil && asked > bounded {
				return refuse(bound, most, wouldBe(request, "request"))
			}
		}
		if most, ok := item.MaxLimitRequestRatio[name]; ok && exceeds(request, limit, most) {
			return refuse("allow a limit of at most %s times the request of %s", most, wouldBe(limit, "limit")+" and "+wouldBe(request, "request"))
		}
	}
	return ""
}

func wouldBe(q *resource.Quantity, of string) string {
	if q == nil {
		return "it would have no " + of
	}
	return "its " + of + " would be " + q.String()
}

// inUnits are a request, a limit and a bound in units in which the plugin compares them: thousandths, unless one is
// too large for that. nil counts as 0.
func inUnits(request, limit *resource.Quantity, bound resource.Quantity) (asked, used, bounded int64) {
	none := &resource.Quantity{}
	request, limit = cmp.Or(request, none), cmp.Or(limit, none)
	asked, used, bounded = request.Value(), limit.Value(), bound.Value()
	if max(asked, used, bounded) <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return asked, used, bounded
}

// exceeds compares a ratio as the plugin does, in floating point, because that decides. Without a request or a limit,
// every ratio is too much.
func exceeds(request, limit *resource.Quantity, most resource.Quantity) bool {
	asked, used, _ := inUnits(request, limit, most)
	if asked == 0 || used == 0 {
		return true
	}
	ratio, bound := float64(used)/float64(asked), float64(most.Value())
	if most.Value() <= resource.MaxMilliValue {
		ratio, bound = ratio*1000, float64(most.MilliValue())
	}
	return ratio > bound
}
