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

var policy = dashboard{
	name: "policy", title: "celvpa / Policy and overlays",
	description: "Which rules are in force, which overlays change them, and what rules decide.",
	rows: []row{
		{"Rules in force", []panel{
			{kind: number, title: "Pipeline digests", unit: "none", description: "Different default rules in force. More than one for longer than a reload means that components disagree, unless several pipelines are loaded.",
				queries: []query{{expr: `count(count by (digest) (celvpa_rules_info))`}}},
			{kind: number, title: "Oldest good reload", unit: "s", description: "Since the last reload without an error in the files, of the component where it is longest ago. Old is normal while nothing changes.",
				queries: []query{{expr: `max(time() - celvpa_rules_last_success_timestamp_seconds)`}}},
			{kind: number, title: "Overlays in force", unit: "none", description: "RuleOverlays whose current generation is in use.",
				queries: []query{{expr: `sum(min by (overlay) (celvpa_rule_overlay_accepted)) or vector(0)`}}},
			{kind: number, title: "Overlays rejected", unit: "none", description: "RuleOverlays whose current generation is not in use. Their condition Accepted says why.",
				queries: []query{{expr: `count(min by (overlay) (celvpa_rule_overlay_accepted) == 0) or vector(0)`}}},
			{kind: table, title: "Pipelines", unit: "none", description: "Pipelines by name, version and digest, and how many processes have them.",
				queries: []query{{expr: `count by (pipeline, version, digest) (celvpa_rules_info)`}}},
			{kind: graph, title: "Reloads", unit: "opm", description: "Reloads of changed rules per minute, by result. A failure is tried again until it succeeds.",
				queries: []query{{`60 * sum by (result) (rate(celvpa_rules_reload_total[$__rate_interval]))`, "{{result}}"}}},
		}},
		{"Overlays", []panel{
			{kind: table, title: "Overlays by mode", unit: "none", description: "Overlays that are loaded, from files or from the cluster, and how many processes have them.",
				queries: []query{{expr: `count by (overlay, mode) (celvpa_rule_overlays_info)`}}},
			{kind: table, title: "RuleOverlays accepted", unit: "none", description: "1 for the overlays of the cluster that are in force as written.",
				queries: []query{{expr: `min by (overlay) (celvpa_rule_overlay_accepted)`}}},
			{kind: graph, title: "What overlays on trial would change", unit: "ops", description: "Evaluations per second with another outcome under an overlay in mode Audit or Warn.",
				queries: []query{{`sum by (overlay, mode, component) (rate(celvpa_rule_overlay_differences_total[$__rate_interval]))`, "{{overlay}} ({{mode}}) {{component}}"}}},
			{kind: graph, title: "Rules that fail", unit: "ops", description: "Rules per second that failed at run time. What they set stays unchanged; the log has the error.",
				queries: []query{{`sum by (rule) (rate(celvpa_rule_errors_total[$__rate_interval])) or vector(0)`, "{{rule}}"}}},
		}},
		{"Decisions", []panel{
			{kind: graph, title: "Pods by deciding rule", unit: "none", description: "Pods in the updater's last cycle, by decision and the rule that made it.",
				queries: []query{{`max by (action, rule) (celvpa_updater_pods)`, "{{action}}: {{rule}}"}}},
			{kind: graph, title: "Refusals", unit: "opm", description: "Causes of refused VerticalPodAutoscalers and pods per minute, by rule.",
				queries: []query{{`60 * sum by (rule) (rate(celvpa_admission_refusals_total[$__rate_interval]))`, "{{rule}}"}}},
		}},
	},
}

// ours keeps of a metric that all processes have the series of celvpa's.
const ours = ` and on (job, instance) celvpa_build_info`

// duration is a percentile of a histogram, by a label.
func duration(quantile, by, metric, with string) string {
	return `histogram_quantile(` + quantile + `, sum by (le, ` + by + `) (rate(` + metric + `_bucket` + with + `[$__rate_interval])))`
}

