// Package harness starts what demonstrations and integration tests need: a lab, celvpa as a
// process, and objects from YAML files. It makes no assertions.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Lab is a local control plane.
type Lab struct {
	Name       string
	Kubeconfig string
	// Ours: Up started it, so Down may stop it.
	Ours bool

	program string
}

// Up starts the named lab unless it runs; flags are those of `lab up`, e.g. -nodes=5.
func Up(ctx context.Context, name string, out io.Writer, flags ...string) (*Lab, error) {
	lab, err := launcher(ctx, name)
	if err != nil {
		return nil, err
	}
	path, err := lab.command(ctx, "kubeconfig").Output()
	if err != nil {
		return nil, fmt.Errorf("asking for the lab's kubeconfig: %w", err)
	}
	lab.Kubeconfig = strings.TrimSpace(string(path))
	lab.Ours = !answers(lab.Kubeconfig)
	up := lab.command(ctx, "up", flags...)
	up.Stdout, up.Stderr = out, out
	if err := up.Run(); err != nil {
		if lab.Ours { // do not leave a half-started lab behind
			err = errors.Join(err, lab.Down(context.WithoutCancel(ctx), out))
		}
		return nil, fmt.Errorf("starting the lab: %w", err)
	}
	return lab, nil
}

// Fresh starts the named lab anew: one that runs was left behind, by a test that was killed.
func Fresh(ctx context.Context, name string, out io.Writer, flags ...string) (*Lab, error) {
	lab, err := Up(ctx, name, out, flags...)
	if err != nil || lab.Ours {
		return lab, err
	}
	if err := lab.Down(ctx, out); err != nil {
		return nil, err
	}
	return Up(ctx, name, out, flags...)
}

// Part returns a program of the lab's that not every lab needs, such as prometheus; it is built first if need be.
func Part(ctx context.Context, name string, out io.Writer) (string, error) {
	lab, err := launcher(ctx, "celvpa")
	if err != nil {
		return "", err
	}
	build := lab.command(ctx, "build", name)
	build.Stdout, build.Stderr = out, out
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	path, err := lab.command(ctx, "path", name).Output()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	return strings.TrimSpace(string(path)), nil
}

// launcher builds the program that starts and stops labs.
func launcher(ctx context.Context, name string) (*Lab, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	lab := &Lab{Name: name, program: filepath.Join(root, "bin", "lab", "lab")}
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "conformance", "lab"), "-o", lab.program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return lab, building(root, "the lab launcher", build)
}

// answers reports whether the API server of a kubeconfig listens.
func answers(kubeconfig string) bool {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return false
	}
	config.Timeout = hung
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false
	}
	_, err = client.ServerVersion()
	return !errors.Is(err, syscall.ECONNREFUSED)
}

// Down stops the lab and deletes its data.
func (l *Lab) Down(ctx context.Context, out io.Writer) error {
	down := l.command(ctx, "down")
	down.Stdout, down.Stderr = out, out
	if err := down.Run(); err != nil {
		return fmt.Errorf("stopping the lab: %w", err)
	}
	return nil
}

// Pid is the process ID of a component: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kwok-controller.
func (l *Lab) Pid(ctx context.Context, component string) (int, error) {
	out, err := l.command(ctx, "pid", component).Output()
	if err != nil {
		return 0, fmt.Errorf("asking for the process of %s: %w", component, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// Restart kills a component, starts it again and waits until the API server is ready.
func (l *Lab) Restart(ctx context.Context, component string) error {
	if text, err := l.command(ctx, "restart", component).CombinedOutput(); err != nil {
		return fmt.Errorf("restarting %s: %w\n%s", component, err, text)
	}
	return nil
}

// command is a command of the launcher; a verb may have two words.
func (l *Lab) command(ctx context.Context, verb string, flags ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.program, append(append(strings.Fields(verb), "-name", l.Name), flags...)...)
	cmd.Dir = filepath.Dir(filepath.Dir(filepath.Dir(l.program)))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = hung
	return cmd
}

// MissingError says what this machine lacks to run a real node, and the command that installs it.
type MissingError struct{ Reason string }

func (e *MissingError) Error() string { return e.Reason }

// UpNode is Up for a lab with one real node, in a virtual machine. It returns a MissingError where that cannot be started.
func UpNode(ctx context.Context, name string, out io.Writer) (*Lab, error) {
	lab, err := launcher(ctx, name)
	if err != nil {
		return nil, err
	}
	if text, err := lab.command(ctx, "node missing").CombinedOutput(); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil, &MissingError{strings.TrimSpace(string(text))}
		}
		return nil, fmt.Errorf("looking for what a real node needs: %w", err)
	}
	return Up(ctx, name, out, "-node=vm")
}

// Load imports an image archive into the lab's real node.
func (l *Lab) Load(ctx context.Context, archive string) error {
	if text, err := l.command(ctx, "load", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("loading %s: %w\n%s", archive, err, text)
	}
	return nil
}

// KillNode cuts the power of the lab's real node; StartNode switches it on again and waits until it is ready.
func (l *Lab) KillNode(ctx context.Context) error { return l.node(ctx, "kill") }

// StartNode is the opposite of KillNode.
func (l *Lab) StartNode(ctx context.Context) error { return l.node(ctx, "start") }

func (l *Lab) node(ctx context.Context, verb string) error {
	if text, err := l.command(ctx, "node "+verb).CombinedOutput(); err != nil {
		return fmt.Errorf("lab node %s: %w\n%s", verb, err, text)
	}
	return nil
}

// Ports are given out below those that Linux gives to connections: it may be a while until a process listens there.
const (
	firstPort = 20_000
	manyPorts = 12_000
)

// ports hands out each port once, from a place that differs by process, since suites run side by side.
var ports struct {
	sync.Mutex
	given int
}

// freePort returns a port of a host that nobody listens on.
func freePort(host string) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	last := errors.New("all were given out")
	for ports.given < manyPorts {
		port := firstPort + (os.Getpid()*601+ports.given)%manyPorts
		ports.given++
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("finding a free port: %w", last)
}

// FreeAddress returns an unused loopback address.
func FreeAddress() (string, error) {
	port, err := freePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// AtLeastParallel raises the number of tests that run in parallel: those on a lab mostly wait. A celvpa that detects races takes
// several times the CPU, so of them half must do. Call it after flag.Parse.
func AtLeastParallel(n int) {
	if DetectsRaces() {
		n /= 2
	}
	f := flag.Lookup("test.parallel")
	if now, err := strconv.Atoi(f.Value.String()); err == nil && now < n {
		_ = f.Value.Set(strconv.Itoa(n))
	}
}

const (
	// answersInACycle is how many answers of an API server, one after another, a cycle must have time for.
	answersInACycle = 20
	slowestPace     = 20 * time.Second
)

// Pace is the interval for the cycles of a component with a kubeconfig: least, or more where API servers answer late. A cycle ends with
// its interval, so that on a busy machine one of a second would end before anything is answered, and the next one would, too.
func Pace(ctx context.Context, kubeconfig string, least time.Duration) (time.Duration, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	var slowest time.Duration
	for i := range 5 {
		begin := time.Now()
		_, _ = clients.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx) // which everybody may, and which asks etcd
		if i > 0 {                                                               // the first one opens the connection
			slowest = max(slowest, time.Since(begin))
		}
	}
	return min(max(least, answersInACycle*slowest), max(least, slowestPace)).Round(time.Millisecond), nil
}
