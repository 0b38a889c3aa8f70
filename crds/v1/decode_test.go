package v1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const goodStatus = `{"observedGeneration":3,"conditions":[{"type":"NoPodsMatched","status":"True"}],
	"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"1"}}]}}`

func stored(spec, status string) string {
	return `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"v","namespace":"ns","uid":"u","labels":{"a":"b"}},` +
		`"spec":` + spec + `,"status":` + status + `}`
}

func TestUnreadablePartsOfAStoredObjectAreReported(t *testing.T) {
	const about = `"targetRef":{"kind":"Deployment","name":"web"},"recommenders":[{"name":"frugal"}]`
	tests := []struct {
		name, spec, status       string
		wantSpec, wantStatus     string
		targetless, recommending bool
	}{
		{name: "all can be read", spec: `{` + about + `}`, status: goodStatus, recommending: true},
		{name: "an unknown field is left out", spec: `{` + about + `,"surprise":1}`, status: goodStatus, recommending: true},
		{name: "a quantity", spec: `{` + about + `,"updatePolicy":{"updateMode":"Off"},"resourcePolicy":{"containerPolicies":[{"containerName":"a"},{"minAllowed":{"cpu":"1","memory":"1e1.5"}}]}}`,
			status: goodStatus, recommending: true, wantSpec: `spec.resourcePolicy.containerPolicies[1].minAllowed.memory cannot be read: it is "1e1.5": `},
		{name: "a number that is text", spec: `{` + about + `,"updatePolicy":{"minReplicas":"two"}}`, status: goodStatus, recommending: true,
			wantSpec: `spec.updatePolicy.minReplicas cannot be read: it is "two": `},
		{name: "the target itself", spec: `{"targetRef":7}`, status: goodStatus, recommending: true, targetless: true,
			wantSpec: `spec.targetRef cannot be read: it is 7: `},
		{name: "a spec that is a list", spec: `[]`, status: goodStatus, recommending: true, targetless: true, wantSpec: `spec cannot be read: it is []: `},
		{name: "a value that is long", spec: `{"targetRef":"` + strings.Repeat("x", 1000) + `"}`, status: goodStatus, recommending: true, targetless: true,
			wantSpec: `spec.targetRef cannot be read: it is "` + strings.Repeat("x", 59) + `...: `},
		{name: "the recommendation", spec: `{` + about + `}`,
			status:     strings.Replace(goodStatus, `"1"`, `"1e1.5"`, 1),
			wantStatus: `status.recommendation.containerRecommendations[0].target.cpu cannot be read: it is "1e1.5": `},
		{name: "a quantity that takes for ever", spec: `{` + about + `,"resourcePolicy":{"containerPolicies":[{},{"maxAllowed":{"cpu":"1e-999999999"}}]}}`,
			status: goodStatus, recommending: true,
			wantSpec: `spec.resourcePolicy.containerPolicies[1].maxAllowed.cpu cannot be read: it is "1e-999999999": an exponent has at most three`},
		{name: "one in the status", spec: `{` + about + `}`, status: strings.Replace(goodStatus, `"1"`, `"1e-999999999"`, 1),
			wantStatus: `status.recommendation.containerRecommendations[0].target.cpu cannot be read: it is "1e-999999999": `},
		{name: "one that is a number", spec: `{` + about + `,"resourcePolicy":{"containerPolicies":[{"memoryPerCPU":1e-999999999}]}}`, status: goodStatus, recommending: true,
			wantSpec: `spec.resourcePolicy.containerPolicies[0].memoryPerCPU cannot be read: it is "1e-999999999": `},
		{name: "one beside what does not fit", spec: `{` + about + `,"resourcePolicy":{"containerPolicies":[{"minAllowed":{"cpu":"1e999999999"}}]},"updatePolicy":7}`, status: goodStatus, recommending: true,
			wantSpec: `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu cannot be read: it is "1e999999999": `},
		{name: "both", spec: `{` + about + `,"startupBoost":1}`, status: `{"conditions":1}`,
			wantSpec: `spec.startupBoost cannot be read: it is 1: `, wantStatus: `status.conditions cannot be read: it is 1: `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v VerticalPodAutoscaler
			require.NoError(t, json.Unmarshal([]byte(stored(tt.spec, tt.status)), &v))
			require.Equal(t, "ns/v u b", v.Namespace+"/"+v.Name+" "+string(v.UID)+" "+v.Labels["a"])
			require.Equal(t, "VerticalPodAutoscaler", v.Kind)
			for _, problem := range []struct{ want, got string }{{tt.wantSpec, v.SpecUnreadable}, {tt.wantStatus, v.StatusUnreadable}} {
				if problem.want == "" {
					require.Empty(t, problem.got)
					continue
				}
				require.True(t, strings.HasPrefix(problem.got, problem.want), problem.got)
				require.Greater(t, len(problem.got), len(problem.want), "it says why")
				require.Contains(t, v.Unreadable(), problem.got)
			}
			require.Equal(t, tt.wantSpec+tt.wantStatus == "", v.Unreadable() == "")
			require.Equal(t, tt.targetless, v.Spec.TargetRef == nil)
			if !tt.targetless {
				require.Equal(t, "web", v.Spec.TargetRef.Name)
				require.Equal(t, "frugal", v.Spec.Recommenders[0].Name)
			}
			if tt.wantSpec != "" {
				require.Nil(t, v.Spec.UpdatePolicy, "half a policy is none")
				require.Nil(t, v.Spec.ResourcePolicy)
			}
			require.Equal(t, tt.recommending, v.Status.Recommendation != nil)
			require.Equal(t, v.SpecUnreadable, v.DeepCopy().SpecUnreadable)

			_, err := Decode([]byte(stored(tt.spec, tt.status)))
			require.Equal(t, tt.wantSpec+tt.wantStatus == "", err == nil, "whoever judges an object still sees its faults: %v", err)
			text, err := json.Marshal(&v)
			require.NoError(t, err)
			require.NotContains(t, string(text), "nreadable", "nobody else gets to see it")
		})
	}
}

