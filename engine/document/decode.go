package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/source"
)

type document struct {
	ruleSet  *RuleSet
	pipeline *Pipeline
	overlay  *Overlay
	test     *RuleTest
}

// Decoder decodes YAML nodes strictly: unknown and duplicate keys are problems.
type Decoder struct {
	File     string
	Lines    []string
	Subject  string
	Problems *source.Collector

	selectorKey string // overlay key of the label selector
}

// decodeFile decodes every document of a file. Faults go to ps; the rest is returned. lost says that a document is not part of it.
func decodeFile(file string, data []byte, selectorKey string, ps *source.Collector) (out []document, lost bool) {
	d := &Decoder{File: file, Problems: ps, selectorKey: selectorKey}
	if !utf8.Valid(data) {
		ps.Add(&source.Problem{Pos: source.Position{File: file, Line: 1, Col: 1}, Message: "the file is not valid UTF-8; save it as UTF-8"})
		return nil, true
	}
	d.Lines = strings.Split(string(data), "\n")
	stream := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		err := stream.Decode(&root)
		if errors.Is(err, io.EOF) {
			return out, lost
		}
		if err != nil {
			format, fault := source.FindFault(data, err)
			if format == "YAML" && fault.Message != source.TemplateText {
				fault.Message += "; look for indentation, tabs and quotes here and in the lines around it"
			}
			pos := source.Position{File: file, Line: fault.Line, Col: fault.Col}
			ps.Add(&source.Problem{Pos: pos, Message: "not valid " + format + ": " + fault.Message, Excerpt: source.Excerpt(d.Lines, pos)})
			return out, true
		}
		before := len(ps.List)
		if doc, ok := d.document(root.Content[0]); ok {
			out = append(out, doc)
		} else if len(ps.List) > before {
			lost = true
		}
	}
}

func (d *Decoder) document(n *yaml.Node) (document, bool) {
	var doc document
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return doc, false // an empty document between separators
	}
	d.Subject = ""
	var kind source.Scalar
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "kind" {
			kind = d.Scalar(n.Content[i+1])
		}
	}
	var apiVersion, name source.Scalar
	var spec fields
	switch kind.Value {
	case KindRuleSet:
		doc.ruleSet = &RuleSet{}
		spec = d.ruleSetFields(doc.ruleSet)
	case KindPipeline:
		doc.pipeline = &Pipeline{}
		spec = d.pipelineFields(doc.pipeline)
	case KindOverlay:
		doc.overlay = &Overlay{}
		spec = d.overlayFields(doc.overlay)
	case KindRuleTest:
		doc.test = &RuleTest{}
		spec = d.ruleTestFields(doc.test)
	default:
		d.Problem(n, fmt.Sprintf("kind %q is not known here; use %s, %s, %s or %s", kind.Value, KindRuleSet, KindPipeline, KindOverlay, KindRuleTest))
		return doc, false
	}
	metadata := fields{"name": d.into(&name), "labels": ignored, "annotations": ignored}
	known := fields{"apiVersion": d.into(&apiVersion), "kind": d.into(&kind), "metadata": func(v *yaml.Node) { d.object(v, metadata) }, "spec": ignored}
	if doc.overlay != nil {
		known["status"] = ignored
		for _, key := range writtenByServers {
			metadata[key] = ignored
		}
	}
	seen := d.object(n, known)
	d.Subject = strings.TrimSpace(kind.Value + " " + name.Value)
	if apiVersion.Value != APIVersion {
		d.Problem(n, fmt.Sprintf("apiVersion is %q; it must be %q", apiVersion.Value, APIVersion))
	}
	if name.Value == "" {
		d.Problem(n, "metadata.name is required")
	}
	if specNode := seen["spec"]; specNode != nil {
		d.object(specNode, spec)
	} else {
		d.Problem(n, "spec is required")
	}
	switch {
	case doc.ruleSet != nil:
		doc.ruleSet.Name = name
		d.checkRuleSet(n, doc.ruleSet)
	case doc.pipeline != nil:
		doc.pipeline.Name = name
		d.checkVersion(n, doc.pipeline.Version)
		d.checkNames("param", paramName, names(doc.pipeline.Params, func(p Param) source.Scalar { return p.Name }))
		d.checkDefinitions(doc.pipeline.Definitions)
	case doc.overlay != nil:
		doc.overlay.Name = name
		d.checkOverlay(n, doc.overlay)
	case doc.test != nil:
		doc.test.Name = name
		d.checkRuleTest(n, doc.test)
	}
	return doc, true
}

