package policy

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// marginOverlay sets the safety margin for a namespace.
func marginOverlay(name string, generation int64, margin, namespace string) rulesv1alpha1.RuleOverlay {
	return rulesv1alpha1.RuleOverlay{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: generation},
		Spec: rulesv1alpha1.RuleOverlaySpec{
			Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{namespace}},
			Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"estimate.marginFraction": {Raw: []byte(margin)}}}},
		},
	}
}

// clusterSource follows a list of overlays that the test changes.
// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

func clusterSource(t *testing.T) (*Source, *[]rulesv1alpha1.RuleOverlay, *error) {
	t.Helper()
	s, err := NewSource(Options{Cache: &compiledSets}, time.Second, testclock.NewFakeClock(time.Unix(0, 0)), logr.Discard())
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
	require.Equal(t, map[string]Acceptance{"more": {UID: "uid-more", Generation: 1}}, s.Accepted())
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

func TestFaultyOverlayAffectsNoOther(t *testing.T) {
	s, objects, _ := clusterSource(t)
	broken := marginOverlay("broken", 1, `"much"`, "a")
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("first", 1, "0.3", "a"), broken, marginOverlay("rival", 1, "0.4", "a"), marginOverlay("other", 1, "0.5", "b")}
	s.Reload(t.Context())
	require.Equal(t, []string{"first"}, overlaysFor(s, "a"))
	require.Equal(t, []string{"other"}, overlaysFor(s, "b"))
	fates := s.Accepted()
	require.Equal(t, []float64{1, 0}, []float64{testutil.ToFloat64(overlayAccepted.WithLabelValues("first")), testutil.ToFloat64(overlayAccepted.WithLabelValues("broken"))})
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

// TestNewOverlayDoesNotDisplaceOneInForce whatever they are called, and it may come when the
// other one is gone.
func TestNewOverlayDoesNotDisplaceOneInForce(t *testing.T) {
	s, objects, _ := clusterSource(t)
	there, added := marginOverlay("payments", 1, "0.3", "a"), marginOverlay("aaa-new", 1, "0.4", "a")
	*objects = []rulesv1alpha1.RuleOverlay{there}
	s.Reload(t.Context())
	*objects = []rulesv1alpha1.RuleOverlay{added, there}
	s.Reload(t.Context())
	require.Equal(t, []string{"payments"}, overlaysFor(s, "a"))
	require.ErrorContains(t, s.Accepted()["aaa-new"].Err, "and so does RuleOverlay payments")
	*objects = []rulesv1alpha1.RuleOverlay{added}
	s.Reload(t.Context())
	require.Equal(t, []string{"aaa-new"}, overlaysFor(s, "a"))

	// An edit does not cost it its place either, not even a broken one.
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("aaa-new", 2, "0.45", "a"), there}
	s.Reload(t.Context())
	require.Equal(t, []string{"aaa-new"}, overlaysFor(s, "a"))
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("aaa-new", 3, `"lots"`, "a"), there}
	s.Reload(t.Context())
	require.Equal(t, []string{"aaa-new"}, overlaysFor(s, "a"))
	require.Equal(t, int64(2), s.Accepted()["aaa-new"].InUse)

	// Seen for the first time together, the older one wins.
	older := there
	older.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	younger := added
	younger.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	s, objects, _ = clusterSource(t)
	*objects = []rulesv1alpha1.RuleOverlay{younger, older}
	s.Reload(t.Context())
	require.Equal(t, []string{"payments"}, overlaysFor(s, "a"))
}

// TestAnotherObjectOfTheSameNameIsAnother: what was in use before it was deleted is not.
func TestAnotherObjectOfTheSameNameIsAnother(t *testing.T) {
	s, objects, _ := clusterSource(t)
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("more", 1, "0.3", "a")}
	s.Reload(t.Context())
	again := marginOverlay("more", 1, `"lots"`, "a")
	again.UID = "another"
	*objects = []rulesv1alpha1.RuleOverlay{again}
	s.Reload(t.Context())
	require.Empty(t, overlaysFor(s, "a"))
	require.Zero(t, s.Accepted()["more"].InUse)
}

