package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/conformance/aeps"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/document"
)

// invalidVPAsAreRefusedAsEarlyAsTheyCanBe: by the API server alone if the schema can express the
// rule, and by the webhook in any case. The test tables and the list of the AEPs' manifests say
// what is refused.
func invalidVPAsAreRefusedAsEarlyAsTheyCanBe(t *testing.T) {
	withoutCelvpa(t)
	d := newDoor(t)
	t.Run("by the API server alone", func(t *testing.T) {
		t.Run("rows", d.rowsBySchema)
		t.Run("AEPs", func(t *testing.T) {
			d.manifests(t, func(m aeps.Manifest, rule string) bool { return rule == m.Rule && d.inSchema[rule] }, nil)
		})
	})
	d.dropUnreadable(t)
	t.Run("by the webhook", func(t *testing.T) {
		startWebhook(t, d.ns)
		t.Run("rows", func(t *testing.T) { d.rowsByWebhook(t, func(r admission.Row) bool { return !anyGate(r) }) })
		t.Run("AEPs", func(t *testing.T) {
			d.manifests(t, func(m aeps.Manifest, rule string) bool { return rule == m.Rule || (m.Gate != "" && gated(rule)) }, nil)
		})
	})
	t.Run("by the webhook with all gates on", func(t *testing.T) {
		var on []string
		for _, gate := range slices.Sorted(maps.Keys(facts.Gates)) {
			on = append(on, gate+"=true")
		}
		startWebhook(t, d.ns, "--feature-gates="+strings.Join(on, ","))
		t.Run("rows", func(t *testing.T) { d.rowsByWebhook(t, anyGate) })
		t.Run("AEPs", func(t *testing.T) {
			d.manifests(t, func(m aeps.Manifest, rule string) bool { return rule == m.Rule }, func(m aeps.Manifest) []string { return m.Warned })
		})
	})
}

func anyGate(r admission.Row) bool {
	return slices.Contains(slices.Collect(maps.Values(r.Gates)), true)
}

// door is where the test submits objects: what is stored already, and who validates.
type door struct {
	*listener
	ns       string
	rows     []admission.Row
	old      map[string]*unstructured.Unstructured // by row: the object that is replaced, as it is stored
	inSchema map[string]bool                       // the rules of the schema
	inside   *admission.APIServer
}

// newDoor stores the old objects of rows. Some are invalid, so they are stored before the rules
// apply.
func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{listener: newListener(t), ns: namespace(t, "it-door"), old: map[string]*unstructured.Unstructured{}, inSchema: map[string]bool{}}
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	rules := book.Default().Validations(facts.VPAValidate)
	for _, v := range rules {
		d.inSchema[v.Rule] = v.Validation.EnforcedAt(document.EnforceSchema)
	}
	with, err := emit.CRDs(rules)
	require.NoError(t, err)
	full := named(with, crds.VPA)
	d.inside, err = admission.NewAPIServer(full)
	require.NoError(t, err)
	without, err := crds.Definition(crds.VPA)
	require.NoError(t, err)
	putCRD(t, without)
	refusedWithRules := func(want bool) {
		hang.Eventually(t, fmt.Sprintf("the rules of the schema in force: %v", want), func(ctx context.Context) (bool, error) {
			err := d.Create(ctx, object(d.ns, "probe", "updatePolicy: {updateMode: 'Off', minReplicas: 0}"), client.DryRunAll)
			return (len(refusals(err)) > 0) == want, nil
		})
	}
	refusedWithRules(false)
	d.rows, err = admission.Rows()
	require.NoError(t, err)
	unfit := 0
	for i, row := range d.rows {
		if row.Old == nil {
			continue
		}
		old := placed(row.Old, d.ns, fmt.Sprintf("row-%d", i))
		if err := d.Create(t.Context(), old); err != nil {
			unfit++ // it does not fit the schema, rules or not
			continue
		}
		d.old[row.String()] = old
	}
	putCRD(t, full)
	refusedWithRules(true)
	t.Logf("%d rows, of which %d are updates; what %d of them replace does not fit the schema, so these are left out", len(d.rows), len(d.old)+unfit, unfit)
	return d
}

// dropUnreadable deletes stored objects that no program can decode as a VerticalPodAutoscaler,
// which a schema rule prevents.
func (d *door) dropUnreadable(t *testing.T) {
	t.Helper()
	before := len(d.old)
	for row, old := range d.old {
		text, err := old.MarshalJSON()
		require.NoError(t, err)
		if _, err := vpav1.Decode(text); err != nil {
			require.NoError(t, d.Delete(t.Context(), old))
			delete(d.old, row)
		}
	}
	t.Logf("%d updates are left out of what follows, because nobody can read what they replace", before-len(d.old))
}

func named(all []*apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinition {
	return all[slices.IndexFunc(all, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == name })]
}

// try submits the object of a row by dry run. ok is false for a row that was skipped.
func (d *door) try(t *testing.T, i int) (err error, ok bool) {
	row := d.rows[i]
	u := placed(row.Object, d.ns, fmt.Sprintf("row-%d", i))
	if row.Old == nil {
		return d.Create(t.Context(), u, client.DryRunAll), true
	}
	old := d.old[row.String()]
	if old == nil {
		return nil, false
	}
	u.SetResourceVersion(old.GetResourceVersion())
	return d.Update(t.Context(), u, client.DryRunAll), true
}

