package freshness

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
