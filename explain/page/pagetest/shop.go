package pagetest

import (
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
)

// Now is when all explanations are made.
var Now = time.Date(2026, 3, 14, 3, 12, 0, 0, time.UTC)

var rules = answers.Rules{Pipeline: "default@1.0.0", Digest: "65895351f390"}

func processes(digests ...string) []answers.Process {
	var out []answers.Process
	for i, name := range []string{"recommender", "updater", "admission-controller"} {
		own := rules
		if i < len(digests) {
			own.Digest = digests[i]
		}
		out = append(out, answers.Process{
			Component: name, Instance: "celvpa-" + name + "-7c5687bd57-5p758", Version: "v0.9.0", Leads: true, Now: Now, Rules: own,
		})
	}
	return out
}

func estimate(rule, at, from, to, why string) engine.Step {
	return engine.Step{
		RuleSet: "estimate", Version: "1.0.0", Stage: "bounds", Rule: rule, At: "rules/estimate.yaml:" + at,
		Item: "target", From: from, To: to, Reason: why,
	}
}

func bound(item, rule, at, from, to string) engine.Step {
	step := estimate(rule, at, from, to, "")
	step.Item, step.Field = item, "now.cpu"
	return step
}

func usage(amounts ...string) []answers.Percentile {
	var out []answers.Percentile
	for i, percent := range []string{"50", "90", "95", "99"} {
		out = append(out, answers.Percentile{Percent: percent, Amount: amounts[i], Used: percent == "90"})
	}
	return out
}

