package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Rulebook holds every plan that a library allows: each pipeline, alone and with the overlays that
// match an object. NewRulebook checks as much as it can; combinations of overlays are compiled when
// an object first needs them. It is safe for concurrent use.
//
// A host that runs only some points may compile only these. Elsewhere, files are still read, names
// looked up, parameters bound and overlay parts checked, so digests, overlay conflicts and their
// acceptance do not depend on what is compiled. Faults in other expressions surface where the point
// is compiled. Running a point that is not compiled panics.
type Rulebook struct {
	library   *document.Library
	pipelines []*document.Pipeline // sorted by name and version
	overlays  []*document.Overlay  // in the order they apply
	standard  *engine.Plan         // the default pipeline without overlays
	bases     map[string]*resolve.Resolved
	labels    Labels

	mu       sync.RWMutex
	alone    int // rule sets that are compiled for each pipeline alone, and with each overlay
	compiler *compiler
	plans    map[string]*engine.Plan // by pipeline and overlay names
	failed   map[string]error        // combinations that do not compile; tried once
}

// NewRulebook compiles every pipeline, alone and with each overlay, and refuses conflicting
// overlays. The error lists every fault with its position.
func NewRulebook(lib *document.Library, reg *registry.Registry, o Options) (*Rulebook, error) {
	standard, err := lib.Pipeline(o.Pipeline)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(reg, o)
	if err != nil {
		return nil, err
	}
	b := &Rulebook{library: lib, compiler: c, plans: map[string]*engine.Plan{}, failed: map[string]error{}, bases: map[string]*resolve.Resolved{}, labels: o.Labels}
	ids := slices.Sorted(maps.Keys(lib.Pipelines))
	// Faults of overlays are reported for the default pipeline first.
	ids = slices.Insert(slices.DeleteFunc(ids, func(id string) bool { return id == standard.ID() }), 0, standard.ID())
	for _, id := range ids {
		pipe := lib.Pipelines[id]
		b.pipelines = append(b.pipelines, pipe)
		base := resolve.Resolve(lib, pipe, reg, c.ps)
		b.bases[id] = base
		c.noteParams(base)
		c.noteLeftOut(base)
		b.plans[planKey(pipe, nil)] = c.plan(base)
	}
	for _, name := range slices.Sorted(maps.Keys(lib.Overlays)) {
		b.insert(lib.Overlays[name])
	}
	c.ps.Dedupe() // overlays on a broken base repeat its faults
	if err := c.ps.Err(); err != nil {
		return nil, err
	}
	if err := c.unknownParams("any pipeline"); err != nil {
		return nil, err
	}
	b.standard, b.alone = b.plans[planKey(standard, nil)], len(c.compiled)
	return b, nil
}

// With returns the rulebook with one more overlay. It shares all plans with b, so only the overlay
// is compiled and checked against the others.
func (b *Rulebook) With(o *document.Overlay) (*Rulebook, error) { return b.WithUntil(o, nil) }

// WithUntil is With, but gives up when spend returns an error; nil = never. It is asked before each
// expression, with the size in bytes of its source, which is about what compiling takes of time.
func (b *Rulebook) WithUntil(o *document.Overlay, spend func(size int) error) (*Rulebook, error) {
	if old := b.library.Overlays[o.Name.Value]; old != nil {
		return nil, fmt.Errorf("%s is defined already at %s", o.Subject(), old.Name.Pos)
	}
	b.mu.RLock()
	c := *b.compiler
	c.ps, c.compiled, c.points, c.usedParams = &source.Collector{}, maps.Clone(c.compiled), maps.Clone(c.points), maps.Clone(c.usedParams)
	c.edited = maps.Clone(c.edited)
	c.spend = spend
	next := &Rulebook{library: b.library.With(o), pipelines: b.pipelines, overlays: b.overlays, standard: b.standard, bases: b.bases, labels: b.labels,
		alone: b.alone, compiler: &c, plans: maps.Clone(b.plans), failed: maps.Clone(b.failed)}
	b.mu.RUnlock()
	compiled := len(c.compiled)
	next.insert(o)
	next.alone += len(c.compiled) - compiled
	if err := c.goOn(0); err != nil {
		return nil, err
	}
	c.spend = nil // it is about this overlay, not about later compilations
	c.ps.Dedupe()
	if err := c.ps.Err(); err != nil {
		return nil, err
	}
	return next, nil
}

