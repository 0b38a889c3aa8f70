package vpareview

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

func plan(t testing.TB, gates ...string) *engine.Plan {
	t.Helper()
	on := map[string]bool{}
	for _, g := range gates {
		on[g] = true
	}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: on})
	require.NoError(t, err)
	return book.Default()
}

// changed is the plan of the shipped rules with the changes of an overlay, a YAML list.
func changed(t testing.TB, changes string, gates ...string) *engine.Plan {
	t.Helper()
	on := map[string]bool{}
	for _, g := range gates {
		on[g] = true
	}
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: on, Path: writeRules(t, "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec:\n  change:"+changes)})
	require.NoError(t, err)
	plan, err := book.Everywhere()
	require.NoError(t, err)
	return plan
}

// vpa is the JSON of an object called web with a target and whatever else its spec has.
func vpa(t testing.TB, spec string) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte("{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {namespace: shop, name: web}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, " + spec + "}}"))
	require.NoError(t, err)
	return out
}

func lines(causes []Cause) (out []string) {
	for _, c := range causes {
		out = append(out, c.String())
	}
	return out
}

func TestDefaultsArePatched(t *testing.T) {
	rules := plan(t, "RequestToLimitRatio")
	for name, tt := range map[string]struct{ spec, patch string }{
		"no update policy": {``, `[{"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]`},
		"a mode":           {`updatePolicy: {updateMode: Initial}`, `null`},
		"the AEP's spelling of requestToLimitRatio, in one of two policies": {
			`updatePolicy: {updateMode: Initial}, resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: b, RequestToLimitRatio: {cpu: {type: Factor, factor: 1.2}, memory: {type: Quantity, quantity: 200Mi}}}]}`,
			`[{"op":"remove","path":"/spec/resourcePolicy/containerPolicies/1/RequestToLimitRatio"},
			  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/1/requestToLimitRatio","value":{"cpu":{"type":"Factor","factor":1.2},"memory":{"type":"Quantity","quantity":"200Mi"}}}]`},
		"both": {
			`resourcePolicy: {containerPolicies: [{containerName: "*", RequestToLimitRatio: {cpu: {type: Factor, factor: 2}}}]}`,
			`[{"op":"remove","path":"/spec/resourcePolicy/containerPolicies/0/RequestToLimitRatio"},
			  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/0/requestToLimitRatio","value":{"cpu":{"type":"Factor","factor":2}}},
			  {"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := Review(rules, Read(vpa(t, tt.spec), nil, ""))
			require.Empty(t, lines(answer.Causes))
			require.Empty(t, answer.Failed)
			got, err := json.Marshal(answer.Patch)
			require.NoError(t, err)
			require.JSONEq(t, tt.patch, string(got))
		})
	}
	refused := Review(rules, Read(vpa(t, "recommenders: [{name: a}, {name: b}]"), nil, ""))
	require.False(t, refused.Allowed())
	require.Empty(t, refused.Patch, "what is refused gets no defaults")
}

// TestARequestCanBeReviewedAgain: overlays that are tried see the object as it was written, without defaults.
func TestARequestCanBeReviewedAgain(t *testing.T) {
	rules, request := plan(t), Read(vpa(t, ""), nil, "")
	first := Review(rules, request)
	require.Len(t, first.Patch, 1)
	require.Equal(t, first, Review(rules, request))
}

// TestOperatorsDefaults may reach into what is not there yet.
func TestOperatorsDefaults(t *testing.T) {
	rules := changed(t, `
  - after: defaults/update-policy
    stage: {name: replicas, rules: [{name: two, when: "!has(spec.updatePolicy.minReplicas)", set: {spec.updatePolicy.minReplicas: "2"}}]}
  - after: defaults/spelling
    stage:
      name: bounds
      each: containerPolicy
      rules:
      - {name: most, when: "!has(policy.maxAllowed.cpu)", set: {policy.maxAllowed.cpu: cpu('1500m'), policy.maxAllowed.memory: mem('2Gi')}}
      - {name: least, when: container == 'b', unset: [policy.minAllowed.memory]}
`)
	answer := Review(rules, Read(vpa(t, `resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: b, minAllowed: {cpu: 1, memory: 1Gi}, maxAllowed: {memory: 4Gi}}]}`), nil, ""))
	require.Empty(t, lines(answer.Causes))
	got, err := json.Marshal(answer.Patch)
	require.NoError(t, err)
	require.JSONEq(t, `[
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/0/maxAllowed","value":{"cpu":"1500m","memory":"2Gi"}},
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/1/maxAllowed/cpu","value":"1500m"},
	  {"op":"replace","path":"/spec/resourcePolicy/containerPolicies/1/maxAllowed/memory","value":"2Gi"},
	  {"op":"remove","path":"/spec/resourcePolicy/containerPolicies/1/minAllowed/memory"},
	  {"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate","minReplicas":2}}]`, string(got))
}

func TestOperatorsDefaultsMayBeAnyFieldOfTheSpec(t *testing.T) {
	rules := changed(t, `
  - after: defaults/update-policy
    stage:
      name: anything
      rules:
      - {name: boost, when: "!has(spec.startupBoost)", set: {spec.startupBoost.cpu.type: "'Factor'", spec.startupBoost.cpu.factor: "2", spec.startupBoost.cpu.durationSeconds: "30"}}
      - {name: pod, set: {spec.resourcePolicy.podPolicies.maxAllowed.cpu: cpu('4')}}
      - {name: keep, when: has(spec.updatePolicy.evictionRequirements), set: {spec.updatePolicy.evictionRequirements: "spec.updatePolicy.evictionRequirements.filter(r, r.changeRequirement == 'TargetHigherThanRequests')"}}
  - after: defaults/spelling
    stage:
      name: values
      each: containerPolicy
      rules:
      - {name: requests-only, when: "!has(policy.controlledValues)", set: {policy.controlledValues: "'RequestsOnly'"}}
      - {name: quantities, when: container == 'a', set: {policy.memoryPerCPU: "'4Gi'", policy.controlledResources: "['cpu']"}}
      - {name: nothing-there, unset: [policy.startupBoost.cpu.factor]}
  - after: defaults/spelling
    stage: {name: others, each: wildcardPolicy, rules: [{name: requests-only, set: {policy.controlledValues: "'RequestsOnly'"}}]}
