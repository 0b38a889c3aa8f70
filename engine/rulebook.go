package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Rulebook holds every plan that a library makes possible: each pipeline, alone and with the overlays that match an
// object. All that can be checked beforehand is checked when it is made; a combination of overlays is compiled when an
// object first asks for it. It is safe for concurrent use.
//
// A host that runs some of the points may have only these compiled. Of the others, files are read, names are looked up,
// parameters are bound, and what overlays bring is checked; so digests, conflicts of overlays and their acceptance are
// the same whatever is compiled. Faults in the expressions of files are found by whoever compiles the point. Running a point
// that was left out panics, a fault of the program.
type Rulebook struct {
	library   *Library
	pipelines []*Pipeline // sorted by name and version
	overlays  []*Overlay  // in the order in which they apply
	standard  *Plan       // the default pipeline without overlays
	bases     map[string]*resolved

	mu       sync.RWMutex
	compiler *compiler
	plans    map[string]*Plan // by pipeline and overlay names
	failed   map[string]error // combinations that do not compile, so that they are tried once
}

// RulebookOptions say which pipeline serves objects that pin none, and what is fixed for all plans.
type RulebookOptions struct {
	Pipeline string            // name@version, or a name that only one version has
	Gates    map[string]bool   // gates left out are off
	Params   map[string]string // overrides defaults of parameters, keyed "ruleset.param"; overlays override it
	Points   []string          // that are compiled; none = all
}

// NewRulebook compiles every pipeline of the library, alone and with each overlay that is meant for it, and refuses
// overlays that are at odds. The error lists every fault with its position.
func NewRulebook(lib *Library, reg *Registry, o RulebookOptions) (*Rulebook, error) {
	standard, err := lib.pipeline(o.Pipeline)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(reg, o.Gates, o.Params, o.Points)
	if err != nil {
		return nil, err
	}
	b := &Rulebook{library: lib, compiler: c, plans: map[string]*Plan{}, failed: map[string]error{}, bases: map[string]*resolved{}}
	for _, id := range slices.Sorted(maps.Keys(lib.Pipelines)) {
		pipe := lib.Pipelines[id]
		b.pipelines = append(b.pipelines, pipe)
		base := resolve(lib, pipe, reg, c.ps)
		b.bases[id] = base
		c.noteParams(base)
		c.noteLeftOut(base)
		b.plans[planKey(pipe, nil)] = c.plan(base)
	}
	if len(c.ps.list) == 0 { // overlays on a broken base only repeat its faults
		for _, name := range slices.Sorted(maps.Keys(lib.Overlays)) {
			b.insert(lib.Overlays[name])
		}
	}
	c.ps.dedupe()
	if err := c.ps.err(); err != nil {
		return nil, err
	}
	if err := c.unknownParams("any pipeline"); err != nil {
		return nil, err
	}
	b.standard = b.plans[planKey(standard, nil)]
	return b, nil
}

// With is the rulebook with one more overlay. It shares all plans with b, so only the overlay is compiled and held against
// the others.
func (b *Rulebook) With(o *Overlay) (*Rulebook, error) { return b.WithUntil(o, nil) }

// WithUntil is With, and gives up between two expressions when stop returns an error; nil = never.
func (b *Rulebook) WithUntil(o *Overlay, stop func() error) (*Rulebook, error) {
	if old := b.library.Overlays[o.Name.Value]; old != nil {
		return nil, fmt.Errorf("%s is defined already at %s", o.subject(), old.Name.Pos)
	}
	b.mu.RLock()
	c := *b.compiler
	c.ps, c.compiled, c.points, c.usedParams = &problems{}, maps.Clone(c.compiled), maps.Clone(c.points), maps.Clone(c.usedParams)
	c.stop = stop
	next := &Rulebook{library: b.library.With(o), pipelines: b.pipelines, overlays: b.overlays, standard: b.standard, bases: b.bases,
		compiler: &c, plans: maps.Clone(b.plans), failed: maps.Clone(b.failed)}
	b.mu.RUnlock()
	next.insert(o)
	if err := c.stopped(); err != nil {
		return nil, err
	}
	c.stop = nil // it is about this overlay; what is compiled later is about others
	c.ps.dedupe()
	if err := c.ps.err(); err != nil {
		return nil, err
	}
	return next, nil
}

// insert compiles an overlay alone, and holds it against those that are there.
func (b *Rulebook) insert(o *Overlay) {
	ps := b.compiler.ps
	meant := false
	for _, pipe := range b.pipelines {
		if !o.changes(pipe) {
			continue
		}
		meant = true
		base := b.bases[pipe.ID()]
		before := len(ps.list)
		alone := base.clone()
		alone.apply(o, b.library, ps)
		b.compiler.noteParams(alone)
		if len(ps.list) == before {
			b.plans[planKey(pipe, []*Overlay{o})] = b.compiler.plan(alone)
		}
		for _, other := range b.overlays {
			if other.changes(pipe) && b.compiler.stopped() == nil {
				b.checkPair(base, other, o)
			}
		}
	}
	if !meant {
		ps.at(o.Pipeline, o.subject(), fmt.Sprintf("no pipeline %q; loaded: %s", o.Pipeline.Value, strings.Join(slices.Sorted(maps.Keys(b.library.Pipelines)), ", ")))
	}
	b.overlays = insertInOrder(b.overlays, o)
}

