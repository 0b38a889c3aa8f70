package upstream

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
