package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine"
)

// Source holds the rules in force. It follows the folder of rule files and the RuleOverlay objects of the cluster, where
// there are such, and swaps the rules when what changed compiles and passes the test tables among the files. Until then,
// and for good when it does not, the last good rules stay.
type Source struct {
	options Options
	log     logr.Logger
	clock   clock.WithTicker
	every   time.Duration
	cluster ClusterOverlays // nil = none

	book     atomic.Pointer[engine.Rulebook]
	accepted atomic.Pointer[map[string]Acceptance]
	inUse    map[string]accepted  // overlays of the cluster that are part of book
	content  [2][sha256.Size]byte // of the files and overlays behind it; recorded after success only, so failures are tried again
	lastTold string               // the last error logged, so that a lasting one is told once
}

// NewSource loads the rules. It fails when they do not compile, or not pass the test tables that stand among them: a
// process must not start without policy.
func NewSource(o Options, every time.Duration, clk clock.WithTicker, log logr.Logger) (*Source, error) {
	s := &Source{options: o, every: every, clock: clk, log: log}
	s.accepted.Store(&map[string]Acceptance{})
	content, err := fingerprint(o.Dir)
	if err != nil {
		return nil, err
	}
	book, err := s.load(nil)
	if err != nil {
		return nil, err
	}
	s.swap(book, [2][sha256.Size]byte{content, overlaysFingerprint(nil)})
	return s, nil
}

// Follow adds the RuleOverlay objects of the cluster, now and from now on. now lists them once, before anything runs;
// later lists them from then on. An overlay that does not fit is left out and reported; see Accepted.
func (s *Source) Follow(ctx context.Context, now, later ClusterOverlays) error {
	s.cluster = now
	defer func() { s.cluster = later }()
	return s.reload(ctx)
}

// Rules are the rules in force.
func (s *Source) Rules() *engine.Rulebook { return s.book.Load() }

// Accepted tells what became of the RuleOverlay objects of the cluster, by name.
func (s *Source) Accepted() map[string]Acceptance { return *s.accepted.Load() }

// NeedLeaderElection lets every replica follow the rules.
func (s *Source) NeedLeaderElection() bool { return false }

// Start follows the folder and the cluster until the context ends.
func (s *Source) Start(ctx context.Context) error {
	if s.options.Dir == "" && s.cluster == nil {
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
			s.Reload(ctx)
		}
	}
}

// Reload compiles the rules if they changed since those in force were made, or if the last try failed.
func (s *Source) Reload(ctx context.Context) {
	if err := s.reload(ctx); err != nil {
		reloads.WithLabelValues("error").Inc()
		if text := err.Error(); text != s.lastTold {
			inForce := s.Rules().Default()
			s.log.Error(err, "the changed rules cannot be used; the last good ones stay in force", "pipeline", inForce.Pipeline(), "digest", inForce.Digest())
			s.lastTold = text
		}
	}
}

func (s *Source) reload(ctx context.Context) error {
	files, err := fingerprint(s.options.Dir)
	if err != nil {
		return err
	}
	var overlays []rulesv1alpha1.RuleOverlay
	if s.cluster != nil {
		if overlays, err = s.cluster(ctx); err != nil {
			return fmt.Errorf("listing RuleOverlays: %w", err)
		}
	}
	content := [2][sha256.Size]byte{files, overlaysFingerprint(overlays)}
	if content == s.content {
		return nil
	}
	book, err := s.load(overlays)
	if err != nil {
		return err
	}
	reloads.WithLabelValues("success").Inc()
	before, now := s.Rules().Default(), book.Default()
	s.log.Info("rules reloaded", "pipeline", now.Pipeline(), "digest", now.Digest(), "before", before.Digest())
	s.swap(book, content)
	return nil
}

// load compiles the files with the overlays of the cluster.
func (s *Source) load(overlays []rulesv1alpha1.RuleOverlay) (*engine.Rulebook, error) {
	rules, err := openTested(s.options)
	if err != nil {
		return nil, err
	}
	files, err := rules.Compile()
	if err != nil {
		return nil, err
	}
	book, results, inUse := s.overlaid(files, overlays)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if r := results[name]; r.Err != nil {
			s.log.Error(r.Err, "a RuleOverlay cannot be used", "overlay", name, "generation", r.Generation, "generationInUse", r.InUse)
		}
	}
	s.accepted.Store(&results)
	s.inUse = inUse
	return book, nil
}

func (s *Source) swap(book *engine.Rulebook, content [2][sha256.Size]byte) {
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