// insert compiles an overlay alone, and checks it against the present ones.
func (b *Rulebook) insert(o *document.Overlay) {
	ps := b.compiler.ps
	meant, first := false, len(ps.List)
	for _, pipe := range b.pipelines {
		if !o.AppliesTo(pipe) {
			continue
		}
		meant = true
		base := b.bases[pipe.ID()]
		before := len(ps.List)
		alone := base.Clone()
		alone.Apply(o, b.library, ps)
		b.compiler.noteParams(alone)
		// What it can change is compiled even if not all of it can be, for its faults.
		if plan := b.compiler.plan(alone); len(ps.List) == before {
			b.plans[planKey(pipe, []*document.Overlay{o})] = plan
		}
		for _, other := range b.overlays {
			if other.AppliesTo(pipe) && b.compiler.goOn(0) == nil {
				b.checkPair(base, other, o)
			}
		}
		if len(ps.List) == before {
			b.checkCost(pipe, o)
		}
		ps.DropReportedAt(first, before) // the same is the matter in another pipeline
	}
	if !meant {
		ps.At(o.PipelineRef(), o.Subject(), b.notLoaded(o.PipelineRef().Value, ""))
	}
	for _, other := range b.overlays {
		b.checkUses(other, o)
	}
	b.overlays = document.InsertInOrder(b.overlays, o)
}

// notLoaded says that a pipeline is not loaded, and what to do; a hint ends in ", ".
func (b *Rulebook) notLoaded(pipeline, hint string) string {
	return fmt.Sprintf("pipeline %q is not loaded; %sthere is %s; --pipelines and --rules-dir load others", pipeline, hint, strings.Join(slices.Sorted(maps.Keys(b.library.Pipelines)), ", "))
}

// checkUses reports that two overlays choose different pipelines for one object and neither goes first.
func (b *Rulebook) checkUses(there, added *document.Overlay) {
	a, _ := b.library.Pipeline(there.Uses().Value)
	n, _ := b.library.Pipeline(added.Uses().Value)
	if a != nil && n != nil && a != n && resolve.Rivals(there, added) {
		b.compiler.ps.At(added.Uses(), added.Subject(), fmt.Sprintf("it uses pipeline %s, and %s at %s uses %s, for objects that both may match: give them different priorities (the higher one wins), or match different objects",
			n.ID(), there.Subject(), there.Uses().Pos, a.ID()))
	}
}

// Default is the plan of objects that pin no pipeline and match no overlay.
func (b *Rulebook) Default() *engine.Plan { return b.standard }

// Everywhere is the default pipeline with the enforced overlays that match every object: what one
// schema for all objects can hold.
func (b *Rulebook) Everywhere() (*engine.Plan, error) {
	pipe := b.library.Pipelines[b.standard.Pipeline()]
	var all []*document.Overlay
	for _, o := range b.overlays {
		if o.AppliesTo(pipe) && o.ModeOf() == document.ModeEnforce && o.Match.Everything() {
			all = append(all, o)
		}
	}
	return b.plan(pipe, all)
}

// Plans lists the plans of all pipelines without overlays, the default one first, then by name and version.
func (b *Rulebook) Plans() []*engine.Plan {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []*engine.Plan
	for _, p := range b.pipelines {
		out = append(out, b.plans[planKey(p, nil)])
	}
	return out
}

// Overlays lists the overlays in the order they apply.
func (b *Rulebook) Overlays() []*document.Overlay { return b.overlays }

// HasOverlay reports whether an overlay is part of the rulebook.
func (b *Rulebook) HasOverlay(name string) bool { return b.library.Overlays[name] != nil }

