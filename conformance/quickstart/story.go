package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/inspect"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// story watches the namespace and reports each change once.
type story struct {
	cluster *harness.Cluster
	vpaFile string

	mu     sync.Mutex
	reason map[string]string // pod name → why the updater acted on it

	pods       map[types.UID]*podSeen
	usageShown time.Time // zero until metrics.k8s.io has usage of the pods
	applied    bool      // the VPA
	scaledUp   bool
	recommends bool
	admitted   bool // admission changed a new pod
	resized    bool // a node acknowledged a resize
}

// podSeen is a pod as last reported.
type podSeen struct {
	name    string
	spec    string
	changed time.Time // when its spec changed without the node's acknowledgement; zero = settled
}

func newStory(c *harness.Cluster, vpaFile string) *story {
	return &story{cluster: c, vpaFile: vpaFile, reason: map[string]string{}, pods: map[types.UID]*podSeen{}}
}

// missing names the milestones still to come.
func (s *story) missing() string {
	var out []string
	for _, m := range []struct {
		seen bool
		what string
	}{
		{s.recommends, "no recommendation was written"},
		{s.admitted, "no new pod was changed at admission"},
		{s.resized, "no running pod was resized in place and acknowledged by its node"},
	} {
		if !m.seen {
			out = append(out, m.what)
		}
	}
	return strings.Join(out, "; ")
}

// heard reports what only the log knows: which rule set a value, and why celvpa acted on a pod.
func (s *story) heard(line harness.LogLine) {
	switch line.Text("msg") {
	case "recommendation changed":
		from := line.Text("from")
		if from == "0" {
			from = "none"
		}
		say("recommendation  container %s: %s %s, set by rule %s (%s)",
			line.Text("container"), line.Text("resource"), quantity.FromTo(from, line.Text("to")), line.Text("rule"), line.Text("at"))
	case "pod evicted", "pod resized in place":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reason[line.Text("pod")] = "rule " + line.Text("rule")
		if line.Text("msg") == "pod evicted" {
			say("eviction        pod %s was evicted, rule %s", line.Text("pod"), line.Text("rule"))
		}
	case "resize refused or unanswered":
		say("refused         pod %s: %s", line.Text("pod"), line.Text("error"))
	case "eviction refused; retrying in a later cycle":
		say("refused         pod %s: %s", line.Text("pod"), line.Text("answer"))
	}
}

func (s *story) why(pod string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reason[pod]; r != "" {
		return ", " + r
	}
	return ""
}

func (s *story) look(ctx context.Context) error {
	if err := s.lookAtUsage(ctx); err != nil {
		return err
	}
	if err := s.lookAtVPA(ctx); err != nil {
		return err
	}
	if err := s.lookAtPods(ctx); err != nil {
		return err
	}
	return s.scaleUp(ctx)
}

// lookAtVPA applies the VPA once there is usage, and reports its first recommendation.
func (s *story) lookAtVPA(ctx context.Context) error {
	if s.recommends || s.usageShown.IsZero() {
		return nil
	}
	if !s.applied {
		say("applying        examples/quickstart/vpa.yaml: VPA web in mode InPlaceOrRecreate, app at most 1 CPU and 1Gi")
		err := s.cluster.ApplyFiles(ctx, s.vpaFile)
		s.applied = err == nil
		return err
	}
	var vpa vpav1.VerticalPodAutoscaler
	if err := s.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, &vpa); err != nil {
		return fmt.Errorf("reading the VPA: %w", err)
	}
	if rec := vpa.Status.Recommendation; rec != nil && len(rec.ContainerRecommendations) > 0 {
		s.recommends = true
		for _, c := range rec.ContainerRecommendations {
			say("status          VPA web, container %s: target %s, lower bound %s, upper bound %s",
				c.ContainerName, list(c.Target), list(c.LowerBound), list(c.UpperBound))
		}
	}
	return nil
}

// lookAtUsage reports usage every ten seconds.
func (s *story) lookAtUsage(ctx context.Context) error {
	if time.Since(s.usageShown) < 10*time.Second {
		return nil
	}
	var usage metricsv1beta1.PodMetricsList
	if err := s.cluster.List(ctx, &usage, client.InNamespace(namespace)); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || meta.IsNoMatchError(err) {
			return nil // not available yet
		}
		return fmt.Errorf("reading usage: %w", err)
	}
	slices.SortFunc(usage.Items, func(a, b metricsv1beta1.PodMetrics) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range usage.Items {
		var parts []string
		for _, c := range pod.Containers {
			parts = append(parts, fmt.Sprintf("%s %dm %dMi", c.Name, c.Usage.Cpu().MilliValue(), c.Usage.Memory().Value()>>20))
		}
		slices.Sort(parts)
		say("usage           pod %s: %s", pod.Name, strings.Join(parts, ", "))
		s.usageShown = time.Now()
	}
	return nil
}

