package manifests

import (
	"bytes"
	"cmp"
	"encoding/binary"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json" // case-sensitive field names, like the API server
	"sigs.k8s.io/yaml"                  // scalars like kubectl: unquoted Off is false

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/source"
)

type chunk struct {
	text   []byte
	before int // lines before it in the file
}

// separator matches lines between YAML documents. The next document may start on the same line.
var separator = regexp.MustCompile(`(?m)^(?:---|\.\.\.)(?:[ \t\r].*)?$`)

const byteOrderMark = "\ufeff"

// plain returns the text in UTF-8, without byte order marks, and with lines that end in \n. Windows
// PowerShell writes UTF-16, and files put together may have a mark each.
func plain(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	}
	if order != nil {
		units := make([]uint16, 0, len(text)/2)
		for pair := range slices.Chunk(text[:len(text)/2*2], 2) {
			units = append(units, order.Uint16(pair))
		}
		text = []byte(string(utf16.Decode(units)))
	}
	if bytes.IndexByte(text, '\r') >= 0 { // to YAML and JSON, all ends of lines are the same
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	return bytes.ReplaceAll(text, []byte("\n"+byteOrderMark), []byte("\n"))
}

func split(text []byte) []chunk {
	text = plain(text)
	var out []chunk
	start, before := 0, 0
	for _, found := range separator.FindAllIndex(text, -1) {
		out = append(out, chunk{text: text[start:found[0]], before: before})
		before += bytes.Count(text[start:found[0]], []byte("\n"))
		start = found[0] + len("---")
	}
	return append(out, chunk{text: text[start:], before: before})
}

// documents parses a chunk and splits lists.
func (c chunk) documents(file string) ([]Document, []error) {
	trimmed := bytes.TrimSpace(c.text)
	if len(trimmed) == 0 {
		return nil, nil
	}
	if trimmed[0] == '{' {
		if values, err := c.jsonValues(); len(values) > 0 { // else it is YAML that looks like JSON
			return c.ofJSON(file, values, err)
		}
	}
	return c.ofYAML(file)
}

type jsonValue struct {
	text []byte
	line int
}

// jsonValues parses a chunk as JSON. It returns the values before an error.
func (c chunk) jsonValues() (out []jsonValue, err error) {
	decoder := stdjson.NewDecoder(bytes.NewReader(c.text))
	for {
		var raw stdjson.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return out, err
		}
		start := int(decoder.InputOffset()) - len(raw)
		out = append(out, jsonValue{text: raw, line: c.before + 1 + bytes.Count(c.text[:start], []byte("\n"))})
	}
}

func (c chunk) ofJSON(file string, values []jsonValue, broken error) (out []Document, faults []error) {
	last := 0
	for _, v := range values {
		at := Place{File: file, Line: v.line}
		last = v.line + bytes.Count(v.text, []byte("\n"))
		// Most JSON is also YAML, which gives keys and items a place.
		var node *yamlv3.Node
		if root := new(yamlv3.Node); yamlv3.Unmarshal(v.text, root) == nil && len(root.Content) == 1 {
			node = root.Content[0]
			if twice := repeatedKeys(file, v.line-1, node); len(twice) > 0 {
				faults = append(faults, twice...)
				continue
			}
		}
		found, err := objects(object{at: at, json: v.text, node: node, before: v.line - 1})
		out, faults = append(out, found...), append(faults, err...)
	}
	if broken != nil {
		faults = append(faults, fmt.Errorf("%s: what follows cannot be read as JSON: %w", Place{File: file, Line: last}, broken))
	}
	return out, faults
}

