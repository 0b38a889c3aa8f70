package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// ownRecommender are the namespaces in which tests start recommenders; the shared celvpa ignores
// them.
var ownRecommender = []string{"rec-handover", "rec-keep", "rec-gates", "rec-history", "rec-nohistory", "rec-external", "rec-lookup", "rec-oom", "rec-restart"}

// recommenderFlags are passed to upstream's recommender and to celvpa's.
func recommenderFlags(ns, address string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--address=" + address, "--vpa-object-namespace=" + ns,
		"--recommender-interval=1s", "--checkpoints-gc-interval=2s"}
}

// aRecommender runs for a single namespace.
type aRecommender struct {
	*harness.Celvpa
	t       *testing.T
	stopped bool
	harness.Log
}

// startRecommender runs celvpa's recommender until the test ends.
func startRecommender(t *testing.T, ns string, flags ...string) *aRecommender {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	r := &aRecommender{t: t}
	args := append(append([]string{"recommender"}, recommenderFlags(ns, address)...), flags...)
	r.Celvpa, err = harness.Start(program, address, logOf(t, ns), args, r.Add)
	require.NoError(t, err)
	t.Cleanup(r.stop)
	require.NoError(t, r.WaitReady(t.Context()))
	return r
}

// logOf is a file for the log of a recommender, which is kept if the test fails.
func logOf(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	return filepath.Join(root, "bin", "integration", name+".log")
}

// stop stops the process and requires a clean exit.
func (r *aRecommender) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	panics, failed := r.value("celvpa_recommender_panics_total"), r.value(`celvpa_recommender_writes_total{object="status",result="error"}`)+
		r.value(`celvpa_recommender_writes_total{object="checkpoint",result="error"}`)
	if err := r.Stop(); err != nil || panics+failed != 0 {
		r.t.Errorf("the recommender ended with %v after %v panics and %v failed writes; see %s", err, panics, failed, r.LogFile)
	}
}

// says reports whether the log has a line with these words, and with those in its error.
func (r *aRecommender) says(message, fault string) bool {
	for _, line := range r.Lines() {
		if strings.Contains(line.Text("msg"), message) && strings.Contains(line.Text("error"), fault) {
			return true
		}
	}
	return false
}

// value is the value of a metric, given with its labels; 0 if there is none.
func (r *aRecommender) value(series string) float64 { return harness.Metric(r.Address, series) }

// writes counts successful writes to the API server. One that changes nothing keeps the
// resourceVersion.
func (r *aRecommender) writes() float64 {
	return r.value(`celvpa_recommender_writes_total{object="status",result="success"}`) + r.value(`celvpa_recommender_writes_total{object="checkpoint",result="success"}`)
}

// cyclesOf is how many cycles a recommender has finished, also upstream's.
const cyclesOf = `vpa_recommender_execution_latency_seconds_count{step="total"}`

// cycles waits until n cycles have started and ended from now on.
func (r *aRecommender) cycles(t *testing.T, n int) {
	t.Helper()
	for until, begun := r.value(cyclesOf)+1, 0; begun <= n; begun++ { // one may be under way
		hang.Eventually(t, "a cycle", func(context.Context) (bool, error) { return r.value(cyclesOf) >= until+float64(begun), nil })
	}
}

// rests waits until n cycles in a row have written nothing. A write may be postponed by some cycles on a busy machine.
func (r *aRecommender) rests(t *testing.T, n int) {
	t.Helper()
	for begin := time.Now(); ; {
		before := r.writes()
		r.cycles(t, n)
		if r.writes() == before {
			return
		}
		require.Less(t, time.Since(begin), hang.Limit, "it writes again and again")
	}
}

// becomes waits until a metric has a value.
func (r *aRecommender) becomes(t *testing.T, series string, want float64) {
	t.Helper()
	hang.Eventually(t, fmt.Sprintf("%s to be %v", series, want), func(context.Context) (bool, error) { return r.value(series) == want, nil })
}

// unused is a Deployment of one pod without usage: the pod names a scheduler that does not exist, and
// run acts as its kubelet.
func unused(ns, name string, containers ...string) *appsv1.Deployment {
	d := steady(ns, name, 1)
	spec := &d.Spec.Template.Spec
	spec.SchedulerName = "nobody"
	request := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1000Mi")}
	spec.Containers = nil
	for _, c := range containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c, Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: request}})
	}
	return d
}

// run marks n unscheduled pods of a namespace as running, without container statuses.
func run(t *testing.T, ns string, count int) {
	t.Helper()
	done := map[string]bool{}
	hang.Eventually(t, fmt.Sprintf("%d pods in %s", count, ns), func(ctx context.Context) (bool, error) {
		var list corev1.PodList
		if err := cluster.List(ctx, &list, client.InNamespace(ns)); err != nil {
			return false, err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Spec.SchedulerName != "nobody" || done[p.Name] {
				continue
			}
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			if err := cluster.Status().Update(ctx, p); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			done[p.Name] = true
		}
		return len(done) >= count, nil
	})
}

