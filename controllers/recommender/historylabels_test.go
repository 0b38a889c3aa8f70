package recommender

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// prometheusWith is a Prometheus in which each pod uses two cores and 2 GiB. labels are those of pods,
// as JSON.
func prometheusWith(t *testing.T, pods []string, labels ...string) *history.Source {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, kind := r.FormValue("query"), "matrix"
		begin, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		var series []string
		switch {
		case strings.HasPrefix(query, "kube_pod_labels"):
			kind = "vector"
			for _, label := range labels {
				series = append(series, fmt.Sprintf(`{"metric":%s,"value":[1,"1"]}`, label))
			}
		case strings.HasPrefix(query, "max by (") && !strings.Contains(query, " > "):
			value := 2
			if strings.Contains(query, "memory") {
				value <<= 30
			}
			var values []string
			for at := begin; at <= end; at += 3600 {
				values = append(values, fmt.Sprintf(`[%f,"%d"]`, at, value))
			}
			for _, pod := range pods {
				series = append(series, fmt.Sprintf(`{"metric":{"namespace":"ns","pod_name":%q,"name":"app"},"values":[%s]}`, pod, strings.Join(values, ",")))
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":%q,"result":[%s]}}`, kind, strings.Join(series, ","))
	}))
	t.Cleanup(server.Close)
	var c history.Config
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	history.AddFlags(flags, &c)
	require.NoError(t, flags.Parse([]string{"--prometheus-address=" + server.URL, "--metric-for-pod-labels=kube_pod_labels",
		"--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod"}))
	source, err := history.New(c, clock.RealClock{}, logr.Discard())
	require.NoError(t, err)
	return source
}

// TestHistoryFindsItsVPA: Prometheus allows no dots and slashes in names of labels, so selectors of
// most Helm charts matched nothing.
func TestHistoryFindsItsVPA(t *testing.T) {
	for name, row := range map[string]struct {
		selector map[string]string
		labels   string // of the pod that used something
		history  string // that pod
		found    bool
	}{
		"the pod runs, and its labels are not known to Prometheus": {selector: map[string]string{"app.kubernetes.io/name": "shop"}, history: "shop-new", found: true},
		"the pod is gone, and kube-state-metrics renamed its labels": {selector: map[string]string{"app.kubernetes.io/name": "shop", "example.com/appRole": "web"},
			labels: `{"namespace":"ns","pod":"shop-old","label_app_kubernetes_io_name":"shop","label_example_com_app_role":"web"}`, history: "shop-old", found: true},
		"the pod is gone, and Prometheus renamed its labels": {selector: map[string]string{"example.com/appRole": "web"},
			labels: `{"namespace":"ns","pod":"shop-old","label_example_com_appRole":"web"}`, history: "shop-old", found: true},
		"the pod is gone, and is another's": {selector: map[string]string{"app.kubernetes.io/name": "shop"},
			labels: `{"namespace":"ns","pod":"shop-old","label_app_kubernetes_io_name":"mill"}`, history: "shop-old"},
		"the pod is gone, and its labels need no other names": {selector: map[string]string{"app": "shop"},
			labels: `{"namespace":"ns","pod":"shop-old","label_app":"shop"}`, history: "shop-old", found: true},
		"the pod is gone, and so are its labels": {selector: map[string]string{"app": "shop"}, history: "shop-old"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := workload("shop", "app")
			objects[2].(*appsv1.Deployment).Spec.Selector.MatchLabels = row.selector
			pod := podNamed("shop-new", "", "app")
			pod.Labels = row.selector
			c := newCluster(t, objects[0], pod, objects[2])
			var labels []string
			if row.labels != "" {
				labels = append(labels, row.labels)
			}
			c.History, c.Checkpoints = prometheusWith(t, []string{row.history}, labels...), nil
			c.cycle()
			got := c.vpa("shop").Status.Recommendation
			if !row.found {
				require.True(t, got == nil || len(got.ContainerRecommendations) == 0)
				return
			}
			require.Len(t, got.ContainerRecommendations, 1)
			require.Greater(t, got.ContainerRecommendations[0].Target.Cpu().MilliValue(), int64(2000))
		})
	}
}

func TestHistoryOfRunningPodsHasTheirLabels(t *testing.T) {
	c := newCluster(t, podNamed("a", "a", "app"))
	c.cycle()
	known := c.historyLabels(t.Context())
	require.Equal(t, map[string]string{"app": "a"}, known.of(history.Pod{ID: model.PodID{Namespace: "ns", Name: "a"}, Labels: map[string]string{"app": "before"}}))
	require.Equal(t, map[string]string{"app": "before"}, known.of(history.Pod{ID: model.PodID{Namespace: "ns", Name: "b"}, Labels: map[string]string{"app": "before"}}))
	require.Nil(t, known.of(history.Pod{ID: model.PodID{Namespace: "ns", Name: "b"}}))
}
