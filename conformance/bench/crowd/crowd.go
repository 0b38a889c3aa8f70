// Package crowd makes a cluster of many workloads for a stand-in of an API server: a Deployment with
// its ReplicaSets, its pods and its VerticalPodAutoscaler each. Minute lets a minute pass in it, with
// roll-outs, pods that move, and workloads that come and go. All of it follows from the number of
// workloads; nothing is random.
package crowd

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/bench/standin"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Sizes of the crowd.
const (
	PodsOfWorkload  = 3
	ContainersOfPod = 2

	perNamespace = 100
	variants     = 16  // of usage and of pod templates
	churned      = 100 // one workload of so many changes in a minute
)

// The kinds that components watch.
var (
	pods        = standin.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Plural: "pods"}
	deployments = standin.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments"}
	replicaSets = standin.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Plural: "replicasets"}
	reviews     = standin.Kind{GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), Plural: "selfsubjectaccessreviews", Global: true}
	vpas        = standin.Kind{GroupVersionKind: vpav1.GroupVersion.WithKind("VerticalPodAutoscaler"), Plural: "verticalpodautoscalers"}
)

// Crowd is the cluster.
type Crowd struct {
	*standin.Store
	Checkpoints *standin.Checkpoints

	now       time.Time // in the cluster
	minutes   int       // that have passed
	workloads []*workload
	made      int // workloads
	templates [variants]template
}

// workload is a Deployment with all that belongs to it.
type workload struct {
	number, revision int
	spec             corev1.PodSpec // of its pods
	pods             []*corev1.Pod
	sets             []*appsv1.ReplicaSet // the newest last
}

func (w *workload) key() client.ObjectKey {
	return client.ObjectKey{Namespace: fmt.Sprintf("team-%03d", w.number/perNamespace), Name: fmt.Sprintf("service-%06d", w.number)}
}

func (w *workload) variant() int { return w.number % variants }

// Make makes a cluster with so many workloads, at a time of its own, and with checkpoints of eight days for
// each container if asked for.
func Make(count int, at time.Time, checkpoints bool) (*Crowd, error) {
	kinds := []standin.Kind{pods, deployments, replicaSets, vpas, reviews}
	for group, others := range map[string]map[string]string{
		"apps":  {"DaemonSet": "daemonsets", "StatefulSet": "statefulsets"},
		"batch": {"Job": "jobs", "CronJob": "cronjobs"},
		"":      {"ReplicationController": "replicationcontrollers", "LimitRange": "limitranges", "Event": "events"},
	} {
		for kind, plural := range others {
			kinds = append(kinds, standin.Kind{Plural: plural, GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}})
		}
	}
	c := &Crowd{Store: standin.NewStore(kinds...), Checkpoints: standin.NewCheckpoints(), now: at}
	for i := range c.templates {
		c.templates[i] = newTemplate()
	}
	var histories [variants][]byte
	for i := range histories {
		text, err := json.Marshal(harness.Days(8, leastCPU(i), leastMemory(i)))
		if err != nil {
			return nil, err
		}
		histories[i] = text
	}
	for range count {
		w := c.create(at.Add(-30 * 24 * time.Hour))
		for container := range ContainersOfPod {
			if checkpoints {
				c.Checkpoints.Put(w.key(), containerName(container), histories[w.variant()])
			}
		}
	}
	return c, nil
}

// create adds a workload whose pods run.
func (c *Crowd) create(at time.Time) *workload {
	w := &workload{number: c.made}
	w.spec = c.templates[w.variant()].of(w)
	c.made++
	c.workloads = append(c.workloads, w)
	c.Put(vpas.Plural, c.vpa(w, at))
	w.roll(c, at)
	for i := range PodsOfWorkload {
		w.pods = append(w.pods, c.start(w, i, at))
	}
	return w
}

// Minute lets a minute pass: one in a hundred workloads changes.
func (c *Crowd) Minute() {
	c.minutes++
	c.now = c.now.Add(time.Minute)
	count := max(len(c.workloads)/churned, 1)
	first := c.minutes * count
	for i := range count {
		slot := (first + i) % len(c.workloads)
		w := c.workloads[slot]
		switch i % 4 {
		case 0, 1: // a roll-out
			w.roll(c, c.now)
			c.replacePods(w)
		case 2: // its pods move to other nodes
			c.replacePods(w)
		case 3: // it goes, and another comes
			c.remove(w)
			last := len(c.workloads) - 1
			c.workloads[slot], c.workloads = c.workloads[last], c.workloads[:last]
			c.create(c.now)
		}
	}
}

// Pods is how many there are.
func (c *Crowd) Pods() int { return c.Len(pods.Plural) }

// replacePods deletes all pods of a workload and starts others.
func (c *Crowd) replacePods(w *workload) {
	for i, old := range w.pods {
		c.end(old)
		w.pods[i] = c.start(w, i, c.now)
	}
}

// remove deletes a workload.
func (c *Crowd) remove(w *workload) {
	for _, pod := range w.pods {
		c.end(pod)
	}
	for _, set := range w.sets {
		c.Delete(replicaSets.Plural, set)
	}
	c.Delete(deployments.Plural, c.deployment(w, c.now))
	c.Delete(vpas.Plural, c.vpa(w, c.now))
}
