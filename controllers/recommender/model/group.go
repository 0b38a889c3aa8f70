package model

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// group is all pods of a namespace with the same labels: their containers of one name share an
// aggregate (UPSTREAM.md §2.11). It outlives its pods as long as it has aggregates.
type group struct {
	key        string
	labels     labels.Set
	aggregates map[string]*Aggregate // by container
	pods       []*pod
	running    tally       // its pods that have neither succeeded nor failed
	finished   tally       // its other pods
	workloads  []*Workload // that select these labels, in the order of vpa.order

	unusedSince time.Time // that Tidy found neither a pod nor a workload; zero = it did
}

// tally counts pods.
type tally struct {
	pods        int
	containers  map[string]int // pods that have a container, by container
	cpu, memory int            // pods with requests of their own
}

// add counts a pod, or, with -1, counts it no longer.
func (t *tally) add(p *pod, by int) {
	t.pods += by
	for _, c := range p.containers {
		if t.containers == nil {
			t.containers = map[string]int{}
		}
		if t.containers[c.name] += by; t.containers[c.name] == 0 {
			delete(t.containers, c.name)
		}
	}
	if p.spec.cpu {
		t.cpu += by
	}
	if p.spec.memory {
		t.memory += by
	}
}

// tallyOf counts a running pod apart from one that has finished.
func (g *group) tallyOf(p *pod) *tally {
	if p.active {
		return &g.running
	}
	return &g.finished
}

// has reports whether a pod of the group has a container, even one that has finished.
func (g *group) has(container string) bool {
	return g.running.containers[container]+g.finished.containers[container] > 0
}

// namespace indexes groups and workloads by labels, so that neither is matched with all of the
// other.
type namespace struct {
	groups  map[string]*group            // by key
	labeled map[label]map[*group]bool    // groups by each of their labels
	asking  map[label]map[*Workload]bool // workloads by a label that their selector asks for
	others  map[*Workload]bool           // workloads whose selector asks for no label in particular
}

type label struct{ key, value string }

func newNamespace() *namespace {
	return &namespace{
		groups: map[string]*group{}, labeled: map[label]map[*group]bool{},
		asking: map[label]map[*Workload]bool{}, others: map[*Workload]bool{},
	}
}

// put adds to a set in a map of sets.
func put[K, V comparable](sets map[K]map[V]bool, key K, value V) {
	if sets[key] == nil {
		sets[key] = map[V]bool{}
	}
	sets[key][value] = true
}

// drop takes from a set in a map of sets.
func drop[K, V comparable](sets map[K]map[V]bool, key K, value V) {
	delete(sets[key], value)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// group finds or makes the group of a set of labels.
func (n *namespace) group(set labels.Set, key string) *group {
	if g := n.groups[key]; g != nil {
		return g
	}
	g := &group{key: key, labels: set, aggregates: map[string]*Aggregate{}}
	n.groups[key] = g
	for k, v := range set {
		put(n.labeled, label{k, v}, g)
	}
	n.eachSelecting(set, func(w *Workload) bool {
		g.workloads = append(g.workloads, w)
		return true
	})
	slices.SortFunc(g.workloads, inOrder)
	for _, w := range g.workloads {
		w.enter(g)
	}
	return g
}

// eachSelecting calls f with the workloads that select pods of these labels, in no order, until f
// says no.
func (n *namespace) eachSelecting(set labels.Set, f func(*Workload) bool) {
	for k, v := range set {
		for w := range n.asking[label{k, v}] {
			if w.selector.Matches(set) && !f(w) {
				return
			}
		}
	}
	for w := range n.others {
		if w.selector.Matches(set) && !f(w) {
			return
		}
	}
}

// link makes a group part of a workload that it is no part of yet.
func link(g *group, w *Workload) {
	i, _ := slices.BinarySearchFunc(g.workloads, w, inOrder)
	g.workloads = slices.Insert(g.workloads, i, w)
	w.enter(g)
}

// enter inserts a group in order.
func (w *Workload) enter(g *group) {
	i, _ := slices.BinarySearchFunc(w.groups, g.key, func(g *group, key string) int { return strings.Compare(g.key, key) })
	w.groups = slices.Insert(w.groups, i, g)
	w.regrouped(g)
}

// regrouped records that a group was added to or removed from a workload.
func (w *Workload) regrouped(g *group) {
	w.changed = true
	for name, a := range g.aggregates {
		if a.known() {
			w.touch(name)
		}
	}
}

func unlink(g *group, w *Workload) {
	g.workloads = slices.DeleteFunc(g.workloads, func(workload *Workload) bool { return workload == w })
	w.groups = slices.DeleteFunc(w.groups, func(other *group) bool { return other == g })
	w.regrouped(g)
}

// remove forgets a group.
func (n *namespace) remove(g *group) {
	for _, w := range slices.Clone(g.workloads) {
		unlink(g, w)
	}
	for k, v := range g.labels {
		drop(n.labeled, label{k, v}, g)
	}
	delete(n.groups, g.key)
}

// choose links a workload with the groups that its selector matches.
func (n *namespace) choose(w *Workload) {
	asked, one := n.mostSelective(w.selector)
	if !one {
		n.others[w] = true
		for _, g := range n.groups {
			if w.selector.Matches(g.labels) {
				link(g, w)
			}
		}
		return
	}
	put(n.asking, asked, w)
	for g := range n.labeled[asked] {
		if w.selector.Matches(g.labels) {
			link(g, w)
		}
	}
}

// leave is the opposite of choose.
func (n *namespace) leave(w *Workload) {
	for _, g := range slices.Clone(w.groups) {
		unlink(g, w)
	}
	delete(n.others, w)
	if requirements, selectable := w.selector.Requirements(); selectable {
		for _, l := range demanded(requirements) {
			drop(n.asking, l, w)
		}
	}
}

// mostSelective is the label that the selector demands and that the fewest groups have and the fewest
// workloads are found by.
func (n *namespace) mostSelective(s labels.Selector) (best label, one bool) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return label{}, false
	}
	for _, l := range demanded(requirements) {
		if !one || len(n.labeled[l])+len(n.asking[l]) < len(n.labeled[best])+len(n.asking[best]) {
			best, one = l, true
		}
	}
	return best, one
}

// demanded lists the labels without which a selector cannot match.
func demanded(requirements labels.Requirements) []label {
	var out []label
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				out = append(out, label{r.Key(), values[0]})
			}
		}
	}
	return out
}

// touch records a change of the usage of a container.
func (g *group) touch(container string) {
	for _, w := range g.workloads {
		w.touch(container)
	}
}

// changed records a change of the pods of the group.
func (g *group) changed() {
	for _, w := range g.workloads {
		w.changed = true
	}
}
