package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/celvpa/celvpa/crds"
)

const apiHead = `# API

All fields of celvpa's objects, from their CRDs. "celvpa reference api" prints this page. Checks of a VerticalPodAutoscaler
that its types do not show are in [checks.md](checks.md); what a RuleOverlay's changes mean is in
[rules.md](rules.md). A field with a gate has no effect, or is refused, without --feature-gates=GATE=true.
A quantity is an amount such as 250m or 1Gi, and resources are quantities by resource name.
`

// apiKinds are the objects, with the fields whose own fields are not listed, and why.
var apiKinds = []struct {
	crd, text string
	closed    map[string]string
}{
	{crds.VPA, "Upstream's object, and fields of its enhancement proposals.", nil},
	{crds.Checkpoint, "What the recommender keeps of a container. Do not write it; [recommender.md](recommender.md) says what a restart restores.",
		map[string]string{"status.resume": "Its fields may change."}},
	{crds.Overlay, "A change of rules for some VPAs. The same text works as a file with --rules-dir.",
		map[string]string{"status.conditions": "Fields as of any condition in Kubernetes."}},
}

// printAPI lists the fields of all objects.
func printAPI(out io.Writer) error {
	fmt.Fprint(out, apiHead)
	for _, kind := range apiKinds {
		crd, err := crds.Definition(kind.crd)
		if err != nil {
			return err
		}
		version := crd.Spec.Versions[0]
		facts := []string{strings.ToLower(string(crd.Spec.Scope)) + " scope"}
		if names := crd.Spec.Names.ShortNames; len(names) > 0 {
			facts = append(facts, "short name "+strings.Join(names, ", "))
		}
		if version.Subresources != nil && version.Subresources.Status != nil {
			facts = append(facts, "subresource status")
		}
		fmt.Fprintf(out, "\n## %s\n\n%s/%s, %s. %s\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, strings.Join(facts, ", "), kind.text)
		a := &apiPrinter{out: out, closed: kind.closed, seen: map[string]string{}}
		for _, part := range []string{"spec", "status"} {
			schema := version.Schema.OpenAPIV3Schema.Properties[part]
			a.record(part, &schema, "")
		}
	}
	return nil
}

// apiPrinter prints the fields of one object, the same ones only once.
type apiPrinter struct {
	out    io.Writer
	closed map[string]string
	seen   map[string]string // where fields were printed, by what they are
}

// apiRecord is a record that gets a table of its own.
type apiRecord struct {
	path   string
	schema *apiextensionsv1.JSONSchemaProps
	gate   string
}

// apiRow is a field: its name, type, default, gate and description.
type apiRow [5]string

// record prints a table of the fields of a record, and then those of the larger records below it.
func (a *apiPrinter) record(path string, s *apiextensionsv1.JSONSchemaProps, gate string) {
	rows, later := a.fields("", path, s, gate)
	fmt.Fprintf(a.out, "\n`%s`:\n", path)
	columns := []string{"field", "type", "default", "gate", ""}
	for i := len(columns) - 2; i >= 0; i-- {
		empty := !slices.ContainsFunc(rows, func(r apiRow) bool { return r[i] != "" })
		if empty {
			columns = slices.Delete(columns, i, i+1)
		}
	}
	fmt.Fprintf(a.out, "\n| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range rows {
		cells := []string{row[0], row[1]}
		for i, column := range []string{"default", "gate"} {
			if slices.Contains(columns, column) {
				cells = append(cells, row[2+i])
			}
		}
		fmt.Fprintf(a.out, "| %s | %s |\n", strings.Join(cells, " | "), row[4])
	}
	for _, r := range later {
		a.record(r.path, r.schema, r.gate)
	}
}

// fields are the rows of the fields below a place in a table, and the records that get tables of their own.
func (a *apiPrinter) fields(prefix, path string, s *apiextensionsv1.JSONSchemaProps, gate string) (rows []apiRow, later []apiRecord) {
	names := slices.SortedFunc(maps.Keys(s.Properties), func(x, y string) int {
		return cmp.Or(strings.Compare(strings.ToLower(x), strings.ToLower(y)), strings.Compare(y, x))
	})
	for _, name := range names {
		field := s.Properties[name]
		text, by, own := describeField(name, &field)
		own = cmp.Or(own, gate)
		below, kind := apiType(&field)
		at, inside := path+"."+name, prefix+name
		if strings.HasPrefix(kind, "list of") {
			at, inside = at+"[]", inside+"[]"
		}
		if slices.Contains(s.Required, name) {
			kind += ", required"
		}
		row, closed := len(rows), a.closed[path+"."+name]
		rows = append(rows, apiRow{code(prefix + name), kind, by, own, cellText(text + " " + closed)})
		if below == nil || len(below.Properties) == 0 || closed != "" {
			continue
		}
		more := "Fields below."
		if first := a.seen[shapeOf(below)]; first != "" {
			more = "Fields as of " + code(first) + "."
		} else if a.seen[shapeOf(below)] = at; len(below.Properties) > 4 {
			later = append(later, apiRecord{at, below, own})
		} else {
			inner, others := a.fields(inside+".", at, below, own)
			rows, later, more = append(rows, inner...), append(later, others...), ""
		}
		rows[row][4] = strings.TrimSpace(rows[row][4] + " " + more)
	}
	return rows, later
}

// shapeOf tells records with the same fields.
func shapeOf(s *apiextensionsv1.JSONSchemaProps) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		below, kind := apiType(&field)
		if out = append(out, name, kind); below != nil {
			out = append(out, "{", shapeOf(below), "}")
		}
	}
	return strings.Join(out, " ")
}

