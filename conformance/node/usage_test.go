package node

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/explain"
)

// TestUsageOfTheNodeBecomesARecommendation: from the kernel by the kubelet and metrics-server to celvpa, whose pods then say why.
func TestUsageOfTheNodeBecomesARecommendation(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "usage")
	pods := deploy(t, ns, "web", 1, fmt.Sprintf("containers: [{args: ['-burn=150', '-hold=%d'], resources: {requests: {cpu: 20m, memory: 16Mi}}}]", 60<<20))
	watch(t, ns, "web", "updatePolicy: {updateMode: 'Off'}")
	lowest, highest := int64(math.MaxInt64), int64(0) // usage in milli-cores that celvpa saw: a busy node gives less than is wanted
	recommended(t, ns, "web", func(milli, bytes int64) bool {
		var m metricsv1beta1.PodMetrics
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(&pods[0]), &m); err != nil || len(m.Containers) == 0 {
			return false // none yet
		}
		used := m.Containers[0].Usage
		t.Logf("metrics.k8s.io: %s and %d MiB in %s", used.Cpu(), used.Memory().Value()>>20, m.Window.Duration)
		lowest, highest = min(lowest, used.Cpu().MilliValue()), max(highest, used.Cpu().MilliValue())
		return lowest > 10 && milli >= lowest && milli <= highest*13/10 && bytes >= 66<<20 && bytes <= 120<<20
	})
	until(t, patience, "the kernel's own account", func(ctx context.Context) (bool, string) {
		k, _, err := kernelOf(ctx, &pods[0], "app")
		return k.workingSet > 60<<20 && k.used > 0, fmt.Sprintf("container_memory_working_set_bytes %d, container_cpu_usage_seconds_total %.1f (%v)", k.workingSet, k.used, err)
	})
	if !*beside {
		answeredByAll(t, ns, "web")
	}
}

// TestAStartupBoostAndItsEnd: the webhook raises the CPU of a new pod, the kernel gives it, and after the boost's duration the
// kernel takes it back in place. It is not parallel to others: on a busy node the boost could be over before the kernel was read.
func TestAStartupBoostAndItsEnd(t *testing.T) {
	ns := namespace(t, "boost")
	before := &deploy(t, ns, "web", 1, `containers:
- args: [-start=3s]
  resources: {requests: {cpu: 30m, memory: 24Mi}, limits: {cpu: 100m, memory: 48Mi}}
  readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 2}`)[0]
	pinned := pinned("InPlaceOrRecreate", "{cpu: 30m, memory: 24Mi}")
	watch(t, ns, "web", pinned[:len(pinned)-1]+", startupBoost: {cpu: {type: Factor, factor: 4, durationSeconds: 20}}}")
	tried := newStream(before, "120m")
	until(t, patience, "the webhook to know the VPA", func(ctx context.Context) (bool, string) {
		err := tried.create(ctx)
		return err == nil, fmt.Sprint("last answer: ", err)
	})
	deleted := time.Now()
	require.NoError(t, cluster.Delete(t.Context(), before))
	pod := successor(t, before, anything)
	require.Equal(t, "120m", pod.Spec.Containers[0].Resources.Requests.Cpu().String(), "the boost of the webhook; annotations %v", pod.Annotations)
	kernelHas(t, pod, "app", 400, 48<<20)
	ready := time.Now()
	kernelHas(t, pod, "app", 100, 48<<20)
	t.Logf("ready %.0fs after it was created, boosted for %.0fs after that", ready.Sub(deleted).Seconds(), time.Since(ready).Seconds())
	undisturbed(t, pod, 0)
}

// whyOf asks `celvpa explain` about a VPA. The components answer from their pods.
func whyOf(ctx context.Context, ns, name string) (r explain.Report, err error) {
	out, err := exec.CommandContext(ctx, program, "explain", name, "-n", ns, "--kubeconfig", kubeconfig, "--celvpa-namespace", system, "-o", "json").Output()
	if err != nil && len(out) == 0 {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// explained waits until celvpa gives a rule as the reason for what happens to a VPA's pods.
func explained(t *testing.T, ns, name, rule string) explain.Report {
	t.Helper()
	var r explain.Report
	if *beside { // nobody reaches what the process would answer
		t.Logf("celvpa explain %s is not asked whether it says %s: celvpa runs beside the cluster", name, rule)
		time.Sleep(besideWaits) // the states that are read next must last
		return r
	}
	untilEvery(t, 4*time.Second, patience, "celvpa explain "+name+" to say "+rule, func(ctx context.Context) (bool, string) {
		var err error
		if r, err = whyOf(ctx, ns, name); err != nil {
			return false, err.Error()
		}
		said := r.Verdict.Token + ": " + r.Verdict.Text
		for _, f := range r.Findings {
			said += "; " + f.Token
		}
		return strings.Contains(said, rule), said
	})
	return r
}

// answeredByAll waits until the recommender, the updater and the admission controller have said what they know of a VPA.
func answeredByAll(t *testing.T, ns, name string) {
	t.Helper()
	untilEvery(t, 4*time.Second, patience, "celvpa explain "+name+" to be answered by all components", func(ctx context.Context) (bool, string) {
		r, err := whyOf(ctx, ns, name)
		if err != nil {
			return false, err.Error()
		}
		who := []string{}
		for _, p := range r.Processes {
			who = append(who, p.Component+" "+p.Version+" in "+p.Instance)
		}
		text := strings.Join(who, "; ")
		return strings.Contains(text, "recommender") && strings.Contains(text, "updater") && strings.Contains(text, "admission-controller") && len(r.Unknown) == 0,
			text + "; verdict: " + r.Verdict.Text + "; unknown: " + strings.Join(r.Unknown, ", ")
	})
}