// TestOverlaysAreFollowedWhileTheFilesAreBroken: an overlay can be taken back at any time.
func TestOverlaysAreFollowedWhileTheFilesAreBroken(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte(`{"apiVersion":"rules.celvpa.dev/v1alpha1","kind":"RuleOverlay","metadata":{"name":"mine"},"spec":{"change":[{"disable":"container-caps/policy/global-max"}]}}`), 0o600))
	s, logged, _ := newSource(t, dir)
	objects := []rulesv1alpha1.RuleOverlay{marginOverlay("more", 1, "0.3", "a"), marginOverlay("mine", 1, "0.3", "b")}
	list := func(context.Context) ([]rulesv1alpha1.RuleOverlay, error) { return objects, nil }
	require.NoError(t, s.Follow(t.Context(), list, list))
	require.Equal(t, []string{"mine", "more"}, overlaysFor(s, "a"))
	require.ErrorContains(t, s.Accepted()["mine"].Err, "RuleOverlay mine is defined already at "+dir)
	require.Zero(t, s.Accepted()["mine"].InUse, "files win over objects of the same name")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("kind: ["), 0o600))
	objects = objects[1:]
	*logged = nil
	settled(t, s)
	s.Reload(t.Context())
	require.Equal(t, []string{"mine"}, overlaysFor(s, "a"), "the files stay as they were, the overlay is gone")
	require.Len(t, slices.DeleteFunc(slices.Clone(*logged), func(l string) bool { return !strings.Contains(l, "the changed rules cannot be used") }), 1)
	require.NoError(t, os.Remove(filepath.Join(dir, "broken.yaml")))
	s.Reload(t.Context())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte("kind: ["), 0o600))
	settled(t, s)
	require.Len(t, slices.DeleteFunc(slices.Clone(*logged), func(l string) bool { return !strings.Contains(l, "the changed rules cannot be used") }), 2, "a new fault is reported again")
}

// TestChangedFilesAreUsedWhenTheListingThatFailedMeanwhileWorksAgain.
func TestChangedFilesAreUsedWhenTheListingThatFailedMeanwhileWorksAgain(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) {
		text := `{"apiVersion":"rules.celvpa.dev/v1alpha1","kind":"RuleOverlay","metadata":{"name":"` + name + `"},"spec":{"match":{"namespaces":["` + name + `"]},"change":[{"disable":"container-caps/policy/global-max"}]}}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600))
	}
	file("one")
	s, _, _ := newSource(t, dir)
	var failure error
	list := func(context.Context) ([]rulesv1alpha1.RuleOverlay, error) { return nil, failure }
	require.NoError(t, s.Follow(t.Context(), list, list))
	failure = errors.New("no connection")
	file("two")
	settled(t, s)
	require.Empty(t, overlaysFor(s, "two"))
	failure = nil
	s.Reload(t.Context())
	require.Equal(t, []string{"two"}, overlaysFor(s, "two"))
}

// TestAnObjectMeansWhatTheSameDocumentInAFileMeans goes through every part that a change can bring.
func TestAnObjectMeansWhatTheSameDocumentInAFileMeans(t *testing.T) {
	const spec = `{"mode":"Audit","priority":3,"pipeline":"default","description":"d",
		"match":{"namespaces":["a"],"vpaSelector":{"matchLabels":{"tier":"gold"},"matchExpressions":[{"key":"x","operator":"Exists"}]}},
		"change":[
		{"params":{"estimate.marginFraction":0.3,"deferredTimeout":"7m"}},
		{"disable":"container-caps/policy/global-max[cpu]"},
		{"after":"container-caps","stage":{"name":"round","each":"bound","when":"has(now.memory)","onError":"SkipStage",
			"variables":{"after":"ceilTo(now.memory, step)","step":"mem('1Mi')"},
			"rules":[{"name":"mib","when":"after > now.memory","set":{"now.memory":"after"},"note":"rounded"},{"name":"none","when":"now.memory == 0","unset":["now.memory"]}]}},
		{"before":"eligibility/mode-off","decision":{"name":"never","when":"pod.phase == 'Unknown'","do":"Wait","reason":"r"}},
		{"replace":"vpa-object/one-recommender","validation":{"at":"spec","enforce":["Admission"],"expression":"true","message":"m","severity":"Warn"}},
		{"replace":"requests/recommended","stage":{"each":["container","resource"],"without":["memory"],"rules":[{"name":"request","set":{"requests[resource]":"recommended[resource]"},"when":"resource in recommended","unset":"withheld[resource]"}]}}]}`
	var o rulesv1alpha1.RuleOverlay
	o.Name = "all"
	require.NoError(t, json.Unmarshal([]byte(spec), &o.Spec))
	parsed, err := parseOverlay(&o)
	require.NoError(t, err)
	direct, err := loader.Overlay("f.yaml", []byte(`{"apiVersion":"rules.celvpa.dev/v1alpha1","kind":"RuleOverlay","metadata":{"name":"all"},"spec":`+spec+`}`))
	require.NoError(t, err)
	shipped, err := Load(Options{Cache: &compiledSets})
	require.NoError(t, err)
	digest := func(overlay *document.Overlay) string {
		book, err := shipped.With(overlay)
		require.NoError(t, err)
		v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{"tier": "gold", "x": ""}}}
		shadows := For(book, v).Shadows
		require.Len(t, shadows, 1)
		return shadows[0].Plan.Digest()
	}
	require.Equal(t, "namespaces a, x, tier=gold", parsed.Match.String(), "keys come out sorted")
	require.Equal(t, direct.PriorityOf(), parsed.PriorityOf())
	require.Equal(t, digest(direct), digest(parsed))
}
