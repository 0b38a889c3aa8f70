package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/inline"
	"github.com/celvpa/celvpa/engine/source"
)

// definitionsOf prepares the definitions of a pipeline, once.
func (c *compiler) definitionsOf(p *document.Pipeline) *inline.Definitions {
	if known := c.definitions[p]; known != nil {
		return known
	}
	c.definitions[p] = inline.New(p, c.names(), c.ps)
	return c.definitions[p]
}

// names are those that mean something at some point.
func (c *compiler) names() inline.Names {
	out := inline.Names{Plurals: map[string]bool{}, Taken: map[string]string{}}
	for _, point := range slices.Backward(c.reg.Points()) { // of several, the first is named
		for _, v := range point.Vars {
			out.Taken[v.Name] = "a fact of " + point.Name
		}
		for _, scope := range point.Scopes {
			for _, v := range scope.Vars {
				out.Taken[v.Name] = "a fact of " + point.Name
			}
		}
	}
	for unit := range c.reg.Units() {
		out.Taken[unit] = "a unit"
	}
	functions := map[string]bool{}
	noteFunctions(functions, c.base)
	for name := range functions {
		out.Taken[name] = "a function"
	}
	for _, axis := range c.reg.Axes() {
		out.Plurals[axis.Plural] = true
		out.Taken[axis.Name], out.Taken[axis.Plural] = inline.Axis, inline.Axis
	}
	return out
}

func noteFunctions(to map[string]bool, env *cel.Env) {
	for name := range env.Functions() {
		to[name] = true
	}
	for _, macro := range env.Macros() {
		to[macro.Function()] = true
	}
}

// called lists the definitions that a rule set calls in the current pipeline.
func (c *compiler) called(set *document.RuleSet) []*document.Definition {
	if c.pipeline == nil {
		return nil
	}
	return c.pipeline.CalledBy(set)
}

// meaningOf is what the definitions say that a rule set calls.
func (c *compiler) meaningOf(set *document.RuleSet) string {
	var out strings.Builder
	for _, f := range c.called(set) {
		fmt.Fprintf(&out, "%s=%q ", f.Signature(), f.Expression.Value)
	}
	return out.String()
}

// callHint suggests what a call of an unknown function could mean; empty for other names.
func (c *compiler) callHint(name, expression string, at common.Location, env *cel.Env) string {
	lines := strings.Split(expression, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	if line := []rune(lines[at.Line()-1]); at.Column() >= len(line) || line[at.Column()] != '(' {
		return ""
	}
	if signature := c.inlined.Signature(name); signature != "" {
		return ": it is a definition; call it as " + signature
	}
	known := map[string]bool{}
	noteFunctions(known, env)
	return ": " + c.inlined.Hint(name, known)
}

// neverCalled reports a pipeline's own definitions that neither it nor its overlays call.
func (b *Rulebook) neverCalled(all *source.Collector) {
	for _, pipe := range b.pipelines {
		called := map[*document.Definition]bool{}
		for _, plan := range b.plans {
			if plan.Pipeline() != pipe.ID() {
				continue
			}
			for _, f := range plan.Parts().Resolved.Called() {
				called[f] = true
			}
		}
		for i := range pipe.Definitions {
			if f := &pipe.Definitions[i]; !called[f] && pipe.DefinitionFrom(f.Name.Value) == pipe {
				all.At(f.Name, pipe.Subject(), "definition "+f.Name.Value+" is never called")
			}
		}
	}
}
