package upstream

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
)

type crossVersion = autoscalingv1.CrossVersionObjectReference

// recommending is a recommender without its cluster: it is told what happens.
type recommending interface {
	setVPA(h happens)
	dropVPA(namespace, name string)
	setPod(h happens)
	dropPod(namespace, name string)
	// add takes a sample or an OOM and reports whether it counts.
	add(h happens) bool
	collect()
	// look is what is known and recommended, by namespace/name of the VPA.
	look() map[string]*known
	// checkpoints are of all containers, by checkpointID.
	checkpoints() map[checkpointID][]byte
	// restart forgets all but these checkpoints and what a cluster still tells: VPAs and pods, in the order they came.
	restart(from map[checkpointID][]byte)
}

type checkpointID struct{ Namespace, VPA, Container string }

// known is what is known of a VPA.
type known struct {
	Pods        int
	Containers  map[string]*usage
	Recommended []recommended
}

// usage is what a container's recommendation is made of.
type usage struct {
	First, Last time.Time
	Samples     int
	CPU, Memory []float64 // at each of percentiles
}

// percentiles are those at which histories are compared; the outermost only where there is one history.
var percentiles = []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}

// inner are the percentiles that stay the same when histories are merged in another order.
func inner(values []float64) []float64 { return values[2 : len(values)-2] }

// recommended is the recommendation for a container.
type recommended struct {
	Container                      string
	Target, Lower, Upper, Uncapped corev1.ResourceList
}

// taken is the time of a sample.
func (h happens) taken(begin time.Time) time.Time {
	return begin.Add(time.Duration(h.At)).Add(time.Duration(h.Later))
}

// remembered are the objects that a cluster tells again after a restart.
type remembered struct {
	vpas, pods []happens
}

// leaving is a list without one object.
func leaving(list []happens, namespace, name string) []happens {
	var out []happens
	for _, h := range list {
		if h.namespace() != namespace || h.Name != name {
			out = append(out, h)
		}
	}
	return out
}

// with puts an object in the place that it has, or at the end.
func with(list []happens, h happens) []happens {
	for i := range list {
		if list[i].namespace() == h.namespace() && list[i].Name == h.Name {
			list[i] = h
			return list
		}
	}
	return append(list, h)
}

// again tells a recommender that forgot all of its objects, pods after what restore does.
func (r *remembered) again(to recommending, restore func()) {
	old := *r
	*r = remembered{}
	for _, h := range old.vpas {
		to.setVPA(h)
	}
	restore()
	for _, h := range old.pods {
		to.setPod(h)
	}
}
