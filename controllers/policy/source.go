package policy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/metric"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
)

// Source holds the rules in force. It watches the folder of rule files and the RuleOverlay objects
// of the cluster, if any. Changed files take effect when two successive readings find them alike, so
// that files which are replaced one by one are not mixed, and when they compile and pass the test
// tables among them; otherwise the last good ones stay in force. Overlays of the cluster take effect
// independently.
type Source struct {
	options Options
	log     logr.Logger
	clock   clock.WithTicker
	every   time.Duration
	cluster ClusterOverlays // nil = none

	book     atomic.Pointer[compile.Rulebook]
	accepted atomic.Pointer[map[string]Acceptance]

	files      *compile.Rulebook   // the last good files, without overlays of the cluster
	inUse      map[string]accepted // overlays of the cluster in book
	pending    bool                // the last good files are not in force yet
	broken     bool                // the current files are faulty
	seen       [sha256.Size]byte   // at the last reading
	content    [sha256.Size]byte   // of the last good files; recorded after success only, so that failures are retried
	overlays   [sha256.Size]byte   // of the objects behind book
	compiling  compiling
	lastLogged map[string]string // by what failed, the last error logged, so that a lasting one is logged once
}

// NewSource loads the rules. It fails when they do not compile or fail the test tables among them:
// a process must not start without policy.
func NewSource(o Options, every time.Duration, clk clock.WithTicker, log logr.Logger) (*Source, error) {
	s := &Source{options: o, every: every, clock: clk, log: log, lastLogged: map[string]string{}, overlays: overlaysFingerprint(nil), compiling: compiling{clock: clk}}
	s.accepted.Store(&map[string]Acceptance{})
	for range readings {
		if settling, err := s.reloadFiles(); err != nil {
			return nil, err
		} else if !settling {
			s.swap(s.files)
			return s, nil
		}
	}
	return nil, fmt.Errorf("the rules at %s change with every reading; start again once they are written", o.Path)
}

// readings at the start that may differ, each from the one before.
const readings = 100

// Follow adds the RuleOverlay objects of the cluster. now lists them once, before anything runs;
// later lists them from then on. An invalid overlay is left out and reported; see Accepted.
func (s *Source) Follow(ctx context.Context, now, later ClusterOverlays) error {
	s.cluster = later
	objects, err := now(ctx)
	if err != nil {
		return fmt.Errorf("listing RuleOverlays: %w", err)
	}
	s.overlay(objects)
	return nil
}

// Rules are the rules in force.
func (s *Source) Rules() *compile.Rulebook { return s.book.Load() }

// Accepted says which RuleOverlay objects of the cluster are in force, by name.
func (s *Source) Accepted() map[string]Acceptance { return *s.accepted.Load() }

// NeedLeaderElection is false: every replica needs the rules.
func (s *Source) NeedLeaderElection() bool { return false }

// Start watches the folder and the cluster until the context ends.
func (s *Source) Start(ctx context.Context) error {
	if s.options.Path == "" && s.cluster == nil {
		<-ctx.Done()
		return nil
	}
	cycle.Every(ctx, s.clock, s.every, func() { s.Reload(ctx) })
	return nil
}

// Reload applies changes of files and overlays, and retries what failed.
func (s *Source) Reload(ctx context.Context) {
	settling, err := s.reloadFiles()
	if !settling {
		s.report("files", err, "the changed rules cannot be used; the last good ones stay in force")
	}
	var objects []rulesv1alpha1.RuleOverlay
	if s.cluster != nil {
		objects, err = s.cluster(ctx)
		s.report("overlays", err, "cannot list RuleOverlays; those that are known stay in force")
		if err != nil {
			return
		}
	}
	if !s.pending && overlaysFingerprint(objects) == s.overlays && !s.compiling.due() {
		return
	}
	before := s.Rules().Default()
	s.overlay(objects)
	reloads.WithLabelValues("success").Inc()
	now := s.Rules().Default()
	s.log.Info("rules reloaded", "pipeline", now.Pipeline(), "digest", now.Digest(), "before", before.Digest(), "overlays", len(s.Rules().Overlays()))
}

// report counts a failure, and logs it if it differs from the last one.
func (s *Source) report(what string, err error, consequence string) {
	if err == nil {
		delete(s.lastLogged, what)
		return
	}
	reloads.WithLabelValues("error").Inc()
	if text := err.Error(); text != s.lastLogged[what] {
		inForce := s.Rules().Default()
		s.log.Error(err, consequence, "pipeline", inForce.Pipeline(), "digest", inForce.Digest())
		s.lastLogged[what] = text
	}
}

// reloadFiles compiles the files if they changed. They are read once: what is compiled is what is
// compared. settling reports that the last reading found others, so somebody may still be writing.
func (s *Source) reloadFiles() (settling bool, err error) {
	layer, atOnce, err := own(s.options.Path)
	var content [sha256.Size]byte
	if layer != nil {
		content = fingerprint(*layer)
	}
	again := content == s.seen
	s.seen = content
	if err == nil && content == s.content && s.files != nil {
		if s.broken { // a change was taken back
			lastSuccess.Set(float64(s.clock.Now().Unix()))
		}
		s.broken = false
		return false, nil
	}
	if err == nil && !again && !atOnce {
		return true, nil
	}
	var files *compile.Rulebook
	if err == nil {
		files, err = s.compiling.load(s.options, layer)
	}
	s.broken = err != nil
	if err == nil {
		s.files, s.content, s.pending = files, content, true
	}
	return false, err
}

// overlay puts the overlays of the cluster over the files and swaps the rules.
func (s *Source) overlay(objects []rulesv1alpha1.RuleOverlay) {
	book, results, inUse := s.overlaid(s.files, objects)
	before := s.Accepted() // an unchanged fault is not logged again
	metric.Replace(func() {
		for name, r := range results {
			overlayAccepted.WithLabelValues(name).Set(1)
			if r.Err != nil {
				overlayAccepted.WithLabelValues(name).Set(0)
			}
		}
	}, overlayAccepted)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if r := results[name]; r.Err != nil {
			if was := before[name]; was.Err == nil || was.Generation != r.Generation || was.Err.Error() != r.Err.Error() {
				s.log.Error(r.Err, "RuleOverlay rejected", "overlay", name, "generation", r.Generation, "generationInUse", r.InUse)
			}
		}
	}
	s.inUse, s.overlays = inUse, overlaysFingerprint(objects)
	s.accepted.Store(&results)
	s.swap(book)
}

func (s *Source) swap(book *compile.Rulebook) {
	inForce(book)
	if !s.broken {
		lastSuccess.Set(float64(s.clock.Now().Unix()))
	}
	s.book.Store(book)
	s.pending = false
}
