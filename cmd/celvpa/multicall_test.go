package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALinkDecidesWhatTheProgramIs runs this program by other names, as images and kubectl do.
func TestALinkDecidesWhatTheProgramIs(t *testing.T) {
	for _, tt := range []struct {
		name, arg, want string
	}{
		{"recommender", "--help", `\n  celvpa recommender \[flags\]\n`},
		{"vpa-recommender", "--help", `\n  celvpa recommender \[flags\]\n`},
		{"updater", "--help", `\n  celvpa updater \[flags\]\n`},
		{"vpa-updater", "--help", `\n  celvpa updater \[flags\]\n`},
		{"admission-controller", "--help", `\n  celvpa admission-controller \[flags\]\n`},
		{"vpa-admission-controller", "--help", `\n  celvpa admission-controller \[flags\]\n`},
		{"updater", "plan", `^celvpa: unknown command "plan" for "celvpa updater"\n`},
		{"kubectl-vpa", "--help", `\n  kubectl vpa \[command\]\n(.*\n)*  admission-controller (.*\n)*  recommender `},
		{"kubectl-vpa", "nonsense", `^celvpa: unknown command "nonsense" for "kubectl vpa"`},
		{"kubectl_complete-vpa", "recomm", `recommend\t.*\nrecommender\t`},
		{"vpa-plan", "--help", `\n  celvpa \[command\]\n`},
		{"something", "--help", `\n  celvpa \[command\]\n`},
	} {
		t.Run(tt.name+" "+tt.arg, func(t *testing.T) {
			require.Regexp(t, tt.want, called(t, tt.name, tt.arg))
		})
	}
}

// called runs this program by another name and returns what it prints.
func called(t *testing.T, name string, args ...string) string {
	t.Helper()
	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Symlink(program, link))
	cmd := exec.Command(link, args...)
	cmd.Env = append(os.Environ(), "CELVPA_TEST_MAIN=1")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// TestAPIServersSeeWhichComponentAsks starts components against an API server that refuses them.
func TestAPIServersSeeWhichComponentAsks(t *testing.T) {
	agents := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	kubeconfig := write(t, t.TempDir(), "config",
		"{clusters: [{name: c, cluster: {server: '"+server.URL+"'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}")
	info := newBuildInfo()
	for name, want := range map[string]string{"updater": "vpa-updater", "vpa-recommender": "vpa-recommender", "admission-controller": "vpa-admission-controller"} {
		require.Contains(t, called(t, name, "--kubeconfig", kubeconfig), "does not answer", name)
		require.Equal(t, want+"/"+info.Version+" ("+info.Platform+")", <-agents)
	}
	require.Contains(t, called(t, "celvpa", "run", "--kubeconfig", kubeconfig), "does not answer")
	require.Equal(t, "celvpa/"+info.Version+" ("+info.Platform+")", <-agents)
}
