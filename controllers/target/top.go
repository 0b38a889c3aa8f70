package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Patience is how long the review of a pod waits for scales that are not in memory. Usually an API
// server answers within a few milliseconds, and the first pod of an owner gets its resources as the
// next ones do. One that does not answer delays a pod no longer than this, which is far below the
// timeout of a webhook, and the next pods not at all: see Scales.
const Patience = time.Second

// search is one walk along owner references. With the Resolver only, it waits for API servers.
type search struct {
	*Resolver
	timed bool                   // use answers that are in memory, or arrive before end
	end   time.Time              // deadline of a timed search
	asks  func(chain []Key) bool // see Top; nil = always
	chain []Key                  // the owners so far; of a timed search, or one that records them
	// records: Owners asks for the chain.
	records bool

	offline bool // use what is in memory only
	lacked  bool // it was not enough for an offline search
}

// question is a look-up of a controller.
type question struct {
	as purpose
	// uid is that of an owner reference: the object existed when the reference was written, so that
	// older answers do not count. Empty = any object of the name.
	uid types.UID
}

// What an API server stores is no longer than this, in bytes. An owner reference in a pod under
// review may be, and what it names becomes a key in memory.
const (
	maxNamespace  = 63
	maxAPIVersion = 253 + 1 + 63 // group/version
	maxKind       = 63
	maxName       = 253
	maxUID        = 128
)

// possible reports whether the object in question can exist.
func (q question) possible(k Key) bool {
	return len(k.Namespace) <= maxNamespace && len(k.APIVersion) <= maxAPIVersion && len(k.Kind) <= maxKind && len(k.Name) <= maxName && len(q.uid) <= maxUID
}

// errNobodys ends a search whose result does not matter.
var errNobodys = errors.New("no VerticalPodAutoscaler can be meant")

// Top is the topmost well-known or scalable controller of a pod.
type Top struct {
	Key

	search     *search
	controller controller
}

// Top finds the topmost controller of a new pod; nil when it has none that a VPA could have as its
// target: no owner controls it, or a Node does (UPSTREAM.md §4.2). It answers from memory and waits
// at most Patience for what is missing; then it returns an error, and the next pod may find the
// answer.
//
// asks is called before the look-up of a custom owner that is not in memory. chain are the owners
// from the pod upwards, that one last. If it returns false, there is no top: many pods have owners,
// such as workflows, that no VPA targets. nil = always true.
func (r *Resolver) Top(ctx context.Context, pod *corev1.Pod, asks func(chain []Key) bool) (*Top, error) {
	s := &search{Resolver: r, timed: true, asks: asks}
	if r.Scales != nil {
		s.end = r.Scales.clock.Now().Add(Patience)
	}
	top, err := s.top(ctx, pod)
	if errors.Is(err, errNobodys) {
		return nil, nil
	}
	return top, err
}

// Topmost is Top for those who have the time to wait for API servers.
func (r *Resolver) Topmost(ctx context.Context, pod *corev1.Pod) (*Top, error) {
	return (&search{Resolver: r}).top(ctx, pod)
}

// Owners is Topmost with all controllers of the pod, from its direct owner upwards. The last one may be above
// the topmost, if it is neither well known nor scalable.
func (r *Resolver) Owners(ctx context.Context, pod *corev1.Pod) (*Top, []Key, error) {
	s := &search{Resolver: r, records: true}
	top, err := s.top(ctx, pod)
	return top, s.chain, err
}

// Selects reports whether a VPA has this controller as its target, by kind and name, and whether
// the target's selector matches a pod of it. The apiVersion is not compared (UPSTREAM.md §4.2).
// When the selector is not known it says why.
func (t *Top) Selects(ctx context.Context, v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod) (bool, *Unsupported) {
	of := Of(v)
	if v.Spec.TargetRef == nil || of.Namespace != t.Namespace || of.Kind != t.Kind || of.Name != t.Name || pod.Namespace != t.Namespace {
		return false, nil
	}
	if t.controller.wellKnown { // the walk has found the only one of the name
		selects, err := t.search.selects(t.Key, &t.controller, pod.Labels)
		if err != nil {
			return false, &Unsupported{Message: fmt.Sprintf("Cannot read targetRef. Reason: %v", err)}
		}
		return selects, nil
	}
	var uid types.UID
	if of.groupKind() == t.groupKind() { // the object of the owner reference, possibly in another version
		uid = t.controller.uid
	}
	selector, why := t.search.selector(ctx, v, uid)
	return why == nil && selector.Matches(labels.Set(pod.Labels)), why
}