var health = dashboard{
	name: "health", title: "celvpa / Health",
	description: "Whether the recommender, the updater and the admission controller do their work in time.",
	rows: []row{
		{"Processes", []panel{
			{kind: table, title: "Versions", unit: "none", description: "Processes by version.",
				queries: []query{{expr: `count by (job, version, commit, platform) (celvpa_build_info)`}}},
			{kind: graph, title: "Memory", unit: "bytes", description: "Resident memory of each process.",
				queries: []query{{`process_resident_memory_bytes` + ours, "{{job}} {{instance}}"}}},
			{kind: graph, title: "CPU", unit: "none", description: "Cores that each process uses.",
				queries: []query{{`rate(process_cpu_seconds_total[$__rate_interval])` + ours, "{{job}} {{instance}}"}}},
			{kind: graph, title: "Trouble", unit: "none", description: "All of these should be 0. Panics are bugs in celvpa, and unreadable objects are skipped; the log names them.",
				queries: []query{
					{`sum(increase(celvpa_recommender_panics_total[$__rate_interval])) + sum(increase(celvpa_updater_panics_total[$__rate_interval]))`, "panics"},
					{`sum by (kind) (celvpa_unreadable_objects) or vector(0)`, "unreadable {{kind}}"},
					{`sum(increase(celvpa_dropped_events_total[$__rate_interval]))`, "events dropped"}}},
		}},
		{"Admission controller", []panel{
			{kind: graph, title: "Reviews", unit: "ops", description: "Pods reviewed per second, by whether they were changed.",
				queries: []query{{`sum by (applied) (rate(vpa_admission_controller_admission_pods_total[$__rate_interval]))`, "changed: {{applied}}"}}},
			{kind: graph, title: "Duration of reviews", unit: "s", description: "API servers wait this long for each pod.",
				queries: []query{
					{duration("0.5", "resource", "vpa_admission_controller_admission_latency_seconds", ""), "{{resource}} p50"},
					{duration("0.99", "resource", "vpa_admission_controller_admission_latency_seconds", ""), "{{resource}} p99"}}},
			{kind: graph, title: "Shed", unit: "ops", description: "Reviews per second answered without asking the rules, by reason. The object is admitted unchanged.",
				queries: []query{{`sum by (reason) (rate(celvpa_admission_shed_total[$__rate_interval]))`, "{{reason}}"}, {`sum(celvpa_admission_in_flight)`, "in flight"}}},
			{kind: number, title: "Webhook reachable", unit: "none", description: "1 if the API server of each replica reached the webhook at the last probe, 0 if that of one did not twice in a row. Empty while that is not known, as with failure policy Fail.",
				queries: []query{{expr: `min(celvpa_webhook_reachable)`}}},
			{kind: number, title: "Certificate", unit: "s", description: "Until the serving certificate expires, of the replica where that is soonest.",
				queries: []query{{expr: `min(celvpa_admission_certificate_expiration_timestamp_seconds) - time()`}}},
			{kind: number, title: "Lease expired", unit: "none", description: "Cycles of the updater in the last hour with evictions paused, because the admission controller did not renew its status lease.",
				queries: []query{{expr: `sum(increase(vpa_updater_admission_controller_status_invalid_total[1h]))`}}},
		}},
		{"Recommender", []panel{
			{kind: graph, title: "Samples", unit: "ops", description: "Usage samples per second, by outcome. Nothing accepted means that recommendations age.",
				queries: []query{{`sum by (outcome) (rate(celvpa_recommender_samples_total[$__rate_interval]))`, "{{outcome}}"}}},
			{kind: graph, title: "Responses of metrics sources", unit: "ops", description: "Per second, by source and whether they failed.",
				queries: []query{{`sum by (client_name, is_error) (rate(vpa_recommender_metric_server_responses[$__rate_interval]))`, "{{client_name}}, error: {{is_error}}"}}},
			{kind: graph, title: "Duration of steps of a cycle", unit: "s", description: "90th percentile of each step. The total should be far below --recommender-interval.",
				queries: []query{{duration("0.9", "step", "vpa_recommender_execution_latency_seconds", ""), "{{step}}"}}},
			{kind: graph, title: "Writes", unit: "ops", description: "Statuses and checkpoints written per second, by result. Postponed ones wait for the next cycle.",
				queries: []query{{`sum by (object, result) (rate(celvpa_recommender_writes_total[$__rate_interval]))`, "{{object}} {{result}}"}}},
			{kind: graph, title: "Left to the next cycle", unit: "none", description: "Statuses and checkpoints that the last cycle did not write in time. What matters most goes first; if some are always left, raise --kube-api-qps.",
				queries: []query{{`max by (object) (celvpa_recommender_postponed_writes)`, "{{object}}"}}},
			{kind: number, title: "Contradictory history", unit: "none", description: "Containers whose series in Prometheus contradict each other, and reads that found several clusters. Should be 0; choose a cluster with --prometheus-matchers.",
				queries: []query{{expr: `sum(celvpa_recommender_history_conflicts_total) or vector(0)`}}},
		}},
		{"Updater", []panel{
			{kind: graph, title: "Duration of steps of a cycle", unit: "s", description: "90th percentile of each step. The total should be far below --updater-interval.",
				queries: []query{{duration("0.9", "step", "vpa_updater_execution_latency_seconds", ""), "{{step}}"}}},
			{kind: graph, title: "Left to the next cycle", unit: "none", description: "VPAs that the last cycle did not finish, and pods that a limit or the deadline postponed.",
				queries: []query{{`max(celvpa_updater_unreached_vpas)`, "VPAs"}, {`max by (reason) (celvpa_updater_postponed_pods) or vector(0)`, "pods {{reason}}"}}},
		}},
	},
}

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
