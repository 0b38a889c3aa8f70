package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/admission"
	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/engine/document"
)

// invalidVPAsAreRefusedAsEarlyAsTheyCanBe: by the API server alone, if the schema can express the
// rule. The test tables say what is refused. What the webhook refuses beside is in conformance/rules.
func invalidVPAsAreRefusedAsEarlyAsTheyCanBe(t *testing.T) {
	withoutCelvpa(t)
	newDoor(t).rowsBySchema(t)
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
