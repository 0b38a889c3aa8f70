package document

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/source"
)

// RuleTest is a table of rows for one point: given facts and expected results.
type RuleTest struct {
	Name        source.Scalar
	Description string
	Point       source.Scalar
	Pipeline    source.Scalar   // name or name@version; empty = the caller's
	Overlays    []source.Scalar // applied regardless of mode and match
	Gates       []Setting
	Params      []Setting
	Rows        []TestRow

	Given *yaml.Node // facts of all rows; nil = none. Decoded when rows run, as keys depend on the point
}

// TestRow is one case of a table. Its gates, params and facts override those of the table.
type TestRow struct {
	Name   source.Scalar
	At     source.Position
	Gates  []Setting
	Params []Setting

	Given, Expect *yaml.Node
}

// Setting is a gate or parameter with its value, as written.
type Setting struct {
	Name, Value source.Scalar
}

// LoadTests reads the test tables of a layer. Other kinds are faults: Loader.Load reads rules.
func LoadTests(layer Layer) ([]*RuleTest, error) {
	lib, ps := newLibrary(), &source.Collector{}
	if err := lib.read(layer, "", ps); err != nil {
		return nil, err
	}
	misplaced := func(kind string, name source.Scalar) {
		ps.At(name, kind+" "+name.Value, fmt.Sprintf("only documents of kind %s are read here; name the folder of the rules with --rules-dir", KindRuleTest))
	}
	for _, set := range lib.RuleSets {
		misplaced(KindRuleSet, set.Name)
	}
	for _, pipeline := range lib.written {
		misplaced(KindPipeline, pipeline.Name)
	}
	for _, overlay := range lib.Overlays {
		misplaced(KindOverlay, overlay.Name)
	}
	return lib.Tests, ps.Err()
}

func (l *Library) addTest(t *RuleTest, ps *source.Collector) {
	for _, old := range l.Tests {
		if old.Name.Value == t.Name.Value {
			ps.At(t.Name, KindRuleTest+" "+t.Name.Value, fmt.Sprintf("defined already at %s", old.Name.Pos))
			return
		}
	}
	l.Tests = append(l.Tests, t)
}

func (d *Decoder) ruleTestFields(t *RuleTest) fields {
	return fields{
		"description": d.text(&t.Description),
		"point":       d.into(&t.Point),
		"pipeline":    d.into(&t.Pipeline),
		"overlays":    d.Scalars(&t.Overlays),
		"gates":       d.gateSettings(&t.Gates),
		"params":      d.settings(&t.Params),
		"given":       d.free(&t.Given),
		"rows":        d.testRows(&t.Rows),
	}
}

func (d *Decoder) testRows(to *[]TestRow) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.Problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			row := TestRow{At: d.position(item)}
			d.object(item, fields{
				"name":   d.into(&row.Name),
				"gates":  d.gateSettings(&row.Gates),
				"params": d.settings(&row.Params),
				"given":  d.free(&row.Given),
				"expect": d.free(&row.Expect),
			})
			*to = append(*to, row)
		}
	}
}

func (d *Decoder) settings(to *[]Setting) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.Problem(n, "expected a mapping from name to value")
			return
		}
		d.Pairs(n, func(key source.Scalar, v *yaml.Node) { *to = append(*to, Setting{Name: key, Value: d.Scalar(v)}) })
	}
}

func (d *Decoder) gateSettings(to *[]Setting) func(*yaml.Node) {
	read := d.settings(to)
	return func(n *yaml.Node) {
		read(n)
		for _, s := range *to {
			if _, err := strconv.ParseBool(s.Value.Value); err != nil {
				d.Problems.At(s.Value, d.Subject, fmt.Sprintf("gate %s is %q; use true or false", s.Name.Value, s.Value.Value))
			}
		}
	}
}

// free keeps a mapping whose keys are known only when a row runs.
func (d *Decoder) free(to **yaml.Node) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.Problem(n, "expected a mapping")
			return
		}
		d.checkFree(n)
		*to = n
	}
}

func (d *Decoder) checkFree(n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		d.Pairs(n, func(_ source.Scalar, v *yaml.Node) { d.checkFree(v) })
	case yaml.SequenceNode:
		for _, item := range n.Content {
			d.checkFree(item)
		}
	case yaml.AliasNode:
		d.Problem(n, "aliases are not followed here; write the value out, or share it in the table's given")
	}
}

// checkRuleTest reports faults that need no types.
func (d *Decoder) checkRuleTest(n *yaml.Node, t *RuleTest) {
	if t.Point.Value == "" {
		d.Problem(n, "spec.point is required")
	}
	if len(t.Rows) == 0 {
		d.Problem(n, "a RuleTest needs at least one row")
	}
	seen := map[string]bool{}
	for i := range t.Rows {
		row := &t.Rows[i]
		at := source.NewScalar("", row.At, 0, d.Lines)
		switch {
		case row.Name.Value == "":
			d.Problems.At(at, d.Subject, "a row has no name; say in words what it shows")
		case seen[row.Name.Value]:
			d.Problems.At(row.Name, d.Subject, fmt.Sprintf("row %q stands twice", row.Name.Value))
		}
		seen[row.Name.Value] = true
		if row.Expect == nil {
			d.Problems.At(at, d.Subject, fmt.Sprintf("row %q has no expect", row.Name.Value))
		}
	}
}

// Laid lays one mapping over another: mappings merge by key, anything else is replaced.
func Laid(under, over *yaml.Node) *yaml.Node {
	if under == nil || over == nil || under.Kind != yaml.MappingNode || over.Kind != yaml.MappingNode {
		if over == nil {
			return under
		}
		return over
	}
	merged := *over
	merged.Content = append([]*yaml.Node{}, under.Content...)
	at := map[string]int{}
	for i := 0; i+1 < len(under.Content); i += 2 {
		at[under.Content[i].Value] = i
	}
	for i := 0; i+1 < len(over.Content); i += 2 {
		key, value := over.Content[i], over.Content[i+1]
		if j, both := at[key.Value]; both {
			merged.Content[j], merged.Content[j+1] = key, Laid(under.Content[j+1], value)
			continue
		}
		merged.Content = append(merged.Content, key, value)
	}
	return &merged
}