// Blocked is a workload of one replica whose target nobody can apply.
func Blocked() *explain.Report {
	text := "The workload has 1 live pod, fewer than minReplicas (2, set by --min-replicas)"
	change := []answers.Change{
		{Container: "app", Field: "requests.cpu", From: "100m", To: "476m"},
		{Container: "app", Field: "requests.memory", From: "512Mi", To: "978270031"},
		{Container: "app", Field: "limits.memory", From: "1Gi", To: "1956540062"},
	}
	return &explain.Report{
		Subject: "Deployment web/shop", VPA: "web/shop", Target: "Deployment/shop", Mode: "Recreate", Now: Now,
		Verdict: explain.Verdict{Token: "eligibility/too-few-replicas", Action: "Skip", Text: text + "; its pod keeps cpu 100m, and the target is 476m."},
		Findings: []explain.Finding{
			{Token: "eligibility/too-few-replicas", Class: explain.Misconfigured, About: "pod web/shop-7c5687bd57-2x8lq", Text: text,
				WayOut: "It has 2 live pods, or spec.updatePolicy.minReplicas or --min-replicas is lower"},
			{Token: "hpa-same-resource", Class: explain.Misconfigured, About: "HorizontalPodAutoscaler web/shop",
				Text: "It scales by the utilization of cpu, which the VPA changes", WayOut: "Scale by another metric, or take cpu out of controlledResources"},
			{Token: "budget-spent", Class: explain.Waiting, About: "PodDisruptionBudget web/shop", Text: "It allows 0 evictions now: 1 of 1 pods healthy, 1 wanted", WayOut: "2 pods are healthy"},
			{Token: "little-history", Class: explain.Info, About: "container app", Text: "Upper bounds are wide: 3 hours of history count as confidence 0.125"},
			{Token: "capped", Class: explain.Info, About: "container app", Text: "maxAllowed 2Gi caps the upper bound of memory"},
		},
		Resources: []explain.Amounts{
			{
				Container: "app", Resource: "cpu", Usage: usage("159m", "414m", "438m", "511m"), LastUsage: "203m",
				Target: "476m", LowerBound: "83m", UpperBound: "228956m", Uncapped: "476m",
				Way: []engine.Step{
					estimate("target", "59:13", "unset", "414m", "percentile 0.9 of 180 samples"),
					estimate("add-safety-margin", "68:13", "414m", "476m", ""),
				},
				Bounds: []engine.Step{
					bound("upperBound", "upper-bound", "65:13", "unset", "414m"), bound("upperBound", "add-safety-margin", "68:13", "414m", "476m"),
					bound("upperBound", "widen-upper-bound", "73:13", "476m", "228956m"),
				},
			},
			{
				Container: "app", Resource: "memory", Usage: usage("446617070", "850669593", "850669593", "893203072"), LastUsage: "612368384",
				Target: "978270031", LowerBound: "446617070", UpperBound: "2Gi", Uncapped: "978270031",
				Way: []engine.Step{
					estimate("target", "59:13", "unset", "850669593", "percentile 0.9 of 4 window peaks"),
					estimate("add-safety-margin", "68:13", "850669593", "978270031", ""),
				},
			},
		},
		Pods: []explain.Pod{{
			RunningPod: answers.RunningPod{PlannedPod: answers.PlannedPod{
				Pod: "web/shop-7c5687bd57-2x8lq", VPA: "web/shop", Action: "Skip", Rule: "eligibility/too-few-replicas", Class: explain.Misconfigured, Reason: text,
				Until:    "the workload has 2 live pods, or minReplicas is 1",
				Priority: &answers.Priority{OutsideRecommendedRange: true, ScaleUp: true, ResourceDiff: 4.671}, Change: change,
				Steps: []engine.Step{
					{RuleSet: "update-mode", Version: "1.0.0", Rule: "applied", At: "rules/update-mode.yaml:11:12", To: "Apply"},
					{RuleSet: "requests", Version: "1.0.0", Stage: "recommended", Rule: "request", At: "rules/requests.yaml:12:13", Item: "app", Field: "requests.cpu", From: "unset", To: "476m"},
					{RuleSet: "proportional-limits", Version: "1.0.0", Stage: "follow", Rule: "request", At: "rules/proportional-limits.yaml:13:13", Item: "app", Field: "limits.memory", From: "unset", To: "1956540062"},
					{RuleSet: "update", Version: "1.0.0", Rule: "too-few-replicas", At: "rules/update.yaml:41:12", To: "Skip", Reason: text},
				},
			}},
			Node: "node-1", Phase: "Running", QOS: "Burstable",
			Containers: []explain.PodContainer{
				{Container: "app", Field: "requests.cpu", Now: "100m", New: "476m"},
				{Container: "app", Field: "limits.cpu"},
				{Container: "app", Field: "requests.memory", Now: "512Mi", New: "978270031"},
				{Container: "app", Field: "limits.memory", Now: "1Gi", New: "1956540062"},
			},
		}},
		Decisions: []answers.Decision{
			{ID: "19ce9c5a03c0", Time: Now.Add(-3 * time.Hour), Component: "recommender", Action: "Recommend", Changes: []string{"container app: target.cpu 310m → 402m"}, Inputs: "2f0e4d9c1b7a", Rules: rules.Digest},
			{ID: "19ce9c5a03c1", Time: Now.Add(-70 * time.Minute), Component: "updater", Pod: "web/shop-7c5687bd57-2x8lq", Action: "Skip", Rule: "eligibility/too-few-replicas", Reason: text, Inputs: "77aa01c2d3e4", Rules: rules.Digest},
			{ID: "19ce9c5a03c2", Time: Now.Add(-50 * time.Minute), Component: "recommender", Action: "Recommend", Changes: []string{"container app: target.cpu 402m → 476m", "container app: target.memory 931135488 → 978270031"}, Inputs: "5b6c7d8e9f00", Rules: rules.Digest},
			{ID: "19ce9c5a03c3", Time: Now.Add(-time.Minute), Component: "updater", Pod: "web/shop-7c5687bd57-2x8lq", Action: "Skip", Rule: "eligibility/too-few-replicas", Reason: text, Inputs: "0a1b2c3d4e5f", Rules: rules.Digest},
		},
		Events: []explain.Event{
			{Time: Now.Add(-20 * time.Minute), Object: "VerticalPodAutoscaler/shop", Type: "Warning", Reason: "TooFewReplicas", Message: text, Count: 14},
		},
		Processes: processes(rules.Digest, rules.Digest)[:2],
		Rules:     rules,
		Unknown:   []string{"What the admission controller did: pods/proxy of namespace celvpa-system is forbidden to you. Ask for verb create of pods/proxy there"},
	}
}