func (s *story) lookAtPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := s.cluster.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("reading pods: %w", err)
	}
	live := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		live[pod.UID] = true
		if s.pods[pod.UID] == nil {
			s.newPod(pod)
		} else {
			s.knownPod(pod)
		}
	}
	for uid, seen := range s.pods {
		if !live[uid] {
			say("gone            pod %s%s", seen.name, s.why(seen.name))
			delete(s.pods, uid)
		}
	}
	return nil
}

func (s *story) newPod(pod *corev1.Pod) {
	s.pods[pod.UID] = &podSeen{name: pod.Name, spec: specText(pod)}
	if pod.Annotations[podpatch.AnnotationUpdates] == "" {
		say("new pod         %s: %s, as the Deployment says", pod.Name, specText(pod))
		return
	}
	s.admitted = true
	say("new pod         %s: %s, set at admission", pod.Name, specText(pod))
}

func (s *story) knownPod(pod *corev1.Pod) {
	seen := s.pods[pod.UID]
	if spec := specText(pod); spec != seen.spec {
		say("resize          pod %s: %s → %s, in place%s", pod.Name, seen.spec, spec, s.why(pod.Name))
		seen.spec, seen.changed = spec, time.Now()
	}
	if !seen.changed.IsZero() && statusText(pod) == seen.spec {
		say("acknowledged    pod %s: its node runs it with %s", pod.Name, seen.spec)
		seen.changed = time.Time{}
		s.resized = true
	}
}

// scaleUp adds a pod once there is a recommendation, to show admission.
func (s *story) scaleUp(ctx context.Context) error {
	if s.scaledUp || !s.recommends {
		return nil
	}
	say("scaling         Deployment web from 2 to 3 pods, to show what admission does")
	web := &appsv1.Deployment{}
	if err := s.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "web"}, web); err != nil {
		return fmt.Errorf("scaling the Deployment: %w", err)
	}
	before := web.DeepCopy()
	replicas := int32(3)
	web.Spec.Replicas = &replicas
	if err := s.cluster.Patch(ctx, web, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("scaling the Deployment: %w", err)
	}
	s.scaledUp = true
	return nil
}

// specText shows requested resources; statusText shows granted ones.
func specText(pod *corev1.Pod) string {
	var parts []string
	for _, c := range pod.Spec.Containers {
		parts = append(parts, resources(c.Name, c.Resources))
	}
	return strings.Join(parts, ", ")
}

func statusText(pod *corev1.Pod) string {
	var parts []string
	for _, c := range pod.Spec.Containers {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == c.Name && status.Resources != nil {
				parts = append(parts, resources(c.Name, *status.Resources))
			}
		}
	}
	return strings.Join(parts, ", ")
}

func resources(name string, r corev1.ResourceRequirements) string {
	return fmt.Sprintf("%s %s (limits %s)", name, list(r.Requests), list(r.Limits))
}

func list(l corev1.ResourceList) string {
	var parts []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := l[name]; ok {
			parts = append(parts, quantity.Short(q.String()))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " ")
}

// system is where celvpa seems to run.
const system = "kube-system"

// explainAddress is where celvpa serves what it knows, so that the API server reaches it; empty on a
// machine without a network, and in the user's own cluster, whose API server may be anywhere.
func explainAddress(foreign bool) (string, error) {
	if foreign {
		return "", nil
	}
	address, err := harness.OutsideAddress()
	if errors.Is(err, harness.ErrNoOutsideAddress) {
		return "", nil
	}
	return address, err
}

// publish lets celvpa explain ask celvpa through the API server, in the namespace of the quickstart only.
func publish(ctx context.Context, cluster *harness.Cluster, address string) error {
	meta, account := metav1.ObjectMeta{Namespace: namespace, Name: inspect.ServiceAccount}, metav1.ObjectMeta{Namespace: system, Name: inspect.ServiceAccount}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{vpav1.GroupVersion.Group}, Resources: []string{"verticalpodautoscalers/explain"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: meta.Name}}},
	} {
		if err := cluster.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", o, meta.Name, err)
		}
	}
	before := metav1.ObjectMeta{Namespace: system, Name: "celvpa"} // of a run on the same lab
	for _, o := range []client.Object{&corev1.Pod{ObjectMeta: before}, &corev1.Service{ObjectMeta: before}} {
		if err := client.IgnoreNotFound(cluster.Delete(ctx, o, client.GracePeriodSeconds(0))); err != nil {
			return fmt.Errorf("deleting %T %s: %w", o, before.Name, err)
		}
	}
	return cluster.Publish(ctx, system, before.Name, inspect.PortName, address, map[string]string{inspect.ServiceLabel: "true"})
}

// showWhy prints why the pods are as they are.
func showWhy(ctx context.Context, program, kubeconfig string) error {
	args := []string{"explain", "web", "-n", namespace}
	say("why             celvpa %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", kubeconfig, "--celvpa-namespace", system)...)
	var fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = os.Stdout, &fault
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("celvpa explain: %w: %s", err, strings.TrimSpace(fault.String()))
	}
	return nil
}
