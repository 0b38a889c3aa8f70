package policy

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

func TestDifferenceIsCountedEachTimeAndReportedWhenNew(t *testing.T) {
	recorder, clk := events.NewFakeRecorder(10), testclock.NewFakePassiveClock(time.Unix(0, 0))
	s := &Shadows{Component: "recommender", Recorder: recorder, Clock: clk, Log: logr.Discard()}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "payments", Name: "web", UID: "1"}}
	shadow := compile.Shadow{Overlay: "more", Mode: document.ModeAudit}
	count := func() float64 { return testutil.ToFloat64(differences.WithLabelValues("more", "Audit", "recommender")) }
	start := count()

	s.Record(v, shadow, "the recommendation", []string{"container a target cpu 100m → 120m"})
	require.Contains(t, <-recorder.Events, "RuleOverlay more (Audit) would change the recommendation: container a target cpu 100m → 120m")
	s.Record(v, shadow, "the recommendation", []string{"container a target cpu 100m → 120m"})
	require.Empty(t, recorder.Events, "no duplicate events")
	s.Record(v, shadow, "running pods", []string{"pod x: Wait → Evict", "more"})
	require.Contains(t, <-recorder.Events, "would change running pods: pod x: Wait → Evict; more")
	require.Equal(t, start+3, count())

	s.Record(v, shadow, "the recommendation", []string{"container a target cpu 101m → 121m"})
	require.Empty(t, recorder.Events, "numbers move all the time")
	clk.SetTime(time.Unix(3600, 0))
	s.Record(v, shadow, "the recommendation", nil)
	s.Record(v, shadow, "the recommendation", []string{"container a target cpu unset"})
	require.Len(t, recorder.Events, 1, "it is another one")
	<-recorder.Events

	v.UID = ""
	s.Record(v, shadow, "the recommendation", []string{"x"})
	require.Empty(t, recorder.Events, "no event about an object that is not stored")
}

func TestAVPAGetsThePipelineItPinsAndTheOverlaysThatMatchIt(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	v := &vpav1.VerticalPodAutoscaler{}
	require.Same(t, book.Default(), For(book, v).Plan)
	v.Annotations = map[string]string{AnnotationPipeline: "default@1.0.0"}
	require.Same(t, book.Default(), For(book, v).Plan)
	v.Annotations[AnnotationPipeline] = "default@0.9.0"
	require.EqualError(t, For(book, v).Err, `pipeline "default@0.9.0" is not loaded; write it as name@version, there is default@1.0.0; --pipelines and --rules-dir load others`)
}
