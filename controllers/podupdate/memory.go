package podupdate

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// CacheTime is the longest that a cache may take to show what was done to a pod.
const CacheTime = time.Minute

// Memory is what an updater knows of earlier cycles: the requests that it sent, and what became of them. The rules say what follows
// from it. Pods are known by their UID: a new pod of the same name starts afresh (UPSTREAM.md Appendix B 9). It is lost with the
// process. The zero value knows nothing. It is safe for concurrent use.
type Memory struct {
	Breaker Breaker // evictions without effect

	mu     sync.Mutex
	pods   map[types.UID]podMemory
	owners map[target.Key]refused // refusals that are about all pods of a direct owner
	rates  rates
}

// podMemory is what is remembered of one pod.
type podMemory struct {
	resize  resizeUnderWay
	sent    *sentResize // the last resize that the cache may not show yet; nil = none
	resized time.Time   // when the last resize was carried out, or may have been; zero = there was none
	left    time.Time   // when it was evicted, or may have been; zero = it was not
	refused refused     // refusals that are about this pod alone

	// What a resize asked for that was more than the node has, so that it is not tried again and again (AEP-8818); nil = there was
	// none. After a restart it is tried once more.
	infeasible     facts.Requests
	skipIsReported bool // that the pod is skipped for it
}

// resizeUnderWay is a pod's resize in progress.
type resizeUnderWay struct {
	since      time.Time // when it was first seen; zero = there is none
	replaced   int       // resizes that replaced others
	replacedAt time.Time
}

// sentResize is a resize that was carried out, or may have been. With a short interval or a slow API server, the next cycle would
// send it once more and spend the group's budget twice.
type sentResize struct {
	generation int64     // of the pod that was decided on; a resize raises it
	removes    []string  // names of annotations that are removed after it
	at         time.Time // zero = it is about to be sent
}

func (s *sentResize) unseen(pod *corev1.Pod, now time.Time) bool {
	switch {
	case s == nil || !s.at.IsZero() && now.Sub(s.at) >= CacheTime:
		return false
	case len(s.removes) > 0:
		return slices.ContainsFunc(s.removes, func(name string) bool { _, there := pod.Annotations[name]; return there })
	}
	return pod.Generation <= s.generation
}

// refused counts the consecutive refusals of the API server. The rules say which count, and how long they keep pods from being tried
// again.
type refused struct{ evictions, resizes backOff }

type backOff struct {
	facts.Refusals           // but for their age
	last           time.Time // the cycle of the last one
}

func (b *backOff) add(why facts.Refusal, message string, now time.Time) {
	*b = backOff{Refusals: facts.Refusals{Times: b.Times + 1, Last: why, Message: message}, last: now}
}

// at returns the refusals with their age.
func (b backOff) at(now time.Time) facts.Refusals {
	if b.Times > 0 {
		b.Age = now.Sub(b.last)
	}
	return b.Refusals
}

func (r refused) at(now time.Time) (evictions, resizes facts.Refusals) {
	return r.evictions.at(now), r.resizes.at(now)
}

// Look forgets pods and owners that are gone, and matches new pods with those that were evicted. pods are
// all that there are.
func (m *Memory) Look(pods []*corev1.Pod, now time.Time) (isLive func(types.UID) bool) {
	live, owners := make(map[types.UID]bool, len(pods)), map[target.Key]bool{}
	for _, pod := range pods {
		live[pod.UID] = true
		owner, _ := target.DirectOwner(pod)
		owners[owner] = true
	}
	m.mu.Lock()
	for uid := range m.pods {
		if !live[uid] {
			delete(m.pods, uid)
		}
	}
	for owner := range m.owners {
		if !owners[owner] {
			delete(m.owners, owner)
		}
	}
	m.rates.look(owners, now)
	m.mu.Unlock()
	m.Breaker.look(pods, live, now)
	return func(pod types.UID) bool { return live[pod] }
}

// Len is how many pods and owners are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pods) + len(m.owners) + len(m.rates.of) + m.Breaker.Len()
}

func (m *Memory) pod(uid types.UID) podMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid]
}

// change changes what is remembered of a pod.
func (m *Memory) change(uid types.UID, f func(*podMemory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]podMemory{}
	}
	p := m.pods[uid]
	f(&p)
	m.pods[uid] = p
}

// changeOwner changes which refusals are remembered of all pods of an owner.
func (m *Memory) changeOwner(owner target.Key, f func(*refused)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owners == nil {
		m.owners = map[target.Key]refused{}
	}
	r := m.owners[owner]
	f(&r)
	if r.evictions.Times == 0 && r.resizes.Times == 0 {
		delete(m.owners, owner)
		return
	}
	m.owners[owner] = r
}

// NoteResize notes whether a pod is being resized.
func (m *Memory) NoteResize(pod *corev1.Pod, now time.Time) {
	before := m.pod(pod.UID).resize
	if resize := before.on(pod, now); resize != before {
		m.change(pod.UID, func(p *podMemory) { p.resize = resize })
	}
}

// on is the resize in progress of a pod. One that was not noted is new.
func (r resizeUnderWay) on(pod *corev1.Pod, now time.Time) resizeUnderWay {
	if status, _, _ := facts.ResizeOf(pod); status == facts.NoResize {
		return resizeUnderWay{}
	}
	if r.since.IsZero() {
		r.since = now
	}
	return r
}

// NoteSent notes that a resize of a pod was carried out, or may have been. With the zero time it is about to be sent, and takes the
// pod's place in the budget of its group already. removes are the names of annotations that are removed after it.
func (m *Memory) NoteSent(pod *corev1.Pod, removes []string, at time.Time) {
	m.change(pod.UID, func(p *podMemory) { p.sent = &sentResize{generation: pod.Generation, removes: removes, at: at} })
	if !at.IsZero() {
		m.change(pod.UID, func(p *podMemory) { p.resized = at })
		m.count(pod, facts.Updates{Resizes: 1}, at)
	}
}

