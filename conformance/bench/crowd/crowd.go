// Package crowd makes a cluster of many workloads for a stand-in of an API server: a Deployment with
// its ReplicaSets, its pods and its VerticalPodAutoscaler each. Minute lets a minute pass in it, with
// roll-outs, pods that move, and workloads that come and go. All of it follows from the number of
// workloads; nothing is random.
package crowd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
	"k8s.io/utils/ptr"
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
	namespaces  = standin.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Plural: "namespaces", Global: true}
	nodes       = standin.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Plural: "nodes", Global: true}
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
	kinds := []standin.Kind{pods, deployments, replicaSets, vpas, reviews, namespaces, nodes}
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

// template is what pods of one variant share. Their size is that of pods in real clusters.
type template struct {
	spec    corev1.PodSpec
	managed []metav1.ManagedFieldsEntry
}

func containerName(i int) string {
	if i == 0 {
		return "app"
	}
	return fmt.Sprintf("sidecar-%d", i)
}

func amounts(milli, bytes int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
	}
}

// of is what the pods of a workload have of a template, with resources of their own.
func (t *template) of(w *workload) corev1.PodSpec {
	spec := t.spec
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		asked := w.recommended()
		spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: asked, Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(2*asked.Memory().Value(), resource.BinarySI)}}
	}
	return spec
}

func newTemplate() template {
	var t template
	t.spec.NodeName, t.spec.ServiceAccountName, t.spec.RestartPolicy = "node-0001", "service", corev1.RestartPolicyAlways
	t.spec.Volumes = []corev1.Volume{{Name: "config"}, {Name: "kube-api-access"}}
	for i := range ContainersOfPod {
		container := corev1.Container{
			Name: containerName(i), Image: "registry.example/team/service@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/service"}, {Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		}
		for n := range 12 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", n), Value: "a value as long as many are"})
		}
		t.spec.Containers = append(t.spec.Containers, container)
	}
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		fields := make([]byte, 0, 1200)
		for n := range 24 {
			fields = fmt.Appendf(fields, `"f:k%02d-spec-or-status":{"f:value":{}},`, n)
		}
		raw := append(append([]byte("{"), fields[:len(fields)-1]...), '}')
		t.managed = append(t.managed, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))})
	}
	return t
}

// hash names revisions, and spreads usage.
func hash(parts ...any) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, parts...)
	return h.Sum32()
}

func (w *workload) templateHash() string {
	return rand.SafeEncodeString(fmt.Sprint(hash(w.number, " ", w.revision)))
}

func (w *workload) labels(revision bool) map[string]string {
	out := map[string]string{"app": w.key().Name, "app.kubernetes.io/managed-by": "Helm"}
	if revision {
		out["pod-template-hash"] = w.templateHash()
	}
	return out
}

func (w *workload) meta(name, kind string, at time.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.key().Namespace, Name: name, UID: types.UID(kind + "-" + name), CreationTimestamp: metav1.NewTime(at), Labels: w.labels(false)}
}

func ownedBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: ptr.To(true)}}
}

func (c *Crowd) deployment(w *workload, at time.Time) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: w.meta(w.key().Name, "Deployment", at), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](PodsOfWorkload), Selector: &metav1.LabelSelector{MatchLabels: w.labels(false)},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.labels(false)}, Spec: w.spec},
	}}
}

// roll gives a workload another revision, with a ReplicaSet of its own. The last one stays, without
// pods.
func (w *workload) roll(c *Crowd, at time.Time) {
	w.revision++
	set := func(replicas int32) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{ObjectMeta: w.meta(w.key().Name+"-"+w.templateHash(), "ReplicaSet", at)}
		rs.OwnerReferences = ownedBy("Deployment", w.key().Name)
		rs.Spec = appsv1.ReplicaSetSpec{Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: w.labels(true)}}
		rs.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.labels(true)}, Spec: w.spec}
		return rs
	}
	if len(w.sets) > 1 {
		c.Delete(replicaSets.Plural, w.sets[0])
		w.sets = w.sets[1:]
	}
	if len(w.sets) > 0 {
		last := w.sets[len(w.sets)-1].DeepCopy()
		last.Spec.Replicas = ptr.To[int32](0)
		w.sets[len(w.sets)-1] = last
		c.Put(replicaSets.Plural, last)
	}
	now := set(PodsOfWorkload)
	w.sets = append(w.sets, now)
	c.Put(replicaSets.Plural, now)
	c.Put(deployments.Plural, c.deployment(w, at))
}

