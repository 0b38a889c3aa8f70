package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestMain lets tests run this program as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("CELVPA_TEST_MAIN") != "" {
		main()
		os.Exit(0)
	}
	// Tests compile and drop many rules. Collecting them often takes most of the time, and components, which tests start, leave it
	// to Go only if the environment says how often.
	os.Setenv("GOGC", "400")
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// `celvpa rules lint` ignored SIGTERM, and went on with whatever it could not get done with.
func TestOfflineCommandsEndOnTheFirstSignal(t *testing.T) {
	for name, args := range map[string][]string{
		"validate":  {"validate", "-f", "-"},
		"admit":     {"admit", "-f", "-"},
		"plan":      {"plan", "-f", "-"},
		"recommend": {"recommend", "-f", "-", "--usage", os.DevNull},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(name+" "+signal.String(), func(t *testing.T) {
				cmd := exec.Command(os.Args[0], args...)
				cmd.Env = append(os.Environ(), "CELVPA_TEST_MAIN=1")
				in, err := cmd.StdinPipe() // it is never closed, so the program waits
				require.NoError(t, err)
				defer in.Close()
				require.NoError(t, cmd.Start())
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				_, err = in.Write(bytes.Repeat([]byte("# more than a pipe holds\n"), 20_000))
				require.NoError(t, err, "it reads, so it has started")
				require.NoError(t, cmd.Process.Signal(signal))
				defer cmd.Process.Kill()
				hang.Receive(t, ended, "it goes on")
				require.Equal(t, signal, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
			})
		}
	}
}
