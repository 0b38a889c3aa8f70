package recommender

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// weighing are bucket weights of about some bytes as JSON, of which none is valid.
func weighing(bytes int) map[string]uint32 {
	out := map[string]uint32{}
	for i := range bytes / len(`"100000":1,`) {
		out[strconv.Itoa(100000+i)] = 1
	}
	return out
}

// TestEnormousCheckpointsTakeNoMemory: anybody who may write some dozens of them could stop the recommender, which had a page of
// 500 in memory, decoded. The server pauses in the middle of each page, so what is measured then is only what is kept.
func TestEnormousCheckpointsTakeNoMemory(t *testing.T) {
	const enormous, half, mib = 40, 20, 1 << 20
	c := checkpointOf("x", "app", 7)
	c.Status.CPUHistogram.BucketWeights = weighing(1_400_000)
	text, err := json.Marshal(c)
	require.NoError(t, err)
	measured := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints" || r.URL.Query().Get("limit") != strconv.Itoa(checkpointPage) {
			t.Errorf("nobody lists %s", r.URL)
		}
		next := map[string]string{"": "more", "more": ""}[r.URL.Query().Get("continue")]
		_, _ = fmt.Fprint(w, `{"apiVersion":"autoscaling.k8s.io/v1","items":[`)
		for i := range enormous {
			if i == half {
				w.(http.Flusher).Flush()
				select {
				case <-measured:
				case <-r.Context().Done():
				case <-time.After(5 * time.Minute):
					t.Error("nothing is handed on before a page is read as a whole")
				}
			}
			_, _ = w.Write(text)
			_, _ = fmt.Fprint(w, ",")
		}
		_, _ = fmt.Fprintf(w, `{}],"kind":"VerticalPodAutoscalerCheckpointList","metadata":{"continue":%q}}`, next)
	}))
	defer server.Close()
	pages, err := NewPages(&rest.Config{Host: server.URL, QPS: -1})
	require.NoError(t, err)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r := New(Options{Pages: pages})
	before, most, seen := heap(), int64(0), 0
	require.NoError(t, r.eachCheckpoint(t.Context(), func(listed listedCheckpoint) {
		if seen++; listed.name == "" {
			return
		}
		require.Equal(t, checkpointRef{"ns", "x-app", "x", "app"}, listed.checkpointRef)
		require.Equal(t, len(text), listed.size)
		require.Nil(t, listed.text)
		if seen == half || seen == enormous+1+half {
			most = max(most, heap()-before)
			measured <- struct{}{}
		}
	}))
	require.Equal(t, 2*enormous+2, seen)
	t.Logf("%d checkpoints of %d KB: %d MiB at most", 2*enormous, len(text)/1000, most/mib)
	require.Less(t, most, int64(half*len(text)/2), "half of what was read of a page")
}

// TestACheckpointThatIsTooLargeIsUnreadable, and goes as others do.
func TestACheckpointThatIsTooLargeIsUnreadable(t *testing.T) {
	large, gone := checkpointOf("a", "app", 1000), checkpointOf("gone", "app", 1000)
	for _, checkpoint := range []*vpav1.VerticalPodAutoscalerCheckpoint{large, gone} {
		checkpoint.Status.MemoryHistogram.BucketWeights = weighing(maxCheckpoint)
	}
	c := newCluster(t, append(append(workload("a", "app"), workload("b", "app")...), large, gone, checkpointOf("b", "app", 1000))...)
	c.cycle("a app", "b app")
	require.Equal(t, 2, c.count("checkpoint unusable"))
	require.Equal(t, 2, c.count("bytes as JSON, and a valid checkpoint at most 262144"))
	require.Equal(t, 1, c.count(`"loaded"=1 "unused"=0 "unreadable"=2`))
	require.Equal(t, map[string]int{"a-app": 1, "b-app": 1001, "gone-app": 1000}, c.checkpoints())
	c.Checkpoints.Interval = time.Nanosecond
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1, "b-app": 1001}, c.checkpoints())
	require.Equal(t, 2, c.count("checkpoint unusable"), "once")
}

// TestTheLargestValidCheckpointIsFarFromTooLarge, even if several programs own its fields.
func TestTheLargestValidCheckpointIsFarFromTooLarge(t *testing.T) {
	const buckets, pods = 176, 100
	long := strings.Repeat("x", maxName)
	c := checkpointOf("a", "app", 1e15)
	c.Namespace, c.Name = long[:63], long
	c.Spec = vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: long, ContainerName: long[:63]}
	weights := map[string]uint32{}
	for n := range buckets {
		weights[strconv.Itoa(n)] = 10000
	}
	c.Status.CPUHistogram.BucketWeights, c.Status.MemoryHistogram.BucketWeights = weights, weights
	exact := make([]byte, 10*buckets)
	c.Status.Resume = &vpav1.CheckpointResume{WrittenAt: metav1.NewTime(start), CPUWeights: exact, MemoryWeights: exact, MemorySamples: 1e15}
	at, most := vpav1.NewInstant(start.Add(time.Nanosecond)), int64(1<<62)
	for range pods {
		c.Status.Resume.Pods = append(c.Status.Resume.Pods, vpav1.CheckpointPod{Name: long, CPUSample: at, MemorySample: at, WindowEnd: at, Closed: true, MemoryPeak: &most, OOMPeak: &most, LastOOM: at})
	}
	for i := range 3 {
		owned := map[string]any{}
		for n := range weights {
			owned["f:"+n] = map[string]any{}
		}
		fields, err := json.Marshal(map[string]any{"f:status": map[string]any{"f:cpuHistogram": owned, "f:memoryHistogram": owned}})
		require.NoError(t, err)
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: fmt.Sprint("m", i), FieldsV1: metav1.NewFieldsV1(string(fields))})
	}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	t.Logf("%d bytes", len(text))
	require.Less(t, len(text), maxCheckpoint/2)
	read, faulty, err := decodeCheckpoint(newListed(text))
	require.NoError(t, err)
	require.NoError(t, faulty)
	require.Equal(t, c.Spec, read.Spec)
	require.Equal(t, c.Status.CPUHistogram.BucketWeights, read.Status.CPUHistogram.BucketWeights)
	require.Len(t, read.Status.Resume.Pods, pods)
}

// TestAListThatIsCutOffIsAnError: a checkpoint that was not read must not be taken for none.
func TestAListThatIsCutOffIsAnError(t *testing.T) {
	whole := `{"kind":"List","items":[{"metadata":{"namespace":"ns","name":"a"}},{"spec":{"vpaObjectName":"b"}}],"metadata":{"continue":"next"}}`
	read := func(text string) (n int, next string, err error) {
		next, err = readPage(strings.NewReader(text), func(listedCheckpoint) { n++ })
		return n, next, err
	}
	n, next, err := read(whole)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, "next", next)
	for end := range len(whole) {
		_, _, err := read(whole[:end])
		require.Error(t, err, whole[:end])
	}
	for _, other := range []string{`[]`, `"text"`, `{"items":{}}`, `{"items":"none"}`, `{"metadata":[]}`, `{]`} {
		_, _, err := read(other)
		require.Error(t, err, other)
	}
}
