package recommender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// The writes of a cycle end before the next cycle, which starts with those that are left.
const (
	statusShare     = 0.5  // of the interval for statuses
	firstShare      = 1.0  // of the interval for the first statuses of VPAs, unless checkpoints have waited for long
	checkpointShare = 0.75 // of the interval for statuses and checkpoints
	leastShare      = 0.25 // of the interval that each of them gets, however late the cycle is
	leastTime       = time.Second
)

// until is the deadline for writes of one kind in a cycle.
func (r *Recommender) until(begin time.Time, share float64) time.Time {
	end, least := begin.Add(part(r.Interval, share)), r.Clock.Now().Add(max(part(r.Interval, leastShare), leastTime))
	if end.Before(least) {
		return least
	}
	return end
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// writeStatuses writes the statuses that changed. Namespaces take turns. In each of them those come first that have waited for long,
// then those of VPAs without one, which have more time, then urgent ones, then those that waited longest.
func (r *Recommender) writeStatuses(ctx context.Context, updates []*Update, until, untilFirst time.Time) {
	long := r.Clock.Now().Add(-turns.Patience * r.Interval)
	slices.SortStableFunc(updates, func(a, b *Update) int { return waitingSince(a).Compare(waitingSince(b)) })
	turns.Order(&r.statusTurns, updates, func(u *Update) (string, int) { return u.Workload.VPA.Namespace, u.urgency(long) })
	if untilFirst.Before(until) {
		untilFirst = until
	}
	latest := until
	if slices.ContainsFunc(updates, func(u *Update) bool { return u.First }) {
		latest = untilFirst
	}
	ctx, cancel := context.WithTimeout(ctx, latest.Sub(r.Clock.Now()))
	defer cancel()
	work := make(chan *Update)
	var done sync.WaitGroup
	var over atomic.Bool // one write ran out of time, and so would the others
	for range r.Workers {
		done.Go(func() {
			for u := range work {
				if r.writeStatus(ctx, u) {
					over.Store(true)
				}
			}
		})
	}
	for _, u := range updates {
		end := until
		if u.First {
			end = untilFirst
		}
		if over.Load() || ctx.Err() != nil || !r.Clock.Now().Before(end) {
			r.postpone(u)
			continue
		}
		r.statusTurns.Served(u.Workload.VPA.Namespace)
		work <- u
	}
	close(work)
	done.Wait()
	written, left := 0, 0
	for _, u := range updates {
		if u.written {
			written++
		} else if u.postponed {
			left++
			r.crowded = r.crowded || u.First
		}
	}
	postponedWrites.WithLabelValues("status").Set(float64(left))
	if left > 0 {
		r.Log.Info("statuses postponed to the next cycle by --kube-api-qps or the API server", "written", written, "left", left)
	}
}

// urgency orders updates, the most urgent first. Those that have waited since before long are.
func (u *Update) urgency(long time.Time) int {
	switch {
	case waitingSince(u).Before(long):
		return 0
	case u.First:
		return 1
	case u.Urgent:
		return 2
	}
	return 3
}

// waitingSince is when an update was first due; the end of time for new ones.
func waitingSince(u *Update) time.Time {
	if u.Workload.waiting.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return u.Workload.waiting
}

func (r *Recommender) postpone(u *Update) {
	writesTotal.WithLabelValues("status", "postponed").Inc()
	u.postponed = true
	if u.Workload.waiting.IsZero() {
		u.Workload.waiting = r.Clock.Now()
	}
}

// writeStatus writes a status, and reports whether it ran out of time.
func (r *Recommender) writeStatus(ctx context.Context, u *Update) (late bool) {
	w := u.Workload
	err := Writer{r.Live}.Status(ctx, client.ObjectKeyFromObject(w.VPA), u.Status)
	switch {
	case err == nil:
		writesTotal.WithLabelValues("status", "success").Inc()
		u.written, w.waiting, w.sent = true, time.Time{}, sentStatus{w.VPA.ResourceVersion, u.Status}
		if !hasRecommendation(w.VPA.Status.Recommendation) && hasRecommendation(u.Status.Recommendation) {
			recommendationLatency.Observe(r.Clock.Since(w.VPA.CreationTimestamp.Time).Seconds())
		}
	case apierrors.IsNotFound(err) && w.missing != w.VPA.ResourceVersion: // deleted meanwhile
		w.missing, err = w.VPA.ResourceVersion, nil
	case apierrors.IsNotFound(err): // API servers answer the same where a CRD lacks the subresource
		writesTotal.WithLabelValues("status", "error").Inc()
		err = fmt.Errorf("writing the status: %w, although the VPA is listed: its CRD may lack the status subresource; install the CRDs with `celvpa crd | kubectl apply --server-side -f -`", err)
	case ctx.Err() != nil || outOfTime(err):
		r.postpone(u)
		return true
	default:
		writesTotal.WithLabelValues("status", "error").Inc()
		err = fmt.Errorf("writing the status: %w", err)
	}
	r.notices.Report(r.log(w), w.String()+" writing the status", err, "cannot write the status; retrying in each cycle")
	return false
}

// tolerates reports whether two statuses whose targets and conditions are the same differ in bounds
// only, and by no more than the tolerance. The bounds of each VPA drift with every sample of its first
// weeks: without it, each status would be written each minute.
func (s *State) tolerates(before, after *vpav1.VerticalPodAutoscalerStatus) bool {
	if s.tolerance.IsZero() || before.Recommendation == nil || after.Recommendation == nil ||
		!equality.Semantic.DeepEqual(before.ObservedGeneration, after.ObservedGeneration) {
		return false
	}
	a, b := before.Recommendation, after.Recommendation
	if len(a.ContainerRecommendations) != len(b.ContainerRecommendations) || (a.PodRecommendation == nil) != (b.PodRecommendation == nil) {
		return false
	}
	for i := range a.ContainerRecommendations {
		x, y := &a.ContainerRecommendations[i], &b.ContainerRecommendations[i]
		if x.ContainerName != y.ContainerName || !s.near(x.LowerBound, y.LowerBound) || !s.near(x.UpperBound, y.UpperBound) || !s.near(x.UncappedTarget, y.UncappedTarget) {
			return false
		}
	}
	x, y := a.PodRecommendation, b.PodRecommendation
	return x == nil || s.near(x.LowerBound, y.LowerBound) && s.near(x.UpperBound, y.UpperBound) && s.near(x.UncappedTarget, y.UncappedTarget)
}

// near reports whether two lists have the same resources, and amounts within the tolerance.
func (s *State) near(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		if y, ok := b[name]; !ok || !within(s.tolerance, x, y) {
			return false
		}
	}
	return true
}