// top walks from a pod upwards.
func (s *search) top(ctx context.Context, pod *corev1.Pod) (*Top, error) {
	owner := ControllerOf(pod.OwnerReferences)
	if owner == nil || owner.Kind == node {
		return nil, nil
	}
	start := Key{Namespace: pod.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}
	c, found, err := s.get(ctx, start, question{as: asOwner, uid: owner.UID})
	switch {
	case err != nil || found:
	case c.scaleless:
		err = fmt.Errorf("the kind of %s %s/%s has no scale subresource, so no VPA can have it as its target", start.Kind, start.Namespace, start.Name)
	default:
		err = fmt.Errorf("%s %s/%s does not exist or cannot be scaled", start.Kind, start.Namespace, start.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the topmost controller of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	top := &Top{search: s}
	if top.Key, top.controller, err = s.above(ctx, start, c); err != nil {
		return nil, fmt.Errorf("finding the topmost controller of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return top, nil
}

// above walks owner references upwards from a controller that has been read, to the highest one
// that is well known or scalable.
func (s *search) above(ctx context.Context, top Key, c controller) (Key, controller, error) {
	start := top
	for range maxOwners {
		owner := ControllerOf(c.owners)
		if owner == nil {
			return top, c, nil
		}
		at := Key{Namespace: top.Namespace, APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name}
		above, found, err := s.get(ctx, at, question{as: asOwner, uid: owner.UID})
		if err != nil {
			return Key{}, controller{}, err // unknown whether the parent counts; a guess could hide the pod from its VPA
		}
		if !found {
			return top, c, nil
		}
		top, c = at, above
	}
	return Key{}, controller{}, fmt.Errorf("the owner references of %s form a cycle", start)
}

// get reads a controller; found is false when it does not exist or is neither well known nor
// scalable.
func (s *search) get(ctx context.Context, k Key, q question) (c controller, found bool, err error) {
	if !q.possible(k) {
		return controller{}, false, nil
	}
	if (s.timed || s.records) && q.as == asOwner {
		s.chain = append(s.chain, k)
	}
	if _, ok := wellKnown[k.Kind]; ok {
		if c, found, err = s.readKnown(ctx, k); found || err != nil || !s.timed || !k.builtIn() || q.uid == "" || s.Scales == nil {
			return c, found, err
		}
		err = s.Scales.awaitKnown(ctx, s.end, func() (bool, error) {
			c, found, err = s.readKnown(ctx, k)
			return found, err
		})
		return c, found, err
	}
	if k.Kind == node || !k.nameable() {
		return controller{}, false, nil
	}
	defer func() { c.uid = cmp.Or(c.uid, q.uid) }() // not every scale has that of its object
	switch {
	case s.offline:
		return s.known(k, q)
	case !s.timed && s.Scales != nil:
		return s.Scales.get(ctx, k, q)
	case !s.timed:
		return readScale(ctx, s.Client, k)
	}
	if s.Scales != nil {
		if c, found, known, err := s.Scales.recall(k, q); known {
			return c, found, err
		}
	}
	if q.as == asOwner && s.asks != nil && !s.asks(s.chain) {
		return controller{}, false, errNobodys
	}
	if s.Scales == nil {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		return readScale(ctx, s.Client, k)
	}
	return s.Scales.soon(ctx, k, q, s.end)
}

// known is get for an offline search.
func (s *search) known(k Key, q question) (c controller, found bool, err error) {
	known := false
	if s.Scales != nil {
		c, found, known, err = s.Scales.known(k, q)
	}
	if !known {
		s.lacked, err = true, errNotYet
	}
	return c, found, err
}
