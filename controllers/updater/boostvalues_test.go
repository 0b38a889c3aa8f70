package updater

import (
	"encoding/json"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.

// shippedRules are the shipped rules with gates CPUStartupBoost and PodLevelResources on.
var shippedRules = sync.OnceValues(func() (*compile.Rulebook, error) {
	return policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": true, "PodLevelResources": true},
		Points: []string{facts.VPAOrder, facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources, facts.PodPriority, facts.PodUnboost}})
})

func shippedPlan(t testing.TB) *engine.Plan {
	t.Helper()
	book, err := shippedRules()
	require.NoError(t, err)
	return book.Default()
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// podOf is a pod that has been ready for some time; its containers are JSON.
func podOf(t testing.TB, ready time.Duration, spec string, notes map[string]string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{}}}
	require.NoError(t, json.Unmarshal([]byte(spec), &pod.Spec))
	for container, note := range notes {
		pod.Annotations[facts.AnnotationStartupBoost+container] = note
	}
	pod.Spec.NodeName = "n"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ready))}}}
	return pod
}

func vpaOf(t testing.TB, text string) *vpav1.VerticalPodAutoscaler {
	t.Helper()
	v := &vpav1.VerticalPodAutoscaler{}
	require.NoError(t, json.Unmarshal([]byte(text), v))
	v.Namespace, v.Name, v.UID = "ns", "v", "v"
	require.Empty(t, v.Unreadable())
	return v
}

// written is a change as "requests/limits" of CPU and memory; "-" = nothing.
func written(c *facts.ResourceChange) string {
	text := func(list facts.Quantities) string {
		out := ""
		for i, name := range facts.ScaledResources {
			if i > 0 {
				out += " "
			}
			if q, ok := list.Of(name); ok {
				out += q.String()
			} else {
				out += "-"
			}
		}
		return out
	}
	return text(c.Requests) + " / " + text(c.Limits)
}

const (
	// One container of 100m to 200m, with a boost of factor 3.
	boostedOne = `{"containers":[{"name":"a","resources":{"requests":{"cpu":"300m","memory":"100Mi"},"limits":{"cpu":"600m","memory":"200Mi"}}}]}`
	beforeOne  = `{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"200Mi"}}`
	boost60    = `"startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":60}}`
	target150  = `"status":{"recommendation":{"containerRecommendations":[{"containerName":"a","target":{"cpu":"150m","memory":"128Mi"},"lowerBound":{"cpu":"100m","memory":"64Mi"},"upperBound":{"cpu":"1","memory":"1Gi"}}]}}`
	twoTargets = `"status":{"recommendation":{"containerRecommendations":[{"containerName":"a","target":{"cpu":"150m","memory":"128Mi"}},{"containerName":"b","target":{"cpu":"70m","memory":"64Mi"}}]}}`
)

