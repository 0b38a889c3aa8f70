package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALinkDecidesWhatTheProgramIs runs this program by other names, as images and kubectl do.
func TestALinkDecidesWhatTheProgramIs(t *testing.T) {
	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
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
			link := filepath.Join(t.TempDir(), tt.name)
			require.NoError(t, os.Symlink(program, link))
			cmd := exec.Command(link, tt.arg)
			cmd.Env = append(os.Environ(), "CELVPA_TEST_MAIN=1")
			out, _ := cmd.CombinedOutput()
			require.Regexp(t, tt.want, string(out))
		})
	}
}