// start adds a pod, first as it waits for a node, then as it runs.
func (c *Crowd) start(w *workload, i int, at time.Time) *corev1.Pod {
	t, spec := &c.templates[w.variant()], w.spec
	set := w.key().Name + "-" + w.templateHash()
	waiting := &corev1.Pod{ObjectMeta: w.meta(set+"-"+rand.SafeEncodeString(fmt.Sprintf("%05d", hash(set, i, c.minutes)%100000)), "Pod", at), Spec: spec}
	waiting.Labels, waiting.OwnerReferences, waiting.ManagedFields, waiting.Generation = w.labels(true), ownedBy("ReplicaSet", set), t.managed, 1
	waiting.Spec.NodeName, waiting.Status.Phase = "", corev1.PodPending
	if c.minutes > 0 { // before, nobody watches
		c.Put(pods.Plural, waiting)
	}
	running := waiting.DeepCopy()
	running.Spec, running.ManagedFields, running.Labels, running.OwnerReferences = spec, t.managed, waiting.Labels, waiting.OwnerReferences
	since := metav1.NewTime(at)
	running.Status = corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, StartTime: &since, PodIP: "10.0.0.1", HostIP: "10.1.0.1"}
	for _, of := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		running.Status.Conditions = append(running.Status.Conditions, corev1.PodCondition{Type: of, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	for i := range ContainersOfPod {
		running.Status.ContainerStatuses = append(running.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: containerName(i), Ready: true, Started: ptr.To(true), Image: spec.Containers[i].Image, ImageID: spec.Containers[i].Image,
			ContainerID: "containerd://0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0", Resources: &spec.Containers[i].Resources,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		})
	}
	c.Put(pods.Plural, running)
	return running
}

// end deletes a pod, first as it terminates.
func (c *Crowd) end(pod *corev1.Pod) {
	last := pod.DeepCopy()
	last.DeletionTimestamp = ptr.To(metav1.NewTime(c.now))
	c.Put(pods.Plural, last)
	c.Delete(pods.Plural, last)
}

// vpa is the VerticalPodAutoscaler of a workload, with a recommendation that its pods have.
func (c *Crowd) vpa(w *workload, at time.Time) *vpav1.VerticalPodAutoscaler {
	key := w.key()
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: w.meta(key.Name, "VPA", at)}
	v.Generation = 1
	v.Spec = vpav1.VerticalPodAutoscalerSpec{
		TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: key.Name},
		UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeRecreate)},
		ResourcePolicy: &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{
			{ContainerName: "*", MinAllowed: amounts(10, 32<<20), MaxAllowed: amounts(8000, 16<<30)},
		}},
	}
	v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{}
	target := w.recommended()
	for i := range ContainersOfPod {
		v.Status.Recommendation.ContainerRecommendations = append(v.Status.Recommendation.ContainerRecommendations, vpav1.RecommendedContainerResources{
			ContainerName: containerName(i), Target: target, UncappedTarget: target,
			LowerBound: amounts(target.Cpu().MilliValue()/2, target.Memory().Value()/2), UpperBound: amounts(target.Cpu().MilliValue()*2, target.Memory().Value()*2),
		})
	}
	return v
}

// What containers of a variant use at least, and how much more: as harness.Days, which makes their
// checkpoints.
func leastCPU(variant int) int64    { return 20 + 40*int64(variant) }
func leastMemory(variant int) int64 { return (64 + 60*int64(variant)) << 20 }

const (
	spreadCPU    = 97 * 7
	spreadMemory = 1440 << 17
)

// recommended is about what is recommended for that. Hardly any two workloads have the same.
func (w *workload) recommended() corev1.ResourceList {
	return amounts(leastCPU(w.variant())+spreadCPU+int64(w.number%997), leastMemory(w.variant())+spreadMemory+int64(w.number)<<12)
}

// Usage is a list of metrics.k8s.io with a sample of each container at the cluster's time, as
// protobuf.
func (c *Crowd) Usage() ([]byte, error) {
	list := metricsv1beta1.PodMetricsList{Items: make([]metricsv1beta1.PodMetrics, 0, len(c.workloads)*PodsOfWorkload)}
	at := metav1.NewTime(c.now)
	for _, w := range c.workloads {
		for _, pod := range w.pods {
			usage := metricsv1beta1.PodMetrics{Timestamp: at, Window: metav1.Duration{Duration: 15 * time.Second}}
			usage.Namespace, usage.Name, usage.Labels = pod.Namespace, pod.Name, pod.Labels
			for i := range ContainersOfPod {
				n := int64(hash(pod.Name, i, c.minutes))
				usage.Containers = append(usage.Containers, metricsv1beta1.ContainerMetrics{
					Name: containerName(i), Usage: amounts(leastCPU(w.variant())+n%spreadCPU, leastMemory(w.variant())+n/7%spreadMemory),
				})
			}
			list.Items = append(list.Items, usage)
		}
	}
	var out bytes.Buffer
	encoder := metricsscheme.Codecs.EncoderForVersion(protobuf.NewSerializer(metricsscheme.Scheme, metricsscheme.Scheme), metricsv1beta1.SchemeGroupVersion)
	if err := encoder.Encode(&list, &out); err != nil {
		return nil, fmt.Errorf("encoding the usage of %d pods: %w", len(list.Items), err)
	}
	return out.Bytes(), nil
}
