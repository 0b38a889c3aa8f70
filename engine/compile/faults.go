package compile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// expressionFaults reports CEL's errors with hints, but not those that follow from others: all but the
// first syntax error or reserved word, and that a variable or param with faults is not declared. sc is the scope; nil = not known.
func (c *compiler) expressionFaults(s source.Scalar, env *cel.Env, sc *scopeEnv, subject string, faults []*cel.Error) {
	for _, e := range faults {
		expression := s.Value
		if s.HasOrigin(e.Location.Line(), e.Location.Column()) {
			expression = "" // the fault is in a definition
		}
		message, syntax := strings.CutPrefix(e.Message, "Syntax error: ")
		if syntax {
			message = c.syntaxHint(message, expression, e.Location)
		} else {
			message = strings.ReplaceAll(message, " (in container '')", "")
			if m := undeclared.FindStringSubmatch(message); m != nil && (sc != nil && sc.missing[m[1]] || c.inlined.Faulty(m[1]) || m[1] == "params" && len(c.faultyParams) > 0) {
				continue
			}
			if m := undefined.FindStringSubmatch(message); m != nil && c.faultyParams[m[1]] && paramBefore(expression, e.Location) {
				continue
			}
			message = c.nameHint(message, expression, e.Location, env, sc)
		}
		c.ps.Inside(s, e.Location.Line(), e.Location.Column(), subject, message)
		if syntax || reserved.MatchString(e.Message) {
			return
		}
	}
}

