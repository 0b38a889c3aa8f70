package main

// vpas counts VPAs once, whichever replica of the recommender leads.
func vpas(with string) string {
	return `sum(max by (update_mode, has_recommendation, matches_pods, unsupported_config) (vpa_recommender_vpa_objects_count{` + with + `}))`
}

// recommended is a metric of deploy/monitoring/kube-state-metrics.yaml about the recommendations for containers.
func recommended(bound, with string) string {
	return `kube_verticalpodautoscaler_status_recommendation_containerrecommendations_` + bound + `{` + with + `}`
}

const ofContainer = `max by (namespace, verticalpodautoscaler, container, resource) `

var fleet = dashboard{
	name: "fleet", title: "celvpa / Fleet",
	description: "All VerticalPodAutoscalers: how many there are, what is recommended, and what happens to pods.",
	variables:   []variable{{name: "namespace", query: "label_values(kube_verticalpodautoscaler_created, namespace)", all: true}},
	rows: []row{
		{"VerticalPodAutoscalers", []panel{
			{kind: number, title: "Served", unit: "none", description: "VPAs that the recommender serves.", queries: []query{{expr: vpas("")}}},
			{kind: number, title: "Without a recommendation", unit: "none", description: "Normal for a minute after their creation. Condition RecommendationProvided says why.",
				queries: []query{{expr: vpas(`has_recommendation="false"`)}}},
			{kind: number, title: "Without pods", unit: "none", description: "VPAs whose target has no pods now.", queries: []query{{expr: vpas(`matches_pods="false"`)}}},
			{kind: number, title: "At fault", unit: "none", description: "VPAs that cannot be served as written. Condition ConfigUnsupported says why.",
				queries: []query{{expr: vpas(`unsupported_config="true"`)}}},
			{kind: graph, title: "By update mode", unit: "none", description: "VPAs by update mode.",
				queries: []query{{`sum by (update_mode) (max by (update_mode, has_recommendation, matches_pods, unsupported_config) (vpa_recommender_vpa_objects_count)) > 0`, "{{update_mode}}"}}},
			{kind: graph, title: "From creation to the first recommendation", unit: "s", description: "Median and 90th percentile, since the recommender started.",
				queries: []query{
					{`histogram_quantile(0.5, sum by (le) (vpa_recommender_recommendation_latency_seconds_bucket))`, "p50"},
					{`histogram_quantile(0.9, sum by (le) (vpa_recommender_recommendation_latency_seconds_bucket))`, "p90"}}},
		}},
		{"Recommendations", []panel{
			{kind: graph, title: "CPU targets by namespace", unit: "none", description: "Sum of the targets of all containers, in cores, once for each VPA, not for each pod.",
				queries: []query{{`sum by (namespace) (` + recommended("target", `namespace=~"$namespace", resource="cpu"`) + `)`, "{{namespace}}"}}},
			{kind: graph, title: "Memory targets by namespace", unit: "bytes", description: "Sum of the targets of all containers, once for each VPA, not for each pod.",
				queries: []query{{`sum by (namespace) (` + recommended("target", `namespace=~"$namespace", resource="memory"`) + `)`, "{{namespace}}"}}},
			{kind: graph, title: "Targets held down by a maximum", unit: "none", description: "Containers whose usage asks for more than maxAllowed or a global maximum lets them have.",
				queries: []query{{`count by (resource) (` + recommended("uncappedtarget", `namespace=~"$namespace"`) + ` > ` + recommended("target", "") + `) or vector(0)`, "{{resource}}"}}},
			{kind: table, title: "Furthest beyond their maximum", unit: "none", description: "What usage asks for, divided by the target. The higher, the more the container is short.",
				queries: []query{{expr: `topk(20, ` + ofContainer + `(` + recommended("uncappedtarget", `namespace=~"$namespace"`) + ` / (` + recommended("target", "") + ` > 0) > 1))`}}},
		}},
		{"Pods", []panel{
			{kind: graph, title: "Disruptions", unit: "opm", description: "Evictions and resizes in place, per minute.",
				queries: []query{
					{`60 * sum(rate(vpa_updater_evicted_pods_total{vpa_namespace=~"$namespace"}[$__rate_interval])) or vector(0)`, "evicted"},
					{`60 * sum(rate(vpa_updater_in_place_updated_pods_total{vpa_namespace=~"$namespace"}[$__rate_interval])) or vector(0)`, "resized"}}},
			{kind: graph, title: "Failed disruptions", unit: "opm", description: "Evictions and resizes that the API server refused, per minute, by reason.",
				queries: []query{
					{`60 * sum by (reason) (rate(vpa_updater_failed_eviction_attempts_total{vpa_namespace=~"$namespace"}[$__rate_interval])) or vector(0)`, "eviction {{reason}}"},
					{`60 * sum by (reason) (rate(vpa_updater_failed_in_place_update_attempts_total{vpa_namespace=~"$namespace"}[$__rate_interval])) or vector(0)`, "resize {{reason}}"}}},
			{kind: graph, title: "Decisions of the last cycle", unit: "none", description: "Pods by what the updater decided for them.",
				queries: []query{{`sum by (action) (max by (action, rule) (celvpa_updater_pods))`, "{{action}}"}}},
			{kind: graph, title: "Out of memory", unit: "opm", description: "OOM kills and memory evictions of containers, per minute.",
				queries: []query{{`60 * sum by (source) (rate(celvpa_recommender_ooms_total[$__rate_interval])) or vector(0)`, "{{source}}"}}},
		}},
		{"Quality", []panel{
			{kind: graph, title: "Usage relative to the recommendation", unit: "percentunit", signed: true,
				description: "0 is usage at the target, -50 % usage of half the target. A 99th percentile far above 0 means that containers exceed what they get.",
				queries: []query{
					{`histogram_quantile(0.5, sum by (le, resource) (rate(vpa_quality_usage_recommendation_relative_diffs_bucket[$__rate_interval])))`, "{{resource}} p50"},
					{`histogram_quantile(0.99, sum by (le, resource) (rate(vpa_quality_usage_recommendation_relative_diffs_bucket[$__rate_interval])))`, "{{resource}} p99"}}},
			{kind: graph, title: "Changes of recommendations", unit: "percentunit", signed: true, description: "From one cycle to the next: how far apart the 1st and 99th percentile are.",
				queries: []query{
					{`histogram_quantile(0.01, sum by (le, resource) (rate(vpa_quality_relative_recommendation_changes_bucket[$__rate_interval])))`, "{{resource}} p1"},
					{`histogram_quantile(0.99, sum by (le, resource) (rate(vpa_quality_relative_recommendation_changes_bucket[$__rate_interval])))`, "{{resource}} p99"}}},
		}},
	},
}
