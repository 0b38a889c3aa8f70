// Package upstream compares celvpa with the Vertical Pod Autoscaler of kubernetes/autoscaler by
// running both on generated input. celvpa's webhook must accept, refuse, default and warn about the
// same objects, and patch pods in the same way; its recommender must keep the same history and give
// the same recommendations for the same cluster; and its updater must do the same with the same
// workloads. Tables in the tests list the deliberate differences with reasons;
// docs/upstream-differences.md lists them for users.
//
// It is a module of its own, with tests only, so that celvpa does not depend on upstream.
package upstream

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds/schema"
)

// testCase is one request to a webhook: the new object, the old one, and the gates of both sides.
type testCase struct {
	Object map[string]any `json:"object"`
	Old    map[string]any `json:"old,omitempty"` // nil: the object is new
	Gates  gates          `json:"gates"`
}

// gates are upstream's feature gates. celvpa's additional ones stay off.
type gates struct {
	InPlace         bool `json:"InPlace,omitempty"`
	PerVPAConfig    bool `json:"PerVPAConfig,omitempty"`
	CPUStartupBoost bool `json:"CPUStartupBoost,omitempty"`
}

func (g gates) asMap() map[string]bool {
	return map[string]bool{"InPlace": g.InPlace, "PerVPAConfig": g.PerVPAConfig, "CPUStartupBoost": g.CPUStartupBoost}
}

func (c testCase) copy() testCase {
	c.Object = runtime.DeepCopyJSON(c.Object)
	c.Old = runtime.DeepCopyJSON(c.Old)
	return c
}

func (c testCase) objectJSON() []byte { return mustJSON(c.Object) }

// oldJSON is nil if the object is new.
func (c testCase) oldJSON() []byte {
	if c.Old == nil {
		return nil
	}
	return mustJSON(c.Old)
}

// String is the case as YAML; readCase reads it.
func (c testCase) String() string {
	text, err := yaml.JSONToYAML(mustJSON(c))
	if err != nil {
		return fmt.Sprintf("%s: %v\n", mustJSON(c), err)
	}
	return string(text)
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // cases are made of JSON values only
	}
	return raw
}

// place is the location of a value in an object: field names, and indexes of lists.
type place []any

// placeOf parses a path in the notation of field errors: spec.list[2].map[key].field.
func placeOf(path string) place {
	var out place
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		if strings.HasPrefix(path, "[") {
			key, rest, _ := strings.Cut(path[1:], "]")
			if i, err := strconv.Atoi(key); err == nil {
				out = append(out, i)
			} else {
				out = append(out, key)
			}
			path = rest
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			out = append(out, path[:end])
		}
		path = path[end:]
	}
	return out
}

// at returns the value at a place.
func at(v any, p place) (any, bool) {
	for _, step := range p {
		switch key := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil, false
			}
			if v, ok = m[key]; !ok {
				return nil, false
			}
		case int:
			l, ok := v.([]any)
			if !ok || key >= len(l) {
				return nil, false
			}
			v = l[key]
		}
	}
	return v, true
}

// get is at for a path; nil if there is no value.
func get(v any, path string) any {
	found, _ := at(v, placeOf(path))
	return found
}

