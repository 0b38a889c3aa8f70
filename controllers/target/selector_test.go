package target

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// among is a Deployment whose pods have one of some values of label app.
func among(values ...string) *appsv1.Deployment {
	d := deployment("web")
	d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	return d
}

// numbered are values of a number of digits.
func numbered(n, digits int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%0*d", digits, i))
	}
	return out
}

// TestSelectorsOfOneTargetAreMadeOnce: hundreds of VPAs may have a target with a large selector.
func TestSelectorsOfOneTargetAreMadeOnce(t *testing.T) {
	d := among(numbered(900, 5)...)
	r := resolver(nil, d)
	first, why := r.Selector(t.Context(), vpaFor("v", "web", 0))
	require.Nil(t, why)
	second, why := r.Selector(t.Context(), vpaFor("w", "web", 0))
	require.Nil(t, why)
	require.Same(t, first, second)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = first.String() }), "the text, too")

	d.Spec.Selector.MatchExpressions[0].Values = []string{"a"}
	require.NoError(t, r.Client.Update(t.Context(), d))
	third, why := r.Selector(t.Context(), vpaFor("v", "web", 0))
	require.Nil(t, why)
	require.Equal(t, "app in (a)", third.String())
}

func TestSelectorsThatAreTooLargeAreNotSupported(t *testing.T) {
	labels := func(n int) *appsv1.Deployment {
		d := deployment("web")
		d.Spec.Selector.MatchLabels = map[string]string{}
		for _, name := range numbered(n, 5) {
			d.Spec.Selector.MatchLabels["l"+name] = "x"
		}
		return d
	}
	const say = "Cannot read targetRef. Reason: the selector of ns/web: it has "
	for name, tt := range map[string]struct {
		object *appsv1.Deployment
		want   string // the message; empty = it is supported
	}{
		"as many values as may be": {object: among(numbered(999, 5)...)},
		"as many labels as may be": {object: labels(1000)},
		"as much text as may be":   {object: among(numbered(401, 40)...)},
		"too many values":          {object: among(numbered(1000, 5)...), want: say + "1001 labels and values, more than 1000" + tooLarge},
		"too many labels":          {object: labels(1001), want: say + "1001 labels and values, more than 1000" + tooLarge},
		"too much text":            {object: among(numbered(900, 20)...), want: say + "18003 bytes, more than 16384" + tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, why := resolver(nil, tt.object).Selector(t.Context(), vpaFor("v", "web", 0))
			if tt.want == "" {
				require.Nil(t, why)
				return
			}
			require.NotNil(t, why)
			require.Equal(t, tt.want, why.Message)
			require.False(t, why.Transient)
		})
	}
	t.Run("of a custom kind", func(t *testing.T) {
		api := newScaleAPI(always("app in ("+strings.Join(numbered(900, 20), ",")+")"), "v1")
		_, why := (&Resolver{Client: api.Client}).Selector(t.Context(), vpaOfThing("t"))
		require.NotNil(t, why)
		require.Equal(t, "Cannot read targetRef. Reason: reading the scale of example.com/v1.Thing/t in namespace ns: its selector: it has 18908 bytes, more than 16384"+tooLarge, why.Message)
		require.False(t, why.Transient)
	})
}