// apiType is the type of a field with its allowed values, and the schema whose fields it holds; nil = it holds none.
func apiType(s *apiextensionsv1.JSONSchemaProps) (*apiextensionsv1.JSONSchemaProps, string) {
	var values []string
	for _, v := range s.Enum {
		values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
	}
	limit := func(word string, n *int64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprintf(", %s %d", word, *n)
	}
	switch {
	case len(values) > 0:
		return nil, strings.Join(values, ", ")
	case s.XIntOrString:
		return nil, "quantity"
	case s.Properties["matchExpressions"].Type != "":
		return nil, "label selector"
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil && s.AdditionalProperties.Schema.XIntOrString:
		return nil, "resources"
	case s.AdditionalProperties != nil:
		return nil, "map"
	case s.Items != nil:
		below, of := apiType(s.Items.Schema)
		return below, "list of " + strings.TrimSuffix(of, "s") + "s" + limit("at least", s.MinItems) + limit("at most", s.MaxItems)
	case s.Type == "object":
		return s, "object"
	case s.Type == "":
		return nil, "any"
	case s.Format == "date-time":
		return nil, "time"
	}
	kind := s.Type
	if s.Minimum != nil {
		kind += ", at least " + strconv.FormatFloat(*s.Minimum, 'g', -1, 64)
	}
	return nil, kind
}

var (
	usedOtherwise = regexp.MustCompile(`Without it (.*) counts\.`)
	theDefault    = regexp.MustCompile(`(\w+) \(the default\)`)
	proposal      = regexp.MustCompile(` \((AEP-\d+)?(?:, )?(?:gate (\w+))?\)\.`)
	flagName      = regexp.MustCompile(`--[\w-]+`)
	goName        = regexp.MustCompile(`^(\w+)[:,]? (?:is |are )?`)
	lowerCase     = regexp.MustCompile(`^[a-z]+[ ,-]`)
	// What Kubernetes says of a type, and not of the field.
	ofTheType = regexp.MustCompile(`^(ResourceList is a set|A label selector is) .*|; More info: .*`)
)

// describeField takes the description of a field apart: what it says, its default, and its gate.
func describeField(name string, s *apiextensionsv1.JSONSchemaProps) (text, by, gate string) {
	text = ofTheType.ReplaceAllString(strings.Join(strings.Fields(s.Description), " "), "")
	if m := goName.FindStringSubmatch(text); m != nil && strings.HasPrefix(strings.ToLower(m[1]), strings.ToLower(name)) {
		if rest := text[len(m[0]):]; !strings.HasPrefix(rest, "that ") && !strings.HasPrefix(rest, "of ") && !strings.HasPrefix(rest, "by ") {
			text = rest
		}
	}
	if s.Default != nil {
		by = code(strings.Trim(string(s.Default.Raw), `"`))
	} else if m := usedOtherwise.FindStringSubmatch(text); m != nil {
		by, text = flagName.ReplaceAllString(m[1], "`$0`"), strings.TrimSpace(strings.Replace(text, m[0], "", 1))
	} else if m := theDefault.FindStringSubmatch(text); m != nil {
		by = strings.Replace(code(m[1]), "`both`", "`cpu`, `memory`", 1)
	}
	if m := proposal.FindStringSubmatch(text); m != nil {
		gate, text = strings.TrimSpace(code(m[2])+" "+m[1]), strings.Replace(text, m[0], ".", 1)
	}
	if end := strings.Index(text, ". "); len(text) > 300 && end > 0 {
		text = text[:end+1]
	}
	text = strings.TrimSuffix(strings.Replace(text, " (the default)", "", 1), ".")
	if lowerCase.MatchString(text) && !strings.HasPrefix(text, "cpu") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + strings.Repeat(".", min(1, len(text))), by, gate
}