// Decode is strict, unlike UnmarshalJSON.
func TestWhatSomebodyWritesIsRefusedByTheNameOfItsField(t *testing.T) {
	const target = `"targetRef":{"kind":"Deployment","name":"web"}`
	v, err := Decode([]byte(stored(`{`+target+`,"surprise":1}`, goodStatus)))
	require.NoError(t, err)
	require.Equal(t, "web", v.Spec.TargetRef.Name)
	for name, tt := range map[string]struct{ object, field, value string }{
		"a number for a text":  {stored(`{"targetRef":{"apiVersion":7,"kind":"Deployment","name":"web"}}`, goodStatus), "spec.targetRef.apiVersion", "7"},
		"a list for an object": {stored(`{`+target+`,"updatePolicy":[]}`, goodStatus), "spec.updatePolicy", "[]"},
		"the status":           {stored(`{`+target+`}`, `{"conditions":1}`), "status.conditions", "1"},
		"both":                 {stored(`[]`, `[]`), "spec", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(tt.object))
			var misfit *Misfit
			require.ErrorAs(t, err, &misfit)
			require.Equal(t, []string{tt.field, tt.value}, []string{misfit.Field, misfit.Value})
			require.ErrorContains(t, err, tt.field+" cannot be read: it is "+tt.value+": ")
		})
	}
	for _, object := range []string{`{`, `[]`, `{"metadata":{"name":7}}`} {
		_, err := Decode([]byte(object))
		require.Error(t, err, object)
	}
}

// Regression: the reason was the decoder's, with Go types and a regular expression.
func TestWhatDoesNotFitIsNamedInTheWordsOfYAML(t *testing.T) {
	for spec, want := range map[string]string{
		`{"updatePolicy":{"minReplicas":"2"}}`:                                            `spec.updatePolicy.minReplicas cannot be read: it is "2": must be a whole number of at most 2147483647; leave out the quotes`,
		`{"resourcePolicy":{"containerPolicies":[{"minAllowed":{"cpu":"1 core"}}]}}`:      `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu cannot be read: it is "1 core": not a quantity; write it like 500m, 2 or 1Gi`,
		`{"resourcePolicy":{"containerPolicies":[{},{"maxAllowed":{"memory":["1Gi"]}}]}}`: `spec.resourcePolicy.containerPolicies[1].maxAllowed.memory cannot be read: it is ["1Gi"]: must be a quantity such as 500m, 2 or 1Gi`,
	} {
		_, err := Decode([]byte(stored(spec, "{}")))
		require.EqualError(t, err, want)
	}
}

func TestOneUnreadableObjectDoesNotSpoilAList(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer() // what clients decode with
	list := `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscalerList","metadata":{},"items":[` +
		stored(`{"updatePolicy":{"minReplicas":"two"}}`, `{}`) + `,` + stored(`{"targetRef":{"kind":"Deployment","name":"web"}}`, goodStatus) + `]}`
	list = strings.Replace(list, `"items":[`, `"items":[{"metadata":{"name":"odd","namespace":"ns","uid":"u","labels":7},"spec":{}},`, 1)
	object, _, err := decoder.Decode([]byte(list), nil, nil)
	require.NoError(t, err)
	items := object.(*VerticalPodAutoscalerList).Items
	require.Len(t, items, 3)
	require.Equal(t, "ns/odd u", items[0].Namespace+"/"+items[0].Name+" "+string(items[0].UID))
	require.Contains(t, items[0].Unreadable(), "metadata.labels cannot be read: it is 7: ")
	items = items[1:]
	require.NotEmpty(t, items[0].Unreadable())
	require.Empty(t, items[1].Unreadable())
	require.Equal(t, "web", items[1].Spec.TargetRef.Name)

	_, _, err = decoder.Decode([]byte(`{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":7}}`), nil, nil)
	require.ErrorContains(t, err, "reading the metadata of a VerticalPodAutoscaler", "nobody could tell which one it is")
}

func TestReadingIntoAnObjectForgetsWhatItWas(t *testing.T) {
	var v VerticalPodAutoscaler
	require.NoError(t, json.Unmarshal([]byte(stored(`{"targetRef":7}`, `{}`)), &v))
	require.NotEmpty(t, v.Unreadable())
	require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"name":"w"},"spec":{}}`), &v))
	require.Empty(t, v.Unreadable())
	require.Empty(t, v.Labels)
}

func TestFieldsWithATypingErrorAreNamed(t *testing.T) {
	unknown := func(text string) (out []string) {
		for _, err := range Unknown([]byte(text)) {
			out = append(out, err.Error())
		}
		return out
	}
	require.Equal(t, []string{`unknown field "spec.resourcePolicy.containerPolicies[0].maxAlowed"`},
		unknown(`{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","maxAlowed":{"cpu":"1"}}]}}}`))
	require.Empty(t, unknown(`{"metadata":{"name":"a"},"spec":{"updatePolicy":{"updateMode":"Off"}},"status":{}}`))
	require.Empty(t, unknown(`{"spec":7}`), "that is for Decode to say")
}
