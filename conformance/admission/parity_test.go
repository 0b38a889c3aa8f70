package admission

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/schema"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

var objects = flag.Int("parity.objects", 1000, "how many random objects, each with two changes, are judged by both sides")

// both judges by the generated CRD, like an API server, and by the rules, like the webhook.
type both struct {
	server *APIServer
	plan   *engine.Plan
	types  *schema.Objects
	schema map[string]bool // rules in the schema
}

func newBoth(t testing.TB) *both {
	t.Helper()
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	rules := book.Default().Validations(facts.VPAValidate)
	all, err := emit.CRDs(rules)
	require.NoError(t, err)
	out := &both{plan: book.Default(), schema: map[string]bool{}}
	out.types, err = policy.VPASchema()
	require.NoError(t, err)
	for _, crd := range all {
		if crd.Name == crds.VPA {
			out.server, err = NewAPIServer(crd)
			require.NoError(t, err)
		}
	}
	for _, v := range rules {
		out.schema[v.Rule] = v.Validation.EnforcedAt(document.EnforceSchema)
	}
	return out
}

type outcome struct {
	misfit  bool // does not fit the schema, so rules are not compared: servers mostly skip them
	refused []string
	warned  []string
}

// judge returns how the two verdicts differ; empty = they agree.
func (b *both) judge(object, old map[string]any) (outcome, string) {
	now, err := b.server.Decoded(object)
	if err != nil {
		return outcome{misfit: true}, ""
	}
	before, err := b.server.Decoded(old)
	if err != nil {
		return outcome{misfit: true}, ""
	}
	if before != nil && slices.ContainsFunc(b.server.Judge(before, nil).Structure, unstorable) {
		return outcome{misfit: true}, ""
	}
	verdict := b.server.Judge(now, before)
	var faults []string
	for _, f := range b.types.Check(object, old) {
		if !f.Unknown {
			faults = append(faults, fmt.Sprintf("%s: %s", f.Field, f.Message))
		}
	}
	if fits := len(verdict.Structure) == 0; fits != (len(faults) == 0) {
		return outcome{}, fmt.Sprintf("the schema: the server says %v, Check says %v", verdict.Structure, faults)
	}
	if len(verdict.Structure) > 0 {
		return outcome{misfit: true, refused: verdict.Refused}, ""
	}
	var replaced []byte
	if before != nil {
		replaced = text(before)
	}
	request := vpareview.Read(text(now), replaced, "")
	request.CRD = b.plan
	answer := vpareview.Review(b.plan, request)
	ours := func(causes []vpareview.Cause) (out []string) {
		for _, c := range causes {
			if b.schema[c.Rule] {
				out = append(out, c.Rule+"@"+c.Field)
			}
		}
		slices.Sort(out)
		return out
	}
	refused, warned := ours(answer.Causes), ours(answer.Warnings)
	unreadable := slices.IndexFunc(answer.Causes, func(c vpareview.Cause) bool { return c.Rule == vpareview.SchemaRule })
	if unreadable >= 0 && len(verdict.Refused)+len(verdict.Warned) == 0 {
		return outcome{}, fmt.Sprintf("the server accepts without a word what the controllers cannot read: %v", answer.Causes[unreadable])
	}
	if !slices.Equal(verdict.Refused, refused) || !slices.Equal(verdict.Warned, warned) {
		return outcome{}, fmt.Sprintf("the rules: the server says %v, the webhook refuses %v and warns of %v: %v", verdict, refused, warned, answer)
	}
	return outcome{refused: refused, warned: warned}, ""
}

// unstorable reports faults that no version of the CRD ever admitted: types, quantities and
// required fields never changed; bounds and enumerations did.
func unstorable(err *field.Error) bool {
	return err.Type == field.ErrorTypeTypeInvalid || err.Type == field.ErrorTypeInvalid || err.Type == field.ErrorTypeRequired
}

func text(object map[string]any) []byte {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // cannot happen: it came from JSON
	}
	return data
}

// The CRD enforces the tables' expectations for rules in the schema.
func TestRowsOfTables(t *testing.T) {
	b := newBoth(t)
	rows, err := Rows()
	require.NoError(t, err)
	misfits := 0
	for _, row := range rows {
		came, difference := b.judge(row.Object, row.Old)
		require.Empty(t, difference, row.String())
		if came.misfit {
			misfits++
			continue
		}
		var want []string
		for _, v := range row.Violations {
			if b.schema[v.Rule] && v.Severity != document.SeverityWarn {
				want = append(want, v.Rule+"@"+v.Field)
			}
		}
		slices.Sort(want)
		if len(row.Params) == 0 { // the schema has no params
			require.Equal(t, want, came.refused, row.String())
		}
	}
	t.Logf("%d rows, of which %d do not fit the schema", len(rows), misfits)
	require.Less(t, misfits, len(rows)/2, "most rows are about rules")
}

// Enough objects must reach the rules, and each schema rule must refuse one.
func TestRandomObjects(t *testing.T) {
	b := newBoth(t)
	seen := map[string]int{}
	count := map[string]int{}
	for seed := range uint64(*objects) {
		for _, c := range cases(b.server, seed) {
			came, difference := b.judge(c.object, c.old)
			require.Empty(t, difference, "seed %d\nobject %s\nreplaces %s", seed, text(c.object), text(c.old))
			switch {
			case came.misfit:
				count["misfit"]++
			case len(came.refused) > 0:
				count["refused"]++
			default:
				count["accepted"]++
			}
			if len(came.warned) > 0 {
				count["warned of what was so before"]++
			}
			for _, violation := range came.refused {
				rule, _, _ := strings.Cut(violation, "@")
				seen[rule]++
			}
		}
	}
	t.Logf("%v", count)
	for _, what := range []string{"misfit", "refused", "accepted", "warned of what was so before"} {
		require.Greater(t, count[what], *objects/50, what)
	}
	for rule, inSchema := range b.schema {
		if inSchema {
			require.NotZero(t, seen[rule], "no random object violates rule %s", rule)
		}
	}
}

type judged struct{ object, old map[string]any }

// cases are a new object and changes to it.
func cases(server *APIServer, seed uint64) []judged {
	r := server.Random(seed)
	first := r.Object()
	second := r.Changed(first)
	return []judged{{first, nil}, {second, first}, {r.Changed(second), second}}
}

// FuzzParity is TestRandomObjects without an end.
func FuzzParity(f *testing.F) {
	b := newBoth(f)
	for _, seed := range []uint64{0, 1, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, c := range cases(b.server, seed) {
			_, difference := b.judge(c.object, c.old)
			require.Empty(t, difference, "object %s\nreplaces %s", text(c.object), text(c.old))
		}
	})
}
