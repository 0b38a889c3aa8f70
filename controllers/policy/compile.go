package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// compiling compiles within limits, and remembers what exceeded them.
type compiling struct {
	clock   clock.Clock
	limits  limits // of one overlay; zero = overlayLimits
	compile compileFunc
	// exceeded are overlays, by UID. One is tried again when it or the files change, and unless its
	// excess is final, after a while.
	exceeded   map[types.UID]excess
	exceededOn *compile.Rulebook // the files at that time
	files      *excessive        // of the files; nil = they did not exceed them
}

// compileFunc is compileOverlay, or a test's.
type compileFunc func(*compile.Rulebook, *rulesv1alpha1.RuleOverlay, func(size int) error) (*compile.Rulebook, *document.Overlay, error)

// excess is a generation of an overlay that exceeded its limits.
type excess struct {
	generation int64
	err        *excessive
	wait       time.Duration // until it is tried again
	again      time.Time
}

// due reports whether it is time to try again what may have exceeded its limits on a busy machine
// only.
func (e excess) due(now time.Time) bool {
	return !e.err.final && !e.err.going() && !now.Before(e.again)
}

// due reports whether an overlay is to be tried again.
func (c *compiling) due() bool {
	for _, e := range c.exceeded {
		if e.due(c.clock.Now()) {
			return true
		}
	}
	return false
}

// overlaidBook is a rulebook with one more overlay.
type overlaidBook struct {
	book    *compile.Rulebook
	overlay *document.Overlay
}

// maxLeftBehind bounds compilations that did not stop when canceled: repeated edits of overlays
// must not fill the process with them.
const maxLeftBehind = 4

// overlay is the rulebook of files and overlays with one more of these.
func (c *compiling) overlay(files, book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay) (*compile.Rulebook, *document.Overlay, error) {
	if c.exceededOn != files {
		maps.DeleteFunc(c.exceeded, func(_ types.UID, e excess) bool { return !e.err.going() })
		c.exceededOn = files
	}
	going := 0
	for _, e := range c.exceeded {
		if e.err.going() {
			going++
		}
	}
	was, again := c.exceeded[o.UID]
	switch {
	case again && was.generation == o.Generation && !was.due(c.clock.Now()):
		return nil, nil, was.err
	case again && was.err.going():
		return nil, nil, fmt.Errorf("generation %d is still compiling and does not end: restart celvpa once it is fixed", was.generation)
	case going >= maxLeftBehind:
		return nil, nil, fmt.Errorf("%d RuleOverlays are still compiling and do not end: restart celvpa once they are fixed", going)
	}
	delete(c.exceeded, o.UID)
	compile := c.compile
	if compile == nil {
		compile = compileOverlay
	}
	out, err := within(cmp.Or(c.limits, overlayLimits), c.clock, "compiling RuleOverlay", o.Name, func(spend func(size int) error) (out overlaidBook, err error) {
		out.book, out.overlay, err = compile(book, o, spend)
		return out, err
	})
	if excessive := (*excessive)(nil); errors.As(err, &excessive) {
		if c.exceeded == nil {
			c.exceeded = map[types.UID]excess{}
		}
		wait := firstRetry
		if again && was.generation == o.Generation {
			wait = min(2*was.wait, longestRetry)
		}
		c.exceeded[o.UID] = excess{generation: o.Generation, err: excessive, wait: wait, again: c.clock.Now().Add(wait)}
	}
	if err != nil {
		return nil, nil, err
	}
	return out.book, out.overlay, nil
}

// forget drops the state of overlays that are gone, unless they are still compiling.
func (c *compiling) forget(but []rulesv1alpha1.RuleOverlay) {
	maps.DeleteFunc(c.exceeded, func(uid types.UID, e excess) bool {
		return !e.err.going() && !slices.ContainsFunc(but, func(o rulesv1alpha1.RuleOverlay) bool { return o.UID == uid })
	})
}

func compileOverlay(book *compile.Rulebook, o *rulesv1alpha1.RuleOverlay, spend func(size int) error) (*compile.Rulebook, *document.Overlay, error) {
	overlay, err := parseOverlay(o)
	if err != nil {
		return nil, nil, err
	}
	next, err := book.WithUntil(overlay, spend)
	return next, overlay, err
}

// back is the rulebook with the previous version of an overlay.
func (c *compiling) back(book *compile.Rulebook, before accepted) (*compile.Rulebook, error) {
	return within(cmp.Or(c.limits, overlayLimits), c.clock, "compiling RuleOverlay", before.overlay.Name.Value, func(spend func(size int) error) (*compile.Rulebook, error) {
		return book.WithUntil(before.overlay, spend)
	})
}

// load compiles files that were read. It does not start while an abandoned compilation of files is
// running.
func (c *compiling) load(o Options, layer *document.Layer) (*compile.Rulebook, error) {
	if c.files.going() {
		return nil, c.files
	}
	files, err := within(fileLimits, c.clock, "compiling the rules at", cmp.Or(o.Path, "(shipped)"), func(func(size int) error) (*compile.Rulebook, error) {
		return loadTested(o, layer)
	})
	c.files = nil
	errors.As(err, &c.files)
	return files, err
}