// syntaxHint explains the parser's usual errors.
func (c *compiler) syntaxHint(message, expression string, at common.Location) string {
	switch {
	case strings.HasPrefix(message, "token recognition error at: '= "):
		return "syntax error: one = stands alone; compare with =="
	case strings.HasPrefix(message, "token recognition error at: ''"), strings.HasPrefix(message, "token recognition error at: '\""):
		return "syntax error: a quote is not closed"
	}
	m := wordOperator.FindStringSubmatch(message)
	if m == nil {
		m = wordBefore.FindStringSubmatch(strings.TrimSuffix(expression, from(expression, at)))
	}
	if m != nil {
		return fmt.Sprintf("syntax error: %q is not an operator; write && for and, || for or, ! for not", m[1])
	}
	if rest, extra := strings.CutPrefix(message, "extraneous input '"); extra {
		word, _, _ := strings.Cut(rest, "'")
		return fmt.Sprintf("syntax error: %q is not expected here; amounts are written as literals%s", word, c.someLiteral())
	}
	message, _, _ = strings.Cut(message, " expecting {")
	return "syntax error: " + message
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '(\w+)'$`)
	undefined  = regexp.MustCompile(`^undefined field '(\w+)'$`)
	reserved   = regexp.MustCompile(`^reserved identifier: (\w+)$`)
	nameChain  = regexp.MustCompile(`(\w+(?:\.\??\w+)*)\.\??$`)
	// objectName reads a namespace, labels or other metadata from the name at which an expression is faulty, or is that itself.
	objectName   = regexp.MustCompile(`^(?:\w+\.\??)*(?:metadata|namespaces?|labels|annotations)\b`)
	wordOperator = regexp.MustCompile(`^(?:extraneous|mismatched) input '(and|or|not|AND|OR|NOT)'`)
	wordBefore   = regexp.MustCompile(`\b(not|NOT)\s+$`)
)

// onlyOverlays is where people find what rules do not see.
const onlyOverlays = "docs/points.md lists the namespaces, labels and annotations that rules see at each point; overlays match objects by match.namespaces, match.workloadSelector and match.vpaSelector"

// noClock is where people find the time.
const noClock = "the time is a fact of some points, which functions read; docs/points.md has both"

// absent explains why names that people try do not exist.
var absent = map[string]string{
	"not": "write ! for not", "NOT": "write ! for not",
	"matches": "there are no regular expressions; use startsWith, endsWith or contains",
	"clock":   noClock, "now": noClock, "timestamp": noClock, "getHours": noClock, "getDayOfWeek": noClock,
	"params": "neither the rule set nor the pipeline it runs in declares params; a pipeline of your own declares in spec.params what its rule sets share",
}

// nameHint suggests what an unknown name could mean.
func (c *compiler) nameHint(message, expression string, at common.Location, env *cel.Env, sc *scopeEnv) string {
	if out := c.overloadFault(message, expression, at, env); out != message {
		return out
	}
	if m := reserved.FindStringSubmatch(message); m != nil {
		message = fmt.Sprintf("%q is a word that CEL reserves", m[1])
		switch {
		case m[1] == "namespace" && sc == nil:
			return message + "; that of the object is object.metadata.namespace, where a validation reads it at " + document.EnforceAdmission
		case m[1] == "namespace":
			return message + ": " + onlyOverlays
		case m[1] == "if" || m[1] == "else":
			return message + "; write condition ? value : other"
		}
		return message + "; choose another name"
	}
	if message == "invalid argument to has() macro" {
		return message + "; of a field that an axis names, ask e.g. resource in policy.minAllowed"
	}
	if m := undeclared.FindStringSubmatch(message); m != nil && absent[m[1]] == "" {
		if hint := c.callHint(m[1], expression, at, env); hint != "" {
			return message + hint
		}
	}
	if sc == nil {
		if m := undeclared.FindStringSubmatch(message); m != nil && (m[1] == "gates" || m[1] == "params" || m[1] == "object" || m[1] == "oldObject" || slices.ContainsFunc(c.at.Vars, func(v registry.Var) bool { return v.Name == m[1] })) {
			return message + ": a schema does not know it; enforce the rule at " + document.EnforceAdmission + " only"
		}
		return message
	}
	if (undeclared.MatchString(message) || undefined.MatchString(message)) && objectName.MatchString(from(expression, at)) {
		return message + ": " + onlyOverlays
	}
	if m := undeclared.FindStringSubmatch(message); m != nil {
		if axis := c.reg.Axes()[m[1]]; axis != nil {
			return fmt.Sprintf("%s: it is an axis; name it in each, as in each: [%s], or ask %s.exists(%s, …)", message, strings.Join(append(c.at.SomeScope(), axis.Name), ", "), axis.Plural, axis.Name[:1])
		}
		if scopes := c.at.ScopesWith(m[1]); len(scopes) > 0 {
			return message + ": it belongs to the items of " + strings.Join(scopes, ", ") + "; give the stage each: " + scopes[0]
		}
		if why := absent[m[1]]; why != "" {
			return message + ": " + why
		}
		known := slices.Collect(maps.Keys(sc.types))
		if axis := lang.AxisAt(c.axis); axis != nil {
			known = append(known, axis.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(c.reg.Axes())) {
			if slices.Contains(c.reg.Axes()[name].Values, m[1]) {
				message += fmt.Sprintf(": for the %s, write '%s', in quotes", name, m[1])
			}
		}
		return message + "; known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
	}
	if undefined.MatchString(message) {
		if schema := schemaBefore(expression, at, sc.types); schema != nil {
			return message + "; " + schema.Name() + " has " + strings.Join(schema.FieldNames(), ", ")
		}
	}
	return message
}

// paramBefore reports whether the field at a position of an expression is one of params.
func paramBefore(expression string, at common.Location) bool {
	return strings.HasSuffix(strings.TrimRight(upTo(expression, at, 0), ".? "), "params")
}

// upTo is the line of an expression up to some characters behind a position.
func upTo(expression string, at common.Location, behind int) string {
	lines := strings.Split(expression, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	return string(line[:min(at.Column()+behind, len(line))])
}

// from is an expression from a position on; a fault of a field is at the dot before it.
func from(expression string, at common.Location) string {
	lines := strings.Split(expression, "\n")
	if at.Line() < 1 || at.Line() > len(lines) {
		return ""
	}
	line := []rune(lines[at.Line()-1])
	return strings.TrimLeft(string(line[min(at.Column(), len(line)):]), ".?")
}

// schemaBefore finds the record whose field a chain of names selects at a position.
func schemaBefore(expression string, at common.Location, known map[string]lang.Type) *lang.Schema {
	m := nameChain.FindStringSubmatch(upTo(expression, at, 1))
	if m == nil {
		return nil
	}
	names := strings.Split(strings.ReplaceAll(m[1], "?", ""), ".")
	t := known[names[0]]
	for _, name := range names[1:] {
		if t.Schema() == nil {
			return nil
		}
		i, ok := t.Schema().Index()[name]
		if !ok {
			return nil
		}
		t = t.Schema().Fields()[i].Type
	}
	return t.Schema()
}

// conversions are CEL's own that may fail for a text.
var conversions = map[string]*types.Type{
	overloads.TypeConvertInt: types.IntType, overloads.TypeConvertUint: types.UintType, overloads.TypeConvertDouble: types.DoubleType,
	overloads.TypeConvertBool: types.BoolType, overloads.TypeConvertDuration: types.DurationType, overloads.TypeConvertTimestamp: types.TimestampType,
}

// literals reports invalid texts, such as cpu('x') or timeZone('x'), and conversions such as double('0x10'), which would only fail
// at run time, or not at all in a branch that is not taken.
func (c *compiler) literals(x *checkedExpression, subject string) bool {
	before := len(c.ps.List)
	celast.PreOrderVisit(x.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind {
			return
		}
		name, args := e.AsCall().FunctionName(), e.AsCall().Args()
		if len(args) != 1 || args[0].Kind() != celast.LiteralKind {
			return
		}
		text, ok := args[0].AsLiteral().(types.String)
		if !ok {
			return
		}
		known, err := c.reg.ParseText(name, string(text))
		if to := conversions[name]; !known && to != nil && types.IsError(text.ConvertToType(to)) {
			err = fmt.Errorf("%s(%q) fails, because the text is not a valid %s", name, string(text), to)
		}
		if err != nil {
			x.problem(c.ps, args[0], subject, err.Error())
		}
	}))
	return len(c.ps.List) == before
}