func (c chunk) ofYAML(file string) ([]Document, []error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(c.text))
	var root, rest yamlv3.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) { // comments only
		return nil, nil
	}
	if err == nil {
		switch err = decoder.Decode(&rest); {
		case errors.Is(err, io.EOF):
			err = nil
		case err == nil: // behind a line end that only YAML knows, such as U+2028
			return nil, []error{fmt.Errorf("%s: another document begins here, and lines do not end as usual: save the file with line ends LF or CR LF",
				Place{File: file, Line: c.before + rest.Line})}
		}
	}
	if err != nil {
		return nil, []error{c.placed(file, err)}
	}
	node := root.Content[0]
	at := Place{File: file, Line: c.before + node.Line}
	if node.Kind == yamlv3.ScalarNode && node.Tag == "!!null" {
		return nil, nil
	}
	if node.Kind != yamlv3.MappingNode {
		return nil, []error{fmt.Errorf("%s: not an object: a manifest is a mapping with apiVersion and kind", at)}
	}
	if twice := repeatedKeys(file, c.before, node); len(twice) > 0 {
		return nil, twice
	}
	text, err := yaml.YAMLToJSON(c.text)
	switch {
	case err != nil && bytes.Contains(c.text, []byte("{{")): // {{ .Name }} is a mapping within a mapping
		return nil, []error{fmt.Errorf("%s: not a manifest: %s", at, source.TemplateText)}
	case err != nil:
		return nil, []error{fmt.Errorf("%s: not valid YAML: %s", at, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	return objects(object{at: at, json: text, node: node, before: c.before})
}

// placed adds the place in the file to a parser error.
func (c chunk) placed(file string, err error) error {
	format, fault := source.FindFault(c.text, err)
	return fmt.Errorf("%s:%d: not valid %s: %s", Place{File: file, Line: c.before + fault.Line}, fault.Col, format, fault.Message)
}

// repeatedKeys finds duplicate keys, whose values would be lost.
func repeatedKeys(file string, before int, node *yamlv3.Node) (out []error) {
	if node.Kind == yamlv3.MappingNode {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if line, twice := first[key.Value]; twice && key.Kind == yamlv3.ScalarNode {
				out = append(out, fmt.Errorf("%s:%d: key %q is already set on line %d; keep one of them",
					Place{File: file, Line: before + key.Line}, key.Column, key.Value, before+line))
				continue
			}
			first[key.Value] = key.Line
		}
	}
	for _, child := range node.Content { // aliases have no content: their anchors are checked in place
		out = append(out, repeatedKeys(file, before, child)...)
	}
	return out
}

// object is a parsed but unidentified object.
type object struct {
	at         Place
	json       []byte
	node       *yamlv3.Node // YAML node for places; nil = unknown
	before     int          // offset to add to the node's lines
	apiVersion string       // inherited from its list
	kind       string
}

// objects identifies an object, or splits a list.
func objects(o object) ([]Document, []error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
			Namespace    string `json:"namespace"`
		} `json:"metadata"`
		Items []stdjson.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(o.json, &head); err != nil {
		return nil, []error{fmt.Errorf("%s: cannot read apiVersion, kind and metadata: %w", o.at, cmp.Or(quantity.MismatchIn(o.json, &head), err))}
	}
	d := Document{
		Source: o.at, JSON: o.json, APIVersion: head.APIVersion, Kind: head.Kind, Name: head.Metadata.Name, Namespace: head.Metadata.Namespace,
		node: o.node, before: o.before,
	}
	if d.APIVersion == "" && d.Kind == "" {
		d.APIVersion, d.Kind = o.apiVersion, o.kind
	}
	if d.APIVersion == "" && d.Kind == "" && head.Items != nil { // as printed by celvpa recommend
		return o.items(d, head.Items)
	}
	if d.APIVersion == "" || d.Kind == "" {
		return nil, []error{fmt.Errorf("%s: not a manifest: it needs apiVersion and kind", o.at)}
	}
	if strings.HasSuffix(d.Kind, "List") && head.Items != nil {
		return o.items(d, head.Items)
	}
	if strings.Contains(d.Name+d.Namespace, "{{") {
		return nil, []error{fmt.Errorf("%s: not a manifest: %s", o.at, source.TemplateText)}
	}
	if err := misnamed(&d); err != nil {
		return nil, []error{err}
	}
	if d.Name == "" {
		d.Name, d.generated = head.Metadata.GenerateName, true
	}
	d.placed = d.Namespace != ""
	if d.Namespace == "" && !clusterScoped[d.groupKind()] {
		d.Namespace = DefaultNamespace
	}
	return []Document{d}, nil
}

// items splits a list. Items of a typed list, e.g. a PodList, may omit their kind.
func (o object) items(list Document, items []stdjson.RawMessage) (out []Document, faults []error) {
	nodes := o.itemNodes(len(items))
	for i, raw := range items {
		item := object{at: o.at, json: raw, before: o.before}
		if nodes != nil {
			item.node = nodes[i]
			item.at.Line = o.before + nodes[i].Line
		}
		if kind := strings.TrimSuffix(list.Kind, "List"); kind != "" {
			item.apiVersion, item.kind = list.APIVersion, kind
		}
		found, err := objects(item)
		out, faults = append(out, found...), append(faults, err...)
	}
	return out, faults
}

// itemNodes are the list's items as YAML; nil = unknown.
func (o object) itemNodes(count int) []*yamlv3.Node {
	if o.node == nil || o.node.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(o.node.Content); i += 2 {
		if o.node.Content[i].Value == "items" && len(o.node.Content[i+1].Content) == count {
			return o.node.Content[i+1].Content
		}
	}
	return nil
}

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
