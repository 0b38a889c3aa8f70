package crowd

import (
	"errors"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/celvpa/celvpa/conformance/bench/standin"
	"github.com/celvpa/celvpa/controllers/slim"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestComponentsFindAllKindsThatTheyCache: one that is not served stops them.
func TestComponentsFindAllKindsThatTheyCache(t *testing.T) {
	c, err := Make(1, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), false)
	require.NoError(t, err)
	server := httptest.NewServer(&standin.Server{Store: c.Store, Checkpoints: c.Checkpoints})
	defer server.Close()
	mapper, err := apiutil.NewDynamicRESTMapper(&rest.Config{Host: server.URL}, server.Client())
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), vpav1.AddToScheme(scheme)))
	for object := range slim.ByObject(false) {
		kind, err := apiutil.GVKForObject(object, scheme)
		require.NoError(t, err)
		_, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
	}
}

func TestAMinuteChangesOnePercentAndNothingGrows(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c, err := Make(800, at, false)
	require.NoError(t, err)
	names := func(plural string) (out []string) {
		list, _ := c.List(plural)
		for _, object := range list {
			out = append(out, object.GetName())
		}
		return out
	}
	of := func(plural string) (before, same int) {
		was := names(plural)
		c.Minute()
		for _, name := range names(plural) {
			if _, kept := slices.BinarySearch(was, name); kept {
				same++
			}
		}
		return len(was), same
	}
	before, same := of("pods")
	require.Equal(t, 800*PodsOfWorkload, before)
	require.Equal(t, 8*PodsOfWorkload, before-same, "pods of one workload in a hundred are others")
	before, same = of("verticalpodautoscalers")
	require.Equal(t, 2, before-same, "a quarter of these are others")
	for range 50 {
		c.Minute()
	}
	require.Equal(t, 800, c.Len("verticalpodautoscalers"))
	require.Equal(t, 800*PodsOfWorkload, c.Pods())
	require.LessOrEqual(t, c.Len("replicasets"), 2*800)
	require.Equal(t, at.Add(52*time.Minute), c.now)

	text, err := c.Usage()
	require.NoError(t, err)
	decoded, _, err := metricsscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	require.NoError(t, err)
	usage := decoded.(*metricsv1beta1.PodMetricsList)
	require.Len(t, usage.Items, c.Pods())
	require.Len(t, usage.Items[0].Containers, ContainersOfPod)
	require.True(t, usage.Items[0].Timestamp.Time.Equal(c.now))
}
