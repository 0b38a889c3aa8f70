package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sums "k8s.io/component-helpers/resource" // API servers sum containers with it, too

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/engine/lang"
)

// keepValid takes out of the change what an API server would refuse the pod for, whatever rules and
// overlays did: the resource of that container, or of the whole pod, stays as it is. Left says so.
// Refused is what the server has against a replacement of a running pod even then. lessCPU reports
// whether CPU stays anywhere.
func (c *PodChange) keepValid(in PodInput, by func() string) (lessCPU bool) {
	j := judged{in, c}
	for _, name := range ScaledResources {
		for i := range c.Containers {
			of := &c.Containers[i]
			if !of.writes(name) {
				continue
			}
			if why := j.refusesContainer(name, i); why != "" {
				why += by()
				c.Left = append(c.Left, fmt.Sprintf("%s of container %s stays as it is: %s", name, of.Name, why))
				of.withhold(name, why)
				of.Boost.keep(name)
				lessCPU = lessCPU || name == corev1.ResourceCPU
			}
		}
		if !c.writes(name) {
			continue
		}
		if why := j.refusesPod(name); why != "" {
			why += by()
			c.Left = append(c.Left, fmt.Sprintf("%s stays as it is: %s", name, why))
			for i := range c.Containers {
				c.Containers[i].withhold(name, why)
				c.Containers[i].Boost.keep(name)
			}
			if c.Pod != nil {
				c.Pod.withhold(name, why)
			}
			lessCPU = lessCPU || name == corev1.ResourceCPU
		}
	}
	if !in.Creating {
		c.Refused = j.refuses()
	}
	return lessCPU
}

// Refuses is why an API server refuses a new pod for its amounts of a resource, of a container or
// of all together. Empty if it does not.
func (l *LimitRanges) Refuses(name corev1.ResourceName, pod *corev1.Pod) string {
	j := judged{PodInput{Pod: pod, Limits: l, Creating: true}, &PodChange{Containers: make([]ContainerChange, len(pod.Spec.Containers))}}
	for i := range pod.Spec.Containers {
		if why := j.refusesContainer(name, i); why != "" {
			return why
		}
	}
	return j.refusesPod(name)
}

// judged is a pod as a change makes it.
type judged struct {
	in     PodInput
	change *PodChange
}

// refuses is what the API server has against the pod.
func (j judged) refuses() string {
	for _, name := range ScaledResources {
		for i := range j.change.Containers {
			if why := j.refusesContainer(name, i); why != "" {
				return "container " + j.change.Containers[i].Name + ": " + why
			}
		}
		for i := range j.in.Pod.Spec.InitContainers {
			if why := j.in.Limits.refusesAmounts(name, j.ofInit(name, i)); why != "" {
				return "init container " + j.in.Pod.Spec.InitContainers[i].Name + ": " + why
			}
		}
		if why := j.refusesPod(name); why != "" {
			return why
		}
	}
	return ""
}

// requestAndLimit are those of one resource; nil is none.
type requestAndLimit struct{ request, limit *resource.Quantity }

// of is what a container has of a resource.
func (j judged) of(name corev1.ResourceName, i int) requestAndLimit {
	requests, limits := j.in.Pod.Spec.Containers[i].Resources.Requests, j.in.Pod.Spec.Containers[i].Resources.Limits
	if !j.in.Creating {
		requests, limits = CurrentResources(j.in.Pod, i)
	}
	a := requestAndLimit{amountIn(requests, name), amountIn(limits, name)}.written(name, &j.change.Containers[i].ResourceChange)
	return j.filledIn(name, a.request, a.limit)
}

// filledIn adds what API servers fill in: a limit is requested, and what else is missing has a
// default of the LimitRanges. New pods have the latter already.
func (j judged) filledIn(name corev1.ResourceName, request, limit *resource.Quantity) requestAndLimit {
	request = cmp.Or(request, limit)
	if j.in.Limits != nil && !j.in.Creating {
		request = cmp.Or(request, amountIn(j.in.Limits.defaultRequests, name))
		limit = cmp.Or(limit, amountIn(j.in.Limits.defaultLimits, name))
	}
	return requestAndLimit{request, limit}
}

