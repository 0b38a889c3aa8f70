// Package convergence tests that admission and updater agree: once a pod has what its VPA wants, the
// updater leaves it alone. Otherwise it would evict the pods of a workload without end. The package
// holds that property and the generator of its cases, and no tests of single rules.
package convergence

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// cases is how many workloads are generated for each kind of LimitRange and cluster.
const cases = 1000

var allGates = map[string]bool{"PodLevelResources": true, "RequestToLimitRatio": true, "MemoryPerCPURatio": true, "PerVPAConfig": true, "InPlace": true}

// updateThreshold is the default of --pod-update-threshold.
const updateThreshold = 0.1

// TestAPodThatHasWhatItsVPAWantsIsLeftAlone, be it new or resized.
func TestAPodThatHasWhatItsVPAWantsIsLeftAlone(t *testing.T) {
	book, err := policy.Load(policy.Options{Gates: allGates})
	require.NoError(t, err)
	for name, items := range map[string]string{
		"without a LimitRange":       "",
		"with the minimum of a pod":  "{type: Pod, min: {cpu: 600m, memory: 600Mi}}",
		"with the maximum of a pod":  "{type: Pod, max: {cpu: 2, memory: 2Gi}}",
		"with bounds of a container": "{type: Container, min: {cpu: 20m, memory: 40Mi}, max: {cpu: 2, memory: 2Gi}}",
	} {
		for cluster, filledInBefore := range map[string]bool{"Kubernetes 1.36": true, "Kubernetes 1.37": false} {
			t.Run(name+", "+cluster, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(cases) {
					r := random{rand.New(rand.NewPCG(seed, 7))}
					s := &scenario{template: r.pod(), vpa: r.vpa(), ranges: rangesOf(t, items), filledInBefore: filledInBefore}
					s.plan = policy.For(book, s.vpa).Plan
					s.recommend(t, r, s.created(s.template.DeepCopy()))
					pod, admitted := s.admit(t)
					if !admitted {
						continue
					}
					s.requireSettled(t, seed, "admitted", pod)

					s.recommend(t, r, pod)
					for range s.resizes() {
						pod = with(pod, s.assess(t, pod).Change)
						requireValid(t, seed, pod)
					}
					s.requireSettled(t, seed, "resized", pod)
				}
			})
		}
	}
}

// rangesOf is a LimitRange with the given items, as API servers store it; none without items.
func rangesOf(t *testing.T, items string) []corev1.LimitRange {
	t.Helper()
	if items == "" {
		return nil
	}
	var out corev1.LimitRange
	require.NoError(t, yaml.UnmarshalStrict([]byte("{metadata: {name: l}, spec: {limits: ["+items+"]}}"), &out))
	poddefaults.LimitRange(&out)
	return []corev1.LimitRange{out}
}

// admit is a new pod as API servers store it after admission, and false if admission refuses it.
func (s *scenario) admit(t *testing.T) (*corev1.Pod, bool) {
	t.Helper()
	pod := s.template.DeepCopy()
	poddefaults.BeforeWebhooks(pod, s.ranges)
	if full := s.created(pod.DeepCopy()); s.filledInBefore && pod.Spec.Resources != nil {
		pod.Spec.Resources.Requests = full.Spec.Resources.Requests
	}
	answer := podreview.Review(s.plan, podreview.Request{Pod: pod, VPA: s.vpa, Limits: s.limits()}, nil)
	require.Empty(t, answer.Failed)
	if !answer.Allowed() {
		return nil, false
	}
	pod = s.created(with(pod, answer.Change))
	pod.UID, pod.ResourceVersion = "u", "1"
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: now.Add(-100 * time.Hour)}
	return pod, true
}

var now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// created completes a pod as API servers do, and returns it.
func (s *scenario) created(pod *corev1.Pod) *corev1.Pod {
	poddefaults.Create(pod, s.ranges)
	return pod
}

func (s *scenario) limits() *facts.LimitRanges {
	if len(s.ranges) == 0 {
		return nil
	}
	return facts.FoldLimitRanges(s.ranges)
}

func (s *scenario) assess(t *testing.T, pod *corev1.Pod) *podupdate.Pod {
	t.Helper()
	out, failed := podupdate.Assess(s.plan, podupdate.Request{Pod: pod, VPA: s.vpa, Limits: s.limits(), Now: now}, nil)
	require.Empty(t, failed)
	return out
}

// requireSettled fails if the updater would change the pod.
func (s *scenario) requireSettled(t *testing.T, seed uint64, how string, pod *corev1.Pod) {
	t.Helper()
	p := s.assess(t, pod)
	changes := facts.Alterations(pod, p.Change)
	if len(changes) > 0 && (p.Priority.OutsideRecommendedRange || p.Priority.ResourceDiff >= updateThreshold) {
		require.Fail(t, "the updater would change a pod that has just been "+how, "seed %d: %+v\ntemplate: %s\npolicy: %s\nrecommendation: %s\npod: %s",
			seed, changes, text(t, s.template.Spec), text(t, s.vpa.Spec.ResourcePolicy), text(t, s.vpa.Status.Recommendation), text(t, pod.Spec))
	}
}

// with is a pod with other resources.
func with(pod *corev1.Pod, change facts.PodChange) *corev1.Pod {
	after, out := facts.PodAfter(pod, change), pod.DeepCopy()
	out.Spec.Resources = after.Spec.Resources
	for i := range out.Spec.Containers {
		out.Spec.Containers[i].Resources = after.Spec.Containers[i].Resources
	}
	return out
}

// requireValid fails if API servers would refuse the pod.
func requireValid(t *testing.T, seed uint64, pod *corev1.Pod) {
	t.Helper()
	level := facts.PodLevel(pod)
	if level == nil {
		return
	}
	for _, name := range facts.ScaledResources {
		var sum resource.Quantity
		for i := range pod.Spec.Containers {
			r := &pod.Spec.Containers[i].Resources
			sum.Add(r.Requests[name])
			if most, limited := level.Limits[name]; limited {
				limit := r.Limits[name]
				require.LessOrEqual(t, limit.Cmp(most), 0, "seed %d: a container's limit of %s exceeds the pod's", seed, name)
			}
		}
		if of, requested := level.Requests[name]; requested {
			require.LessOrEqual(t, sum.Cmp(of), 0, "seed %d: containers request more %s than the pod", seed, name)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := yaml.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

// maximum is what a LimitRange allows pods.
func (s *scenario) maximum() corev1.ResourceList {
	if len(s.ranges) == 0 || s.ranges[0].Spec.Limits[0].Type != corev1.LimitTypePod {
		return nil
	}
	return s.ranges[0].Spec.Limits[0].Max
}

// resizes is how many it may take until a pod is left alone. A pod that API servers gave the sum of
// its containers' limits is resized by the ratio of that limit, like one with a limit of its own.
// Where a maximum bounds pods the sum no longer counts then, and the ratios of containers that are
// capped to the limit come down.
func (s *scenario) resizes() int {
	if level := facts.PodLevel(s.template); level != nil {
		for name := range s.maximum() {
			if _, limited := level.Limits[name]; !limited {
				return 8
			}
		}
	}
	return 1
}
