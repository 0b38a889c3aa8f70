package matcher

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

var firstOfJanuary = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// vpaFor has a Deployment as its target, and was created so long before the first of January.
func vpaFor(name, deployment string, age time.Duration, change ...func(*vpav1.VerticalPodAutoscaler)) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(firstOfJanuary.Add(-age))}}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment}
	for _, mutate := range change {
		mutate(v)
	}
	return v
}

func in(mode vpav1.UpdateMode) func(*vpav1.VerticalPodAutoscaler) {
	return func(v *vpav1.VerticalPodAutoscaler) {
		v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(mode)}
	}
}

// pinned asks for rules that are not loaded.
func pinned(v *vpav1.VerticalPodAutoscaler) {
	v.Annotations = map[string]string{policy.AnnotationPipeline: "gone@1.0.0"}
}

func load(t testing.TB, path string) *compile.Rulebook {
	t.Helper()
	book, err := policy.Load(policy.Options{Path: path, Points: []string{facts.VPAOrder, facts.PodAdmit, facts.VPAUpdate}})
	require.NoError(t, err)
	return book
}

func overlay(t *testing.T, spec string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec:\n"+spec), 0o600))
	return file
}

func TestRulesDecideWhichOfTwoVPAsComesFirst(t *testing.T) {
	old := vpaFor("old", "web", time.Second)
	young := vpaFor("a-young", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.Labels = map[string]string{"tier": "gold"} })
	shipped := load(t, "")
	compare := func(book *compile.Rulebook, a, b *vpav1.VerticalPodAutoscaler) int {
		return Compare(New(book, a, logr.Discard()), New(book, b, logr.Discard()))
	}
	require.Negative(t, compare(shipped, old, young), "the older one")
	require.Positive(t, compare(shipped, young, old))
	require.Negative(t, compare(shipped, vpaFor("a", "web", 0), vpaFor("b", "web", 0)), "by name where they are of one age")
	unknown := vpaFor("b", "web", 0, func(v *vpav1.VerticalPodAutoscaler) { v.CreationTimestamp = metav1.Time{} })
	require.Negative(t, compare(shipped, unknown, old), "creation time unknown")

	own := load(t, overlay(t, `  match: {vpaSelector: {matchLabels: {tier: gold}}}
  change: [{replace: vpa-order/age/oldest-first, rule: {name: gold, set: {order.first: "1"}}}]
`))
	require.Positive(t, compare(own, old, young), "an overlay that puts VPAs of a label first")
}

func TestWhatTheRulesSayAboutAVPA(t *testing.T) {
	book := load(t, "")
	for name, tt := range map[string]struct {
		v                                *vpav1.VerticalPodAutoscaler
		admits, updates, competes, asked bool
	}{
		"mode Recreate":                  {vpaFor("v", "web", 0, in(vpav1.UpdateModeRecreate)), true, true, true, true},
		"mode Initial":                   {vpaFor("v", "web", 0, in(vpav1.UpdateModeInitial)), true, false, false, true},
		"mode Off":                       {vpaFor("v", "web", 0, in(vpav1.UpdateModeOff)), false, false, false, true},
		"rules that are not loaded":      {vpaFor("v", "web", 0, in(vpav1.UpdateModeRecreate), pinned), true, false, true, false},
		"those, and admission leaves it": {vpaFor("v", "web", 0, in(vpav1.UpdateModeOff), pinned), false, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := New(book, tt.v, logr.Discard())
			require.Equal(t, tt.admits, v.Takes(Admission))
			require.Equal(t, tt.updates, v.Takes(Update))
			require.Equal(t, tt.competes, v.Competes(Update))
			require.Equal(t, tt.asked, v.Ignored(Update) == "")
			require.Empty(t, v.Ignored(Admission))
		})
	}
}

// TestAnOverlayThatIsNotEnforcedDiffers: it changes nothing, and what it would is known.
func TestAnOverlayThatIsNotEnforcedDiffers(t *testing.T) {
	book := load(t, overlay(t, `  mode: Audit
  change: [{disable: update-mode/not-in-this-mode}]
`))
	v := New(book, vpaFor("v", "web", 0, in(vpav1.UpdateModeOff)), logr.Discard())
	require.Len(t, v.Rules.Shadows, 1)
	require.False(t, v.Takes(Update))
	require.NotEmpty(t, v.Differs(Update, v.Rules.Shadows[0]))
	require.Empty(t, v.Differs(Admission, v.Rules.Shadows[0]))
}
