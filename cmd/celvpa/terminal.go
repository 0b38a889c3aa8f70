package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Names, messages and errors come from objects, processes and files of others, and what a command prints may go to a terminal. So
// both outputs of all commands replace what would do anything there. JSON and YAML have escapes for it, and lose nothing.

// runCommand runs a command with visible text as its outputs. That of errors stays so.
func runCommand(root *cobra.Command, out, stderr io.Writer) error {
	visibleOut, visibleErr := &visibleWriter{to: out}, &visibleWriter{to: stderr}
	root.SetOut(visibleOut)
	root.SetErr(visibleErr)
	err := root.Execute()
	return cmp.Or(err, visibleOut.end(), visibleErr.end())
}

// visibleWriter writes visible text.
type visibleWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

// Write implements io.Writer.
func (w *visibleWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if start := len(text) - n; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				whole = start
			}
			break
		}
	}
	w.rest = slices.Clone(text[whole:])
	if _, err := io.WriteString(w.to, visible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes what is no whole character.
func (w *visibleWriter) end() error {
	_, err := io.WriteString(w.to, visible(string(w.rest)))
	w.rest = nil
	return err
}

// behind is where a writer's text goes in the end: a terminal, perhaps.
func behind(w io.Writer) io.Writer {
	if v, is := w.(*visibleWriter); is {
		return v.to
	}
	return w
}

// visible is text with a replacement for each character that would change what a terminal shows around it.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if acts(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// acts reports whether a terminal does something other than to show a character: it is a control, or turns text around or hides it.
func acts(r rune) bool {
	if ' ' <= r && r <= '~' || r == '\n' || r == '\t' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}

// asJSON is JSON in visible text.
func asJSON(value any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return escapes(out.Bytes(), func(to []byte, r rune) []byte { // in strings: there are none outside of them
		for _, unit := range utf16.AppendRune(nil, r) {
			to = fmt.Appendf(to, `\u%04x`, unit)
		}
		return to
	}), nil
}

// asYAML is YAML in visible text.
func asYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err == nil {
		text, err = yaml.JSONToYAML(escapes(text, func(to []byte, r rune) []byte {
			if r > '\uffff' { // YAML knows no pairs of escapes
				return utf8.AppendRune(to, r)
			}
			return fmt.Appendf(to, `\u%04x`, r)
		}))
	}
	if err == nil {
		text, err = visibleYAML(text)
	}
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return text, nil
}

// visibleYAML is YAML that says the same in visible text.
func visibleYAML(text []byte) ([]byte, error) {
	if !bytes.ContainsFunc(text, acts) {
		return text, nil
	}
	var out bytes.Buffer
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	for decoder := yamlv3.NewDecoder(bytes.NewReader(text)); ; {
		var document yamlv3.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		quote(&document)
		if err := encoder.Encode(&document); err != nil {
			return nil, err
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return escapes(out.Bytes(), func(to []byte, r rune) []byte { return fmt.Appendf(to, `\U%08x`, r) }), nil
}

// quote puts values into quotes, in which escapes count, if they need any.
func quote(node *yamlv3.Node) {
	if node.Kind == yamlv3.ScalarNode && strings.ContainsFunc(node.Value, acts) {
		node.Style = yamlv3.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quote(child)
	}
}

// escapes is text with escapes for what is not visible.
func escapes(text []byte, escape func(to []byte, r rune) []byte) []byte {
	if !bytes.ContainsFunc(text, acts) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		if acts(r) {
			out = escape(out, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