// count counts what was done to a pod.
func (m *Memory) count(pod *corev1.Pod, u facts.Updates, at time.Time) {
	owner, _ := target.DirectOwner(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rates.add(owner, u, at)
}

// NoteUnsent notes that what was about to be sent was not carried out.
func (m *Memory) NoteUnsent(pod types.UID) { m.change(pod, func(p *podMemory) { p.sent = nil }) }

// ResizeUnseen reports whether a pod is as it was before its resize, because the cache does not show that yet.
func (m *Memory) ResizeUnseen(pod *corev1.Pod, now time.Time) bool {
	return m.pod(pod.UID).sent.unseen(pod, now)
}

// NoteEvicted notes that a pod was evicted, or that the eviction was not answered. It counts as gone until the cache shows the outcome
// or CacheTime has passed.
func (m *Memory) NoteEvicted(pod *corev1.Pod, now time.Time) {
	m.change(pod.UID, func(p *podMemory) { p.left = now })
	m.count(pod, facts.Updates{Evictions: 1}, now)
}

// IsGone reports whether a pod was evicted, or may have been, whatever the cache shows.
func (m *Memory) IsGone(pod types.UID, now time.Time) bool {
	left := m.pod(pod).left
	return !left.IsZero() && now.Sub(left) < CacheTime
}

// Infeasible is what the last infeasible resize of a pod asked for; nil when there was none.
func (m *Memory) Infeasible(pod types.UID) facts.Requests { return m.pod(pod).infeasible }

// ReportInfeasible notes that a pod is skipped because its resize is infeasible, and returns true the first time.
func (m *Memory) ReportInfeasible(pod types.UID) (first bool) {
	m.change(pod, func(p *podMemory) {
		first = p.infeasible != nil && !p.skipIsReported
		p.skipIsReported = true
	})
	return first
}

// Refused is what the API server refused to a pod, for reasons that are about it alone.
func (m *Memory) Refused(pod types.UID, now time.Time) (evictions, resizes facts.Refusals) {
	return m.pod(pod).refused.at(now)
}

// Resized is when the last resize of a pod was carried out, or may have been; zero = there was none.
func (m *Memory) Resized(pod types.UID) time.Time { return m.pod(pod).resized }

// RecallRates adds to a group what was done to its pods.
func (m *Memory) RecallRates(owner target.Key, g *facts.Group, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rates.addTo(owner, g, now)
}

// RecallGroups adds to groups what was done to their pods, and what the API server refused to all of them.
func (m *Memory) RecallGroups(groups map[target.Key]*facts.Group, now time.Time) {
	for owner := range groups {
		m.recallGroup(owner, groups[owner], now)
	}
}

func (m *Memory) recallGroup(owner target.Key, g *facts.Group, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.Evictions, g.Resizes = m.owners[owner].at(now)
	m.rates.addTo(owner, g, now)
}

// recall adds to a request what is remembered of its pod.
func (m *Memory) recall(r *Request) {
	p := m.pod(r.Pod.UID)
	resize := p.resize.on(r.Pod, r.Now)
	r.ResizeSeen, r.Replaced, r.ReplacedAt, r.Infeasible = resize.since, resize.replaced, resize.replacedAt, p.infeasible
}

// about adds to a candidate what is remembered of its pod and is no part of a request.
func (m *Memory) about(c *Candidate, now time.Time) {
	pod := c.Request.Pod
	p := m.pod(pod.UID)
	c.Evictions, c.Resizes = p.refused.at(now)
	c.Resized = p.resized
	if p.sent.unseen(pod, now) {
		c.Resize = facts.Resize{Status: facts.ResizeSent}
	}
}

// resized notes that a resize was carried out, at a time of the cycle that started at now.
func (m *Memory) resized(c *Candidate, at, now time.Time) {
	m.NoteSent(c.Request.Pod, nil, at)
	m.change(c.Request.Pod.UID, func(p *podMemory) {
		p.infeasible, p.refused.resizes = nil, backOff{}
		if !p.resize.since.IsZero() {
			p.resize.replaced++
			p.resize.replacedAt = now
		}
	})
	m.changeOwner(c.Owner, func(r *refused) { r.resizes = backOff{} })
}

// evicted notes that an eviction was carried out.
func (m *Memory) evicted(c *Candidate, at time.Time) {
	m.NoteEvicted(c.Request.Pod, at)
	m.change(c.Request.Pod.UID, func(p *podMemory) { p.infeasible, p.refused.evictions = nil, backOff{} })
	m.changeOwner(c.Owner, func(r *refused) { r.evictions = backOff{} })
}

// wasInfeasible notes what an infeasible resize asked for.
func (m *Memory) wasInfeasible(pod types.UID, asked facts.Requests) {
	m.change(pod, func(p *podMemory) { p.infeasible, p.skipIsReported = asked, false })
}

// wasRefused remembers a refusal against the pod, or against all pods of its owner, if the rules say so, and updates the group. do
// is the outcome of pod.refused.
func (m *Memory) wasRefused(c *Candidate, do string, resize bool, answer Answer, now time.Time) {
	add := func(r *refused) {
		if resize {
			r.resizes.add(answer.Refused, answer.Message, now)
		} else {
			r.evictions.add(answer.Refused, answer.Message, now)
		}
	}
	switch do {
	case facts.DoBackOff:
		m.change(c.Request.Pod.UID, func(p *podMemory) { add(&p.refused) })
	case facts.DoBackOffWorkload:
		m.changeOwner(c.Owner, add)
	}
	m.recallGroup(c.Owner, c.Group, now)
}
