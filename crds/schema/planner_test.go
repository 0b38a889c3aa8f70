package schema

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
)

// API servers plan with the whole environment.
func TestPlannedExpressionsRunAsInAnAPIServer(t *testing.T) {
	objects := vpaObjects(t)
	env, err := objects.Env("", false)
	require.NoError(t, err)
	object := vpa(t, "updatePolicy: {updateMode: Initial, minReplicas: 2}")
	vars := objects.Open(object, nil)
	place, err := objects.Place("")
	require.NoError(t, err)
	values := vars.Values(place)
	const long = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32]"
	var asts []*cel.Ast
	for _, text := range []string{
		`self.spec.?updatePolicy.?updateMode.orValue('none') == 'Initial'`,
		`self.spec.?resourcePolicy.?containerPolicies.or(optional.of([])).hasValue()`,
		`oldObject.?spec.?updatePolicy.hasValue() ? 'changed' : 'new'`,
		`self.spec.updatePolicy.minReplicas > 1.5 && dyn(self.spec.updatePolicy.minReplicas) + 1 == 3`,
		`self.spec.targetRef.name.matches('^w[a-z]+$') ? self.spec.targetRef.name.find('[a-z]{2}') : ''`,
		`quantity('1Gi').isGreaterThan(quantity('500Mi')) && [1, 2].sum() == 3`,
		`'%s has %d'.format([self.spec.targetRef.name, size(self.spec.targetRef.name)])`,
		`dyn('text') + dyn(1) == dyn(2)`,                                                               // fails: no such overload
		`self.spec.resourcePolicy == null`,                                                             // fails: no such key
		fmt.Sprintf(`%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a + b + c + d > 0))))`, long), // fails: the cost limit
	} {
		ast, issues := env.Compile(text)
		require.NoError(t, issues.Err(), text)
		asts = append(asts, ast)
	}
	plan, err := objects.Planner(env, asts)
	require.NoError(t, err)
	failed := 0
	for _, ast := range asts {
		theirs, err := env.Program(ast)
		require.NoError(t, err)
		ours, err := plan(ast)
		require.NoError(t, err)
		want, wantDetails, wantErr := theirs.Eval(values[0].Vars())
		got, details, err := ours.Eval(values[0].Vars())
		require.Equal(t, wantErr, err, ast.Source().Content())
		require.Equal(t, wantDetails.ActualCost(), details.ActualCost(), ast.Source().Content())
		if err != nil {
			failed++
			continue
		}
		require.Equal(t, want.Value(), got.Value(), ast.Source().Content())
	}
	require.Equal(t, 3, failed)
}
