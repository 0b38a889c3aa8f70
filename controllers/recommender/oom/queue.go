package oom

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// maxWaiting is how many reports of one source wait for a cycle: 5000, as upstream.
const maxWaiting = 5000

// queue holds the reports of one source until the next cycle. Of too many, the namespaces with the
// most lose their oldest, so that no namespace pushes out the reports of others.
type queue struct {
	list []model.OOM // at most twice maxWaiting, in the order in which they came
	lost int         // since the last drain
}

func (q *queue) add(found []model.OOM) {
	q.list = append(q.list, found...)
	if len(q.list) >= 2*maxWaiting { // seldom, as it looks at all
		q.trim()
	}
}

// drain empties the queue. It returns how many reports were lost since the last call, too.
func (q *queue) drain() (list []model.OOM, lost int) {
	q.trim()
	list, lost = q.list, q.lost
	*q = queue{}
	return list, lost
}

// trim drops what exceeds maxWaiting.
func (q *queue) trim() {
	if len(q.list) <= maxWaiting {
		return
	}
	newer := map[string]int{}
	for _, o := range q.list {
		newer[o.Pod.Namespace]++
	}
	share := fairShare(slices.Sorted(maps.Values(newer)), maxWaiting)
	kept := make([]model.OOM, 0, maxWaiting)
	for _, o := range q.list {
		if newer[o.Pod.Namespace]--; newer[o.Pod.Namespace] < share {
			kept = append(kept, o)
		}
	}
	kept = kept[max(0, len(kept)-maxWaiting):]
	over := len(q.list) - len(kept)
	q.list = kept
	q.lost += over
	dropped.Add(float64(over))
}

// fairShare is how many places each of several users may have of a number of places, at least one,
// so that those who want less than others lose none. The wishes are sorted.
func fairShare(wishes []int, places int) int {
	for i, wish := range wishes {
		each := places / (len(wishes) - i)
		if wish > each {
			return max(1, each)
		}
		places -= wish
	}
	return max(1, places)
}
