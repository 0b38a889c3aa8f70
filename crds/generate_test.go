package crds

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsCommittedIsWhatIsGenerated runs the commands in embed.go into a scratch folder.
func TestWhatIsCommittedIsWhatIsGenerated(t *testing.T) {
	source, err := os.ReadFile("embed.go")
	require.NoError(t, err)
	commands := strings.Split(string(source), "//go:generate ")[1:]
	require.Len(t, commands, 2)
	compared := 0
	for _, command := range commands {
		scratch := t.TempDir()
		args := strings.Fields(command)
		var types string
		for i, arg := range args {
			if path, ok := strings.CutPrefix(arg, "paths=./"); ok {
				types = path
			}
			if strings.HasPrefix(arg, "output:crd:dir=") {
				args[i] = "output:crd:dir=" + scratch
			}
		}
		args = append(args, "output:object:dir="+scratch)
		output, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, string(output))
		generated, err := filepath.Glob(filepath.Join(scratch, "*"))
		require.NoError(t, err)
		for _, file := range generated {
			committed := filepath.Join("bases", filepath.Base(file))
			if filepath.Ext(file) == ".go" {
				committed = filepath.Join(types, filepath.Base(file))
			} else {
				compared++
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got, err := os.ReadFile(committed)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "%s is not what make generate makes", committed)
		}
	}
	bases, err := filepath.Glob("bases/*.yaml")
	require.NoError(t, err)
	require.Len(t, bases, compared, "a manifest that no type makes: delete it")
}
