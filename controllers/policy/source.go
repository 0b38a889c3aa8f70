package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/engine"
)

// Source holds the rules in force. When there is a folder, it watches the folder's content and swaps the rules when a
// changed set of files compiles and passes the test tables that stand among them. Until then, and for good when it does
// not, the last good rules stay.
type Source struct {
	options Options
	log     logr.Logger
	clock   clock.WithTicker
	every   time.Duration

	book     atomic.Pointer[engine.Rulebook]
	content  [sha256.Size]byte // of the files behind it; recorded after success only, so failures are tried again
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
	book, err := openTested(o)
	if err != nil {
		return nil, err
	}
	s.swap(book, content)
	return s, nil
}

// Rules are the rules in force.
func (s *Source) Rules() *engine.Rulebook { return s.book.Load() }

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
	var book *engine.Rulebook
	if err == nil {
		book, err = openTested(s.options)
	}
	before := s.Rules().Default()
	if err != nil {
		reloads.WithLabelValues("error").Inc()
		if text := err.Error(); text != s.lastTold {
			s.log.Error(err, "the changed rules cannot be used; the last good ones stay in force", "pipeline", before.Pipeline(), "digest", before.Digest())
			s.lastTold = text
		}
		return
	}
	reloads.WithLabelValues("success").Inc()
	now := book.Default()
	s.log.Info("rules reloaded", "pipeline", now.Pipeline(), "digest", now.Digest(), "before", before.Digest())
	s.swap(book, content)
}

func (s *Source) swap(book *engine.Rulebook, content [sha256.Size]byte) {
	s.book.Store(book)
	s.content, s.lastTold = content, ""
	inForce(book, s.clock.Now())
}

// fingerprint digests the names and contents of all rule files of a folder. It reads what engine.Load would read, so
// it sees through the symlinks of a mounted ConfigMap.
func fingerprint(dir string) ([sha256.Size]byte, error) {
	if dir == "" {
		return [sha256.Size]byte{}, nil
	}
	h := sha256.New()
	files := os.DirFS(dir)
	names, err := engine.RuleFiles(files, ".")
	for _, name := range names {
		var data []byte
		if data, err = fs.ReadFile(files, name); err != nil {
			break
		}
		fmt.Fprintf(h, "%q %d\n", name, len(data))
		h.Write(data)
	}
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("reading --rules-dir %s: %w", dir, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
