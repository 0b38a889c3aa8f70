package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ValuesTable returns the Markdown table of a values file: each value, its description and its default. The description is the
// comment above it that begins with "-- "; a value of a component without one has that of the recommender's value of the same name.
func ValuesTable(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	t := table{descriptions: map[string]string{}}
	t.add(document.Content[0], nil)
	return "| value | description | default |\n|---|---|---|\n" + strings.Join(t.rows, ""), errors.Join(t.errors...)
}

type table struct {
	rows         []string
	descriptions map[string]string // of the recommender's values, by their path below it
	errors       []error
}

func (t *table) add(node *yaml.Node, path []string) {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := append(append([]string{}, path...), key.Value)
		description, own := describe(key.HeadComment)
		if !own && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if _, shared := t.descriptions[strings.Join(at[1:], ".")]; !shared {
				t.add(value, at)
				continue
			}
		}
		below := strings.Join(at[1:], ".")
		if at[0] == "recommender" {
			t.descriptions[below] = description
		}
		if description == "" {
			description = t.descriptions[below]
		}
		if description == "" {
			t.errors = append(t.errors, fmt.Errorf("line %d: %s has no description", key.Line, strings.Join(at, ".")))
			continue
		}
		standard, err := defaultOf(value)
		if err != nil {
			t.errors = append(t.errors, fmt.Errorf("line %d: %w", key.Line, err))
		}
		t.rows = append(t.rows, fmt.Sprintf("| `%s` | %s | %s |\n", strings.Join(at, "."), strings.ReplaceAll(description, "|", `\|`), standard))
	}
}

// describe returns the text behind "-- " in a comment, on one line.
func describe(comment string) (string, bool) {
	lines := strings.Split(comment, "\n")
	for i, line := range lines {
		if first, ok := strings.CutPrefix(line, "# -- "); ok {
			for _, next := range lines[i+1:] {
				first += " " + strings.TrimPrefix(next, "# ")
			}
			return first, true
		}
	}
	return "", false
}

// defaultOf is a value as JSON; nothing for null and for empty texts.
func defaultOf(node *yaml.Node) (string, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return "", err
	}
	if value == nil || value == "" {
		return "", nil
	}
	text, err := json.Marshal(value)
	return "`" + strings.Trim(string(text), `"`) + "`", err
}
