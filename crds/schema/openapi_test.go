package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/crds"
)

func vpaObjects(t *testing.T) *Objects {
	t.Helper()
	definition, err := crds.Definition(crds.VPA)
	require.NoError(t, err)
	objects, err := New(definition, "v1")
	require.NoError(t, err)
	return objects
}

// vpa is an object with a target and the given spec fields.
func vpa(t *testing.T, spec string) map[string]any {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: web}, spec: {targetRef: {kind: Deployment, name: web}, " + spec + "}}"))
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

func TestWhatAnAPIServerFindsWrongIsReported(t *testing.T) {
	const policy = "resourcePolicy.containerPolicies[0]"
	objects := vpaObjects(t)
	for name, tt := range map[string]struct {
		spec, field, message string
		reason               metav1.CauseType
		unknown              bool
	}{
		"a mode that is not known":  {spec: "updatePolicy: {updateMode: Sometimes}", field: "updatePolicy.updateMode", reason: metav1.CauseTypeFieldValueNotSupported, message: `Unsupported value: "Sometimes": supported values: "Off"`},
		"Off without quotes":        {spec: "updatePolicy: {updateMode: Off}", field: "updatePolicy.updateMode", reason: "FieldValueTypeInvalid", message: "must be of type string: \"boolean\"; write the value in quotes"},
		"text for a number":         {spec: "updatePolicy: {minReplicas: two}", field: "updatePolicy.minReplicas", reason: "FieldValueTypeInvalid", message: "must be of type integer"},
		"more than its bound":       {spec: "resourcePolicy: {containerPolicies: [{containerName: a-name-that-is-longer-than-the-names-of-containers-can-possibly-be}]}", field: policy + ".containerName", reason: metav1.CauseTypeTooLong, message: "may not be more than 63"},
		"a quantity that is none":   {spec: "resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 1 core}}]}", field: policy + ".maxAllowed.cpu", reason: metav1.CauseTypeFieldValueInvalid, message: `Invalid value: "1 core": this is not a quantity; write it like 500m, 2 or 1Gi`},
		"a fraction for a quantity": {spec: "resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 1.5}}]}", field: policy + ".maxAllowed.cpu", reason: "FieldValueTypeInvalid", message: "this is not a quantity; write fractions in quotes, or like 500m"},
		"a field that is missing":   {spec: "recommenders: [{}]", field: "recommenders[0].name", reason: metav1.CauseTypeFieldValueRequired, message: "Required value"},
		"a map for a list":          {spec: "resourcePolicy: {containerPolicies: {app: {}}}", field: "resourcePolicy.containerPolicies", reason: "FieldValueTypeInvalid", message: "must be of type array"},
		"a field that is not known": {spec: "resourcePolicy: {containerPolicies: [{containerName: a, maxAlowed: {cpu: 1}}]}", field: policy + ".maxAlowed", reason: metav1.CauseTypeFieldValueNotSupported, message: "unknown field", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := vpa(t, tt.spec)
			before := vpa(t, tt.spec)
			found := objects.Check(object, nil)
			require.NotEmpty(t, found)
			require.True(t, len(found) == 1 || found[1].Unknown, "one mistake is reported once: %v", found)
			require.Equal(t, "spec."+tt.field, found[0].Field)
			require.Equal(t, tt.reason, found[0].Reason)
			require.Contains(t, found[0].Message, tt.message)
			require.Equal(t, tt.unknown, found[0].Unknown)
			require.Equal(t, before, object, "the object is looked at, not changed")
		})
	}
}

func TestWhatFitsTheSchemaIsNoFault(t *testing.T) {
	objects := vpaObjects(t)
	require.Empty(t, objects.Check(vpa(t, "updatePolicy: {updateMode: 'Off'}, resourcePolicy: {containerPolicies: [{containerName: '*', maxAllowed: {cpu: 1, memory: 1Gi}}]}"), nil))
	status := vpa(t, "updatePolicy: {updateMode: 'Off'}")
	status["status"] = map[string]any{"recommendation": map[string]any{"containerRecommendations": []any{map[string]any{}}}}
	require.Empty(t, objects.Check(status, nil), "writing an object does not write its status")
	require.Empty(t, objects.Check(vpa(t, "updatePolicy: {updateMode: 'Off', minReplicas: null}"), nil), "null is dropped where it means nothing")
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	found := vpaObjects(t).Check(vpa(t, "updatePolicy: {updateMode: X, minReplicas: two, mood: good}"), nil)
	var fields []string
	for _, f := range found {
		fields = append(fields, f.Field)
	}
	require.ElementsMatch(t, []string{"spec.updatePolicy.updateMode", "spec.updatePolicy.minReplicas", "spec.updatePolicy.mood"}, fields)
}

func TestWhatWasWrongBeforeIsLetThroughUntilItChanges(t *testing.T) {
	objects := vpaObjects(t)
	wrong := vpa(t, "updatePolicy: {updateMode: Sometimes}")
	require.Empty(t, objects.Check(vpa(t, "updatePolicy: {updateMode: Sometimes, minReplicas: 3}"), wrong))
	found := objects.Check(vpa(t, "updatePolicy: {updateMode: Often}"), wrong)
	require.Len(t, found, 1)
	require.Equal(t, "spec.updatePolicy.updateMode", found[0].Field)
}

func TestMetadataThatCannotBeReadIsAFault(t *testing.T) {
	objects := vpaObjects(t)
	object := vpa(t, "updatePolicy: {updateMode: 'Off'}")
	object["metadata"] = map[string]any{"name": "web", "labels": map[string]any{"tier": int64(1)}}
	found := objects.Check(object, nil)
	require.Len(t, found, 1)
	require.Equal(t, "metadata", found[0].Field)
	object["metadata"] = map[string]any{"name": "web", "lables": map[string]any{}}
	found = objects.Check(object, nil)
	require.Len(t, found, 1)
	require.True(t, found[0].Unknown)
	require.Equal(t, "metadata.lables", found[0].Field)
}

func TestNamesAndLabelsAreChecked(t *testing.T) {
	objects := vpaObjects(t)
	object := vpa(t, "updatePolicy: {updateMode: 'Off'}")
	// Regression: an object with generateName was refused for want of a name.
	for _, base := range []string{"web-", strings.Repeat("a", 253)} {
		object["metadata"] = map[string]any{"generateName": base}
		require.Empty(t, objects.Check(object, nil))
	}
	for field, metadata := range map[string]map[string]any{
		"metadata.name":   {},
		"metadata.labels": {"name": "web", "labels": map[string]any{"tier": "very good"}},
	} {
		object["metadata"] = metadata
		found := objects.Check(object, nil)
		require.Len(t, found, 1)
		require.Equal(t, field, found[0].Field)
	}
	delete(object, "metadata")
	require.Equal(t, metav1.CauseTypeFieldValueRequired, objects.Check(object, nil)[0].Reason)
}