// writtenByServers are keys of the metadata of objects in a cluster.
var writtenByServers = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"}

// ignored reads what a manifest may have and rules do not.
func ignored(*yaml.Node) {}

func (d *Decoder) ruleSetFields(s *RuleSet) fields {
	return fields{
		"version":     d.into(&s.Version),
		"description": d.text(&s.Description),
		"point":       d.into(&s.Point),
		"gate":        d.into(&s.Gate),
		"params":      d.params(&s.Params),
		"at":          func(n *yaml.Node) { d.scalarOrScalars(&s.At)(n); s.At = d.places(s.At) },
		"variables":   d.variables(&s.Variables),
		"validations": each(d, &s.Validations, d.validationFields),
		"stages":      each(d, &s.Stages, d.stageFields),
		"decisions":   each(d, &s.Decisions, d.decisionFields),
	}
}

func (d *Decoder) stageFields(s *Stage, at source.Scalar) fields {
	s.Name = at
	return fields{
		"name":      d.into(&s.Name),
		"each":      d.scalarOrScalars(&s.Each),
		"without":   d.Scalars(&s.Without),
		"when":      d.into(&s.When),
		"onError":   d.into(&s.OnError),
		"solve":     d.into(&s.Solve),
		"variables": d.variables(&s.Variables),
		"rules":     each(d, &s.Rules, d.ruleFields),
	}
}

func (d *Decoder) ruleFields(r *Rule, at source.Scalar) fields {
	r.Name = at
	return fields{
		"name":    d.into(&r.Name),
		"when":    d.into(&r.When),
		"set":     d.assignments(&r.Set),
		"unset":   d.scalarOrScalars(&r.Unset),
		"note":    d.into(&r.Note),
		"without": d.Scalars(&r.Without),
	}
}

func (d *Decoder) decisionFields(x *Decision, at source.Scalar) fields {
	x.Name = at
	return fields{
		"name":   d.into(&x.Name),
		"when":   d.into(&x.When),
		"do":     d.into(&x.Do),
		"class":  d.into(&x.Class),
		"reason": d.text(&x.Reason),

		"reasonExpression": d.into(&x.ReasonExpression),

		"until":           d.text(&x.Until),
		"untilExpression": d.into(&x.UntilExpression),
	}
}

func (d *Decoder) validationFields(v *Validation, at source.Scalar) fields {
	v.Name = at
	return fields{
		"name":              d.into(&v.Name),
		"axes":              d.Scalars(&v.Axes),
		"without":           d.Scalars(&v.Without),
		"at":                func(n *yaml.Node) { d.scalarOrScalars(&v.At)(n); v.At = d.places(v.At) },
		"enforce":           d.Scalars(&v.Enforce),
		"when":              d.into(&v.When),
		"expression":        d.into(&v.Expression),
		"message":           d.into(&v.Message),
		"messageExpression": d.into(&v.MessageExpression),
		"fieldPath":         d.into(&v.FieldPath),
		"reason":            d.into(&v.Reason),
		"severity":          d.into(&v.Severity),
	}
}

func (d *Decoder) pipelineFields(p *Pipeline) fields {
	return fields{
		"version":     d.into(&p.Version),
		"description": d.text(&p.Description),
		"extends":     d.into(&p.Extends),
		"params":      d.params(&p.Params),
		"definitions": each(d, &p.Definitions, d.definitionFields),
		"set":         d.assignments(&p.Set),
		"insert": each(d, &p.Insert, func(i *Insertion, _ source.Scalar) fields {
			return fields{"before": d.into(&i.Before), "to": d.into(&i.To)}
		}),
		"points": func(v *yaml.Node) {
			if v.Kind != yaml.MappingNode {
				d.Problem(v, "points must map each point to a list of rule sets")
				return
			}
			d.Pairs(v, func(key source.Scalar, value *yaml.Node) {
				at := PipelinePoint{Point: key}
				d.Scalars(&at.RuleSets)(value)
				p.Points = append(p.Points, at)
			})
		},
	}
}