// within reports whether an amount is off by at most a fraction of what it was: 2020m is 1% more than 2.
func within(fraction, was, is resource.Quantity) bool {
	before := was.AsDec()
	off := new(inf.Dec).Sub(is.AsDec(), before)
	may := new(inf.Dec).Mul(fraction.AsDec(), before)
	return off.Abs(off).Cmp(may.Abs(may)) <= 0
}

// Writer sends what a recommender writes, one request each unless a checkpoint is new.
type Writer struct {
	Live client.Client // not cached
}

// Status replaces the status of a VPA.
func (w Writer) Status(ctx context.Context, vpa client.ObjectKey, status *vpav1.VerticalPodAutoscalerStatus) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return fmt.Errorf("encoding the status of %s: %w", vpa, err)
	}
	return w.Live.Status().Patch(ctx, headOf("VerticalPodAutoscaler", vpa.Namespace, vpa.Name), client.RawPatch(types.JSONPatchType, patch))
}

// Checkpoint replaces the status of the checkpoint of a VPA's container, or creates it. Names of VPAs
// and containers may collide, as a-b with c and a with b-c do: the first one keeps the checkpoint.
func (w Writer) Checkpoint(ctx context.Context, vpa client.ObjectKey, container string, status vpav1.VerticalPodAutoscalerCheckpointStatus) error {
	object := &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: vpa.Namespace, Name: vpa.Name + "-" + container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: vpa.Name, ContainerName: container},
		Status:     status,
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/spec/vpaObjectName", "value": vpa.Name},
		{"op": "test", "path": "/spec/containerName", "value": container},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return fmt.Errorf("encoding checkpoint %s: %w", object.Name, err)
	}
	err = w.Live.Patch(ctx, headOf("VerticalPodAutoscalerCheckpoint", object.Namespace, object.Name), client.RawPatch(types.JSONPatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		err = w.Live.Create(ctx, object)
	case err != nil && ctx.Err() == nil && !outOfTime(err):
		if other := w.ownerOf(ctx, object); other != "" {
			return fmt.Errorf("checkpoint %s/%s is that of %s: rename one of the two VPAs or containers; otherwise this history is lost on restart", object.Namespace, object.Name, other)
		}
	}
	if err != nil {
		return fmt.Errorf("writing checkpoint %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}

// ownerOf is whose history a checkpoint holds when it is not that of the VPA and container in
// object; else empty.
func (w Writer) ownerOf(ctx context.Context, object *vpav1.VerticalPodAutoscalerCheckpoint) string {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpoint"))
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(object), found); err != nil {
		return ""
	}
	vpa, container := subjectOf(found)
	if vpa == object.Spec.VPAObjectName && container == object.Spec.ContainerName {
		return ""
	}
	return fmt.Sprintf("VPA %q, container %q", vpa, container)
}

// subjectOf is whose history a checkpoint holds.
func subjectOf(checkpoint *unstructured.Unstructured) (vpa, container string) {
	vpa, _, _ = unstructured.NestedString(checkpoint.Object, "spec", "vpaObjectName")
	container, _, _ = unstructured.NestedString(checkpoint.Object, "spec", "containerName")
	return vpa, container
}

// headOf names an object to patch. The answer is its metadata only, which is not read.
func headOf(kind, namespace, name string) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.SetGroupVersionKind(vpav1.GroupVersion.WithKind(kind))
	return out
}

// outOfTime reports whether a request missed its deadline, be it in the client's own rate limit.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "client rate limiter Wait")
}
