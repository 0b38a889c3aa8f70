package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// wayOutOfSteps is the advice for expressions that take too long.
const wayOutOfSteps = "avoid loops inside loops, filter a list before going through it again, or move a part into a variable"

// factSizes are the sizes that facts, and what is made of them, are assumed to have. Larger ones are
// bounded when rules run.
type factSizes struct {
	variables map[string]*closure.Estimate
}

// EstimateSize implements checker.CostEstimator.
func (factSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	most := uint64(lang.MaxListSize)
	switch kind := lang.Inside(node.Type()).Kind(); {
	case kind != types.StringKind && kind != types.BytesKind:
		if len(path) > 1 {
			most = lang.MaxFieldList
		}
	case len(path) > 0 && strings.HasPrefix(path[len(path)-1], "@"): // an entry of a list
		most = lang.MaxEntrySize
	default:
		most = lang.MaxTextSize
	}
	return &checker.SizeEstimate{Max: most}
}

// EstimateCallCost implements checker.CostEstimator. CEL would charge comparisons for the length of the
// values only, and not for all that is in them.
func (f factSizes) EstimateCallCost(function, _ string, _ *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
		if f.mayBeDeep(args[0]) && f.mayBeDeep(args[1]) {
			return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: lang.MaxList / lang.StepBytes}}
		}
	}
	return nil
}

// mayBeDeep reports whether a value is a list or map that rules have made.
func (f factSizes) mayBeDeep(node checker.AstNode) bool {
	switch lang.Inside(node.Type()).Kind() {
	case types.ListKind, types.MapKind, types.DynKind, types.AnyKind:
		size, path := node.ComputedSize(), node.Path()
		return (size == nil || size.Max > 0) && (len(path) == 0 || f.variables[path[0]] != nil)
	}
	return false
}

// steps is CEL's estimate of what an expression takes at most.
func steps(env *cel.Env, ast *cel.Ast, sizes checker.CostEstimator) (int64, error) {
	estimate, err := env.EstimateCost(ast, sizes)
	if err != nil {
		return 0, fmt.Errorf("estimating the cost: %w", err)
	}
	return int64(min(estimate.Max, math.MaxInt64)), nil
}

// tooCostly refuses validations whose worst case could hold up admission.
func tooCostly(env *cel.Env, ast *cel.Ast, sizes checker.CostEstimator) error {
	most, err := steps(env, ast, sizes)
	if err == nil && most > lang.MaxCost {
		err = fmt.Errorf("the expression may take %d steps, at most %d are allowed: %s", most, lang.MaxCost, wayOutOfSteps)
	}
	return err
}

// affordable estimates an expression of a stage or decision, which reads these names. It returns nil and
// reports a worst case that could hold up a cycle or an admission.
func (c *compiler) affordable(x *checkedExpression, reads []string, sc *scopeEnv, subject string) *closure.Estimate {
	own, err := steps(sc.env, x.Ast, factSizes{sc.estimates})
	if err != nil {
		c.ps.At(x.at, subject, err.Error())
		return nil
	}
	out := &closure.Estimate{At: x.at, Subject: subject, Own: own}
	for _, name := range reads {
		if v := sc.estimates[name]; v != nil {
			out.Reads = append(out.Reads, v)
			out.Reads = append(out.Reads, v.Reads...)
		}
	}
	slices.SortFunc(out.Reads, func(a, b *closure.Estimate) int { return strings.Compare(a.Name, b.Name) })
	out.Reads = slices.Compact(out.Reads)
	total := out.Total()
	switch {
	case total <= lang.MaxCost:
		return out
	case own <= lang.MaxCost:
		c.ps.At(x.at, subject, fmt.Sprintf("the expression may take %d steps with the variables that it reads (%s), at most %d are allowed: %s",
			total, dearest(out), lang.MaxCost, wayOutOfSteps))
	default:
		c.ps.At(x.at, subject, fmt.Sprintf("the expression may take %d steps, at most %d are allowed: %s", own, lang.MaxCost, wayOutOfSteps))
	}
	return nil
}

