package upstream

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	upstreamv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpaclient "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	vpalisters "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/listers/autoscaling.k8s.io/v1"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	updaterlogic "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
)

// Upstream's loop reads VPAs, pods and their owners from these.
type (
	oneVPALister struct {
		vpalisters.VerticalPodAutoscalerLister
		vpa *upstreamv1.VerticalPodAutoscaler
	}
	podsLister struct {
		listersv1.PodLister
		pods []*corev1.Pod
	}
	anyPod      struct{}
	oneTopOwner struct{}
)

func (l oneVPALister) List(labels.Selector) ([]*upstreamv1.VerticalPodAutoscaler, error) {
	return []*upstreamv1.VerticalPodAutoscaler{l.vpa}, nil
}
func (l podsLister) List(labels.Selector) ([]*corev1.Pod, error) { return l.pods, nil }

func (anyPod) Fetch(context.Context, *upstreamv1.VerticalPodAutoscaler) (labels.Selector, error) {
	return labels.Everything(), nil
}

func (oneTopOwner) FindTopMostWellKnownOrScalable(context.Context, *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return &controllerfetcher.ControllerKeyWithAPIVersion{ControllerKey: controllerfetcher.ControllerKey{Namespace: "shop", Kind: "Deployment", Name: "d"}}, nil
}

// inside sets an unexported field of another package.
func inside[T any](object any, name string, value T) {
	*(*T)(unsafe.Pointer(reflect.ValueOf(object).Elem().FieldByName(name).UnsafeAddr())) = value
}

// TestTheCycleOfUpstreamIsItsOwn also runs upstream's whole loop: on generated workloads it does
// the same as the cycle that the other tests use. The loop reads the clock itself, so all times are
// shifted to the present.
func TestTheCycleOfUpstreamIsItsOwn(t *testing.T) {
	t.Cleanup(func() { require.NoError(t, setUpstreamGates(gates{})) })
	loop := newLoop(t)
	did := 0
	for name, kind := range updateKinds {
		for seed := range seeds(t, cases(600)) {
			c := generateUpdate(seed, kind)
			in, err := readUpdate(c)
			require.NoError(t, err)
			cycle, err := updateByUpstream(in.copy(), c.Gates, ways{})
			require.NoError(t, err)
			if cycle.Panicked != "" || in.NoAdmission || strings.Contains(string(in.VPA), "gpu") {
				continue // of three resources upstream adds up the differences in any order, so that pods alike may differ in the last digit
			}
			var ran []string
			synctest.Test(t, func(t *testing.T) { // so that no time passes from here to where the loop reads the clock
				in.toThePresent()
				var panicked bool
				ran, panicked = runLoop(t, loop, in)
				require.False(t, panicked, "seed %d: %s", seed, c)
			})
			want := slices.DeleteFunc(cycle.Done, func(step string) bool { return strings.HasPrefix(step, doneRemember) })
			require.Equal(t, want, ran, "%s, seed %d: %s", name, seed, c)
			did += len(want)
		}
	}
	require.Greater(t, did, cases(500))
}

// newLoop creates upstream's updater, which must first list VPAs from a server.
func newLoop(t *testing.T) updaterlogic.Updater {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, `{"kind":"VerticalPodAutoscalerList","apiVersion":"autoscaling.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"VerticalPodAutoscaler","apiVersion":"autoscaling.k8s.io/v1",
"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-over: // nobody stops the client, which asks again as often as it is cut off, and the server would wait for the answer
		}
	}))
	t.Cleanup(func() {
		close(over)
		server.Close()
	})
	vpas, err := vpaclient.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	core := fake.NewClientset()
	nothing := informers.NewSharedInformerFactory(core, 0)
	require.NoError(t, setUpstreamGates(gates{}))
	loop, err := updaterlogic.NewUpdater(core, vpas, nothing, nothing, 1, 0, 1, 0.5, false, false, 0, 0, 0, "", "", 0,
		nil, nil, anyPod{}, oneTopOwner{}, priority.NewProcessor(), "", nil, nil)
	require.NoError(t, err)
	return loop
}

// runLoop runs upstream's loop once.
func runLoop(t *testing.T, loop updaterlogic.Updater, in updateInput) (done []string, panicked bool) {
	v, err := in.upstreamVPA()
	require.NoError(t, err)
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "d"}
	c := newUpstreamCycle(in, v)
	factory := c.factory()
	inside(loop, "vpaLister", vpalisters.VerticalPodAutoscalerLister(oneVPALister{vpa: v}))
	inside(loop, "podLister", listersv1.PodLister(podsLister{pods: in.Pods}))
	inside(loop, "restrictionFactory", factory)
	inside(loop, "recommendationProcessor", c.capping)
	inside(loop, "evictionAdmission", c.admission)
	inside(loop, "infeasibleAttempts", c.infeasible)
	inside(loop, "defaultUpdateThreshold", in.Flags.threshold())
	inside(loop, "podLifetimeUpdateThreshold", in.Flags.lifetime())
	inside(loop, "evictAfterOOMThreshold", in.Flags.evictAfterOOM())
	defer func() { panicked = recover() != nil }()
	loop.RunOnce(context.Background())
	return c.out.Done, false
}

// toThePresent shifts all times that upstream compares with the system clock.
func (in *updateInput) toThePresent() {
	later := time.Since(updateNow)
	move := func(at *metav1.Time) { at.Time = at.Add(later) }
	for _, pod := range in.Pods {
		if pod.Status.StartTime != nil {
			move(pod.Status.StartTime)
		}
		for i := range pod.Status.ContainerStatuses {
			if end := pod.Status.ContainerStatuses[i].LastTerminationState.Terminated; end != nil {
				move(&end.StartedAt)
				move(&end.FinishedAt)
			}
		}
	}
}
