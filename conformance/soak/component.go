package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/celvpa/celvpa/conformance/faults"
	"github.com/celvpa/celvpa/conformance/harness"
)

// The components, as commands of celvpa, which are also the names of their service accounts.
const (
	recommender = "recommender"
	updater     = "updater"
	admission   = "admission-controller"
)

// The flags are those of deploy/manifests, but all that takes a minute or a day there takes seconds here: the soak is to see as many
// cycles as a long time would bring, and recommendations that follow usage.
var (
	commonArgs = []string{"--rules-reload-interval=1s", "--profiling", "--v=2",
		"--feature-gates=CPUStartupBoost=true,InPlace=true,PerVPAConfig=true,PodLevelResources=true,RequestToLimitRatio=true,MemoryPerCPURatio=true"}
	leaderArgs = []string{"--leader-elect", "--leader-elect-resource-namespace=" + system}

	componentArgs = []struct {
		name string
		args []string
	}{
		{recommender, append([]string{"--leader-elect-resource-name=vpa-recommender-lease", "--recommender-interval=10s", "--checkpoints-gc-interval=1m",
			"--confidence-interval-cpu=1m", "--confidence-interval-memory=1m", "--cpu-histogram-decay-half-life=1m", "--memory-histogram-decay-half-life=1m",
			"--memory-aggregation-interval=30s", "--pod-recommendation-min-memory-mb=50", "--target-grace-period=2m"}, leaderArgs...)},
		{updater, append([]string{"--leader-elect-resource-name=vpa-updater-lease", "--updater-interval=10s", "--eviction-rate-limit=5", "--eviction-rate-burst=10",
			"--first-cycle-evictions=10", "--in-recommendation-bounds-eviction-lifetime-threshold=1m"}, leaderArgs...)},
		{admission, []string{"--status-lease-update-interval=5s", "--webhook-probe-interval=10s"}},
	}
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
	killed  bool      // the current life is ended by the soak
	ending  bool
	logs    []string   // by life
	samples [][]sample // by life
}

// restartAfter is how long a component stays down, less than a kubelet's first back-off.
const restartAfter = 2 * time.Second

// run keeps the component running until the context ends, then stops it. The error is about a start that fails or an end that
// takes too long.
func (c *component) run(ctx context.Context) error {
	for {
		life, err := c.begin()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return c.end(life)
		case <-life.Exited():
		}
		c.ended(life)
		if !pause(ctx, restartAfter) {
			return nil
		}
	}
}

func (c *component) begin() (*harness.Celvpa, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := filepath.Join(c.folder, fmt.Sprintf("%s-%d.log", c.name, len(c.logs)+1))
	life, err := harness.Start(c.program, c.address, log, c.args, func(line harness.LogLine) { c.heard(c, line) })
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.name, err)
	}
	c.current, c.started, c.killed = life, time.Now(), false
	c.samples, c.logs = append(c.samples, nil), append(c.logs, log)
	return life, nil
}

// ended takes note of a life that is over. One that the soak did not end is an error.
func (c *component) ended(life *harness.Celvpa) {
	c.mu.Lock()
	killed := c.killed
	c.current = nil
	c.mu.Unlock()
	if !killed {
		c.heard(c, harness.LogLine{"level": "error", "msg": messageExit, "error": life.Alive().Error()})
	}
}

// end stops the component as a user would.
func (c *component) end(life *harness.Celvpa) error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	if err := life.Stop(); err != nil {
		return fmt.Errorf("stopping %s: %w; see %s", c.name, err, life.LogFile)
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
	life := c.current
	c.killed = life != nil
	c.mu.Unlock()
	if life != nil {
		life.Kill()
	}
}

// life is the current one, with its begin; nil between two of them.
func (c *component) life() (*harness.Celvpa, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.started
}

// ready reports why the component is not ready; nil = it is.
func (c *component) ready(ctx context.Context) error {
	_, err := harness.Get(ctx, "http://"+c.address+"/readyz")
	return err
}