// checkPair reports conflicts, and changes of the overlay that applies later which the earlier one makes impossible.
func (b *Rulebook) checkPair(base *resolved, there, added *Overlay) {
	ps := b.compiler.ps
	earlier, later := there, added
	if added.before(there) {
		earlier, later = added, there
	}
	if !earlier.Match.overlaps(&later.Match) {
		return
	}
	before := len(ps.list)
	base.conflict(there, added, ps)
	if len(ps.list) > before || (earlier.ModeOf() != ModeEnforce && later.ModeOf() != ModeEnforce) {
		return
	}
	if !base.meet(earlier, later) {
		return
	}
	both, silent := base.clone(), &problems{}
	both.apply(earlier, b.library, silent)
	if len(silent.list) > 0 {
		return // told already, about that overlay alone
	}
	both.apply(later, b.library, ps)
	if len(ps.list) > before {
		return
	}
	b.compiler.plan(both)
	for _, p := range ps.list[before:] {
		p.Message += fmt.Sprintf(" (with %s and %s together)", earlier.subject(), later.subject())
	}
}

// Selection is what an object gets.
type Selection struct {
	// Plan is the pipeline with the enforced overlays that match. With Err it is the default pipeline without overlays.
	Plan *Plan
	// Shadows are the overlays in mode Audit or Warn that match, in the order in which they would apply.
	Shadows []Shadow
	// Err says why the object cannot get what it asks for, e.g. a pinned pipeline that is not loaded.
	Err error
	// Untried says why overlays that match are not among Shadows.
	Untried []error
}

// Shadow is an overlay that is tried beside what is enforced.
type Shadow struct {
	Overlay string
	Mode    string // ModeAudit or ModeWarn
	Plan    *Plan  // the enforced plan with this overlay
}

// Default is the plan of objects that pin no pipeline and match no overlay.
func (b *Rulebook) Default() *Plan { return b.standard }

// Everywhere is the default pipeline with the enforced overlays that are for all objects: what one schema of all objects
// can hold.
func (b *Rulebook) Everywhere() (*Plan, error) {
	pipe := b.library.Pipelines[b.standard.pipeline]
	var all []*Overlay
	for _, o := range b.overlays {
		if o.changes(pipe) && o.ModeOf() == ModeEnforce && o.Match.everything() {
			all = append(all, o)
		}
	}
	return b.plan(pipe, all)
}

// Plans lists the plans of all pipelines without overlays, by name and version.
func (b *Rulebook) Plans() []*Plan {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []*Plan
	for _, p := range b.pipelines {
		out = append(out, b.plans[planKey(p, nil)])
	}
	return out
}

// Overlays lists the overlays in the order in which they apply.
func (b *Rulebook) Overlays() []*Overlay { return b.overlays }

// HasOverlay reports whether an overlay is part of the rulebook.
func (b *Rulebook) HasOverlay(name string) bool { return b.library.Overlays[name] != nil }

// Has reports whether a pipeline, as name@version, is loaded.
func (b *Rulebook) Has(pipeline string) bool { return b.library.Pipelines[pipeline] != nil }

// For chooses the plans of an object.
func (b *Rulebook) For(s Subject) Selection {
	pipe := b.library.Pipelines[b.standard.pipeline]
	if s.Pipeline != "" {
		if pipe = b.library.Pipelines[s.Pipeline]; pipe == nil {
			return Selection{Plan: b.standard, Err: fmt.Errorf("pipeline %q is not loaded; write it as name@version, there is %s", s.Pipeline, strings.Join(slices.Sorted(maps.Keys(b.library.Pipelines)), ", "))}
		}
	}
	var enforced, shadows []*Overlay
	for _, o := range b.overlays {
		switch {
		case !o.changes(pipe) || !o.Match.matches(s):
		case o.ModeOf() == ModeEnforce:
			enforced = append(enforced, o)
		default:
			shadows = append(shadows, o)
		}
	}
	var out Selection
	if out.Plan, out.Err = b.plan(pipe, enforced); out.Err != nil {
		out.Plan = b.standard
		return out
	}
	for _, o := range shadows {
		with := insertInOrder(enforced, o)
		plan, err := b.plan(pipe, with)
		if err != nil {
			out.Untried = append(out.Untried, fmt.Errorf("%s: %w", o.subject(), err))
			continue
		}
		out.Shadows = append(out.Shadows, Shadow{Overlay: o.Name.Value, Mode: o.ModeOf(), Plan: plan})
	}
	return out
}

// plan compiles a pipeline with overlays, once.
func (b *Rulebook) plan(pipe *Pipeline, overlays []*Overlay) (*Plan, error) {
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
	ps := &problems{}
	r := b.bases[pipe.ID()].clone()
	for _, o := range overlays {
		r.apply(o, b.library, ps)
	}
	b.compiler.ps = ps
	if len(ps.list) == 0 {
		plan = b.compiler.plan(r)
	}
	if err := ps.err(); err != nil {
		b.failed[key] = fmt.Errorf("overlays %s do not fit together on pipeline %s: %w", overlayNames(overlays), pipe.ID(), err)
		return nil, b.failed[key]
	}
	b.plans[key] = plan
	return plan, nil
}

// maxCombinations bounds the plans that are kept for combinations of overlays: who labels objects must not fill the memory.
const maxCombinations = 1000

// forgetCombinations drops what can be compiled again when there is too much of it.
func (b *Rulebook) forgetCombinations() {
	if len(b.plans)+len(b.failed) < maxCombinations+len(b.pipelines)*(1+len(b.overlays)) {
		return
	}
	for key, plan := range b.plans {
		if len(plan.overlays) > 1 {
			delete(b.plans, key)
		}
	}
	clear(b.failed)
	clear(b.compiler.compiled)
	clear(b.compiler.points)
}

func planKey(pipe *Pipeline, overlays []*Overlay) string {
	key := pipe.ID()
	for _, o := range overlays {
		key += " " + o.Name.Value
	}
	return key
}
