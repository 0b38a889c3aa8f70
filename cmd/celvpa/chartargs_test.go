package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheArgumentsOfOtherChartsAreUnderstood: what upstream's chart 0.11 and Fairwinds' pass to their images, which name no command.
func TestTheArgumentsOfOtherChartsAreUnderstood(t *testing.T) {
	leader := func(name string) []string {
		return []string{"--leader-elect=true", "--leader-elect-resource-namespace=vpa", "--leader-elect-resource-name=" + name,
			"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s"}
	}
	log := []string{"--v=4", "--stderrthreshold=info"}
	for _, tt := range []struct {
		chart, image string
		args         []string
	}{
		{"upstream's", "recommender", append(leader("vpa-recommender-lease"), log...)},
		{"upstream's", "updater", append(append(leader("vpa-updater-lease"), log...), "--in-place-skip-disruption-budget=true")},
		{"upstream's", "admission-controller", append([]string{"--register-webhook=false"}, log...)},
		{"upstream's", "admission-controller", append([]string{"--reload-cert=true", "--webhook-service=vpa-webhook"}, log...)},
		{"Fairwinds'", "recommender", []string{"--pod-recommendation-min-cpu-millicores=15", "--pod-recommendation-min-memory-mb=100", "--v=4"}},
		{"Fairwinds'", "updater", nil},
		{"Fairwinds'", "updater", []string{"--min-replicas=1", "--eviction-tolerance=0.5"}},
		{"Fairwinds'", "admission-controller", []string{"--register-webhook=false", "--webhook-service=vpa-webhook", "--client-ca-file=/etc/tls-certs/ca",
			"--tls-cert-file=/etc/tls-certs/cert", "--tls-private-key=/etc/tls-certs/key"}},
	} {
		t.Run(tt.chart+" "+tt.image, func(t *testing.T) {
			said := called(t, tt.image, append(tt.args, "--kubeconfig="+filepath.Join(t.TempDir(), "none"))...)
			require.Regexp(t, `no Kubernetes API to talk to`, said, "the arguments are read before that")
			require.NotContains(t, said, "unknown flag")
		})
	}
}