// readCheckpoint is the status of a checkpoint.
func readCheckpoint(t *testing.T, ns, name string) vpav1.VerticalPodAutoscalerCheckpointStatus {
	t.Helper()
	var c vpav1.VerticalPodAutoscalerCheckpoint
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &c))
	return c.Status
}

// usageIn is what the model reads from a checkpoint.
func usageIn(t *testing.T, status vpav1.VerticalPodAutoscalerCheckpointStatus) model.Usage {
	t.Helper()
	c := model.NewCluster(model.UnusedGrace)
	w := c.SetWorkload(model.WorkloadID{Name: "w"}, facts.Order{}, "w", labels.Everything())
	require.NoError(t, w.Restore(c.Window(), "app", &status, time.Now()))
	return w.View().Containers[0]
}

// margin adds 15% to a percentile in whole units, as the rules do.
func margin(amount float64) int64 { return int64(amount) + int64(float64(int64(amount))*0.15) }

// asHistory is the target that the rules derive from a checkpoint alone, above the minimums.
func asHistory(t *testing.T, status vpav1.VerticalPodAutoscalerCheckpointStatus) (milli, bytes int64) {
	t.Helper()
	u := usageIn(t, status)
	return margin(u.CPU.Percentile(0.9) * 1000), margin(u.Memory.Percentile(0.9))
}

func milliOf(list corev1.ResourceList) int64 { return list.Cpu().MilliValue() }
func bytesOf(list corev1.ResourceList) int64 { return list.Memory().Value() }

// targetFor is the memory target that the rules derive from a single peak.
func targetFor(bytes int64) int64 {
	h := model.NewMemoryHistogram(24 * time.Hour)
	h.Add(float64(bytes), 1, time.Now())
	return margin(h.Percentile(0.9))
}

// upstreamsStart is upstream's recommendation without samples.
const upstreamsStart = "--recommendation-min-samples=0"

// nothingKnown waits until a VPA reports that it has no recommendation for lack of usage.
func nothingKnown(t *testing.T, ns, name, container string) {
	t.Helper()
	hang.Eventually(t, "VPA "+ns+"/"+name+" to report that nothing is known of "+container, func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
			return false, err
		}
		c := condition(&v, vpav1.RecommendationProvided)
		return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "UsageUnknown" &&
			strings.Contains(c.Message, "cpu and memory of container "+container) && len(v.Status.Recommendation.ContainerRecommendations) == 0, nil
	})
}

// status is the status of a VPA.
func status(t *testing.T, ns, name string) vpav1.VerticalPodAutoscalerStatus {
	t.Helper()
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &v))
	return v.Status
}

// targets waits until a VPA has recommendations for n containers, and returns the targets by
// container.
func targets(t *testing.T, ns, name string, containers int) map[string]corev1.ResourceList {
	t.Helper()
	out := map[string]corev1.ResourceList{}
	hang.Eventually(t, fmt.Sprintf("a recommendation for %d containers of %s/%s", containers, ns, name), func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
			return false, err
		}
		if v.Status.Recommendation == nil || len(v.Status.Recommendation.ContainerRecommendations) != containers {
			return false, nil
		}
		for _, c := range v.Status.Recommendation.ContainerRecommendations {
			out[c.ContainerName] = c.Target
		}
		return true, nil
	})
	return out
}

// versions are the resourceVersions of all VPAs and checkpoints of a namespace, by kind and name,
// without some.
func versions(t *testing.T, ns string, but ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range []string{"VerticalPodAutoscaler", "VerticalPodAutoscalerCheckpoint"} {
		var all metav1.PartialObjectMetadataList // some cannot be read
		all.SetGroupVersionKind(vpav1.GroupVersion.WithKind(kind + "List"))
		require.NoError(t, cluster.List(t.Context(), &all, client.InNamespace(ns)))
		for _, o := range all.Items {
			out[kind+" "+o.Name] = o.ResourceVersion
		}
	}
	for _, name := range but {
		delete(out, name)
	}
	return out
}

// goes waits until a checkpoint is deleted.
func goes(t *testing.T, ns, name string) {
	t.Helper()
	hang.Eventually(t, "checkpoint "+name+" to be deleted", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &vpav1.VerticalPodAutoscalerCheckpoint{})
		return err != nil, client.IgnoreNotFound(err)
	})
}