func TestResourcesAfterAStartupBoost(t *testing.T) {
	type change struct {
		boost  facts.Boost
		writes string
	}
	over := func(writes string) change { return change{boost: facts.Boost{Over: true}, writes: writes} }
	on := func(remaining time.Duration) change {
		return change{boost: facts.Boost{On: true, Remaining: remaining}, writes: "- - / - -"}
	}
	none := func(writes string) change { return change{writes: writes} }
	for name, tt := range map[string]struct {
		ready time.Duration
		spec  string
		notes map[string]string
		vpa   string
		want  []change
		pod   string // written about the pod as a whole; empty = it has no resources
	}{
		"what is recommended, and the limit in proportion": {
			ready: 61 * time.Second, vpa: `{"spec":{` + boost60 + `},` + target150 + `}`, want: []change{over("150m 128Mi / 300m 256Mi")}},
		"nothing before its time": {
			ready: 20 * time.Second, vpa: `{"spec":{` + boost60 + `},` + target150 + `}`, want: []change{on(40 * time.Second)}},
		"nothing at the very moment, from which nothing remains": {
			ready: 60 * time.Second, vpa: `{"spec":{` + boost60 + `},` + target150 + `}`, want: []change{on(0)}},
		"at once where no duration is given": {
			vpa: `{"spec":{"startupBoost":{"cpu":{"type":"Factor","factor":3}}},` + target150 + `}`, want: []change{over("150m 128Mi / 300m 256Mi")}},
		"at once where the VPA has no boost any more": {
			vpa: `{"spec":{},` + target150 + `}`, want: []change{over("150m 128Mi / 300m 256Mi")}},
		"what it had where nothing is recommended": {
			ready: time.Hour, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("100m - / 200m -")}},
		"what it had in mode Off": {
			ready: time.Hour, vpa: `{"spec":{"updatePolicy":{"updateMode":"Off"},` + boost60 + `},` + target150 + `}`, want: []change{over("100m - / 200m -")}},
		"what is recommended in mode Initial": {
			ready: time.Hour, vpa: `{"spec":{"updatePolicy":{"updateMode":"Initial"},` + boost60 + `},` + target150 + `}`, want: []change{over("150m 128Mi / 300m 256Mi")}},
		"what it had where the container has got mode Off": {
			ready: time.Hour, vpa: `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","mode":"Off"}]},` + boost60 + `},` + target150 + `}`, want: []change{over("100m - / 200m -")}},
		"what it had of CPU where only memory is recommended": {
			ready: time.Hour, vpa: `{"spec":{` + boost60 + `},"status":{"recommendation":{"containerRecommendations":[{"containerName":"a","target":{"memory":"128Mi"}}]}}}`,
			want: []change{over("100m 128Mi / 200m 256Mi")}},
		"nothing where it cannot be read what it had": {
			ready: time.Hour, notes: map[string]string{"a": "{"}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"nothing of what it had not": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{"cpu":"50m"},"limits":{}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("50m - / - -")}},
		"no CPU to speak of where it had no request": {
			ready: time.Hour, spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"100Mi"}}}]}`,
			notes: map[string]string{"a": `{"requests":{"memory":"100Mi"},"limits":{}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("1m - / - -")}},
		"nothing where half of it can be read": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"nothing where it says nothing": {
			ready: time.Hour, notes: map[string]string{"a": `null`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"no more than it has for a forged note": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{"cpu":"64","memory":"1Ti"},"limits":{"cpu":"9E","memory":"9E"}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("300m - / 600m -")}},
		"nothing for a container that the pod has not": {
			ready: time.Hour, notes: map[string]string{"root": `{"requests":{"cpu":"64"},"limits":{}}`}, vpa: `{"spec":{` + boost60 + `},` + target150 + `}`, want: []change{none("150m 128Mi / 300m 256Mi")}},
		"no request and no limit that it has not": {
			ready: time.Hour, spec: `{"containers":[{"name":"a","resources":{}}]}`,
			notes: map[string]string{"a": `{"requests":{"cpu":"64"},"limits":{"cpu":"64"}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"nothing for an amount beyond all numbers": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{"cpu":"1e9999999999"},"limits":{}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"nothing for an amount that would take minutes to read": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{"cpu":"1e-999999999"},"limits":{}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"the class that the pod has, where its requests are a milli-core below its limit": {
			ready: time.Hour, spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"999m","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}}]}`,
			notes: map[string]string{"a": `{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}`},
			vpa:   `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","controlledValues":"RequestsOnly"}]},` + boost60 + `}}`, want: []change{over("999m - / - -")}},
		"nothing that is no amount": {
			ready: time.Hour, notes: map[string]string{"a": `{"requests":{"cpu":"-50m"},"limits":{"cpu":"much"}}`}, vpa: `{"spec":{` + boost60 + `}}`, want: []change{over("- - / - -")}},
		"what is recommended where it cannot be read what it had": {
			ready: time.Hour, notes: map[string]string{"a": ""}, vpa: `{"spec":{` + boost60 + `},` + target150 + `}`, want: []change{over("150m 128Mi / 300m 256Mi")}},
		"no limit where only requests are controlled": {
			ready: time.Hour, spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"199m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"200Mi"}}}]}`,
			vpa:  `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","controlledValues":"RequestsOnly"}]},` + boost60 + `},` + target150 + `}`,
			want: []change{over("150m 128Mi / - -")}},
		"of two containers the one whose own boost is over": {
			ready: 30 * time.Second, notes: map[string]string{"a": beforeOne, "b": `{"requests":{"cpu":"50m"},"limits":{}}`},
			spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"300m","memory":"100Mi"},"limits":{"cpu":"600m","memory":"200Mi"}}},{"name":"b","resources":{"requests":{"cpu":"150m"}}}]}`,
			vpa:  `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":10}}}]},` + boost60 + `},` + twoTargets + `}`,
			want: []change{over("150m 128Mi / 300m 256Mi"), on(30 * time.Second)}},
		"as long as the policy of all containers says": {
			ready: 30 * time.Second,
			vpa:   `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":90}}}]},"startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":10}}},` + target150 + `}`,
			want:  []change{on(60 * time.Second)}},
		"an empty boost of its own lasts no time": {
			ready: 30 * time.Second, vpa: `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"a","startupBoost":{}}]},` + boost60 + `},` + target150 + `}`,
			want: []change{over("150m 128Mi / 300m 256Mi")}},
		"a container without a boost gets what is recommended beside it": {
			ready: time.Hour, notes: map[string]string{"a": beforeOne},
			spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"300m"}}},{"name":"b","resources":{"requests":{"cpu":"50m"}}}]}`,
			vpa:  `{"spec":{` + boost60 + `},` + twoTargets + `}`, want: []change{over("150m 128Mi / - -"), none("70m 64Mi / - -")}},
		"and nothing in mode Off": {
			ready: time.Hour, notes: map[string]string{"a": beforeOne},
			spec: `{"containers":[{"name":"a","resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"600m"}}},{"name":"b","resources":{"requests":{"cpu":"50m"}}}]}`,
			vpa:  `{"spec":{"updatePolicy":{"updateMode":"Off"},` + boost60 + `},` + twoTargets + `}`, want: []change{over("100m - / 200m -"), none("- - / - -")}},
		"what the pod as a whole is recommended": {
			ready: time.Hour, spec: `{"resources":{"requests":{"cpu":"300m","memory":"200Mi"}},"containers":[{"name":"a","resources":{"requests":{"cpu":"300m","memory":"100Mi"}}}]}`,
			vpa: `{"spec":{` + boost60 + `},"status":{"recommendation":{"podRecommendation":{"target":{"cpu":"200m","memory":"150Mi"}},
				"containerRecommendations":[{"containerName":"a","target":{"cpu":"150m","memory":"128Mi"}}]}}}`,
			want: []change{over("150m 128Mi / - -")}, pod: "200m 150Mi / - -"},
		"nothing of the pod as a whole while a boost goes on in it": {
			ready: time.Minute, notes: map[string]string{"a": beforeOne, "b": beforeOne},
			spec: `{"resources":{"requests":{"cpu":"600m","memory":"200Mi"}},"containers":[{"name":"a","resources":{"requests":{"cpu":"300m","memory":"100Mi"}}},{"name":"b","resources":{"requests":{"cpu":"300m","memory":"100Mi"}}}]}`,
			vpa: `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"b","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":90}}}]},"startupBoost":{"cpu":{"type":"Factor","factor":3}}},
				"status":{"recommendation":{"podRecommendation":{"target":{"cpu":"250m","memory":"150Mi"}},
				"containerRecommendations":[{"containerName":"a","target":{"cpu":"150m","memory":"75Mi"}},{"containerName":"b","target":{"cpu":"100m","memory":"75Mi"}}]}}}`,
			want: []change{over("150m 75Mi / - -"), on(30 * time.Second)}, pod: "- - / - -"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.spec == "" {
				tt.spec = boostedOne
			}
			if tt.notes == nil {
				tt.notes = map[string]string{"a": beforeOne}
			}
			in := facts.PodInput{Pod: podOf(t, tt.ready, tt.spec, tt.notes), VPA: vpaOf(t, tt.vpa), Now: noon}
			got, failed := facts.ResourcesForPod(shippedPlan(t), in, nil)
			require.Empty(t, failed)
			require.Len(t, got.Containers, len(tt.want))
			for i, want := range tt.want {
				c := &got.Containers[i]
				require.Equal(t, want, change{boost: c.Boost, writes: written(&c.ResourceChange)}, c.Name)
			}
			require.Equal(t, tt.pod != "", got.Pod != nil)
			if got.Pod != nil {
				require.Equal(t, tt.pod, written(got.Pod))
			}
		})
	}
}

