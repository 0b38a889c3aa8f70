package updater

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// backOffs remember the evictions and resizes that the API server refused. The rules say which
// refusals count, and how long they keep pods from being tried again.
type backOffs struct {
	evictions, resizes refusals
}

// refusedTo is what a refusal is about: all pods of a direct owner, or one pod.
type refusedTo struct {
	owner target.Key
	pod   types.UID
}

type backOff struct {
	facts.Refusals           // but for their age
	last           time.Time // the cycle of the last one
}

type refusals struct {
	memory[refusedTo, backOff]
}

// add counts a refusal.
func (r *refusals) add(to refusedTo, why facts.Refusal, message string, now time.Time) {
	r.change(to, func(before backOff, _ bool) (backOff, bool) {
		return backOff{Refusals: facts.Refusals{Times: before.Times + 1, Last: why, Message: message}, last: now}, true
	})
}

// clear forgets the refusals to a pod and to its owner: a request was carried out.
func (r *refusals) clear(owner target.Key, pod types.UID) {
	r.forget(refusedTo{owner: owner})
	r.forget(refusedTo{pod: pod})
}

// at returns the refusals with their age.
func (r *refusals) at(to refusedTo, now time.Time) facts.Refusals {
	b, _ := r.recall(to)
	if b.Times > 0 {
		b.Age = now.Sub(b.last)
	}
	return b.Refusals
}

// of returns what was refused to all pods of an owner, or to a pod.
func (b *backOffs) of(to refusedTo, now time.Time) (evictions, resizes facts.Refusals) {
	return b.evictions.at(to, now), b.resizes.at(to, now)
}

// keep forgets pods that are gone, and owners without pods.
func (b *backOffs) keep(owners map[target.Key]bool, pods map[types.UID]bool) {
	live := func(to refusedTo) bool { return owners[to.owner] || pods[to.pod] }
	b.evictions.keep(live)
	b.resizes.keep(live)
}
