package manifests

import (
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

var fieldPart = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// Field returns where a field such as spec.containers[0].limits[cpu] is written, or else the part of
// it that is there, or else the document. The column is 0 if unknown.
func (d *Document) Field(path string) (line, column int) {
	line, node := d.Source.Line, d.node
	for _, part := range fieldPart.FindAllString(path, -1) {
		var at *yamlv3.Node
		if at, node = child(node, strings.Trim(part, "[]")); at == nil {
			break
		}
		line, column = d.before+at.Line, at.Column
	}
	return line, column
}

// child returns where a key or an item starts, and its value; nil = there is none.
func child(of *yamlv3.Node, name string) (at, value *yamlv3.Node) {
	switch {
	case of == nil:
	case of.Kind == yamlv3.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == name {
				return of.Content[i], of.Content[i+1]
			}
		}
	case of.Kind == yamlv3.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(of.Content) {
			return of.Content[i], of.Content[i]
		}
	}
	return nil, nil
}
