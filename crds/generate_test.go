package crds

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsCommittedIsWhatIsGenerated runs the command of generate.go into a scratch folder and compares.
func TestWhatIsCommittedIsWhatIsGenerated(t *testing.T) {
	source, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	_, command, found := strings.Cut(string(source), "//go:generate ")
	require.True(t, found)
	scratch := t.TempDir()
	args := strings.Fields(strings.TrimSpace(command))
	for i, arg := range args {
		if strings.HasPrefix(arg, "output:crd:dir=") {
			args[i] = "output:crd:dir=" + scratch
		}
	}
	args = append(args, "output:object:dir="+scratch)
	output, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, string(output))

	committed, err := filepath.Glob("bases/*.yaml")
	require.NoError(t, err)
	committed = append(committed, filepath.Join("v1", "zz_generated.deepcopy.go"))
	generated, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Len(t, generated, len(committed), "generated and committed files differ in number: run make generate")
	for _, file := range committed {
		want, err := os.ReadFile(filepath.Join(scratch, filepath.Base(file)))
		require.NoError(t, err)
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not what make generate makes", file)
	}
}
