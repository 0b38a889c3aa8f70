package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCrashesAreFoundInALog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(log, []byte(`{"level":"info","msg":"panic: not one"}`+"\n"+text), 0o600))
	}
	write("estimate.yaml:23:51: much is not a number\ncelvpa: the rules cannot be used\n")
	lines, err := crash(log)
	require.NoError(t, err)
	require.Empty(t, lines, "a start that is refused says why")
	write("panic: runtime error: index out of range\n\ngoroutine 7 [running]:\nmain.main()\n")
	lines, err = crash(log)
	require.NoError(t, err)
	require.Equal(t, []string{"panic: runtime error: index out of range", "goroutine 7 [running]:"}, lines)
}
