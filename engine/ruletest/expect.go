package ruletest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Difference is a result that differs from what a row expects.
type Difference struct {
	Field string `json:"field"` // e.g. bound.target.now.cpu
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// check compares one expectation of a row with the result.
type check func(*testRun) []Difference

// testRun is the result of a row.
type testRun struct {
	trace      *engine.Trace
	facts      *registry.Facts
	fired      []string // rules that changed or noted something, in order of first firing
	failed     []*engine.RuleError
	verdict    engine.Verdict
	violations []engine.Violation

	differences []Difference
}

// Keys of expect besides those of the point; see also registry.ExpectNotes.
const (
	expectDo         = "do"
	expectRule       = "rule"
	expectReason     = "reason"
	expectUntil      = "until"
	expectViolations = "violations"
)

// expectation turns expect into checks. At validation points, an empty one means no violations.
func (r *factReader) expectation(p *registry.Point, f *registry.Facts, expect *yaml.Node) []check {
	if len(expect.Content) == 0 && p.Kind != registry.ValidationPoint {
		r.Problems.At(r.row, r.Subject, "the row expects nothing; name at least one outcome in expect")
		return nil
	}
	var checks []check
	add := func(c check) { checks = append(checks, c) }
	var failures []string
	var violations []expectedViolation
	r.Pairs(expect, func(key source.Scalar, v *yaml.Node) {
		switch {
		case key.Value == registry.ExpectErrors && p.Kind != registry.ValidationPoint:
			failures = r.texts(v)
		case p.Kind == registry.StagePoint:
			r.expectStages(p, f, key, v, add)
		case p.Kind == registry.DecisionPoint:
			r.expectDecision(p, key, v, add)
		case key.Value == expectViolations:
			violations = r.violations(v)
		default:
			r.unknown(key, p.Name+" has no outcome", []string{expectViolations})
		}
	})
	if p.Kind == registry.ValidationPoint {
		add(func(run *testRun) []Difference { return differentViolations(violations, run.violations) })
	} else {
		add(func(run *testRun) []Difference { return differentErrors(failures, run.failed) })
	}
	return checks
}

func (r *factReader) expectStages(p *registry.Point, f *registry.Facts, key source.Scalar, v *yaml.Node, add func(check)) {
	i, isVar := p.VarIndex()[key.Value]
	scope := p.Scope(key.Value)
	switch {
	case key.Value == registry.ExpectNotes:
		want := r.texts(v)
		add(func(run *testRun) []Difference { return differentTexts(registry.ExpectNotes, want, run.facts.Notes) })
	case key.Value == registry.ExpectFired:
		want := r.texts(v)
		add(func(run *testRun) []Difference { return differentTexts(registry.ExpectFired, want, run.fired) })
	case isVar && p.Vars[i].Writable:
		r.expectValue(key.Value, v, p.Vars[i].Type, func() ref.Val { return f.Value(i) }, add)
	case scope != nil:
		r.expectItems(p, f, scope, v, add)
	default:
		known := append(writableNames(p.Vars), slices.Sorted(maps.Keys(p.ScopeIndex()))...)
		r.unknown(key, "rules at "+p.Name+" cannot change", append(known, registry.ExpectNotes, registry.ExpectFired, registry.ExpectErrors))
	}
}

func (r *factReader) expectItems(p *registry.Point, f *registry.Facts, scope *registry.Scope, n *yaml.Node, add func(check)) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		r.Problem(n, fmt.Sprintf("expected items of scope %s by label", scope.Name))
		return
	}
	r.Pairs(n, func(label source.Scalar, v *yaml.Node) {
		item := f.Labelled(p.ScopeIndex()[scope.Name], label.Value)
		switch {
		case item == nil:
			r.Problems.At(label, r.Subject, fmt.Sprintf("scope %s is given no item %q", scope.Name, label.Value))
			return
		case v.Kind != yaml.MappingNode || len(v.Content) == 0:
			r.Problem(v, fmt.Sprintf("expected what comes out for %s %s", scope.Name, label.Value))
			return
		}
		at := scope.Name + "." + label.Value
		r.Pairs(v, func(key source.Scalar, v *yaml.Node) {
			i := scope.Index(key.Value)
			switch {
			case key.Value == registry.ExpectNotes:
				want := r.texts(v)
				add(func(*testRun) []Difference { return differentTexts(at+"."+registry.ExpectNotes, want, item.Notes) })
			case i >= 0 && scope.Vars[i].Writable:
				r.expectValue(at+"."+key.Value, v, scope.Vars[i].Type, func() ref.Val { return item.Value(i) }, add)
			default:
				r.unknown(key, fmt.Sprintf("rules cannot change for an item of scope %s", scope.Name), append(writableNames(scope.Vars), registry.ExpectNotes))
			}
		})
	})
}

