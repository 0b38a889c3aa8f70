package source

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestFaultsOfYAMLHaveTheirPlace: the library names the line at which the broken mapping begins, and no column.
func TestFaultsOfYAMLHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]YAMLFault{
		"a: 1\nb: {c: x['y'] == 1, e: 2}\nf: 1\n":             {2, 8, "did not find expected ',' or '}'"},
		"a: 1\nb: {c: 1,\n  d: x['y'] == 1}\nf: 1\n":          {3, 6, "did not find expected ',' or '}', in what begins on line 2"},
		"a: 1\nb: {c: 1, d: !has(x), e: 2}\nf: 1\n":           {2, 26, "did not find expected ',' or '}'"},
		"a: 1\nb: {c: 1\nf: 1\ng: 2\n":                        {2, 1, "did not find expected ',' or '}'"},
		"a: 1\nb: [1, 2\nf: 1\ng: 2\n":                        {2, 1, "did not find expected ',' or ']'"},
		"a: 1\n  b: 2\nc: 3\n":                                {2, 3, "mapping values are not allowed in this context"},
		"a: x: y\nc: 3\n":                                     {1, 4, "mapping values are not allowed in this context"},
		"a:\n\tb: 1\n":                                        {2, 1, "found character that cannot start any token"},
		"a: 1\nb: \"abc\nc: 3\nd: 4\n":                        {2, 1, "found unexpected end of stream"},
		"a: 1\nb: 'it's'\nc: 3\nd: 4\n":                       {2, 1, "did not find expected key"},
		"a: 1\nb: @b\nc: 3\n":                                 {2, 4, "found character that cannot start any token"},
		"a:\n- b\n c: 3\nd: 1\n":                              {3, 2, "mapping values are not allowed in this context"},
		"a: |\n  x\n y\nb: 1\n":                               {3, 2, "did not find expected key"},
		"a: 1\nb\nc: 2\n":                                     {2, 1, "could not find expected ':'"},
		"a: 1\n---\nb: 1\n c: 2\n---\nd: 1\n":                 {4, 2, "mapping values are not allowed in this context"},
		"{{- if .Values.x }}\na: 1\n":                         {1, 1, "it is a template, with {{: render it first, as helm template does"},
		"a: 1\nb: {{ .Values.x }}-vpa\nc: 2\n":                {2, 4, "it is a template, with {{: render it first, as helm template does"},
		"a: 1\nb:\n  {{- include \"x\" . | nindent 4 }}\nc\n": {3, 3, "it is a template, with {{: render it first, as helm template does"},
		"é: 1\nb: ü: 2\n":                                     {2, 4, "mapping values are not allowed in this context"},
	} {
		err := readAll(text)
		require.Error(t, err, text)
		require.Equal(t, want, findYAMLFault([]byte(text), err), text)
	}
}

// TestFaultsOfJSONHaveTheirPlace: to YAML, the fault is at the beginning.
func TestFaultsOfJSONHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]struct {
		format string
		YAMLFault
	}{
		"{\n  \"a\": {\"é\": 1,, \"c\": 2}\n}": {"JSON", YAMLFault{2, 16, "invalid character ',' looking for beginning of object key string"}},
		"[\n  {\"a\": 1},\n  {\"b\": ]}\n]\n":  {"JSON", YAMLFault{3, 9, "invalid character ']' looking for beginning of value"}},
		"{\n  \"a\": [\n    1\n":               {"JSON", YAMLFault{3, 6, "it ends before all brackets and quotes are closed"}},
		"{\"a\": 1}\n---\nb: 1\n c: 2\n":       {"YAML", YAMLFault{4, 2, "mapping values are not allowed in this context"}},
		"{\"a\": {{ .Values.x }}, \"b\": [}\n": {"YAML", YAMLFault{1, 7, TemplateText}},
		"{a: b}\n{c: d}\n":                     {"YAML", YAMLFault{2, 1, "did not find expected <document start>"}},
	} {
		err := readAll(text)
		require.Error(t, err, text)
		format, fault := FindFault([]byte(text), err)
		require.Equal(t, want.format, format, text)
		require.Equal(t, want.YAMLFault, fault, text)
	}
}

func readAll(text string) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		if err := decoder.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func FuzzYAMLFaults(f *testing.F) {
	for _, text := range []string{"a: {", "a: 'b", "{{", "\t", "a: 1\n b: é:\n", "", "{\"a\":,", "[{\"a\":"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := readAll(text); err != nil {
			_, fault := FindFault([]byte(text), err)
			require.LessOrEqual(t, fault.Line, 1+strings.Count(text, "\n"))
			require.Positive(t, fault.Line)
			require.Positive(t, fault.Col)
		}
	})
}
