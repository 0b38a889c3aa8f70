package engine

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// Render writes the YAML that gives the same plan without overlays: the pipeline, then each rule
// set in run order. Comments mark what comes from an overlay.
func (p *Plan) Render(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	docs := []*yaml.Node{p.pipelineNode()}
	seen := map[*document.RuleSet]bool{}
	for _, point := range p.parts.Resolved.Points {
		for _, placed := range point.Sets {
			if !seen[placed.Set] && len(placed.Set.Entries()) > 0 {
				docs = append(docs, p.ruleSetNode(placed.Set))
			}
			seen[placed.Set] = true
		}
	}
	for _, doc := range docs {
		if err := enc.Encode(doc); err != nil {
			return fmt.Errorf("rendering %s: %w", p.parts.Pipeline, err)
		}
	}
	return enc.Close()
}

// Part renders what a path (set, set/stage or set/stage/rule) names in the plan, overlays included,
// and returns the digest by which overlays refer to it.
func (p *Plan) Part(path string) (text, digest string, err error) {
	at, err := p.parts.Resolved.Find(path)
	if err != nil {
		return "", "", err
	}
	set := p.parts.Resolved.Points[at.Point].Sets[at.Set].Set
	var node *yaml.Node
	switch {
	case at.Entry < 0:
		node = p.ruleSetNode(set)
	case at.Rule >= 0:
		node = ruleNode(&set.Stages[at.Entry].Rules[at.Rule], "")
	case len(set.Stages) > 0:
		node = stageNode(&set.Stages[at.Entry])
	case len(set.Decisions) > 0:
		node = decisionNode(&set.Decisions[at.Entry])
	default:
		node = validationNode(&set.Validations[at.Entry])
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return "", "", fmt.Errorf("rendering %s: %w", path, err)
	}
	return b.String(), p.parts.Resolved.DigestAt(at), nil
}

// Calls lists the definitions that what a path names calls, with what they stand for.
func (p *Plan) Calls(path string) (out []string, err error) {
	at, err := p.parts.Resolved.Find(path)
	if err != nil {
		return nil, err
	}
	for _, f := range p.parts.Resolved.CalledAt(at) {
		out = append(out, f.Signature()+" is "+strings.Join(strings.Fields(f.Expression.Value), " "))
	}
	return out, nil
}

func (p *Plan) pipelineNode() *yaml.Node {
	r := p.parts.Resolved
	points := &mapping{}
	for _, point := range r.Points {
		var ids []string
		for _, placed := range point.Sets {
			if len(placed.Set.Entries()) > 0 {
				ids = append(ids, placed.Set.ID())
			}
		}
		points.add(point.Point.Value, flow(ids))
	}
	spec := &mapping{}
	spec.text("version", r.Pipeline.Version.Value)
	spec.text("description", r.Pipeline.Description)
	spec.list("params", nodes(r.Pipeline.Params, func(x *document.Param) *yaml.Node { return p.paramNode(x.Name.Value, x) }))
	spec.list("definitions", nodes(r.Pipeline.Definitions, definitionNode))
	spec.add("points", points.node())
	doc := documentNode(document.KindPipeline, r.Pipeline.Name.Value, spec)
	doc.HeadComment = "digest " + p.parts.Digest
	if len(r.Overlays) > 0 {
		doc.HeadComment += ", with overlays " + document.OverlayNames(r.Overlays)
	}
	return doc
}

func (p *Plan) ruleSetNode(s *document.RuleSet) *yaml.Node {
	spec := &mapping{}
	spec.text("version", s.Version.Value)
	spec.text("description", s.Description)
	spec.text("point", s.Point.Value)
	spec.text("gate", s.Gate.Value)
	spec.list("params", nodes(s.Params, func(x *document.Param) *yaml.Node { return p.paramNode(document.ParamKeyOf(s, x), x) }))
	spec.variables(s.Variables)
	spec.list("stages", nodes(s.Stages, stageNode))
	spec.list("decisions", nodes(s.Decisions, decisionNode))
	spec.list("validations", nodes(s.Validations, validationNode))
	doc := documentNode(document.KindRuleSet, s.Name.Value, spec)
	doc.HeadComment = "from " + s.Name.Pos.String()
	if s.Gate.Value != "" && !p.parts.Gates[s.Gate.Value] {
		doc.HeadComment += "; its gate is off, it does not run"
	}
	return doc
}

// paramNode shows a parameter's value in the plan as its default.
func (p *Plan) paramNode(key string, x *document.Param) *yaml.Node {
	value, from := x.Default, ""
	if text, given := p.parts.Params[key]; given {
		value, from = source.Scalar{Value: text, Pos: x.Name.Pos}, "default given from outside the rules"
		if x.Flag != "" {
			from = "default given by --" + x.Flag
		}
	}
	if v, overlaid := p.parts.Resolved.Params[key]; overlaid {
		value, from = v, "default set by an overlay at "+v.Pos.String()
	}
	m := &mapping{}
	m.text("name", x.Name.Value)
	m.text("type", x.Type.Value)
	m.plain("default", value)
	m.plain("min", x.Min)
	m.plain("max", x.Max)
	m.text("flag", x.Flag)
	m.text("description", x.Description)
	n := m.flow()
	n.HeadComment = from
	return n
}

