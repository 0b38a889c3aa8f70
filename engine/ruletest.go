package engine

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// RuleTest is a table of rows for the rules at one point: facts that go in, and what must come out.
type RuleTest struct {
	Name        Scalar
	Description string
	Point       Scalar
	Pipeline    Scalar   // name or name@version; empty = the one its caller runs
	Overlays    []Scalar // applied whatever their mode and match, in the order in which they apply
	Gates       []Setting
	Params      []Setting
	Rows        []TestRow

	given *yaml.Node // facts of all rows; nil = none. What may stand here depends on the point, so rows read it when they run
}

// TestRow is one case of a table. Its gates, params and facts are laid over those of the table.
type TestRow struct {
	Name   Scalar
	At     Position
	Gates  []Setting
	Params []Setting

	given, expect *yaml.Node
}

// Setting is a value that a test table gives a gate or a parameter, as written.
type Setting struct {
	Name, Value Scalar
}

// LoadTests reads the test tables of a layer. Documents of other kinds are faults: rules are loaded by Loader.Load.
func LoadTests(layer Layer) ([]*RuleTest, error) {
	lib, ps := newLibrary(), &problems{}
	if err := lib.read(layer, "", ps); err != nil {
		return nil, err
	}
	misplaced := func(kind string, name Scalar) {
		ps.at(name, kind+" "+name.Value, fmt.Sprintf("only documents of kind %s are read here; name the folder of the rules with --rules-dir", KindRuleTest))
	}
	for _, set := range lib.RuleSets {
		misplaced(KindRuleSet, set.Name)
	}
	for _, pipeline := range lib.Pipelines {
		misplaced(KindPipeline, pipeline.Name)
	}
	for _, overlay := range lib.Overlays {
		misplaced(KindOverlay, overlay.Name)
	}
	return lib.Tests, ps.err()
}

func (l *Library) addTest(t *RuleTest, ps *problems) {
	for _, old := range l.Tests {
		if old.Name.Value == t.Name.Value {
			ps.at(t.Name, KindRuleTest+" "+t.Name.Value, fmt.Sprintf("defined already at %s", old.Name.Pos))
			return
		}
	}
	l.Tests = append(l.Tests, t)
}

func (d *decoder) ruleTestFields(t *RuleTest) fields {
	return fields{
		"description": d.text(&t.Description),
		"point":       d.into(&t.Point),
		"pipeline":    d.into(&t.Pipeline),
		"overlays":    d.scalars(&t.Overlays),
		"gates":       d.gateSettings(&t.Gates),
		"params":      d.settings(&t.Params),
		"given":       d.free(&t.given),
		"rows":        d.testRows(&t.Rows),
	}
}

func (d *decoder) testRows(to *[]TestRow) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.problem(n, "expected a list")
			return
		}
		for _, item := range n.Content {
			row := TestRow{At: d.position(item)}
			d.object(item, fields{
				"name":   d.into(&row.Name),
				"gates":  d.gateSettings(&row.Gates),
				"params": d.settings(&row.Params),
				"given":  d.free(&row.given),
				"expect": d.free(&row.expect),
			})
			*to = append(*to, row)
		}
	}
}

func (d *decoder) settings(to *[]Setting) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.problem(n, "expected a mapping from name to value")
			return
		}
		d.pairs(n, func(key Scalar, v *yaml.Node) { *to = append(*to, Setting{Name: key, Value: d.scalar(v)}) })
	}
}

func (d *decoder) gateSettings(to *[]Setting) func(*yaml.Node) {
	read := d.settings(to)
	return func(n *yaml.Node) {
		read(n)
		for _, s := range *to {
			if _, err := strconv.ParseBool(s.Value.Value); err != nil {
				d.ps.at(s.Value, d.subject, fmt.Sprintf("gate %s is %q; use true or false", s.Name.Value, s.Value.Value))
			}
		}
	}
}

// free keeps a mapping whose keys are known only when a row runs, and checks what needs no knowledge of them.
func (d *decoder) free(to **yaml.Node) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.problem(n, "expected a mapping")
			return
		}
		d.checkFree(n)
		*to = n
	}
}

func (d *decoder) checkFree(n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		d.pairs(n, func(_ Scalar, v *yaml.Node) { d.checkFree(v) })
	case yaml.SequenceNode:
		for _, item := range n.Content {
			d.checkFree(item)
		}
	case yaml.AliasNode:
		d.problem(n, "aliases are not followed here; write the value out, or share it in the table's given")
	}
}

// checkRuleTest finds the faults of a table that need no types.
func (d *decoder) checkRuleTest(n *yaml.Node, t *RuleTest) {
	if t.Point.Value == "" {
		d.problem(n, "spec.point is required")
	}
	if len(t.Rows) == 0 {
		d.problem(n, "a RuleTest needs at least one row")
	}
	seen := map[string]bool{}
	for i := range t.Rows {
		row := &t.Rows[i]
		at := Scalar{Pos: row.At, lines: d.lines}
		switch {
		case row.Name.Value == "":
			d.ps.at(at, d.subject, "a row has no name; say in words what it shows")
		case seen[row.Name.Value]:
			d.ps.at(row.Name, d.subject, fmt.Sprintf("row %q stands twice", row.Name.Value))
		}
		seen[row.Name.Value] = true
		if row.expect == nil {
			d.ps.at(at, d.subject, fmt.Sprintf("row %q has no expect", row.Name.Value))
		}
	}
}

// laid puts one mapping over another: mappings merge key by key, anything else is replaced.
func laid(under, over *yaml.Node) *yaml.Node {
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
			merged.Content[j], merged.Content[j+1] = key, laid(under.Content[j+1], value)
			continue
		}
		merged.Content = append(merged.Content, key, value)
	}
	return &merged
}