// places lists every value inside v, outer ones first, in a deterministic order.
func places(v any) []place {
	var out, next []place
	for level := []place{nil}; len(level) > 0; level, next = next, nil {
		for _, p := range level {
			found, _ := at(v, p)
			switch x := found.(type) {
			case map[string]any:
				for _, key := range sortedKeys(x) {
					next = append(next, append(slices.Clone(p), key))
				}
			case []any:
				for i := range x {
					next = append(next, append(slices.Clone(p), i))
				}
			}
		}
		out = append(out, next...)
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// put replaces the value at a place, in place.
func put(object map[string]any, p place, value any) {
	parent, _ := at(object, p[:len(p)-1])
	switch key := p[len(p)-1].(type) {
	case string:
		parent.(map[string]any)[key] = value
	case int:
		parent.([]any)[key] = value
	}
}

// without removes the value at a place, in place.
func without(object map[string]any, p place) {
	parent, _ := at(object, p[:len(p)-1])
	switch key := p[len(p)-1].(type) {
	case string:
		delete(parent.(map[string]any), key)
	case int:
		put(object, p[:len(p)-1], slices.Delete(slices.Clone(parent.([]any)), key, key+1))
	}
}

// unchanged reports whether the object is unchanged at a path: the value there, or one around it,
// equals the old one. List entries have no identity, so a list counts as a whole.
func (c testCase) unchanged(path string) bool {
	if c.Old == nil {
		return false
	}
	p := placeOf(path)
	for i := 1; i <= len(p); i++ {
		if _, isIndex := p[i-1].(int); isIndex {
			return false
		}
		now, isThere := at(c.Object, p[:i])
		before, wasThere := at(c.Old, p[:i])
		if isThere && wasThere && reflect.DeepEqual(now, before) {
			return true
		}
	}
	return false
}

// schemaRefuses reports whether the CRD's schema refuses the object at a path.
func schemaRefuses(c testCase, path string) bool {
	objects, err := policy.VPASchema()
	if err != nil {
		panic(err) // the shipped schema
	}
	return slices.ContainsFunc(objects.Check(asStored(c.Object), asStored(c.Old)), func(f schema.Fault) bool { return f.Field == path })
}

// asStored is an object as API servers store it: whole numbers are integers.
func asStored(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	var out map[string]any
	if err := utiljson.Unmarshal(mustJSON(object), &out); err != nil {
		panic(err) // it was made from JSON
	}
	return out
}

// Kinds of discrepancy.
const (
	letsThrough  = "celvpa allows what upstream refuses"
	doesNotName  = "both refuse, celvpa without naming this"
	refuses      = "celvpa refuses what upstream allows"
	defaults     = "the defaults differ"
	inapplicable = "upstream's defaults do not apply"
	staysSilent  = "only upstream warns"
	warns        = "only celvpa warns"
)

// discrepancy is one difference between the answers to a case. Each is explained on its own: an
// object that is deliberately refused for one reason may still be wrongly refused for another.
type discrepancy struct {
	Kind   string
	Path   string // of the issue, where it is about one
	Reason metav1.CauseType
	Detail string
}

// missing reports whether celvpa fails to report an issue for which upstream refuses the object.
func (d discrepancy) missing() bool { return d.Kind == letsThrough || d.Kind == doesNotName }

var index = regexp.MustCompile(`\[\d+\]`)

// signature is shared by discrepancies with the same cause. It leaves out whether celvpa refuses
// the object for another reason.
func (d discrepancy) signature() string {
	text := d.Kind
	if d.missing() && d.Detail == "" {
		text = "celvpa finds nothing wrong with"
	}
	if d.Path != "" {
		text += ": " + index.ReplaceAllString(d.Path, "[*]") + " (" + string(d.Reason) + ")"
	}
	if d.Detail != "" {
		text += ": " + index.ReplaceAllString(d.Detail, "[*]")
	}
	return text
}

// compare lists all discrepancies. If both refuse, celvpa may report more.
func compare(upstream, celvpa answer) []discrepancy {
	var out []discrepancy
	for _, x := range upstream.Denied {
		if celvpa.names(x) {
			continue
		}
		kind := doesNotName
		if celvpa.allowed() {
			kind = letsThrough
		}
		out = append(out, discrepancy{Kind: kind, Path: x.Path, Reason: x.Reason, Detail: otherReason(celvpa, x.Path)})
	}
	if upstream.allowed() {
		for _, x := range celvpa.Denied {
			out = append(out, discrepancy{Kind: refuses, Path: x.Path, Reason: x.Reason})
		}
	}
	if upstream.allowed() && celvpa.allowed() {
		switch {
		case upstream.Unpatched != "" && celvpa.Unpatched == "":
			out = append(out, discrepancy{Kind: inapplicable})
		case upstream.Unpatched != celvpa.Unpatched || upstream.Unpatched == "" && !sameJSON(upstream.Defaulted, celvpa.Defaulted):
			out = append(out, discrepancy{Kind: defaults})
		}
	}
	if undecoded(upstream) {
		return out // upstream looked no further, so it had nothing to warn of
	}
	for _, n := range upstream.Notices {
		if !slices.Contains(celvpa.Notices, n) {
			out = append(out, discrepancy{Kind: staysSilent, Detail: n})
		}
	}
	for _, n := range celvpa.Notices {
		if !slices.Contains(upstream.Notices, n) {
			out = append(out, discrepancy{Kind: warns, Detail: n})
		}
	}
	return out
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// otherReason describes a refusal at the same path for another reason.
func otherReason(a answer, path string) string {
	for _, x := range a.Denied {
		if x.Path == path {
			return fmt.Sprintf("named as %s", x.Reason)
		}
	}
	return ""
}

// undecoded reports whether upstream could not decode the object or the old one, its only internal
// error.
func undecoded(upstream answer) bool {
	return upstream.names(issue{Path: ".", Reason: metav1.CauseType("InternalError")})
}

// outcome is a case with both answers.
type outcome struct {
	Case             testCase
	Upstream, Celvpa answer
}

// judge runs a case on both sides and returns the discrepancies that no entry of the table
// explains. met, unless nil, is called with the name of every entry that explained one.
func judge(c testCase, met func(entry string)) (outcome, []discrepancy, error) {
	upstream, err := askUpstream(c)
	if err != nil {
		return outcome{}, nil, err
	}
	celvpa, err := askCelvpa(c)
	if err != nil {
		return outcome{}, nil, err
	}
	o := outcome{Case: c, Upstream: upstream, Celvpa: celvpa}
	var unexplained []discrepancy
	for _, d := range compare(upstream, celvpa) {
		i := slices.IndexFunc(deliberate, func(x difference) bool { return x.explains(o, d) })
		if i < 0 {
			unexplained = append(unexplained, d)
		} else if met != nil {
			met(deliberate[i].name)
		}
	}
	return o, unexplained, nil
}
