package main

// chosen selects the VPA that is chosen, in metrics of kube-state-metrics.
const chosen = `namespace=~"$namespace", verticalpodautoscaler=~"$vpa"`

// ofVPA are the bounds of one resource, for each container.
func ofVPA(resource string) []query {
	with := chosen + `, resource="` + resource + `"`
	policy := func(bound string) string {
		return `kube_verticalpodautoscaler_spec_resourcepolicy_container_policies_` + bound + `{` + with + `}`
	}
	return []query{
		{recommended("target", with), "{{container}} target"},
		{recommended("lowerbound", with), "{{container}} lower bound"},
		{recommended("upperbound", with), "{{container}} upper bound"},
		{recommended("uncappedtarget", with), "{{container}} uncapped target"},
		{policy("minallowed"), "{{container}} minAllowed"},
		{policy("maxallowed"), "{{container}} maxAllowed"},
	}
}

// ofPods are the bounds of one resource at pod level.
func ofPods(resource string) []query {
	with := `{` + chosen + `, resource="` + resource + `"}`
	const status, policy = `kube_verticalpodautoscaler_status_recommendation_podrecommendation_`, `kube_verticalpodautoscaler_spec_resourcepolicy_pod_policies_`
	return []query{
		{status + "target" + with, "target"},
		{status + "lowerbound" + with, "lower bound"},
		{status + "upperbound" + with, "upper bound"},
		{status + "uncappedtarget" + with, "uncapped target"},
		{policy + "minallowed" + with, "minAllowed"},
		{policy + "maxallowed" + with, "maxAllowed"},
	}
}

// updates is how often pods of the VPA were disrupted in the interval of a step.
func updates(metric string) string {
	return `sum(increase(` + metric + `{vpa_namespace=~"$namespace", vpa_name=~"$vpa"}[$__rate_interval])) or vector(0)`
}

var oneVPA = dashboard{
	name: "vpa", title: "celvpa / One VPA",
	description: "What is recommended for the containers of one workload, within which bounds, and what happens to its pods.",
	variables: []variable{
		{name: "namespace", query: "label_values(kube_verticalpodautoscaler_created, namespace)"},
		{name: "vpa", query: `label_values(kube_verticalpodautoscaler_created{namespace=~"$namespace"}, verticalpodautoscaler)`},
	},
	rows: []row{
		{"State", []panel{
			{kind: number, title: "Update mode", unit: "none", description: "The mode that is set; none means Recreate.",
				queries: []query{{`kube_verticalpodautoscaler_spec_updatepolicy_updatemode{` + chosen + `} == 1`, "{{update_mode}}"}}},
			{kind: number, title: "Age", unit: "s", description: "Since the VPA was created.", queries: []query{{expr: `time() - kube_verticalpodautoscaler_created{` + chosen + `}`}}},
			{kind: graph, title: "Conditions", unit: "bool", description: "1 while a condition is true. Its message, in the status of the VPA, says why.",
				queries: []query{{`kube_verticalpodautoscaler_status_condition{` + chosen + `}`, "{{condition}}"}}},
		}},
		{"Containers", []panel{
			{kind: graph, title: "CPU", unit: "none", description: "Cores recommended for each container. The target is what new pods request; pods outside the bounds are updated.", queries: ofVPA("cpu")},
			{kind: graph, title: "Memory", unit: "bytes", description: "Memory recommended for each container. The target is what new pods request; pods outside the bounds are updated.", queries: ofVPA("memory")},
		}},
		{"Pod level", []panel{
			{kind: graph, title: "CPU of the pod", unit: "none", description: "Cores recommended for pods that have resources of their own, and the bounds of podPolicies. Empty for all others.", queries: ofPods("cpu")},
			{kind: graph, title: "Memory of the pod", unit: "bytes", description: "Memory recommended for pods that have resources of their own, and the bounds of podPolicies. Empty for all others.", queries: ofPods("memory")},
		}},
		{"Pods", []panel{
			{kind: graph, title: "Updates", unit: "none", description: "Pods evicted and pods resized in place.",
				queries: []query{{updates("vpa_updater_evicted_pods_total"), "evicted"}, {updates("vpa_updater_in_place_updated_pods_total"), "resized"}}},
			{kind: graph, title: "Failed updates", unit: "none", description: "Evictions and resizes that the API server refused, and resizes that the node cannot carry out.",
				queries: []query{
					{updates("vpa_updater_failed_eviction_attempts_total"), "evictions"},
					{updates("vpa_updater_failed_in_place_update_attempts_total"), "resizes"},
					{updates("vpa_updater_in_place_infeasible_skip_pods_total"), "infeasible"}}},
		}},
	},
}
