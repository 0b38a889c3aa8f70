package policy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// marginOverlay sets the safety margin for a namespace.
func marginOverlay(name string, generation int64, margin, namespace string) rulesv1alpha1.RuleOverlay {
	return rulesv1alpha1.RuleOverlay{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation},
		Spec: rulesv1alpha1.RuleOverlaySpec{
			Match:  rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{namespace}},
			Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"estimate.marginFraction": {Raw: []byte(margin)}}}},
		},
	}
}

// clusterSource follows a list of overlays that the test changes.
func clusterSource(t *testing.T) (*Source, *[]rulesv1alpha1.RuleOverlay, *error) {
	t.Helper()
	s, err := NewSource(Options{}, time.Second, testclock.NewFakeClock(time.Unix(0, 0)), logr.Discard())
	require.NoError(t, err)
	var objects []rulesv1alpha1.RuleOverlay
	var failure error
	list := func(context.Context) ([]rulesv1alpha1.RuleOverlay, error) { return objects, failure }
	require.NoError(t, s.Follow(t.Context(), list, list))
	return s, &objects, &failure
}

func overlaysFor(s *Source, namespace string) []string {
	return For(s.Rules(), &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}).Plan.Overlays()
}

func TestOverlaysOfTheClusterAreFollowed(t *testing.T) {
	s, objects, failure := clusterSource(t)
	require.Empty(t, overlaysFor(s, "payments"))
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("more", 1, "0.3", "payments")}
	s.Reload(t.Context())
	require.Equal(t, []string{"more"}, overlaysFor(s, "payments"))
	require.Empty(t, overlaysFor(s, "elsewhere"))
	require.Equal(t, map[string]Acceptance{"more": {Generation: 1}}, s.Accepted())
	book := s.Rules()
	s.Reload(t.Context())
	require.Same(t, book, s.Rules(), "nothing changed, nothing is compiled")

	*failure = errors.New("no connection")
	s.Reload(t.Context())
	require.Same(t, book, s.Rules(), "a list that cannot be had takes nothing with it")
	*failure, *objects = nil, nil
	s.Reload(t.Context())
	require.Empty(t, overlaysFor(s, "payments"))
}

func TestAnOverlayAtFaultCostsNobodyElseAnything(t *testing.T) {
	s, objects, _ := clusterSource(t)
	broken := marginOverlay("broken", 1, `"much"`, "a")
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("first", 1, "0.3", "a"), broken, marginOverlay("rival", 1, "0.4", "a"), marginOverlay("other", 1, "0.5", "b")}
	s.Reload(t.Context())
	require.Equal(t, []string{"first"}, overlaysFor(s, "a"))
	require.Equal(t, []string{"other"}, overlaysFor(s, "b"))
	fates := s.Accepted()
	require.NoError(t, fates["first"].Err)
	require.ErrorContains(t, fates["broken"].Err, `RuleOverlay/broken:8:32: RuleSet estimate@1.0.0: param marginFraction: "much" is not a finite number`)
	require.ErrorContains(t, fates["rival"].Err, "RuleOverlay rival: it changes estimate.marginFraction, and so does RuleOverlay first")

	// A version that worked stays when the next one does not.
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("first", 2, `"lots"`, "a"), marginOverlay("other", 2, "0.6", "b")}
	s.Reload(t.Context())
	require.Equal(t, []string{"first"}, overlaysFor(s, "a"))
	fate := s.Accepted()["first"]
	require.ErrorContains(t, fate.Err, `"lots" is not a finite number`)
	require.Equal(t, int64(1), fate.InUse)
	condition := fate.condition(time.Unix(7, 0))
	require.Equal(t, metav1.ConditionFalse, condition.Status)
	require.Contains(t, condition.Message, "generation 1 stays in use: ")
	require.Equal(t, "in use", s.Accepted()["other"].condition(time.Unix(7, 0)).Message)
}

// TestAnObjectMeansWhatTheSameDocumentInAFileMeans goes through every part that a change can bring.
func TestAnObjectMeansWhatTheSameDocumentInAFileMeans(t *testing.T) {
	const spec = `{"mode":"Audit","priority":3,"pipeline":"default","description":"d",
		"match":{"namespaces":["a"],"vpaSelector":{"matchLabels":{"tier":"gold"},"matchExpressions":[{"key":"x","operator":"Exists"}]}},
		"change":[
		{"params":{"estimate.marginFraction":0.3,"update.deferredTimeout":"7m"}},
		{"disable":"container-caps/global/max-cpu"},
		{"after":"container-caps","stage":{"name":"round","each":"bound","when":"has(now.memory)","onError":"SkipStage",
			"variables":{"after":"ceilTo(now.memory, step)","step":"mem('1Mi')"},
			"rules":[{"name":"mib","when":"after > now.memory","set":{"now.memory":"after"},"note":"rounded"},{"name":"none","when":"now.memory == 0","unset":["now.memory"]}]}},
		{"before":"update/mode-off","decision":{"name":"never","when":"pod.phase == 'Unknown'","do":"Wait","reason":"r"}},
		{"replace":"vpa-object/one-recommender","validation":{"at":"spec","enforce":["Admission"],"expression":"true","message":"m","severity":"Warn"}},
		{"replace":"requests/recommended/cpu","rule":{"set":{"requests.cpu":"recommended.cpu"},"when":"has(recommended.cpu)"}}]}`
	var o rulesv1alpha1.RuleOverlay
	o.Name = "all"
	require.NoError(t, json.Unmarshal([]byte(spec), &o.Spec))
	parsed, err := parseOverlay(&o)
	require.NoError(t, err)
	direct, err := loader.Overlay("f.yaml", []byte(`{"apiVersion":"rules.celvpa.dev/v1alpha1","kind":"RuleOverlay","metadata":{"name":"all"},"spec":`+spec+`}`))
	require.NoError(t, err)
	shipped, err := Load(Options{})
	require.NoError(t, err)
	digest := func(overlay *engine.Overlay) string {
		book, err := shipped.With(overlay)
		require.NoError(t, err)
		v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{"tier": "gold", "x": ""}}}
		shadows := For(book, v).Shadows
		require.Len(t, shadows, 1)
		return shadows[0].Plan.Digest()
	}
	require.Equal(t, "namespaces a, x, tier in (gold)", parsed.Match.String(), "keys come out sorted")
	require.Equal(t, direct.PriorityOf(), parsed.PriorityOf())
	require.Equal(t, digest(direct), digest(parsed))
}
