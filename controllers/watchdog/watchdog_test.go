package watchdog

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/crds/underway"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// A stalled informer looked like an idle one: /readyz said OK while no VPA of the cluster was
// followed.
func TestWorkThatDoesNotEndIsLoggedByName(t *testing.T) {
	var lines []string
	r := &Reporter{Clock: clock.RealClock{}, Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	require.NoError(t, Ready())
	quick := underway.Begin("decoding", time.Hour, true, func() string { t.Error("nobody asks what it is about"); return "" })
	end := underway.Begin("decoding VerticalPodAutoscaler", time.Nanosecond, true, func() string { return "shop/web" })
	compiled := underway.Begin("compiling RuleOverlay", time.Nanosecond, false, func() string { return "odd" })
	time.Sleep(time.Microsecond)
	require.ErrorContains(t, Ready(), "decoding VerticalPodAutoscaler shop/web has not ended for ")
	require.NoError(t, Healthy(), "not long enough for a restart")
	reported := r.report(nil)
	require.Len(t, lines, 2)
	require.Contains(t, lines[0]+lines[1], `"doing"="decoding VerticalPodAutoscaler" "object"="shop/web"`)
	require.Len(t, r.report(reported), 2)
	require.Len(t, lines, 2, "once")
	require.Equal(t, 2, testutil.CollectAndCount(collector{}, "celvpa_overdue_work_seconds"))
	end()
	require.ErrorContains(t, Ready(), "compiling RuleOverlay odd has not ended")
	reported = r.report(reported)
	require.Len(t, lines, 3)
	require.Contains(t, lines[2], "overdue work ended")
	compiled()
	quick()
	require.NoError(t, Ready())
	require.Empty(t, r.report(reported))
	require.Zero(t, testutil.CollectAndCount(collector{}, "celvpa_overdue_work_seconds"))
}

func TestARestartIsAskedForWhereOneIsNeeded(t *testing.T) {
	later := time.Now().Add(restartAfter + time.Minute)
	for _, restart := range []bool{true, false} {
		end := underway.Begin("decoding", time.Second, restart, func() string { return "shop/web" })
		require.Len(t, underway.Overdue(later, restartAfter), 1)
		require.Equal(t, !restart, healthyAt(later) == nil)
		end()
		require.NoError(t, healthyAt(later))
	}
}

func TestObjectsThatCannotBeReadAreCountedAndNamed(t *testing.T) {
	var lines []string
	u := &Unreadable{Kind: "Odd", Reason: func(o client.Object) string { return o.(*vpav1.VerticalPodAutoscaler).Unreadable() },
		Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	count := func() float64 { return testutil.ToFloat64(unreadableObjects.WithLabelValues("Odd")) }
	vpa := func(name, fault string) *vpav1.VerticalPodAutoscaler {
		return &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, SpecUnreadable: fault}
	}
	u.OnAdd(vpa("fine", ""), true)
	require.Zero(t, count())
	u.OnAdd(vpa("a", "spec.x cannot be read"), true)
	u.OnAdd(vpa("b", "spec.y cannot be read"), false)
	u.OnUpdate(vpa("b", ""), vpa("b", "spec.y cannot be read"))
	require.EqualValues(t, 2, count())
	require.Len(t, lines, 2, "each once")
	require.Contains(t, lines[0], `"kind"="Odd" "namespace"="shop" "name"="a" "reason"="spec.x cannot be read"`)
	u.OnUpdate(vpa("a", ""), vpa("a", ""))
	require.EqualValues(t, 1, count())
	u.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "shop/b", Obj: vpa("b", "")})
	require.Zero(t, count())
	require.Equal(t, 2, strings.Count(strings.Join(lines, "\n"), "object readable again, or gone"))
}