// A boost continues, with an unknown end, while the pod is not ready and when no time is given.
func TestBoostLastsUntilThePodIsReady(t *testing.T) {
	v := vpaOf(t, `{"spec":{`+boost60+`},`+target150+`}`)
	unready := podOf(t, time.Hour, boostedOne, map[string]string{"a": beforeOne})
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	for name, in := range map[string]facts.PodInput{
		"not ready": {Pod: unready, VPA: v, Now: noon},
		"not asked": {Pod: podOf(t, time.Hour, boostedOne, map[string]string{"a": beforeOne}), VPA: v},
	} {
		got, failed := facts.ResourcesForPod(shippedPlan(t), in, nil)
		require.Empty(t, failed, name)
		require.Equal(t, facts.Boost{On: true}, got.Containers[0].Boost, name)
		require.False(t, got.Containers[0].Writes(), name)
	}
}

// fits reports whether the containers of a pod with pod-level resources fit in it after a change,
// as API servers require.
func fits(pod *corev1.Pod, change facts.PodChange) bool {
	after := facts.RequestsAfter(pod, change)
	for _, name := range facts.ScaledResources {
		sum := resource.Quantity{}
		for i := range pod.Spec.Containers {
			sum.Add(after[pod.Spec.Containers[i].Name][name])
		}
		if whole, ok := after[""][name]; ok && sum.Cmp(whole) > 0 {
			return false
		}
	}
	return true
}

