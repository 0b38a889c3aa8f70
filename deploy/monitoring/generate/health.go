package main

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
