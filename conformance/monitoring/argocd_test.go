package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	ofVPAs     = "resource.customizations.health.autoscaling.k8s.io_VerticalPodAutoscaler"
	ofOverlays = "resource.customizations.health.rules.celvpa.dev_RuleOverlay"
)

// TestArgoCDShowsTheHealthOfWhatCelvpaServes runs the scripts in the Lua that Argo CD embeds, with the libraries that it opens.
func TestArgoCDShowsTheHealthOfWhatCelvpaServes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository(t), "deploy", "argocd", "argocd-cm.yaml"))
	require.NoError(t, err)
	var config corev1.ConfigMap
	require.NoError(t, yaml.UnmarshalStrict(text, &config))
	require.Len(t, config.Data, 2)

	for _, tt := range []struct{ name, script, object, status, message string }{
		{"an object without a status", ofVPAs, `{metadata: {generation: 1}}`, "Progressing", "Waiting for the recommender"},
		{"an object without anything", ofVPAs, `{}`, "Progressing", "Waiting for the recommender"},
		{"an empty status", ofVPAs, `{metadata: {}, status: {}}`, "Progressing", "Waiting for the recommender"},
		{"null conditions", ofVPAs, `{metadata: {}, status: {conditions: null}}`, "Progressing", "Waiting for the recommender"},
		{"a condition without a status", ofVPAs, `{status: {conditions: [{type: ConfigUnsupported}]}}`, "Progressing", "Waiting for the recommender"},
		{"a recommendation", ofVPAs, `{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [
			{type: LowConfidence, status: "True"}, {type: RecommendationProvided, status: "True"}, {type: RulesApplied, status: "True"}]}}`, "Healthy", ""},
		{"a recommendation of upstream's recommender", ofVPAs, `{metadata: {generation: 2}, status: {conditions: [{type: RecommendationProvided, status: "True"}]}}`, "Healthy", ""},
		{"no samples yet", ofVPAs, `{status: {conditions: [{type: RecommendationProvided, status: "False", reason: UsageUnknown, message: container app has no samples}]}}`,
			"Progressing", "container app has no samples"},
		{"a spec that is not served yet", ofVPAs, `{metadata: {generation: 3}, status: {observedGeneration: 2, conditions: [{type: RecommendationProvided, status: "True"}]}}`,
			"Progressing", "The recommender has not seen the current spec yet"},
		{"a target that cannot be used", ofVPAs, `{status: {conditions: [{type: RecommendationProvided, status: "True"}, {type: ConfigUnsupported, status: "True", message: no such Deployment}]}}`,
			"Degraded", "no such Deployment"},
		{"a target that can be used again", ofVPAs, `{status: {conditions: [{type: ConfigUnsupported, status: "False"}, {type: RecommendationProvided, status: "True"}]}}`, "Healthy", ""},
		{"rules that do not exist", ofVPAs, `{status: {conditions: [{type: RecommendationProvided, status: "True"}, {type: RulesApplied, status: "False", message: there is no pipeline lean}]}}`,
			"Degraded", "there is no pipeline lean"},
		{"pods that come back unchanged", ofVPAs, `{status: {conditions: [{type: RecommendationProvided, status: "True"}, {type: UpdatesHaveNoEffect, status: "True", message: 3 evictions}]}}`,
			"Degraded", "3 evictions"},
		{"a workload scaled to 0", ofVPAs, `{status: {conditions: [{type: RecommendationProvided, status: "False"}, {type: NoPodsMatched, status: "True", message: no pod matches}]}}`, "Healthy", "no pod matches"},

		{"an overlay that nobody has loaded", ofOverlays, `{metadata: {generation: 1}}`, "Progressing", "Waiting for the recommender to load the overlay"},
		{"an overlay without anything", ofOverlays, `{metadata: {}, status: {conditions: []}}`, "Progressing", "Waiting for the recommender to load the overlay"},
		{"an overlay in force", ofOverlays, `{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: "True", observedGeneration: 2, message: in use}]}}`, "Healthy", "in use"},
		{"an overlay that was changed", ofOverlays, `{metadata: {generation: 3}, status: {conditions: [{type: Accepted, status: "True", observedGeneration: 2, message: in use}]}}`,
			"Progressing", "Waiting for the recommender to load the overlay"},
		{"an overlay that is rejected", ofOverlays, `{metadata: {generation: 1}, status: {conditions: [{type: Accepted, status: "False", observedGeneration: 1, message: no param estimate.margin}]}}`,
			"Degraded", "no param estimate.margin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var object any
			require.NoError(t, yaml.Unmarshal([]byte(tt.object), &object))
			status, message := healthOf(t, config.Data[tt.script], object)
			require.Equal(t, tt.status, status)
			require.Equal(t, tt.message, message)
		})
	}
}

// healthOf runs a script with the object as obj.
func healthOf(t *testing.T, script string, object any) (status, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString} {
		require.NoError(t, l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	l.SetGlobal("obj", luaOf(l, object))
	require.NoError(t, l.DoString(script))
	answer, ok := l.Get(-1).(*lua.LTable)
	require.True(t, ok, "the script returns a %s", l.Get(-1).Type())
	return answer.RawGetString("status").String(), lua.LVAsString(answer.RawGetString("message"))
}

// luaOf is the Lua value of a JSON value.
func luaOf(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	case []any:
		out := l.NewTable()
		for _, item := range v {
			out.Append(luaOf(l, item))
		}
		return out
	case map[string]any:
		out := l.NewTable()
		for key, item := range v {
			out.RawSetString(key, luaOf(l, item))
		}
		return out
	}
	return lua.LNil
}
