package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/engine"
)

// Source holds the plan in force. When the rules come from a folder, it watches the folder's content and swaps the
// plan when a changed set of files compiles and passes the test tables that stand among them. Until then, and for good
// when it does not, the last good plan stays.
type Source struct {
	options Options
	log     logr.Logger
	clock   clock.WithTicker
	every   time.Duration

	plan     atomic.Pointer[engine.Plan]
	content  [sha256.Size]byte // of the files behind the plan; recorded after success only, so failures are tried again
	lastTold string            // the last error logged, so that a lasting one is told once
}

// NewSource loads the rules. It fails when they do not compile, or not pass the test tables that stand among them: a
// process must not start without policy.
func NewSource(o Options, every time.Duration, clk clock.WithTicker, log logr.Logger) (*Source, error) {
	s := &Source{options: o, every: every, clock: clk, log: log}
	content, err := fingerprint(o.Dir)
	if err != nil {
		return nil, err
	}
	plan, err := loadTested(o)
	if err != nil {
		return nil, err
	}
	s.swap(plan, content)
	return s, nil
}

// Plan is the plan in force.
func (s *Source) Plan() *engine.Plan { return s.plan.Load() }

// NeedLeaderElection lets every replica follow the files.
func (s *Source) NeedLeaderElection() bool { return false }

// Start follows the folder until the context ends.
func (s *Source) Start(ctx context.Context) error {
	if s.options.Dir == "" {
		<-ctx.Done()
		return nil
	}
	ticker := s.clock.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.Reload()
		}
	}
}

// Reload compiles the files if they changed since the plan in force was made, or if the last try failed.
func (s *Source) Reload() {
	content, err := fingerprint(s.options.Dir)
	if err == nil && content == s.content {
		return
	}
	var plan *engine.Plan
	if err == nil {
		plan, err = loadTested(s.options)
	}
	if err != nil {
		reloads.WithLabelValues("error").Inc()
		if text := err.Error(); text != s.lastTold {
			s.log.Error(err, "the changed rules cannot be used; the last good ones stay in force", "pipeline", s.Plan().Pipeline(), "digest", s.Plan().Digest())
			s.lastTold = text
		}
		return
	}
	reloads.WithLabelValues("success").Inc()
	s.log.Info("rules reloaded", "pipeline", plan.Pipeline(), "digest", plan.Digest(), "before", s.Plan().Digest())
	s.swap(plan, content)
}

func (s *Source) swap(plan *engine.Plan, content [sha256.Size]byte) {
	s.plan.Store(plan)
	s.content, s.lastTold = content, ""
	inForce(plan, s.clock.Now())
}

// fingerprint digests the names and contents of all rule files of a folder. It reads what engine.Load would read, so
// it sees through the symlinks of a mounted ConfigMap.
func fingerprint(dir string) ([sha256.Size]byte, error) {
	if dir == "" {
		return [sha256.Size]byte{}, nil
	}
	if err := checkDir(dir); err != nil {
		return [sha256.Size]byte{}, err
	}
	h := sha256.New()
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d\n", name, len(data))
		h.Write(data)
		return nil
	})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("reading --rules-dir %s: %w", dir, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