func definitionNode(f *document.Definition) *yaml.Node {
	m := &mapping{}
	m.text("name", f.Name.Value)
	m.words("args", f.Args)
	m.text("expression", f.Expression.Value)
	m.text("description", f.Description)
	return m.node()
}

func stageNode(s *document.Stage) *yaml.Node {
	m := &mapping{}
	m.text("name", s.Name.Value)
	m.some("each", s.Each)
	m.words("without", s.Without)
	m.text("when", s.When.Value)
	m.text("onError", s.OnError.Value)
	m.text("solve", s.Solve.Value)
	m.variables(s.Variables)
	m.list("rules", nodes(s.Rules, func(r *document.Rule) *yaml.Node { return ruleNode(r, s.Overlay) }))
	return m.by(s.Overlay)
}

func ruleNode(r *document.Rule, stageOverlay string) *yaml.Node {
	m := &mapping{}
	m.text("name", r.Name.Value)
	m.text("when", r.When.Value)
	set := &mapping{}
	for _, a := range r.Set {
		set.text(a.Path.Value, a.Expression.Value)
	}
	if len(r.Set) > 0 {
		m.add("set", set.node())
	}
	if len(r.Unset) > 0 {
		var paths []string
		for _, u := range r.Unset {
			paths = append(paths, u.Value)
		}
		m.add("unset", flow(paths))
	}
	m.text("note", r.Note.Value)
	m.words("without", r.Without)
	if r.Overlay == stageOverlay {
		return m.node()
	}
	return m.by(r.Overlay)
}

func decisionNode(d *document.Decision) *yaml.Node {
	m := &mapping{}
	m.text("name", d.Name.Value)
	m.text("when", d.When.Value)
	m.text("do", d.Do.Value)
	m.text("class", d.Class.Value)
	m.text("reason", d.Reason)
	m.text("reasonExpression", d.ReasonExpression.Value)
	m.text("until", d.Until)
	m.text("untilExpression", d.UntilExpression.Value)
	return m.by(d.Overlay)
}

func validationNode(v *document.Validation) *yaml.Node {
	m := &mapping{}
	m.text("name", v.Name.Value)
	m.words("axes", v.Axes)
	m.words("without", v.Without)
	m.some("at", v.At)
	m.words("enforce", v.Enforce)
	m.text("severity", v.Severity.Value)
	m.text("when", v.When.Value)
	m.text("expression", v.Expression.Value)
	m.text("message", v.Message.Value)
	m.text("messageExpression", v.MessageExpression.Value)
	m.text("fieldPath", v.FieldPath.Value)
	m.text("reason", v.Reason.Value)
	return m.by(v.Overlay)
}

// mapping builds a YAML mapping whose keys keep their order.
type mapping struct{ content []*yaml.Node }

func (m *mapping) add(key string, value *yaml.Node) {
	m.content = append(m.content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// text skips empty values. The encoder quotes strings that would read as another type.
func (m *mapping) text(key, value string) {
	if value != "" {
		n := &yaml.Node{}
		n.SetString(value)
		m.add(key, n)
	}
}

// plain keeps the author's style, so that a number stays a number.
func (m *mapping) plain(key string, value source.Scalar) {
	if !value.IsZero() {
		m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value.Value, Style: value.Style() &^ (yaml.LiteralStyle | yaml.FoldedStyle)})
	}
}

func (m *mapping) list(key string, items []*yaml.Node) {
	if len(items) > 0 {
		m.add(key, &yaml.Node{Kind: yaml.SequenceNode, Content: items})
	}
}

// words adds a list on one line and skips an empty one.
func (m *mapping) words(key string, list []source.Scalar) {
	if len(list) > 0 {
		m.add(key, flow(source.Values(list)))
	}
}

// some writes a list of one as a scalar.
func (m *mapping) some(key string, list []source.Scalar) {
	if len(list) == 1 {
		m.text(key, list[0].Value)
		return
	}
	m.words(key, list)
}

func (m *mapping) variables(list []document.Variable) {
	if len(list) == 0 {
		return
	}
	vars := &mapping{}
	for _, v := range list {
		vars.text(v.Name.Value, v.Expression.Value)
	}
	m.add("variables", vars.node())
}

func (m *mapping) node() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: m.content} }

func (m *mapping) flow() *yaml.Node {
	n := m.node()
	n.Style = yaml.FlowStyle
	return n
}

// by marks a part that comes from an overlay.
func (m *mapping) by(overlay string) *yaml.Node {
	n := m.node()
	if overlay != "" {
		n.HeadComment = "from " + document.KindOverlay + " " + overlay
	}
	return n
}

func documentNode(kind, name string, spec *mapping) *yaml.Node {
	metadata := &mapping{}
	metadata.text("name", name)
	m := &mapping{}
	m.text("apiVersion", document.APIVersion)
	m.text("kind", kind)
	m.add("metadata", metadata.flow())
	m.add("spec", spec.node())
	return m.node()
}

func flow(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range list {
		item := &yaml.Node{}
		item.SetString(s)
		n.Content = append(n.Content, item)
	}
	return n
}

func nodes[T any](list []T, node func(*T) *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for i := range list {
		out = append(out, node(&list[i]))
	}
	return out
}
