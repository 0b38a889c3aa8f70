package upstream

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
)

type crossVersion = autoscalingv1.CrossVersionObjectReference

// recommending is a recommender without a cluster: the test feeds it events.
type recommending interface {
	setVPA(h happens)
	dropVPA(namespace, name string)
	setPod(h happens)
	dropPod(namespace, name string)
	// add adds a sample or an OOM and reports whether it counts.
	add(h happens) bool
	collect()
	// look returns history and recommendations by namespace/name of the VPA.
	look() map[string]*known
	// checkpoints returns those of all containers, by checkpointID.
	checkpoints() map[checkpointID][]byte
	// restart keeps only these checkpoints and the objects of the cluster: VPAs and pods, in order
	// of creation.
	restart(from map[checkpointID][]byte)
}

type checkpointID struct{ Namespace, VPA, Container string }

// known is what a recommender knows of a VPA.
type known struct {
	Pods        int
	Containers  map[string]*usage
	Recommended []recommended
}

// usage is the input of a container's recommendation.
type usage struct {
	First, Last time.Time
	Samples     int
	CPU, Memory []float64 // at each of percentiles
}

// percentiles are compared; the outermost only if there is a single history.
var percentiles = []float64{0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1}

// inner are the percentiles that do not depend on the order in which histories are merged.
func inner(values []float64) []float64 { return values[2 : len(values)-2] }

// recommended is the recommendation for a container.
type recommended struct {
	Container                      string
	Target, Lower, Upper, Uncapped corev1.ResourceList
}

// taken is the timestamp of a sample.
func (h happens) taken(begin time.Time) time.Time {
	return begin.Add(time.Duration(h.At)).Add(time.Duration(h.Later))
}

// remembered are the objects that a recommender sees again after a restart.
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

// with replaces an object in its place, or appends it.
func with(list []happens, h happens) []happens {
	for i := range list {
		if list[i].namespace() == h.namespace() && list[i].Name == h.Name {
			list[i] = h
			return list
		}
	}
	return append(list, h)
}

// again sends all objects to a restarted recommender, pods after what restore does.
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