// checkpointsComeAndGoWithWhatTheyAreAbout: an unreadable checkpoint affects no other; unchanged
// checkpoints are not written; a checkpoint is deleted with its VPA or its container.
func checkpointsComeAndGoWithWhatTheyAreAbout(t *testing.T) {
	ns := namespace(t, "rec-keep")
	two := steady(ns, "two", 1)
	side := two.Spec.Template.Spec.Containers[0]
	side.Name = "side"
	two.Spec.Template.Spec.Containers = append(two.Spec.Template.Spec.Containers, side)
	create(t, unused(ns, "still", "app"), steady(ns, "busy", 1), two)
	over := func(name, target string) *vpav1.VerticalPodAutoscaler {
		v := vpa(ns, name, vpav1.UpdateModeOff)
		v.Spec.TargetRef.Name = target
		return v
	}
	known := harness.Days(2, 200, 400<<20)
	create(t, over("still", "still"), over("doomed", "still"), over("busy", "busy"), over("two", "two"),
		harness.Checkpoint(ns, "still", "app", known), harness.Checkpoint(ns, "doomed", "app", known), harness.Checkpoint(ns, "two", "app", known),
		harness.Checkpoint(ns, "two", "side", known), harness.Checkpoint(ns, "nobody", "app", known))
	for name, change := range map[string]func(status map[string]any){
		"text": func(s map[string]any) {
			s["cpuHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"3": "many"}
		},
		"negative": func(s map[string]any) {
			s["cpuHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"3": int64(-1)}
		},
		"index": func(s map[string]any) {
			s["memoryHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"999": int64(1)}
		},
		"version": func(s map[string]any) { s["version"] = "v9" },
	} {
		c := harness.Checkpoint(ns, name, "app", known)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		require.NoError(t, err)
		change(object["status"].(map[string]any))
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpoint"))
		create(t, over(name, "still"), u)
	}
	run(t, ns, 1)
	running(t, ns, 3)

	r := startRecommender(t, ns)
	const loaded = `celvpa_recommender_checkpoints_loaded_total{result="%s"}`
	r.becomes(t, fmt.Sprintf(loaded, "loaded"), 4)
	r.becomes(t, fmt.Sprintf(loaded, "unreadable"), 4)
	r.becomes(t, fmt.Sprintf(loaded, "unused"), 1)
	require.True(t, r.says("checkpoint unusable", `status.version is "v9"`))
	require.True(t, r.says("checkpoint unusable", `status.memoryHistogram.bucketWeights has a bucket "999"`))
	milli, bytes := asHistory(t, known)
	for _, name := range []string{"still", "doomed"} {
		target := targets(t, ns, name, 1)["app"]
		require.Equal(t, milli, milliOf(target))
		require.Equal(t, bytes, bytesOf(target))
	}
	for _, name := range []string{"text", "negative", "index", "version"} {
		nothingKnown(t, ns, name, "app") // its history begins anew
	}
	targets(t, ns, "two", 2)
	goes(t, ns, "nobody-app")

	// Without samples no checkpoint is written, readable or not.
	changing := []string{"VerticalPodAutoscaler busy", "VerticalPodAutoscalerCheckpoint busy-app", "VerticalPodAutoscaler two",
		"VerticalPodAutoscalerCheckpoint two-app", "VerticalPodAutoscalerCheckpoint two-side"}
	before := versions(t, ns, changing...)
	require.Len(t, before, 12)
	r.cycles(t, 5)
	require.Equal(t, before, versions(t, ns, changing...))

	recommended(t, ns, "busy")
	hang.Eventually(t, "the first checkpoint", func(context.Context) (bool, error) {
		return versions(t, ns)["VerticalPodAutoscalerCheckpoint busy-app"] != "", nil
	})
	first := versions(t, ns)
	hang.Eventually(t, "samples to be written down", func(context.Context) (bool, error) {
		now := versions(t, ns)
		for _, what := range changing[:2] {
			if now[what] == first[what] {
				return false, nil
			}
		}
		return true, nil
	})
	require.Equal(t, before, versions(t, ns, changing...))

	// VPAs are created and deleted during cycles.
	for i := range 20 {
		brief := over(fmt.Sprintf("brief-%d", i), "two")
		create(t, brief)
		if i%3 == 0 {
			r.cycles(t, 0)
		}
		require.NoError(t, cluster.Delete(t.Context(), brief))
	}
	doomed := over("doomed", "still")
	require.NoError(t, cluster.Delete(t.Context(), doomed))
	remove := []byte(`[{"op": "remove", "path": "/spec/template/spec/containers/1"}]`)
	require.NoError(t, cluster.Patch(t.Context(), two, client.RawPatch(types.JSONPatchType, remove)))
	goes(t, ns, "doomed-app")
	goes(t, ns, "two-side")
	require.Contains(t, targets(t, ns, "two", 1), "app")
	hang.Eventually(t, "no checkpoint of a VPA that is gone", func(context.Context) (bool, error) {
		for what := range versions(t, ns) {
			if containsText(what, "brief-") {
				return false, nil
			}
		}
		return true, nil
	})
	delete(before, "VerticalPodAutoscaler doomed")
	delete(before, "VerticalPodAutoscalerCheckpoint doomed-app")
	require.Equal(t, before, versions(t, ns, changing...), "those of others stay")
	require.Contains(t, versions(t, ns), "VerticalPodAutoscalerCheckpoint two-app")
}