// refusesContainer is why a container is refused: for its own amounts, or by a LimitRange of type
// Container. Empty if it is not.
func (j judged) refusesContainer(name corev1.ResourceName, i int) string {
	return j.in.Limits.refusesAmounts(name, j.of(name, i))
}

func (l *LimitRanges) refusesAmounts(name corev1.ResourceName, a requestAndLimit) string {
	for _, q := range []*resource.Quantity{a.request, a.limit} {
		if q != nil && q.Sign() < 0 {
			return fmt.Sprintf("it would have %s of %s", q, name)
		}
	}
	if a.request != nil && a.limit != nil && a.request.Cmp(*a.limit) > 0 {
		return fmt.Sprintf("its %s request of %s would exceed its limit of %s", name, a.request, a.limit)
	}
	return l.outside(corev1.LimitTypeContainer, name, a)
}

// ofInit is what an init container has of a resource.
func (j judged) ofInit(name corev1.ResourceName, i int) requestAndLimit {
	r := &j.in.Pod.Spec.InitContainers[i].Resources
	return j.filledIn(name, amountIn(r.Requests, name), amountIn(r.Limits, name))
}

// refusesPod is why a pod is refused for what its containers have together, or for its pod-level
// resources. Empty if it is not.
func (j judged) refusesPod(name corev1.ResourceName) string {
	if PodLevel(j.in.Pod) == nil {
		if !j.in.Limits.boundsPods() {
			return ""
		}
		together := requestAndLimit{
			j.sum(name, func(of requestAndLimit) *resource.Quantity { return of.request }),
			j.sum(name, func(of requestAndLimit) *resource.Quantity { return of.limit }),
		}
		return j.in.Limits.outside(corev1.LimitTypePod, name, together)
	}
	after := j.wholePod(name)
	if why := refusesPodLevel(name, after); why != "" {
		return why
	}
	return j.in.Limits.outside(corev1.LimitTypePod, name,
		requestAndLimit{amountIn(sums.PodRequests(after, sums.PodResourcesOptions{}), name), amountIn(sums.PodLimits(after, sums.PodResourcesOptions{}), name)})
}

// sum adds up what containers have, as the LimitRanger plugin does: sidecars count beside the
// containers, and what an init container has while it runs is the least. nil is nothing.
func (j judged) sum(name corev1.ResourceName, which func(requestAndLimit) *resource.Quantity) *resource.Quantity {
	var total, sidecars, peak resource.Quantity
	has := false
	for i := range j.in.Pod.Spec.Containers {
		if q := which(j.of(name, i)); q != nil {
			total.Add(*q)
			has = true
		}
	}
	for i := range j.in.Pod.Spec.InitContainers {
		q := which(j.ofInit(name, i))
		if q == nil {
			continue
		}
		has = true
		now := sidecars.DeepCopy()
		now.Add(*q)
		if keepsRunning(&j.in.Pod.Spec.InitContainers[i]) {
			sidecars = now
			total.Add(*q)
		}
		if now.Cmp(peak) > 0 {
			peak = now
		}
	}
	if !has {
		return nil
	}
	if peak.Cmp(total) > 0 {
		return &peak
	}
	return &total
}

// wholePod is a pod with pod-level resources, of one resource, with what API servers fill in.
func (j judged) wholePod(name corev1.ResourceName) *corev1.Pod {
	after := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: slices.Clone(j.in.Pod.Spec.InitContainers), Containers: make([]corev1.Container, len(j.in.Pod.Spec.Containers))}}
	for i := range after.Spec.Containers {
		after.Spec.Containers[i].Resources = j.of(name, i).list(name)
	}
	for i := range after.Spec.InitContainers {
		after.Spec.InitContainers[i].Resources = j.ofInit(name, i).list(name)
	}
	requests, limits, _ := podResourcesOf(j.in.Pod)
	if j.in.Creating {
		requests, limits = j.in.Pod.Spec.Resources.Requests, j.in.Pod.Spec.Resources.Limits
	}
	whole := requestAndLimit{amountIn(requests, name), amountIn(limits, name)}
	if c := j.change.Pod; c != nil {
		whole = whole.written(name, c)
	}
	list := whole.list(name)
	after.Spec.Resources = &list
	poddefaults.PodLevel(&after.Spec)
	return after
}