func (r *factReader) expectValue(path string, n *yaml.Node, t lang.Type, got func() ref.Val, add func(check)) {
	want := r.value(n, t)
	add(func(*testRun) []Difference { return different(r.reg, path, t, want, got()) })
}

func (r *factReader) expectDecision(p *registry.Point, key source.Scalar, v *yaml.Node, add func(check)) {
	want := r.Scalar(v).Value
	got := func(get func(engine.Verdict) string) {
		add(func(run *testRun) []Difference { return differentText(key.Value, want, get(run.verdict)) })
	}
	switch key.Value {
	case expectDo:
		outcomes := namesOf(p.Outcomes, func(o registry.Outcome) string { return o.Name })
		if !slices.Contains(outcomes, want) {
			r.Problem(v, fmt.Sprintf("do %q is not an outcome of %s; use %s", want, p.Name, strings.Join(outcomes, ", ")))
		}
		got(func(v engine.Verdict) string { return v.Do })
	case expectRule:
		got(func(v engine.Verdict) string { return v.Rule })
	case expectReason:
		got(func(v engine.Verdict) string { return v.Reason })
	case expectUntil:
		got(func(v engine.Verdict) string { return v.Until })
	default:
		r.unknown(key, p.Name+" has no outcome", []string{expectDo, expectRule, expectReason, expectUntil, registry.ExpectErrors})
	}
}

func (r *factReader) texts(n *yaml.Node) []string {
	var list []source.Scalar
	r.Scalars(&list)(n)
	return source.Values(list)
}

// expectedViolation holds the keys of a violation that a row lists, in order.
type expectedViolation []registry.Pair

var violationKeys = map[string]func(engine.Violation) string{
	"rule":    func(v engine.Violation) string { return v.Rule },
	"field":   func(v engine.Violation) string { return v.Path },
	"reason":  func(v engine.Violation) string { return v.Reason },
	"message": func(v engine.Violation) string { return v.Message },
	"severity": func(v engine.Violation) string {
		if v.Warning {
			return document.SeverityWarn
		}
		return document.SeverityDeny
	},
}

func (r *factReader) violations(n *yaml.Node) []expectedViolation {
	if n.Kind != yaml.SequenceNode {
		r.Problem(n, "expected a list of violations")
		return nil
	}
	var out []expectedViolation
	for _, entry := range n.Content {
		if entry.Kind != yaml.MappingNode || len(entry.Content) == 0 {
			r.Problem(entry, "expected a violation with some of "+strings.Join(slices.Sorted(maps.Keys(violationKeys)), ", "))
			continue
		}
		var one expectedViolation
		r.Pairs(entry, func(key source.Scalar, v *yaml.Node) {
			if violationKeys[key.Value] == nil {
				r.unknown(key, "a violation has no", slices.Sorted(maps.Keys(violationKeys)))
				return
			}
			one = append(one, registry.Pair{Key: key.Value, Value: r.Scalar(v).Value})
		})
		out = append(out, one)
	}
	return out
}

