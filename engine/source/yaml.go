package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// YAMLFault is why a text is not YAML or JSON, and where.
type YAMLFault struct {
	Line, Col int // from 1; characters
	Message   string
}

// TemplateText says of a template what to do with it.
const TemplateText = "it is a template, with {{: render it first, as helm template does"

const (
	yamlAhead = 4        // characters that the library reads beyond the one that it looks at
	yamlTries = 200      // lines before a fault that are tried as its cause
	yamlBytes = 16 << 20 // that are read for it
)

var yamlError = regexp.MustCompile(`^(?s:(?:yaml: )?(?:line \d+: )?(.*))$`)

// jsonBegins tells JSON from YAML in flow style, whose keys rarely have quotes.
var jsonBegins = regexp.MustCompile(`^\s*(?:\{|\[\s*\{)\s*"`)

// FindFault locates why a text cannot be read as YAML, and names its format: JSON if it begins like that and is at fault as JSON.
func FindFault(text []byte, err error) (format string, fault YAMLFault) {
	fault = findYAMLFault(text, err)
	if fault.Message == TemplateText || !jsonBegins.Match(text) {
		return "YAML", fault
	}
	message, at := "", len(bytes.TrimRight(text, " \t\r\n"))
	var syntax *json.SyntaxError
	switch err := json.NewDecoder(bytes.NewReader(text)).Decode(new(json.RawMessage)); {
	case errors.As(err, &syntax):
		message, at = syntax.Error(), min(at, max(0, int(syntax.Offset)-1))
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "it ends before all brackets and quotes are closed"
	default: // the fault is in what follows
		return "YAML", fault
	}
	return "JSON", YAMLFault{Line: 1 + bytes.Count(text[:at], []byte("\n")), Col: column(text, at), Message: message}
}

// findYAMLFault locates what the YAML library says of a text: its lines are those at which the broken collection begins, some
// counted from 0, and it names no columns. The fault is between the last line up to which the text could be read on its own and
// the place where the library stopped reading.
func findYAMLFault(text []byte, err error) YAMLFault {
	message := yamlError.FindStringSubmatch(err.Error())[1]
	stopped := stoppedAt(text)
	last := 1 + bytes.Count(text[:stopped], []byte("\n"))
	first := last
	for size, tries := 0, 0; first > 1 && tries < yamlTries && size < yamlBytes; tries++ {
		before := text[:lineStart(text, first)]
		if size += len(before); readable(before) {
			break
		}
		first--
	}
	if n := bytes.Index(text[lineStart(text, first):lineStart(text, last+1)], []byte("{{")); n >= 0 {
		at := lineStart(text, first) + n
		return YAMLFault{Line: 1 + bytes.Count(text[:at], []byte("\n")), Col: column(text, at),
			Message: TemplateText}
	}
	out := YAMLFault{Line: last, Col: column(text, stopped), Message: message}
	flow := strings.HasSuffix(message, "or '}'") || strings.HasSuffix(message, "or ']'")
	switch {
	case !flow || stopped >= len(bytes.TrimRight(text, " \t\r\n"))-yamlAhead: // a bracket or quote that is not closed is one at its beginning
		if first < last {
			out.Line = first
			start := lineStart(text, first)
			out.Col = column(text, start+len(text[start:])-len(bytes.TrimLeft(text[start:], " ")))
		}
	case first < last:
		out.Message = fmt.Sprintf("%s, in what begins on line %d", message, first)
	}
	return out
}

// stoppedAt is the offset of the word at which the library gives up, a few characters before those that it has read.
func stoppedAt(text []byte) int {
	reader := &byteReader{text: text}
	decoder := yaml.NewDecoder(reader)
	var err error
	for err == nil {
		err = decoder.Decode(new(yaml.Node))
	}
	at := max(0, min(reader.at, len(text))-yamlAhead)
	for at > 0 && bytes.IndexByte([]byte(" \r\n"), text[at]) >= 0 { // a tab may be the fault
		at--
	}
	for at > 0 && bytes.IndexByte([]byte(" \t\r\n"), text[at-1]) < 0 {
		at--
	}
	return at
}

// byteReader hands out a byte at a time, so that nobody reads far ahead.
type byteReader struct {
	text []byte
	at   int
}

// Read implements io.Reader.
func (r *byteReader) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = r.text[r.at]
	r.at++
	return 1, nil
}

// readable reports whether a text is YAML on its own.
func readable(text []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		if err := decoder.Decode(new(yaml.Node)); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// lineStart is the offset of a line, from 1; that of the end for one behind the last.
func lineStart(text []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
	}
	return at
}

func column(text []byte, at int) int {
	return 1 + utf8.RuneCount(text[bytes.LastIndexByte(text[:at], '\n')+1:at])
}
