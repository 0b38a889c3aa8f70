package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

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