func TestContainersStayWithinThePodDuringABoost(t *testing.T) {
	pod := podOf(t, time.Minute,
		`{"resources":{"requests":{"cpu":"600m","memory":"300Mi"}},"containers":[{"name":"a","resources":{"requests":{"cpu":"300m","memory":"150Mi"}}},{"name":"b","resources":{"requests":{"cpu":"300m","memory":"150Mi"}}}]}`,
		map[string]string{"a": beforeOne, "b": beforeOne})
	v := vpaOf(t, `{"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"b","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":90}}}]},"startupBoost":{"cpu":{"type":"Factor","factor":3}}},
		"status":{"recommendation":{"podRecommendation":{"target":{"cpu":"900m","memory":"600Mi"}},
		"containerRecommendations":[{"containerName":"a","target":{"cpu":"450m","memory":"300Mi"}},{"containerName":"b","target":{"cpu":"450m","memory":"300Mi"}}]}}}`)
	got, failed := facts.ResourcesForPod(shippedPlan(t), facts.PodInput{Pod: pod, VPA: v, Now: noon}, nil)
	require.Empty(t, failed)
	require.True(t, got.Containers[0].Boost.Over)
	require.True(t, got.Containers[1].Boost.On)
	require.True(t, fits(pod, got), "%s; %s; pod %s", written(&got.Containers[0].ResourceChange), written(&got.Containers[1].ResourceChange), written(got.Pod))
}

// Regression: with --max-allowed-cpu-boost, whoever could annotate a pod that has what the flag allows gave it any CPU.
func TestAForgedBoostGivesNoMoreThanThePodTemplateHas(t *testing.T) {
	const forged = `{"requests":{"cpu":"50"},"limits":{"cpu":"100"}}`
	template := func(resources string) (out []corev1.Container) {
		require.NoError(t, json.Unmarshal([]byte(`[{"name":"b","resources":{"requests":{"cpu":"32"}}},{"name":"a","resources":`+resources+`}]`), &out))
		return out
	}
	four := template(`{"requests":{"cpu":"4"},"limits":{"cpu":"8"}}`)
	for name, tt := range map[string]struct {
		note     string
		template []corev1.Container
		params   map[string]string
		policy   string
		limits   []corev1.LimitRangeItem
		want     string
	}{
		"no more than it has, if the pod template is unknown":    {note: forged, want: "2 - / 4 -"},
		"no more than it has, if the pod template requests less": {note: forged, template: template(`{"requests":{"cpu":"1"}}`), want: "2 - / 4 -"},
		"no more than the pod template has":                      {note: forged, template: four, want: "4 - / 8 -"},
		"what it had":                                            {note: `{"requests":{"cpu":"3"},"limits":{"cpu":"6"}}`, template: four, want: "3 - / 6 -"},
		"no more than maxAllowed":                                {note: forged, template: four, policy: `{"containerName":"a","maxAllowed":{"cpu":"3"}}`, want: "3 - / 4 -"},
		"no more than the maximum of all containers":             {note: forged, template: four, params: map[string]string{"containerMaxAllowed.cpu": "3500m"}, want: "3500m - / 4 -"},
		"no more than a LimitRange allows":                       {note: forged, template: four, limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": resource.MustParse("5")}}}, want: "4 - / 5 -"},
		"what it has, if the ceiling is lower":                   {note: forged, template: four, params: map[string]string{"ceilings.ceiling.cpu": "16"}, want: "- - / - -"},
	} {
		t.Run(name, func(t *testing.T) {
			params := map[string]string{"maxBoostedCPU": "2"}
			maps.Copy(params, tt.params)
			book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": true}, Params: params, Points: []string{facts.ContainerPolicy, facts.PodFit, facts.PodResources}})
			require.NoError(t, err)
			pod := podOf(t, time.Hour, `{"containers":[{"name":"a","resources":{"requests":{"cpu":"2","memory":"100Mi"},"limits":{"cpu":"4"}}}]}`, map[string]string{"a": tt.note})
			in := facts.PodInput{Pod: pod, VPA: vpaOf(t, `{"spec":{"resourcePolicy":{"containerPolicies":[`+tt.policy+`]},`+boost60+`}}`), Now: noon, Template: tt.template}
			if tt.limits != nil {
				in.Limits = facts.FoldLimitRanges([]corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: tt.limits}}})
			}
			got, failed := facts.ResourcesForPod(book.Default(), in, nil)
			require.Empty(t, failed)
			require.True(t, got.Containers[0].Boost.Over)
			require.Equal(t, tt.want, written(&got.Containers[0].ResourceChange))
		})
	}
}
