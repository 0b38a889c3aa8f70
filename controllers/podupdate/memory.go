package podupdate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate/remembered"
	"github.com/celvpa/celvpa/controllers/target"
)

// Memory is what an updater knows of earlier cycles: the requests that it sent, and what became of them.
// The zero value knows nothing. It is safe for concurrent use.
type Memory struct {
	Resizing   remembered.ResizeClock // resizes that are under way
	Sent       remembered.Sent        // resizes that the cache does not show yet
	Infeasible remembered.Infeasible  // resizes for which the nodes are too small
	BackOffs   remembered.BackOffs    // requests that the API server refused
	Breaker    remembered.Breaker     // evictions without effect
}

// Look forgets pods and owners that are gone, and matches new pods with those that were evicted. pods are
// all that there are.
func (m *Memory) Look(pods []*corev1.Pod, now time.Time) (isLive func(types.UID) bool) {
	live := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		live[pod.UID] = true
	}
	isLive = func(pod types.UID) bool { return live[pod] }
	m.Resizing.Keep(isLive)
	m.Sent.Keep(isLive)
	m.Infeasible.Keep(isLive)
	m.BackOffs.Keep(pods, live)
	m.Breaker.Look(pods, live, now)
	return isLive
}

// Len is how much is remembered.
func (m *Memory) Len() int {
	return m.Resizing.Len() + m.Sent.Len() + m.Infeasible.Len() + m.BackOffs.Evictions.Len() + m.BackOffs.Resizes.Len() + m.Breaker.Len()
}

// RecallGroups adds to groups what the API server refused to their pods.
func (m *Memory) RecallGroups(groups map[target.Key]*facts.Group, now time.Time) {
	for owner, g := range groups {
		g.Evictions, g.Resizes = m.BackOffs.Of(remembered.RefusedTo{Owner: owner}, now)
	}
}

// recall adds to a request what is remembered of its pod.
func (m *Memory) recall(r *Request) {
	resize, _ := m.Resizing.At(r.Pod, r.Now)
	r.ResizeSeen, r.Replaced, r.ReplacedAt = resize.Since, resize.Replaced, resize.ReplacedAt
	r.Infeasible = m.Infeasible.Tried(r.Pod.UID)
}

// about adds to a candidate what is remembered of its pod and is no part of a request.
func (m *Memory) about(c *Candidate, now time.Time) {
	c.Evictions, c.Resizes = m.BackOffs.Of(remembered.RefusedTo{Pod: c.Request.Pod.UID}, now)
	if m.Sent.Unseen(c.Request.Pod, now) { // the cached pod is from before the resize
		c.Resize = facts.Resize{Status: facts.ResizeSent}
	}
}

// refused remembers a refusal if the rules say so, and updates the group. The verdict is that of
// pod.refused.
func (m *Memory) refused(c *Candidate, do string, resize bool, answer Answer, now time.Time) {
	to, counts := remembered.RefusedBy(do, c.Owner, c.Request.Pod.UID)
	if !counts {
		return
	}
	of := remembered.RefusedTo{Owner: c.Owner}
	if resize {
		m.BackOffs.Resizes.Add(to, answer.Refused, answer.Message, now)
		_, c.Group.Resizes = m.BackOffs.Of(of, now)
		return
	}
	m.BackOffs.Evictions.Add(to, answer.Refused, answer.Message, now)
	c.Group.Evictions, _ = m.BackOffs.Of(of, now)
}
