package recommender

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// loading is a history of nothing that takes as long as the test likes.
type loading func()

func (l loading) Load(context.Context, time.Time) ([]history.Pod, error) {
	l()
	return nil, nil
}

// TestLoadingALongHistoryIsHealthy: 8 days of a large cluster, or a Prometheus that is not there
// yet, take more than the five intervals after which a process is taken for stuck. A liveness probe
// ended it then, again and again.
func TestLoadingALongHistoryIsHealthy(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var during error
	var r *Recommender
	r = New(Options{Client: fake.NewClientBuilder().Build(), Clock: clk, Log: logr.Discard(), Interval: time.Minute, UnusedGrace: model.UnusedGrace, History: loading(func() {
		clk.Step(time.Hour)
		during = r.Healthy()
	})})
	r.Progress()
	r.begin(t.Context(), nil)
	require.NoError(t, during)
	require.NoError(t, r.Healthy(), "the intervals count from the end of the history")
	clk.Step(6 * time.Minute)
	require.ErrorContains(t, r.Healthy(), "has not finished a cycle for 6m")
}