func differentViolations(want []expectedViolation, got []engine.Violation) []Difference {
	var out []Difference
	for i := range max(len(want), len(got)) {
		at := fmt.Sprintf("violations[%d]", i)
		switch {
		case i >= len(got):
			parts := namesOf(want[i], func(p registry.Pair) string { return p.Key + ": " + p.Value })
			out = append(out, Difference{Field: at, Want: strings.Join(parts, ", "), Got: "none"})
		case i >= len(want):
			out = append(out, Difference{Field: at, Want: "none", Got: fmt.Sprintf("%s at %s: %s", got[i].Rule, got[i].Path, got[i].Message)})
		default:
			for _, p := range want[i] {
				out = append(out, differentText(at+"."+p.Key, p.Value, violationKeys[p.Key](got[i]))...)
			}
		}
	}
	return out
}

// differentErrors compares the rules that failed, each once, and reports their errors.
func differentErrors(want []string, failed []*engine.RuleError) []Difference {
	var got, texts []string
	for _, e := range failed {
		if slices.Contains(got, e.Path) {
			continue
		}
		got = append(got, e.Path)
		texts = append(texts, e.Error())
	}
	if slices.Equal(want, got) {
		return nil
	}
	return []Difference{{Field: registry.ExpectErrors, Want: listed(want, ", "), Got: listed(texts, "; ")}}
}

func differentTexts(field string, want, got []string) []Difference {
	if slices.Equal(want, got) {
		return nil
	}
	return []Difference{{Field: field, Want: listed(want, ", "), Got: listed(got, ", ")}}
}

func differentText(field, want, got string) []Difference {
	if want == got {
		return nil
	}
	return []Difference{{Field: field, Want: want, Got: got}}
}

func listed(list []string, separator string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, separator)
}

// different compares two values field by field. An empty record equals an unset one.
func different(r *registry.Registry, path string, t lang.Type, want, got ref.Val) []Difference {
	if t.IsRecord() {
		w, g := recordOr(want, t.Schema()), recordOr(got, t.Schema())
		var out []Difference
		for i, f := range t.Schema().Fields() {
			out = append(out, different(r, path+"."+f.Name, f.Type, w.At(i), g.At(i))...)
		}
		return out
	}
	if elem, isList := t.Elem(); isList && want != nil && got != nil {
		return differentLists(r, path, elem, want.(traits.Lister), got.(traits.Lister))
	}
	if near(want, got) {
		return nil
	}
	return []Difference{{Field: path, Want: r.Format(t, want), Got: r.Format(t, got)}}
}

func differentLists(r *registry.Registry, path string, elem lang.Type, want, got traits.Lister) []Difference {
	w, g := want.Size().(types.Int), got.Size().(types.Int)
	if w != g {
		return []Difference{{Field: "size of " + path, Want: strconv.Itoa(int(w)), Got: strconv.Itoa(int(g))}}
	}
	var out []Difference
	for i := range w {
		out = append(out, different(r, fmt.Sprintf("%s[%d]", path, i), elem, want.Get(i), got.Get(i))...)
	}
	return out
}

func recordOr(v ref.Val, s *lang.Schema) *lang.Record {
	if r, ok := v.(*lang.Record); ok {
		return r
	}
	return s.Empty()
}

// near compares scalars. Doubles are written in decimal, so they may differ in the tenth digit.
func near(a, b ref.Val) bool {
	x, isDouble := a.(types.Double)
	y, both := b.(types.Double)
	if isDouble && both {
		if math.IsInf(float64(x), 0) || math.IsInf(float64(y), 0) {
			return x == y
		}
		return x == y || math.Abs(float64(x-y)) <= 1e-9*math.Max(math.Abs(float64(x)), math.Abs(float64(y)))
	}
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Equal(b) == types.True
}

func writableNames(vars []registry.Var) []string {
	var out []string
	for _, v := range vars {
		if v.Writable {
			out = append(out, v.Name)
		}
	}
	return out
}

func namesOf[T any](list []T, name func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, item := range list {
		out = append(out, name(item))
	}
	return out
}
