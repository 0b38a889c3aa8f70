package main

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
