package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Process is a program that runs in a process group of its own: Ctrl-C does not reach it.
type Process struct {
	LogFile string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // once exited is closed
}

func newProcess(logFile, program string, args []string) *Process {
	return &Process{LogFile: logFile, cmd: exec.Command(program, args...), exited: make(chan struct{})}
}

// StartMeasured runs a program that logs straight to a file, so that this process copies nothing.
func StartMeasured(logFile, program string, args ...string) (*Process, error) {
	p := newProcess(logFile, program, args)
	return p, p.begin(nil)
}

// begin starts the program. copyLog writes the log file until the program ends; nil = the program
// does.
func (p *Process) begin(copyLog func(log *os.File)) error {
	if err := os.MkdirAll(filepath.Dir(p.LogFile), 0o755); err != nil {
		return err
	}
	log, err := os.Create(p.LogFile)
	if err != nil {
		return err
	}
	if copyLog == nil {
		p.cmd.Stdout, p.cmd.Stderr = log, log
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(p.cmd.Path), err)
	}
	go func() {
		defer close(p.exited)
		defer log.Close()
		if copyLog != nil {
			copyLog(log)
		}
		p.err = p.cmd.Wait()
	}()
	return nil
}

// Exited is closed when the process ends.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive returns an error once the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return errors.Join(fmt.Errorf("it stopped; see %s", p.LogFile), p.err)
	default:
		return nil
	}
}

// hung is how long this package waits for what programs and API servers do before it calls that a hang. On a busy machine all of
// it takes many times what it takes otherwise.
const hung = 5 * time.Minute

// Stop asks the process to end and waits; the error reports an unclean exit.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return p.err
	case <-time.After(hung):
		p.Kill()
		return fmt.Errorf("%s did not stop within %s and was killed", filepath.Base(p.cmd.Path), hung)
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Footprint is a process's CPU time and memory as counted by the kernel.
type Footprint struct {
	CPU       float64 // seconds since the process started
	RSS, Peak uint64  // bytes: now, and the highest ever
}

// FootprintOf reads the footprint of a process ID.
func FootprintOf(pid int) (f Footprint, err error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return f, fmt.Errorf("reading /proc: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return f, fmt.Errorf("reading the CPU time from /proc: %w", err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return f, fmt.Errorf("reading the memory from /proc: %w", err)
	}
	return Footprint{CPU: stat.CPUTime(), RSS: status.VmRSS, Peak: status.VmHWM}, nil
}

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

// Log keeps the log of a process; it is safe for concurrent use. Add is for Start.
type Log struct {
	mu    sync.Mutex
	lines []LogLine
}

// Add adds a line.
func (l *Log) Add(line LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// Lines are those that were added until now.
func (l *Log) Lines() []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Count is how many lines have this message.
func (l *Log) Count(message string) (n int) {
	for _, line := range l.Lines() {
		if line.Text("msg") == message {
			n++
		}
	}
	return n
}

// Says reports whether a line has all of these words, in its message or its values.
func (l *Log) Says(words ...string) bool {
	return slices.ContainsFunc(l.Lines(), func(line LogLine) bool {
		text := fmt.Sprint(line)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// Get reads a page, not compressed, which would cost the process CPU. The error of one that is not 200 OK has its text.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept-Encoding", "identity")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, answer.Status, text)
	}
	return string(text), err
}

// Metric is the value of a series, given with its labels, that a process serves at an address; 0 if there is none.
func Metric(address, series string) float64 {
	text, err := Get(context.Background(), "http://"+address+"/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v
		}
	}
	return 0
}
