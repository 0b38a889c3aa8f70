package faults

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// watch sends the events of the test in the format that the client prefers.
func (b *backend) watch(w http.ResponseWriter, r *http.Request) {
	media := "application/json"
	if strings.HasPrefix(r.Header.Get("Accept"), protobufType) {
		media = protobufType
	}
	format, _ := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), media)
	stream := format.StreamSerializer
	w.Header().Set("Content-Type", media+";stream=watch")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	to := streaming.NewEncoder(stream.Framer.NewFrameWriter(w), stream.Serializer)
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-b.events:
			raw, err := runtime.Encode(clientgoscheme.Codecs.EncoderForVersion(format.Serializer, corev1.SchemeGroupVersion), event.Object.Object)
			if err != nil {
				panic(err)
			}
			if to.Encode(&metav1.WatchEvent{Type: event.Type, Object: runtime.RawExtension{Raw: raw}}) != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

const protobufType = "application/vnd.kubernetes.protobuf"

// watched is a watch through a proxy.
type watched struct {
	*Proxy
	t       *testing.T
	backend *backend
	client  apiwatch.Interface
}

// eachFormat runs a test with a watch in each format of API servers.
func eachFormat(t *testing.T, test func(t *testing.T, w *watched)) {
	for _, media := range []string{"application/json", protobufType} {
		t.Run(media, func(t *testing.T) {
			b := newBackend(t)
			p := between(t, b, 1)
			c := clientOf(t, p, func(c *rest.Config) { c.ContentType, c.AcceptContentTypes = media, media })
			client, err := c.CoreV1().Pods("ns").Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			t.Cleanup(client.Stop)
			test(t, &watched{Proxy: p, t: t, backend: b, client: client})
		})
	}
}

func (w *watched) send(of apiwatch.EventType, name, version string) {
	w.backend.events <- metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Object: pod(name, version)}}
}

// gets requires the next events, each as "ADDED name version".
func (w *watched) gets(want ...string) {
	w.t.Helper()
	for _, one := range want {
		event := <-w.client.ResultChan()
		object, ok := event.Object.(*corev1.Pod)
		require.True(w.t, ok, "%v", event)
		require.Equal(w.t, one, string(event.Type)+" "+object.Name+" "+object.ResourceVersion)
	}
}

// ends requires the end of the watch, which may be an error about the connection.
func (w *watched) ends() {
	w.t.Helper()
	for event := range w.client.ResultChan() {
		require.Equal(w.t, apiwatch.Error, event.Type, "%v", event)
	}
	soon(w.t, "the proxy to forget the watch", func() bool { return len(w.open(nil)) == 0 })
}

func TestWatchesArePassedOnEventByEvent(t *testing.T) {
	eachFormat(t, func(t *testing.T, w *watched) {
		w.send(apiwatch.Added, "a", "1")
		w.gets("ADDED a 1")
		w.send(apiwatch.Modified, "a", "2")
		w.gets("MODIFIED a 2")
		w.client.Stop()
		w.ends()
	})
}

func TestAWatchIsCut(t *testing.T) {
	eachFormat(t, func(t *testing.T, w *watched) {
		w.send(apiwatch.Added, "a", "1")
		w.gets("ADDED a 1")
		require.Zero(t, w.CutWatches(On("secrets")))
		require.Equal(t, 1, w.CutWatches(On("pods")))
		w.ends()
		require.Equal(t, map[string]int{"watch cut": 1}, w.Counts())
	})
}

func TestAWatchRepeatsItsLastEvents(t *testing.T) {
	eachFormat(t, func(t *testing.T, w *watched) {
		require.Zero(t, w.ReplayWatches(nil, 5))
		w.send(apiwatch.Added, "a", "1")
		w.send(apiwatch.Added, "b", "2")
		w.send(apiwatch.Bookmark, "", "3")
		w.send(apiwatch.Deleted, "a", "4")
		w.gets("ADDED a 1", "ADDED b 2", "BOOKMARK  3", "DELETED a 4")
		go w.ReplayWatches(nil, 2)
		w.gets("ADDED b 2", "DELETED a 4")
		w.send(apiwatch.Modified, "b", "5")
		w.gets("MODIFIED b 5")
	})
}

func TestAWatchExpires(t *testing.T) {
	eachFormat(t, func(t *testing.T, w *watched) {
		expired := make(chan error)
		go func() {
			_, err := w.ExpireWatches(Watches)
			expired <- err
		}()
		event := <-w.client.ResultChan()
		require.Equal(t, apiwatch.Error, event.Type)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
		require.NoError(t, <-expired)
		w.ends()
		require.Equal(t, map[string]int{"watch expired": 1}, w.Counts())
	})
}

func TestAWatchIsRefusedAsExpired(t *testing.T) {
	p := between(t, newBackend(t), 1)
	c := clientOf(t, p, asIs)
	p.Inject(Fault{On: Watches, Share: 1, Effects: []Effect{Answer(410)}})
	_, err := c.CoreV1().Pods("ns").Watch(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	require.NoError(t, get(t.Context(), c))
}

func TestEventsAreHeldBackUntilTheyAreReleased(t *testing.T) {
	eachFormat(t, func(t *testing.T, w *watched) {
		release := w.HoldWatches(On("pods"))
		w.send(apiwatch.Added, "a", "1")
		soon(t, "the event to be held", func() bool { return w.Counts()["event held"] == 1 })
		select {
		case event := <-w.client.ResultChan():
			t.Fatalf("it let %v pass", event)
		default:
		}
		release()
		w.gets("ADDED a 1")
	})
}
