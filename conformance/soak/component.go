package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/harness"
)

// component is one of celvpa's behind a proxy of its own. When it ends it is started again, as a kubelet would.
type component struct {
	name    string
	program string
	args    []string
	address string // of its metrics and health endpoints
	folder  string // of its logs
	proxy   *faults.Proxy
	heard   func(c *component, line harness.LogLine)

	mu      sync.Mutex
	current *harness.Celvpa
	started time.Time // of the current life
	lives   int
	killed  bool // the current life is ended by the soak
	ending  bool
	logs    []string
	samples [][]sample // by life
	totals  counters   // of all lives
}

// restartAfter is how long a component stays down, less than a kubelet's first back-off.
const restartAfter = 2 * time.Second

// run keeps the component running until the context ends, then stops it. The error is about a start that fails or an end that
// takes too long.
func (c *component) run(ctx context.Context) error {
	for {
		one, err := c.begin()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return c.end(one)
		case <-one.Exited():
		}
		c.ended(one)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartAfter):
		}
	}
}

func (c *component) begin() (*harness.Celvpa, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	log := filepath.Join(c.folder, fmt.Sprintf("%s-%d.log", c.name, c.lives))
	one, err := harness.Start(c.program, c.address, log, c.args, func(line harness.LogLine) { c.heard(c, line) })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	c.current, c.started, c.killed = one, time.Now(), false
	c.samples = append(c.samples, nil)
	c.logs = append(c.logs, log)
	c.totals.restart()
	return one, nil
}

// ended takes note of a life that is over. One that the soak did not end is an error.
func (c *component) ended(one *harness.Celvpa) {
	c.mu.Lock()
	killed := c.killed
	c.current = nil
	c.mu.Unlock()
	if !killed {
		c.heard(c, harness.LogLine{"level": "error", "msg": messageExit, "error": one.Alive().Error()})
	}
}

// end stops the component as a user would.
func (c *component) end(one *harness.Celvpa) error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	if err := one.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w; see %s", c.name, err, one.LogFile)
	}
	return nil
}

// isEnding reports whether the soak has started to stop the component for good.
func (c *component) isEnding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}

// kill ends the current life by SIGKILL.
func (c *component) kill() {
	c.mu.Lock()
	one := c.current
	c.killed = one != nil
	c.mu.Unlock()
	if one != nil {
		one.Kill()
	}
}

// signal sends a signal to the current life.
func (c *component) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	if err := syscall.Kill(c.current.Pid(), s); err != nil {
		return fmt.Errorf("sending %s to %s: %w", s, c.name, err)
	}
	return nil
}

// life is the current one; nil between two of them.
func (c *component) life() *harness.Celvpa {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// ready reports why the component is not ready; nil = it is.
func (c *component) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%s is not ready: %w", c.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s", c.name, response.Status)
	}
	return nil
}
