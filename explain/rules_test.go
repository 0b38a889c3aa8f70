package explain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/explain/ask"
)

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

// shippedRules are those at the points that explanations ask.
var shippedRules = sync.OnceValue(func() *compile.Rulebook {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Points: Points})
	if err != nil {
		panic(err)
	}
	return book
})

// overlaid are the shipped rules with changes by an overlay.
func overlaid(t *testing.T, changes string) *compile.Rulebook {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: own}\nspec: {change: ["+changes+"]}\n"), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: file, Points: Points})
	require.NoError(t, err)
	return book
}

const (
	youngestFirst  = `{replace: vpa-order/age/oldest-first, rule: {name: youngest-first, set: {order.first: created}}}`
	wildcardAlways = `{replace: container-policy/named, decision: {when: named, do: Ignore}}`
)

// Regression: maxAllowed was that of the policy with the container's name, whatever the rules of container.policy decide.
func TestMaxAllowedIsThatOfThePolicyThatRulesChoose(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{
		{ContainerName: "app", MaxAllowed: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		{ContainerName: "*", MaxAllowed: corev1.ResourceList{"cpu": resource.MustParse("3")}},
	}}
	tokens := func(limit string, book *compile.Rulebook) []string {
		p := pod("a", nil)
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}}}
		one := planned("a", "Skip", "", "")
		one.Steps = []engine.Step{{RuleSet: "proportional-limits", Stage: "follow", Rule: "request", Item: "app", Field: "limits.cpu", To: limit}}
		o := &objects{vpa: v, pods: []corev1.Pod{p}}
		o.ruledBy(book)
		return tokensOf(o.limitFindings(o.podsOf([]answers.RunningPod{one})))
	}
	require.Equal(t, []string{"limit-above-max-allowed: a new pod would get the cpu limit 2, by proportional-limits/follow/request: maxAllowed 1 bounds requests only"}, tokens("2", shippedRules()))
	own := overlaid(t, wildcardAlways)
	require.Empty(t, tokens("2", own), "the wildcard's counts, and is 3")
	require.Equal(t, []string{"limit-above-max-allowed: a new pod would get the cpu limit 4, by proportional-limits/follow/request: maxAllowed 3 bounds requests only"}, tokens("4", own))
	require.Empty(t, tokens("4", nil), "nobody knows which counts")
}

// Regression: of several VPAs of one target the oldest was explained, whatever the rules of vpa.order decide, unless the updater
// answered.
func TestTheVPAOfASharedTargetIsTheFirstByTheRules(t *testing.T) {
	old, young := vpaOf("b-old", "Deployment", "web"), vpaOf("c-young", "Deployment", "web")
	old.CreationTimestamp, young.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	latest := vpaOf("a-latest", "Deployment", "web")
	latest.CreationTimestamp = metav1.NewTime(time.Unix(3, 0))
	c := api(t, old, young, latest,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}},
		&appsv1.ReplicaSet{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1"}, "apps/v1", "Deployment", "web")},
		&corev1.Pod{ObjectMeta: owned(metav1.ObjectMeta{Name: "web-1-x"}, "apps/v1", "ReplicaSet", "web-1")})
	for want, book := range map[string]*compile.Rulebook{"shop/b-old": shippedRules(), "shop/a-latest": overlaid(t, youngestFirst)} {
		for _, s := range []Subject{{Kind: "Pod", Name: "web-1-x"}, {Kind: "Deployment", Name: "web"}, {Name: "web"}} {
			s.Namespace = "shop"
			r, err := Explain(t.Context(), Options{Client: c, Now: time.Unix(4, 0), Rules: book}, s)
			require.NoError(t, err)
			require.Equal(t, want, r.VPA, "%+v", s)
		}
	}
}

// TestRuleOverlaysOfTheClusterCount, unless they cannot be used.
func TestRuleOverlaysOfTheClusterCount(t *testing.T) {
	overlay := func(name, changes string) *rulesv1alpha1.RuleOverlay {
		read, unknown, err := rulesv1alpha1.Decode([]byte(`{"apiVersion": "rules.celvpa.dev/v1alpha1", "kind": "RuleOverlay", "metadata": {"name": "` + name + `"}, "spec": {"change": [` + changes + `]}}`))
		require.NoError(t, errors.Join(append(unknown, err)...))
		return read
	}
	c := api(t, overlay("own", `{"replace": "vpa-order/age/oldest-first", "rule": {"name": "youngest-first", "set": {"order.first": "created"}}}`),
		overlay("broken", `{"disable": "no-such-rules"}`))
	old, young := vpaOf("old", "Deployment", "web"), vpaOf("young", "Deployment", "web")
	old.CreationTimestamp, young.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	in, notes := RulesIn(t.Context(), c, shippedRules())
	require.Empty(t, notes)
	require.Positive(t, orderBy(in)(old, young))
	require.Negative(t, orderBy(shippedRules())(old, young))

	unread := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no route to host")
	}})
	in, notes = RulesIn(t.Context(), unread, shippedRules())
	require.Negative(t, orderBy(in)(old, young))
	require.Len(t, notes, 1)
	require.Regexp(t, "^what the RuleOverlays of the cluster change: .*no route to host$", notes[0])
}

// TestWhatIsUnknownOfTheRulesIsSaidOnce, though the simulation reads RuleOverlays, too.
func TestWhatIsUnknownOfTheRulesIsSaidOnce(t *testing.T) {
	const note = "the answer is without the RuleOverlays of the cluster"
	options := Options{Client: api(t, vpaOf("web", "Deployment", "web")), Now: time.Unix(1, 0), Unknown: []string{note},
		Ask: func(context.Context, string, string) (*ask.Result, error) { return &ask.Result{}, nil },
		Simulate: func(context.Context, *vpav1.VerticalPodAutoscaler) (Simulated, error) {
			return Simulated{Notes: []string{note, "and another"}}, nil
		}}
	r, err := Explain(t.Context(), options, Subject{Namespace: "shop", Kind: vpaKind, Name: "web"})
	require.NoError(t, err)
	require.Equal(t, []string{note, "and another"}, r.Unknown[:2])
}
