package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
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
