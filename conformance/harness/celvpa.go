package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Celvpa is a running celvpa, whose log is read.
type Celvpa struct {
	*Process
	Address string // of its metrics and health endpoints
}

// LogLine is one structured line of celvpa's log.
type LogLine map[string]any

// Text returns a field as text; empty if missing.
func (l LogLine) Text(key string) string {
	if v, ok := l[key]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// raceVariable asks for a celvpa that detects data races, and ends at the first (make test LONG=1).
const raceVariable = "CELVPA_RACE"

// DetectsRaces reports whether Build is asked for that. Such a process takes several times the memory.
func DetectsRaces() bool { return os.Getenv(raceVariable) != "" }

// Build compiles celvpa from the working tree and returns the binary's path.
func Build(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "celvpa")
	args, cgo := []string{"build"}, "CGO_ENABLED=0" // like make build
	if DetectsRaces() {
		program, args, cgo = program+"-race", append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", program, "./cmd/celvpa")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	return program, building(root, "celvpa", cmd)
}

// LocalWebhookArgs returns flags for free ports, with a webhook that API servers reach by host. On
// loopback it listens only there. API servers wait as long as they may: a pod that a busy machine
// reviews late is patched all the same.
func LocalWebhookArgs(host string) (args []string, address string, err error) {
	if address, err = FreeAddress(); err != nil {
		return nil, "", err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return nil, "", err
	}
	args = []string{"--address=" + address, fmt.Sprintf("--port=%d", port),
		"--register-by-url", "--webhook-address=" + host, "--webhook-timeout-seconds=30"}
	if host == "127.0.0.1" {
		args = append(args, "--bind-address=127.0.0.1")
	}
	return args, address, nil
}

// Start runs the program. Its JSON log goes to logFile, and each line to each.
func Start(program, address, logFile string, args []string, each func(LogLine)) (*Celvpa, error) {
	return Launch(program, address, logFile, append(args, "--logging-format=json"), each)
}

// Launch is Start for programs without a log format flag.
func Launch(program, address, logFile string, args []string, each func(LogLine)) (*Celvpa, error) {
	c := &Celvpa{Address: address, Process: newProcess(logFile, program, args)}
	out, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	return c, c.begin(func(log *os.File) { read(io.TeeReader(out, log), each) })
}

func read(from io.Reader, each func(LogLine)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line LogLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && each != nil {
			each(line)
		}
	}
}

// WaitReady waits until /readyz answers OK.
func (c *Celvpa) WaitReady(ctx context.Context) error {
	last := errors.New("no answer yet")
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, hung, true, func(ctx context.Context) (bool, error) {
		if err := c.Alive(); err != nil {
			return false, err
		}
		_, last = Get(ctx, "http://"+c.Address+"/readyz")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("celvpa is not ready: %w (%w)", err, last)
	}
	return nil
}
