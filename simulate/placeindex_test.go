package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPodIsComparedWithFewWorkloads: comparing each with all took minutes for 20,000.
func TestAPodIsComparedWithFewWorkloads(t *testing.T) {
	var workloads []*placed
	for _, name := range []string{"web", "web-api", "web-api-v2", "we", strings.Repeat("x", 60), "db", "api"} {
		w := &placed{}
		w.Name, w.Namespace = name, "shop"
		w.Template.Labels = map[string]string{"app": name, "tier": "all"}
		workloads = append(workloads, w)
	}
	at := byNamespace(workloads)["shop"]
	var compared []string
	note := func(w *placed) bool {
		compared = append(compared, w.Name)
		return w.Name == "web"
	}
	require.Equal(t, "web", at.named("web-api-bcdfg", note).Name)
	require.Equal(t, []string{strings.Repeat("x", 60), "web-api", "web"}, compared)

	compared = nil
	require.Equal(t, "web", at.labelled(map[string]string{"app": "web", "tier": "all"}, note).Name)
	require.Equal(t, []string{"web"}, compared)
	require.Nil(t, at.named("we", note), "fits decides")
	require.Nil(t, byNamespace(nil)["other"].named("web", note))
}
