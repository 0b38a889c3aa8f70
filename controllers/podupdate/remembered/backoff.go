package remembered

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// BackOffs remember the evictions and resizes that the API server refused. The rules say which
// refusals count, and how long they keep pods from being tried again.
type BackOffs struct {
	Evictions, Resizes Refusals
}

// RefusedTo is what a refusal is about: all pods of a direct owner, or one pod.
type RefusedTo struct {
	Owner target.Key
	Pod   types.UID
}

// RefusedBy says what a refused request counts against, by the outcome of pod.refused: the pod, or
// all pods of its direct owner. counts is false if the refusal is not remembered.
func RefusedBy(do string, owner target.Key, pod types.UID) (to RefusedTo, counts bool) {
	switch do {
	case facts.DoBackOff:
		return RefusedTo{Pod: pod}, true
	case facts.DoBackOffWorkload:
		return RefusedTo{Owner: owner}, true
	}
	return RefusedTo{}, false
}

type backOff struct {
	facts.Refusals           // but for their age
	last           time.Time // the cycle of the last one
}

// Refusals counts the consecutive refusals of evictions, or of resizes, by what they are about.
type Refusals struct {
	Memory[RefusedTo, backOff]
}

// Add counts a refusal.
func (r *Refusals) Add(to RefusedTo, why facts.Refusal, message string, now time.Time) {
	r.change(to, func(before backOff, _ bool) (backOff, bool) {
		return backOff{Refusals: facts.Refusals{Times: before.Times + 1, Last: why, Message: message}, last: now}, true
	})
}

// Clear forgets the refusals to a pod and to its owner: a request was carried out.
func (r *Refusals) Clear(owner target.Key, pod types.UID) {
	r.Forget(RefusedTo{Owner: owner})
	r.Forget(RefusedTo{Pod: pod})
}

// at returns the refusals with their age.
func (r *Refusals) at(to RefusedTo, now time.Time) facts.Refusals {
	b, _ := r.Recall(to)
	if b.Times > 0 {
		b.Age = now.Sub(b.last)
	}
	return b.Refusals
}

// Of returns what was refused to all pods of an owner, or to a pod.
func (b *BackOffs) Of(to RefusedTo, now time.Time) (evictions, resizes facts.Refusals) {
	return b.Evictions.at(to, now), b.Resizes.at(to, now)
}

// Keep forgets pods that are gone, and owners without pods. live are the UIDs of the pods.
func (b *BackOffs) Keep(pods []*corev1.Pod, live map[types.UID]bool) {
	if b.Evictions.Len() == 0 && b.Resizes.Len() == 0 {
		return
	}
	owners := map[target.Key]bool{}
	for _, pod := range pods {
		owner, _ := target.DirectOwner(pod)
		owners[owner] = true
	}
	keep := func(to RefusedTo) bool { return owners[to.Owner] || live[to.Pod] }
	b.Evictions.Keep(keep)
	b.Resizes.Keep(keep)
}