// Has reports whether a pipeline, as name@version, is loaded.
func (b *Rulebook) Has(pipeline string) bool { return b.library.Pipelines[pipeline] != nil }

// plan compiles a pipeline with overlays, once.
func (b *Rulebook) plan(pipe *document.Pipeline, overlays []*document.Overlay) (*engine.Plan, error) {
	key := planKey(pipe, overlays)
	b.mu.RLock()
	plan, err := b.plans[key], b.failed[key]
	b.mu.RUnlock()
	if plan != nil || err != nil {
		return plan, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if plan, err := b.plans[key], b.failed[key]; plan != nil || err != nil {
		return plan, err // another goroutine was faster
	}
	b.forgetCombinations()
	ps := &source.Collector{}
	r := b.bases[pipe.ID()].Clone()
	for _, o := range overlays {
		r.Apply(o, b.library, ps)
	}
	b.compiler.ps = ps
	if len(ps.List) == 0 {
		plan = b.compiler.plan(r)
	}
	if err := ps.Err(); err != nil {
		b.failed[key] = fmt.Errorf("overlays %s do not fit together on pipeline %s: %w", document.OverlayNames(overlays), pipe.ID(), err)
		return nil, b.failed[key]
	}
	b.plans[key] = plan
	return plan, nil
}

// Labels on objects must not exhaust memory with combinations of overlays. A rule set that several
// of them change takes up to 200 KB for each combination, all else of a plan 15.
const (
	maxCombinations = 5000
	maxCombinedSets = 1000
)

// forgetCombinations drops plans that can be recompiled once there are too many.
func (b *Rulebook) forgetCombinations() {
	c := b.compiler
	if len(b.plans)+len(b.failed) < maxCombinations+len(b.pipelines)*(1+len(b.overlays)) && len(c.compiled)-b.alone < maxCombinedSets {
		return
	}
	maps.DeleteFunc(b.plans, func(_ string, plan *engine.Plan) bool { return len(plan.Overlays()) > 1 })
	clear(b.failed)
	c.keep(b.plans)
	b.alone = len(c.compiled)
}

func planKey(pipe *document.Pipeline, overlays []*document.Overlay) string {
	key := pipe.ID()
	for _, o := range overlays {
		key += " " + o.Name.Value
	}
	return key
}

// Cache shares compiled rule sets between compilations of the same files with the same registry:
// most gates and parameters affect only one rule set. It is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	sets map[setKey]*setResult
}

// get returns nil on a miss and on a nil Cache.
func (c *Cache) get(key setKey) *setResult {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[key]
}

func (c *Cache) put(key setKey, result *setResult) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[setKey]*setResult{}
	}
	c.sets[key] = result
}

// checkPair reports conflicts, and changes of the later overlay that the earlier one rules out.
// Nothing that it compiles is kept: there are as many pairs as overlays squared.
func (b *Rulebook) checkPair(base *resolve.Resolved, there, added *document.Overlay) {
	ps := b.compiler.ps
	earlier, later := there, added
	if added.Before(there) {
		earlier, later = added, there
	}
	if !earlier.Match.Overlaps(&later.Match) {
		return
	}
	before := len(ps.List)
	base.Conflict(there, added, ps)
	if len(ps.List) > before || (earlier.ModeOf() != document.ModeEnforce && later.ModeOf() != document.ModeEnforce) {
		return
	}
	if !base.Meet(earlier, later) {
		return
	}
	both, silent := base.Clone(), &source.Collector{}
	both.Apply(earlier, b.library, silent)
	if len(silent.List) > 0 {
		return // reported already for that overlay alone
	}
	both.Apply(later, b.library, ps)
	if len(ps.List) > before || !base.Mix(earlier, later) {
		return
	}
	b.compiler.try(both)
	for _, p := range ps.List[before:] {
		p.Message += fmt.Sprintf(" (with %s and %s together)", earlier.Subject(), later.Subject())
	}
}

// try reports the faults of a resolved pipeline and keeps nothing.
func (c *compiler) try(r *resolve.Resolved) {
	c.trying = true
	defer func() { c.trying = false }()
	c.plan(r)
}
