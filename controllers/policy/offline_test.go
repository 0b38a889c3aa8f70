package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestOverlaysApplyAndFaultyOnesAreNamed(t *testing.T) {
	book, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	next, err := WithOverlays(book, []rulesv1alpha1.RuleOverlay{
		marginOverlay("broken", 1, `"much"`, "a"), marginOverlay("fine", 1, "0.3", "a"),
	})
	require.ErrorContains(t, err, `RuleOverlay broken cannot be used: RuleOverlay/broken:8:32: RuleSet estimate@1.0.0: param marginFraction: "much" is not a finite number`)
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}
	require.Equal(t, []string{"fine"}, For(next, v).Plan.Overlays())
	require.Empty(t, For(book, v).Plan.Overlays(), "the rules that were given stay as they are")
}