// dearest names the variables that take at least a tenth of the steps.
func dearest(e *closure.Estimate) string {
	var names []string
	for _, v := range e.Reads {
		if v.Own >= e.Total()/10 {
			names = append(names, fmt.Sprintf("%s takes %d", v.Name, v.Own))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("there are %d", len(e.Reads))
	}
	return strings.Join(names, ", ")
}

// worstCase is the estimate of rules that run together.
type worstCase struct {
	steps   int64
	largest *closure.Estimate // the expression with the largest share
	share   int64
}

func (w *worstCase) include(o worstCase) {
	w.steps = lang.SaturatingAdd(w.steps, o.steps)
	if o.share > w.share || w.largest == nil {
		w.largest, w.share = o.largest, o.share
	}
}

// add adds expressions that run a number of times.
func (w *worstCase) add(times int64, list ...*closure.Program) {
	for _, p := range list {
		if p != nil {
			total, _ := lang.MulDivFloor(times, p.Estimate.Total(), 1)
			w.include(worstCase{total, p.Estimate, total})
		}
	}
}

// worstCaseOf is that of a rule set, where each scope has lang.MaxItems items.
func worstCaseOf(set *engine.SetPlan) (out worstCase) {
	for _, d := range set.Decisions {
		out.add(1, d.When, d.Reason, d.Until)
	}
	for _, st := range set.Stages {
		times := int64(1)
		if st.Scope >= 0 {
			times = lang.MaxItems
		}
		out.add(times, st.When)
		for _, r := range st.Rules {
			out.add(times, r.When)
			for _, w := range r.Writes {
				out.add(times, w.Value)
			}
		}
	}
	return out
}

// affordableTogether reports a point whose rules take too long together.
func (c *compiler) affordableTogether(point *registry.Point, w *worstCase) {
	if w.steps > lang.MaxPointSteps {
		c.ps.At(w.largest.At, w.largest.Subject, fmt.Sprintf("the rules at %s may take %d steps in one run, for up to %d items, at most %d are allowed; this expression has the largest share, %d: %s",
			point.Name, w.steps, lang.MaxItems, lang.MaxPointSteps, w.share, wayOutOfSteps))
	}
}

// checkCost reports an enforced overlay with which a point costs too much, for objects that match
// all other enforced overlays which one object may match together with it: such an object would get
// no rules at all.
func (b *Rulebook) checkCost(pipe *document.Pipeline, o *document.Overlay) {
	if o.ModeOf() != document.ModeEnforce {
		return
	}
	base, with := b.steps(pipe), b.steps(pipe, o)
	for _, point := range slices.Sorted(maps.Keys(with)) {
		if with[point] == base[point] {
			continue
		}
		total, others := with[point], []*document.Overlay{}
		for _, other := range b.overlays {
			if other.ModeOf() != document.ModeEnforce || !other.AppliesTo(pipe) || !o.Match.Overlaps(&other.Match) {
				continue
			}
			if theirs := b.steps(pipe, other)[point]; theirs != base[point] && theirs <= lang.MaxPointSteps {
				total = lang.SaturatingAdd(total, max(0, theirs-base[point]))
				others = append(others, other)
			}
		}
		if total > lang.MaxPointSteps {
			b.compiler.ps.At(o.Changes[0].Pos, o.Subject(), fmt.Sprintf("with %s %s, which one object may match too, the rules at %s may take %d steps in one run, for up to %d items, at most %d are allowed: %s, or match other objects",
				document.KindOverlay, document.OverlayNames(others), point, total, lang.MaxItems, lang.MaxPointSteps, wayOutOfSteps))
		}
	}
}

// steps are those of the points of a pipeline with overlays, which is compiled.
func (b *Rulebook) steps(pipe *document.Pipeline, overlays ...*document.Overlay) map[string]int64 {
	out := map[string]int64{}
	if plan := b.plans[planKey(pipe, overlays)]; plan != nil {
		for name, at := range plan.Parts().Points {
			out[name] = at.Steps
		}
	}
	return out
}