`, "CPUStartupBoost", "PodLevelResources", "MemoryPerCPURatio")
	for name, tt := range map[string]struct{ spec, patch string }{
		"nothing is there": {``, `[
	  {"op":"add","path":"/spec/resourcePolicy","value":{"podPolicies":{"maxAllowed":{"cpu":"4"}},"containerPolicies":[{"containerName":"*","controlledValues":"RequestsOnly"}]}},
	  {"op":"add","path":"/spec/startupBoost","value":{"cpu":{"type":"Factor","factor":2,"durationSeconds":30}}},
	  {"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}]`},
		"policies, a boost and requirements": {
			`startupBoost: {cpu: {type: Factor, factor: 3}}, updatePolicy: {updateMode: Initial, evictionRequirements: [{resources: [cpu], changeRequirement: TargetHigherThanRequests}, {resources: [memory], changeRequirement: TargetLowerThanRequests}]},
			resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: b, controlledValues: RequestsAndLimits}]}`, `[
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/2","value":{"containerName":"*","controlledValues":"RequestsOnly"}},
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/0/controlledResources","value":["cpu"]},
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/0/controlledValues","value":"RequestsOnly"},
	  {"op":"add","path":"/spec/resourcePolicy/containerPolicies/0/memoryPerCPU","value":"4Gi"},
	  {"op":"add","path":"/spec/resourcePolicy/podPolicies","value":{"maxAllowed":{"cpu":"4"}}},
	  {"op":"remove","path":"/spec/updatePolicy/evictionRequirements/1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := Review(rules, Read(vpa(t, tt.spec), nil, ""))
			require.Empty(t, lines(answer.Causes))
			require.Empty(t, lines(answer.Warnings))
			got, err := json.Marshal(answer.Patch)
			require.NoError(t, err)
			require.JSONEq(t, tt.patch, string(got))
		})
	}
}

func TestADefaultOfAnUnknownFieldIsAnErrorAtItsPlace(t *testing.T) {
	for set, want := range map[string]string{
		`spec.updatePolicy.minReplica: "2"`:         `"spec.updatePolicy.minReplica": SpecUpdatePolicy has no field "minReplica"; it has evictAfterOOMSeconds, evictionRequirements, minReplicas, updateMode`,
		`spec.updatePolicy.minReplicas: "'two'"`:    "the expression gives string, the field holds int",
		`policy.controlledValues: "'RequestsOnly'"`: `"policy.controlledValues" belongs to the items of containerPolicy, wildcardPolicy; give the stage each: containerPolicy`,
	} {
		_, err := policy.Load(policy.Options{Cache: &compiledSets, Path: writeRules(t, "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec:\n  change:\n"+
			"  - {after: defaults/update-policy, stage: {name: mine, rules: [{name: mine, set: {"+set+"}}]}}\n")})
		require.ErrorContains(t, err, want, set)
		require.ErrorContains(t, err, ".yaml:6:", set)
	}
}

func TestWhatHasTheWrongTypeIsNamedWithAllElseThatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		object string
		want   []string
	}{
		"no JSON":   {`{`, []string{"the object cannot be read: unexpected end of JSON input (rule schema)"}},
		"null":      {`null`, []string{"the object cannot be read: it is empty (rule schema)"}},
		"a list":    {`[]`, []string{"the object cannot be read: json: cannot unmarshal array into Go value of type map[string]interface {} (rule schema)"}},
		"text spec": {`{"spec":"x"}`, []string{`spec: Invalid value: "string": spec in body must be of type object: "string" (rule schema)`}},
		"a text for a number, and a fault": {
			`{"spec":{"updatePolicy":{"minReplicas":"two"},"recommenders":[{"name":"a"},{"name":"b"}]}}`,
			[]string{
				`spec.updatePolicy.minReplicas: Invalid value: "string": spec.updatePolicy.minReplicas in body must be of type integer: "string" (rule schema)`,
				"spec.recommenders: at most one recommender can serve an object (rule vpa-object/one-recommender)",
				"spec.updatePolicy.updateMode: updateMode is required in updatePolicy: use Off, Initial, Recreate, InPlaceOrRecreate or InPlace (rule vpa-object/update-mode-required)",
			}},
		"a number that does not fit": {
			`{"spec":{"updatePolicy":{"updateMode":"Off","minReplicas":9223372036854775807}}}`,
			[]string{"spec.updatePolicy.minReplicas: Invalid value: 9223372036854775807: must be a whole number from -2147483648 to 2147483647 (rule schema)"}},
		// Regression: the number was dropped beside another fault of the schema.
		"a number that does not fit, and another fault": {
			`{"spec":{"updatePolicy":{"updateMode":"Off","minReplicas":3000000000},"recommenders":[{}]}}`,
			[]string{
				"spec.recommenders[0].name: Required value (rule schema)",
				"spec.updatePolicy.minReplicas: Invalid value: 3000000000: must be a whole number from -2147483648 to 2147483647 (rule schema)",
			}},
		"an entry that is null": {
			`{"spec":{"resourcePolicy":{"containerPolicies":[null]}}}`,
			[]string{`spec.resourcePolicy.containerPolicies[0]: Invalid value: "null": spec.resourcePolicy.containerPolicies[0] in body must be of type object: "null" (rule schema)`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(Review(plan(t), Read([]byte(tt.object), nil, "")).Causes)
			require.Len(t, got, len(tt.want), "%q", got)
			for i := range tt.want {
				require.Contains(t, got[i], tt.want[i])
			}
		})
	}
	require.Equal(t, []string{"the old object cannot be read: unexpected end of JSON input (rule schema)"},
		lines(Review(plan(t), Read(vpa(t, ""), []byte("{"), "")).Causes))
}

// TestWhatIsWrittenMustFitThoughWhatIsStoredNeedNot: stored objects are read as far as they can be, but nobody may write one
// that does not fit: it is refused by the name of its field.
func TestWhatIsWrittenMustFitThoughWhatIsStoredNeedNot(t *testing.T) {
	for name, tt := range map[string]struct{ object, field string }{
		"a number for the version of the target": {`{"metadata":{"namespace":"web","name":"shop"},"spec":{"targetRef":{"apiVersion":7,"kind":"Deployment","name":"shop"}}}`, "spec.targetRef.apiVersion"},
		"a list for the policy":                  {`{"metadata":{"namespace":"web","name":"shop"},"spec":{"targetRef":{"kind":"Deployment","name":"shop"},"updatePolicy":[]}}`, "spec.updatePolicy"},
		"a text for the conditions":              {`{"metadata":{"namespace":"web","name":"shop"},"spec":{"targetRef":{"kind":"Deployment","name":"shop"}},"status":{"conditions":"none"}}`, "status.conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			var stored vpav1.VerticalPodAutoscaler
			require.NoError(t, json.Unmarshal([]byte(tt.object), &stored))
			require.NotEmpty(t, stored.Unreadable())
			for _, old := range []string{"", `{"spec":{"targetRef":{"kind":"Deployment","name":"shop"}}}`} {
				answer := Review(plan(t), Read([]byte(tt.object), []byte(old), ""))
				require.False(t, answer.Allowed(), "old object %s", old)
				require.Equal(t, tt.field, answer.Causes[0].Field, "%q", lines(answer.Causes))
			}
		})
	}
}

// BenchmarkReview judges one VPA of the usual size, and one with a hundred policies.
func BenchmarkReview(b *testing.B) {
	rules := plan(b)
	policies := `{containerName: app, mode: Auto, minAllowed: {cpu: 50m, memory: 64Mi}, maxAllowed: {cpu: 2, memory: 4Gi}, controlledResources: [cpu, memory], controlledValues: RequestsAndLimits}`
	small := vpa(b, "updatePolicy: {updateMode: Recreate, minReplicas: 2}, resourcePolicy: {containerPolicies: ["+policies+"]}")
	many := ""
	for i := range 100 {
		many += policies[:len("{containerName: app")] + string(rune('a'+i/26)) + string(rune('a'+i%26)) + policies[len("{containerName: app"):] + ","
	}
	for name, c := range map[string]struct{ object, old []byte }{
		"create":       {object: small},
		"update":       {object: small, old: small},
		"100-policies": {object: vpa(b, "resourcePolicy: {containerPolicies: ["+many+"]}")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if answer := Review(rules, Read(c.object, c.old, "")); !answer.Allowed() {
					b.Fatal(answer.Causes)
				}
			}
		})
	}
}

// TestNoRuleRunsOnWhatIsTooLarge: comparing the names of that many policies would hold the webhook up for minutes, and it is
// asked before the API server looks at sizes.
func TestNoRuleRunsOnWhatIsTooLarge(t *testing.T) {
	many := func(n int) string {
		return "resourcePolicy: {containerPolicies: [" + strings.Repeat("{containerName: a},", n) + "]}"
	}
	rules := plan(t)
	require.Equal(t, []string{"spec.resourcePolicy.containerPolicies: Too large: 20000 entries, at most 100 are allowed (rule schema)"},
		lines(Review(rules, Read(vpa(t, many(20000)), nil, "")).Causes))
	long := strings.Repeat("x", 64)
	require.Equal(t, []string{
		"spec.resourcePolicy.containerPolicies[1].containerName: Too large: 64 characters, at most 63 are allowed (rule schema)",
		"spec.resourcePolicy.containerPolicies[1].maxAllowed.cpu: Too large: 65 characters, at most 64 are allowed (rule schema)",
	}, lines(Review(rules, Read(vpa(t, "resourcePolicy: {containerPolicies: [{containerName: a}, {containerName: "+long+", maxAllowed: {cpu: '1"+strings.Repeat("0", 64)+"'}}]}"), nil, "")).Causes))
	digits := "spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio: Invalid value: an exponent has at most three digits; write it like 500m, 2 or 1Gi (rule schema)"
	for _, endless := range []string{"1e999999999", "1E-999999999", "1e+1000"} {
		object := vpa(t, "resourcePolicy: {containerPolicies: [{containerName: a, oomBumpUpRatio: '"+endless+"'}]}")
		require.Equal(t, []string{digits}, lines(Review(rules, Read(object, nil, "")).Causes))
		other := vpa(t, "resourcePolicy: {containerPolicies: [{containerName: a, mode: 'Off', oomBumpUpRatio: '"+endless+"'}]}")
		require.Equal(t, []string{digits}, lines(Review(rules, Read(object, other, "")).Causes), "rules would run on it")
		require.Equal(t, Answer{Warnings: Review(rules, Read(object, nil, "")).Causes}, Review(rules, Read(relabelled(object), object, "")))
	}

	before := vpa(t, many(101))
	same := Review(rules, Read(relabelled(before), before, ""))
	require.True(t, same.Allowed(), "what was stored before there were bounds stays editable")
	require.Contains(t, lines(same.Warnings)[0], "two policies have the same containerName")
	require.False(t, Review(rules, Read(vpa(t, many(102)), before, "")).Allowed())
}

// TestWhatHasNoSpecGetsNoDefault: with one it would have a spec, and the CRD would not refuse it any more.
func TestWhatHasNoSpecGetsNoDefault(t *testing.T) {
	for _, object := range []string{`{}`, `{"metadata":{"name":"a"}}`, `{"spec":null}`} {
		require.Empty(t, Review(plan(t), Read([]byte(object), nil, "")).Patch, object)
	}
}

// TestDefaultsForEntriesThatAreNone once panicked, which let the object through unjudged.
func TestDefaultsForEntriesThatAreNone(t *testing.T) {
	rules := changed(t, `
  - after: defaults/spelling
    stage: {name: values, each: containerPolicy, rules: [{name: r, when: "!has(policy.controlledValues)", set: {policy.controlledValues: "'RequestsOnly'", policy.maxAllowed.cpu: cpu('1')}}]}
`)
	for _, entry := range []string{"null", "7", `"text"`, `{containerName: a, maxAllowed: 7}`} {
		object := vpa(t, "resourcePolicy: {containerPolicies: ["+entry+"]}")
		require.NotPanics(t, func() { Review(rules, Read(object, object, "")) }, entry)
	}
}

// The submitter gets a warning.
func TestDefaultsThatWouldMakeTheObjectInvalidAreLeftOut(t *testing.T) {
	rules := changed(t, `
  - {after: defaults/update-policy, stage: {name: replicas, rules: [{name: none, set: {spec.updatePolicy.minReplicas: "0"}}]}}
`)
	answer := Review(rules, Read(vpa(t, ""), nil, ""))
	require.True(t, answer.Allowed())
	require.Empty(t, answer.Patch)
	require.Equal(t, []string{"the defaults are left out, because with them the object would not be valid: spec.updatePolicy.minReplicas: minReplicas must be greater than 0 (rule vpa-object/min-replicas-positive) (rule vpa.default)"}, lines(answer.Warnings))

	rules = changed(t, `
  - {after: defaults/spelling, stage: {name: values, each: wildcardPolicy, rules: [{name: wrong, set: {policy.controlledValues: "'Requests'"}}]}}
`)
	answer = Review(rules, Read(vpa(t, ""), nil, ""))
	require.True(t, answer.Allowed())
	require.Empty(t, answer.Patch)
	require.Len(t, answer.Warnings, 1)
	require.Contains(t, answer.Warnings[0].Message, `the defaults are left out, because with them the object would not be valid: spec.resourcePolicy.containerPolicies[0].controlledValues: Unsupported value: "Requests"`)
}

// TestWhatAnOverlayInModeWarnWouldSayIsAWarning in both directions; one in mode Audit says nothing here.
func TestWhatAnOverlayInModeWarnWouldSayIsAWarning(t *testing.T) {
	const stricter = `{after: vpa-object/min-replicas-positive, validation: {name: two, at: spec.updatePolicy, enforce: [Admission], expression: "self.minReplicas > 1", message: two, fieldPath: .minReplicas}}`
	auto := func(replicas int) string {
		return fmt.Sprintf(`,"updatePolicy":{"updateMode":"Auto","minReplicas":%d}`, replicas)
	}
	for name, tt := range map[string]struct{ mode, change, policy, want string }{
		"stricter":             {mode: "Warn", change: stricter, policy: auto(1), want: "spec.updatePolicy.minReplicas: RuleOverlay mine (Warn) would refuse this: two (rule vpa-object/two)"},
		"stricter, and valid":  {mode: "Warn", change: stricter, policy: auto(2)},
		"stricter, in Audit":   {mode: "Audit", change: stricter, policy: auto(1)},
		"allowing more":        {mode: "Warn", change: "{disable: vpa-object/min-replicas-positive}", policy: auto(0), want: "spec.updatePolicy.minReplicas: RuleOverlay mine (Warn) would not refuse this: minReplicas must be greater than 0 (rule vpa-object/min-replicas-positive)"},
		"warning less":         {mode: "Warn", change: "{disable: vpa-object/auto-is-deprecated}", policy: auto(2), want: "spec.updatePolicy.updateMode: RuleOverlay mine (Warn) would not warn: update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate (rule vpa-object/auto-is-deprecated)"},
		"other defaults":       {mode: "Warn", change: "{disable: defaults/update-policy/recreate}", want: `RuleOverlay mine (Warn) would not change the object by {"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}} (rule vpa.default)`},
		"of other validations": {mode: "Warn", change: "{disable: vpa-object/one-recommender}", policy: auto(0)},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: writeRules(t,
				"{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: mine}, spec: {mode: "+tt.mode+", change: ["+tt.change+"]}}")})
			require.NoError(t, err)
			req := Read([]byte(`{"metadata":{"name":"a"},"spec":{"targetRef":{"kind":"Deployment","name":"a"}`+tt.policy+`}}`), nil, "")
			chosen := policy.For(book, &vpav1.VerticalPodAutoscaler{})
			var got string
			for _, shadow := range chosen.Shadows {
				for _, c := range ShadowWarnings(shadow, Differences(Review(chosen.Plan, req), Review(shadow.Plan, req))) {
					got += fmt.Sprint(c)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// writeRules puts rules into a file of their own.
func writeRules(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestWhatWorksAgainstTheObjectIsWarnedAbout(t *testing.T) {
	hpa := func(name, target string, metrics ...autoscalingv2.MetricSpec) autoscalingv2.HorizontalPodAutoscaler {
		return autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}, Metrics: metrics,
			},
		}
	}
	resource := func(name corev1.ResourceName) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: name}}
	}
	ofContainer := func(container string) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: container}}
	}
	inGroup := func(h autoscalingv2.HorizontalPodAutoscaler, apiVersion string) autoscalingv2.HorizontalPodAutoscaler {
		h.Spec.ScaleTargetRef.APIVersion = apiVersion
		return h
	}
	other := func(name, namespace, spec string) vpav1.VerticalPodAutoscaler {
		v, err := vpav1.Decode(vpa(t, spec))
		require.NoError(t, err)
		v.Name, v.Namespace = name, namespace
		return *v
	}
	const cpu, memory = "cpu", "memory"
	const fight = " scales the same target on "
	for name, tt := range map[string]struct {
		spec   string
		beside facts.Beside
		want   []string
	}{
		"nothing": {beside: facts.Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("web", "shop", ""), other("web", "elsewhere", "")}, HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "db")}}},
		"an HPA on CPU and another on both": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("b", "web", resource(cpu), resource(memory)), hpa("a", "web", resource(cpu))}},
			want: []string{"HorizontalPodAutoscaler a, HorizontalPodAutoscaler b scale the same target on cpu", "HorizontalPodAutoscaler b" + fight + "memory"}},
		"an HPA of several clusters is named once": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", resource(cpu)), hpa("a", "web", resource(memory)), hpa("a", "web", resource(cpu))}},
			want: []string{"HorizontalPodAutoscaler a" + fight + "cpu", "HorizontalPodAutoscaler a" + fight + "memory"}},
		"an HPA on a container that is left alone": {spec: `resourcePolicy: {containerPolicies: [{containerName: app, controlledResources: [memory]}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"))}}},
		"an HPA on a container that the wildcard leaves alone": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: other}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"))}}},
		"an HPA on a container that is sized": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: app}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", ofContainer("app"), ofContainer("other"))}},
			want:   []string{"HorizontalPodAutoscaler a (container app)" + fight + "cpu"}},
		"an HPA on the extensions group of its target": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{inGroup(hpa("a", "web"), "extensions/v1beta1")}},
			want: []string{"HorizontalPodAutoscaler a" + fight + "cpu"}},
		"an HPA on a kind of the same name elsewhere": {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{inGroup(hpa("a", "web"), "example.com/v1")}}},
		"an HPA that names no metric":                 {beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}}, want: []string{"HorizontalPodAutoscaler a" + fight + "cpu"}},
		"an HPA on what is not controlled": {spec: `resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [memory]}]}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web", resource(cpu))}}},
		"recommendations only": {spec: `updatePolicy: {updateMode: "Off"}`,
			beside: facts.Beside{HPAs: []autoscalingv2.HorizontalPodAutoscaler{hpa("a", "web")}, VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", "")}}},
		"another VPA": {beside: facts.Beside{VPAs: []vpav1.VerticalPodAutoscaler{other("b", "shop", ""), other("c", "shop", `updatePolicy: {updateMode: "Off"}`)}},
			want: []string{"VerticalPodAutoscaler b has the same target"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := Read(vpa(t, tt.spec), nil, "")
			request.Beside = tt.beside
			answer := Review(plan(t), request)
			require.True(t, answer.Allowed())
			got := lines(answer.Warnings)
			require.Len(t, got, len(tt.want), "%q", got)
			for i := range tt.want {
				require.Contains(t, got[i], "spec.targetRef: "+tt.want[i])
			}
		})
	}
}
