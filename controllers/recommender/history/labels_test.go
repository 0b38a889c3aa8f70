package history

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

var labelFlags = []string{"--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod"}

func TestLabelsComeInParts(t *testing.T) {
	for _, step := range []string{"", ":5m"} { // a selector and a subquery
		const query = "kube_pod_labels{cluster=\"a\"}"
		length := func(text string) time.Duration {
			part, found := strings.CutSuffix(strings.TrimPrefix(text, query+"["), step+"]")
			require.True(t, found, text)
			d, err := prommodel.ParseDuration(part)
			require.NoError(t, err)
			return time.Duration(d)
		}
		var largest time.Duration
		address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
			if !strings.HasPrefix(of.query, query) {
				return false
			}
			d := length(of.query)
			if d > 10*time.Hour {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
				return true
			}
			largest = max(largest, d)
			app := "new"
			if of.end < now.Add(-24*time.Hour).Unix() {
				app = "old"
			}
			_, _ = w.Write([]byte(matrix(fmt.Sprintf(`{"metric":{"namespace":"a","pod":"p","label_app":%q},"values":[[%d,"1"],[%d,"1"]]}`, app, of.end-60, of.end))))
			return true
		})
		s, _ := source(t, address, append(labelFlags, "--metric-for-pod-labels=kube_pod_labels[8d"+step+"]", "--prometheus-matchers=cluster=a")...)
		pods, err := s.Load(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"app": "new"}, pods[0].Labels, "the newest of all parts")
		require.Greater(t, largest, 4*time.Hour)
		require.Equal(t, asked(query), asked("")[:len(asked(query))], "they are asked for first")
		end := now.Add(-8 * 24 * time.Hour)
		for _, request := range asked(query) {
			d := length(request.query)
			require.Equal(t, end.Add(d).Unix(), request.end)
			if d <= 10*time.Hour {
				end = end.Add(d)
			}
		}
		require.Equal(t, now, end, "the parts are the whole")
	}
}

func TestAPartOfTheLabelsThatNeverComesLosesOnlyItself(t *testing.T) {
	var lost int64
	address, _ := recorded(t, func(w http.ResponseWriter, of request) bool {
		if !strings.HasPrefix(of.query, "kube_pod_labels") {
			return false
		}
		if lost == 0 && of.end > now.Add(-24*time.Hour).Unix() {
			lost = of.end
		}
		if of.end == lost {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		_, _ = w.Write([]byte(matrix(fmt.Sprintf(`{"metric":{"namespace":"a","pod":"p","label_app":"old"},"values":[[%d,"1"]]}`, of.end))))
		return true
	})
	s, clk := source(t, address, append(labelFlags, "--metric-for-pod-labels=kube_pod_labels[8d]")...)
	pods, err := s.Load(t.Context(), now)
	require.ErrorContains(t, err, "queries for kube_pod_labels[8d] failed: 1, e.g. from 2026-11-17T")
	require.Len(t, clk.waited, 7)
	require.Equal(t, map[string]string{"app": "old"}, pods[0].Labels)
	require.Len(t, pods[0].Samples(), 2*61)
}

func TestLabelsOfOneTimeAreAskedForOnce(t *testing.T) {
	for _, query := range []string{"(kube_pod_labels @ end())[8d:5m]", "kube_pod_labels[8d:5m] @ start()", "kube_pod_labels[8d] @ 1", "kube_pod_labels"} {
		address, asked := recorded(t, nil)
		s, _ := source(t, address, append(labelFlags, "--metric-for-pod-labels="+query)...)
		_, _ = s.Load(t.Context(), now)
		require.Equal(t, []request{{query: query, end: now.Unix()}}, asked(query), "its parts are not the whole")
	}
}
