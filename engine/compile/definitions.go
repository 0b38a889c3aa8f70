package compile

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/inline"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// definitionsOf prepares the definitions of a pipeline, once.
func (c *compiler) definitionsOf(p *document.Pipeline) *inline.Definitions {
	if known := c.definitions[p]; known != nil {
		return known
	}
	names := inline.Names{}
	if len(p.Definitions) > 0 {
		names = c.names(p)
	}
	c.definitions[p] = inline.New(p, names, c.ps)
	return c.definitions[p]
}

// names are those that mean something at some point. What only points mean that are not compiled is
// left out, as are faults of their expressions.
func (c *compiler) names(p *document.Pipeline) inline.Names {
	out := inline.Names{Functions: map[string]bool{}, Constants: map[string]bool{}, Axes: map[string]bool{}, Taken: map[string]string{}}
	for _, t := range []string{"bool", "bytes", "double", "int", "list", "map", "string", "type", "uint", "params", "gates"} {
		out.Constants[t] = true
	}
	for _, axis := range c.reg.Axes() {
		out.Axes[axis.Name], out.Axes[axis.Plural], out.Constants[axis.Plural] = true, true, true
	}
	for unit := range c.reg.Units() {
		out.Taken[unit] = "a unit"
	}
	note := func(vars []registry.Var, point string) {
		for _, v := range vars {
			if out.Taken[v.Name] == "" {
				out.Taken[v.Name] = "a fact of " + point
			}
		}
	}
	noteFunctions(out.Functions, c.base)
	for _, point := range c.reg.Points() {
		note(point.Vars, point.Name)
		for _, scope := range point.Scopes {
			note(scope.Vars, point.Name)
		}
		if point.Kind != registry.ValidationPoint {
			continue
		}
		if !c.compiles(point.Name) { // its environment takes megabytes
			out.Partly = true
			continue
		}
		env, err := point.Objects.Env("", false)
		if err != nil {
			c.ps.At(p.Name, p.Subject(), err.Error())
			continue
		}
		noteFunctions(out.Functions, env)
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