// denials are the rules that a table expects to refuse the object.
func denials(row admission.Row, by func(rule string) bool) (out []string) {
	for _, v := range row.Violations {
		if v.Severity != document.SeverityWarn && by(v.Rule) {
			out = append(out, v.Rule+"@"+v.Field)
		}
	}
	slices.Sort(out)
	return out
}

// fits reports whether a row's object fits the schema apart from its rules: if not, the API server
// reports only that.
func (d *door) fits(row admission.Row) bool {
	now, err := d.inside.Decoded(row.Object)
	old, oldErr := d.inside.Decoded(row.Old)
	if err != nil || oldErr != nil {
		return false
	}
	verdict := d.inside.Judge(now, old)
	return len(verdict.Structure) == 0
}

func (d *door) rowsBySchema(t *testing.T) {
	refused, unfit := 0, 0
	for i, row := range d.rows {
		err, ok := d.try(t, i)
		if !ok || len(row.Params) > 0 {
			continue
		}
		if !d.fits(row) {
			unfit++
			require.Error(t, err, row.String())
			continue
		}
		want := denials(row, func(rule string) bool { return d.inSchema[rule] })
		require.Equal(t, want, refusals(err), "%s: %v", row, err)
		require.Equal(t, len(want) > 0, apierrors.IsInvalid(err), "%s: %v", row, err)
		if len(want) == 0 {
			require.NoError(t, err, row.String())
		} else {
			refused++
		}
	}
	t.Logf("%d rows refused by rules, %d because they do not fit the schema", refused, unfit)
	require.NotZero(t, refused)
}

// rowsByWebhook submits rows whose gates are those of the process. Facts about other objects do not
// exist here.
func (d *door) rowsByWebhook(t *testing.T, here func(admission.Row) bool) {
	refused, left := 0, 0
	for i, row := range d.rows {
		d.warnings()
		want := denials(row, func(string) bool { return true })
		otherGates := !here(row) || (anyGate(row) && slices.ContainsFunc(want, gated)) // all gates are on then, not only the row's
		if len(row.Params) > 0 || otherGates {
			left++
			continue
		}
		err, ok := d.try(t, i)
		if !ok {
			left++
			continue
		}
		if err != nil && len(want) == 0 && renamed(row) && !strings.Contains(err.Error(), "admission webhook") {
			left++
			continue
		}
		if len(want) == 0 && d.fits(row) {
			require.NoError(t, err, row.String())
		} else {
			refused++
			require.True(t, apierrors.IsInvalid(err), "%s: %v", row, err)
		}
		got, inside := refusals(err), schemaFaults(err)
		for _, refusal := range want { // what is wrong with a value, and said of it, is not said once more of what holds it
			_, field, _ := strings.Cut(refusal, "@")
			if !slices.Contains(got, refusal) && slices.ContainsFunc(inside, func(fault string) bool { return strings.HasPrefix(fault, field+".") }) {
				got = append(got, refusal)
			}
		}
		slices.Sort(got)
		require.Equal(t, want, got, "%s: %v", row, err)
		heard := strings.Join(d.warnings(), "\n")
		for _, v := range row.Violations {
			if v.Severity == document.SeverityWarn && !aboutOthers(v.Rule) {
				require.Contains(t, heard, "(rule "+v.Rule+")", row.String())
			}
		}
	}
	t.Logf("%d of %d rows refused; %d left out", refused, len(d.rows), left)
	require.Less(t, left, len(d.rows))
}

// aboutOthers reports whether a rule judges by other objects than the VPA, which do not exist here, or whose manifests a webhook lacks.
func aboutOthers(rule string) bool {
	byTargetRef := []string{"vpa-target/kind-spelling", "vpa-target/api-version", "vpa-target/jobs-fail"}
	return strings.HasPrefix(rule, "vpa-neighbours/") || strings.HasPrefix(rule, "vpa-target/") && !slices.Contains(byTargetRef, rule)
}

// renamed reports whether the webhook moves existing content to another field. An error that was
// tolerated in the old field is new to the API server in the new one.
func renamed(row admission.Row) bool {
	text, err := json.Marshal(row.Old)
	return err == nil && strings.Contains(string(text), `"RequestToLimitRatio"`)
}

func gated(violation string) bool { return strings.HasPrefix(violation, "vpa-gates/") }

// manifests submits the manifests of the AEPs. The listed rules must refuse a manifest; without any
// it must be accepted.
func (d *door) manifests(t *testing.T, meant func(m aeps.Manifest, rule string) bool, warned func(aeps.Manifest) []string) {
	for _, m := range aeps.Manifests {
		text, err := aeps.FS.ReadFile(m.File)
		require.NoError(t, err)
		all, err := harness.Decode(text)
		require.NoError(t, err)
		require.Len(t, all, 1)
		var want []string
		for _, rule := range slices.Sorted(maps.Keys(d.inSchema)) {
			if meant(m, rule) {
				want = append(want, rule)
			}
		}
		d.warnings()
		err = d.Create(t.Context(), placed(all[0].Object, d.ns, all[0].GetName()), client.DryRunAll)
		require.Equal(t, len(want) > 0, err != nil, "%s: %v", m.File, err)
		for _, refusal := range refusals(err) {
			rule, _, _ := strings.Cut(refusal, "@")
			require.Contains(t, want, rule, "%s: %v", m.File, err)
		}
		require.Equal(t, err != nil, len(refusals(err)) > 0, "%s: %v", m.File, err)
		if err == nil && warned != nil {
			heard := d.warnings()
			require.Len(t, heard, len(warned(m)), "%s: %v", m.File, heard)
			for i, field := range warned(m) {
				require.Contains(t, heard[i], field, m.File)
			}
		}
	}
}