// written is what a change makes of a request and a limit.
func (a requestAndLimit) written(name corev1.ResourceName, c *ResourceChange) requestAndLimit {
	if q, ok := c.Requests.Of(name); ok {
		a.request = &q
	}
	if q, ok := c.Limits.Of(name); ok {
		a.limit = &q
	}
	return a
}

// list are the amounts as resources of a container.
func (a requestAndLimit) list(name corev1.ResourceName) (out corev1.ResourceRequirements) {
	if a.request != nil {
		out.Requests = corev1.ResourceList{name: a.request.DeepCopy()}
	}
	if a.limit != nil {
		out.Limits = corev1.ResourceList{name: a.limit.DeepCopy()}
	}
	return out
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
	c.Notes = append(kept(c.Notes, func(note string) bool { return !isAbout(note, name) }), string(name)+" is not changed: "+why)
	c.Withheld = strings.TrimPrefix(c.Withheld+"; "+why, "; ")
	c.Target, c.LowerBound, c.UpperBound = without(c.Target, name), without(c.LowerBound, name), without(c.UpperBound, name)
}

func kept[T any](list []T, keep func(T) bool) (out []T) {
	for _, item := range list {
		if keep(item) {
			out = append(out, item)
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

// refusesPodLevel is why the resources of a pod as a whole do not go with those of its containers
// (KEP-2837).
func refusesPodLevel(name corev1.ResourceName, pod *corev1.Pod) string {
	request, limit := amountIn(pod.Spec.Resources.Requests, name), amountIn(pod.Spec.Resources.Limits, name)
	together := amountIn(sums.AggregateContainerRequests(pod, sums.PodResourcesOptions{}), name)
	if request != nil && together != nil && together.Cmp(*request) > 0 {
		return fmt.Sprintf("its containers would request %s of %s together but the pod %s", together, name, request)
	}
	if request != nil && limit != nil && request.Cmp(*limit) > 0 {
		return fmt.Sprintf("the pod's %s request of %s would exceed its limit of %s", name, request, limit)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if of := amountIn(list[i].Resources.Limits, name); of != nil && limit != nil && of.Cmp(*limit) > 0 {
				return fmt.Sprintf("the %s limit of a container would be %s and that of the pod %s", name, of, limit)
			}
		}
	}
	return ""
}

// amountIn is the amount of a resource in a list, or nil.
func amountIn(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	q, ok := list[name]
	if !ok {
		return nil
	}
	return &q
}

// boundsPods reports whether a LimitRange bounds pods.
func (l *LimitRanges) boundsPods() bool {
	return l != nil && slices.ContainsFunc(l.items, func(item corev1.LimitRangeItem) bool { return item.Type == corev1.LimitTypePod })
}

// outside is what the LimitRanger plugin has against a request and a limit; nil is none.
func (l *LimitRanges) outside(kind corev1.LimitType, name corev1.ResourceName, a requestAndLimit) string {
	request, limit := a.request, a.limit
	if l == nil {
		return ""
	}
	for i := range l.items {
		item := &l.items[i]
		if item.Type != kind {
			continue
		}
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

// inUnits are a request, a limit and a bound in units in which the plugin compares them:
// thousandths, unless one is too large for that. nil counts as 0.
func inUnits(request, limit *resource.Quantity, bound resource.Quantity) (asked, used, bounded int64) {
	none := &resource.Quantity{}
	request, limit = cmp.Or(request, none), cmp.Or(limit, none)
	asked, used, bounded = request.Value(), limit.Value(), bound.Value()
	if max(asked, used, bounded) <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), bound.MilliValue()
	}
	return asked, used, bounded
}

// exceeds compares a ratio as the plugin does, in floating point, because that decides. Without a
// request or a limit, every ratio is too much.
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
