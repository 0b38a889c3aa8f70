package pagetest

import (
	"fmt"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
)

// Resized is a workload that works: two of its pods are resized, the third is next, and its target
// of memory falls.
func Resized() *explain.Report {
	report := &explain.Report{
		Subject: "VerticalPodAutoscaler mail/relay", VPA: "mail/relay", Target: "StatefulSet/relay", Mode: "InPlaceOrRecreate", Now: Now,
		Verdict: explain.Verdict{Token: "update/resize", Action: "InPlace", Text: "The updater resizes pod mail/relay-2 in place within a minute: cpu 1 → 627m."},
		Findings: []explain.Finding{
			{Token: "target-falls-slowly", Class: explain.Waiting, About: "container relay", Text: "Memory use is 201326592, and the target 734003200 falls below 300Mi in 6 days if usage stays"},
			{Token: "eligibility/within-recommended-range", Class: explain.Settled, About: "2 pods", Text: "Their requests are within the recommended range, and differ from the target by only 0%"},
			{Token: "pod-minimum", Class: explain.Info, About: "container tls", Text: "The minimum of a pod, cpu 25m and memory 250Mi, is divided by its 2 containers"},
		},
		Resources: []explain.Amounts{
			{
				Container: "relay", Resource: "cpu", Usage: usage("311m", "545m", "560m", "640m"), LastUsage: "322m",
				Target: "627m", LowerBound: "355m", UpperBound: "1123m", Uncapped: "627m",
				Way:     []engine.Step{estimate("target", "59:13", "unset", "545m", ""), estimate("add-safety-margin", "68:13", "545m", "627m", "")},
				History: history(),
			},
			{
				Container: "relay", Resource: "memory", Usage: usage("214748364", "638263652", "638263652", "671088640"), LastUsage: "201326592",
				Target: "700Mi", LowerBound: "230Mi", UpperBound: "1Gi", Uncapped: "734003199",
				Way: []engine.Step{
					estimate("target", "59:13", "unset", "638263652", ""),
					estimate("add-safety-margin", "68:13", "638263652", "734003199", ""),
					{RuleSet: "round-mib", Version: "1.2.0", Overlay: "RuleOverlay mail", Stage: "round", Rule: "mib", At: "overlays/mail.yaml:14:11", Item: "target", From: "734003199", To: "700Mi", Reason: "whole MiB, for the quota's sake"},
				},
				Falls: []answers.Fall{{At: Now.Add(26 * time.Hour), Target: "612Mi"}, {At: Now.Add(60 * time.Hour), Target: "498Mi"}, {At: Now.Add(101 * time.Hour), Target: "377Mi"}, {At: Now.Add(148 * time.Hour), Target: "243Mi"}},
			},
			{
				Container: "tls", Resource: "cpu", Usage: usage("1m", "3m", "3m", "5m"), LastUsage: "1m", Target: "12m", LowerBound: "12m", UpperBound: "14m",
				Way: []engine.Step{estimate("target", "59:13", "unset", "3m", ""), estimate("add-safety-margin", "68:13", "3m", "4m", ""), estimate("raise-to-minimum", "76:13", "4m", "12m", "pod minimum 25m ÷ 2 containers")},
			},
		},
		Processes: processes(), Rules: answers.Rules{Pipeline: rules.Pipeline, Digest: rules.Digest, Overlays: []string{"mail"}, Audited: []string{"mail-next"}},
		Events: []explain.Event{
			{Time: Now.Add(-41 * time.Minute), Object: "VerticalPodAutoscaler/relay", Type: "Normal", Reason: "InPlaceResizedByVPA", Message: "Pod relay-0 was resized in place"},
			{Time: Now.Add(-12 * time.Minute), Object: "VerticalPodAutoscaler/relay", Type: "Normal", Reason: "InPlaceResizedByVPA", Message: "Pod relay-1 was resized in place"},
		},
	}
	for i := range 3 {
		now, action, rule, class := "627m", "Skip", "eligibility/within-recommended-range", explain.Settled
		p := answers.PlannedPod{Pod: fmt.Sprintf("mail/relay-%d", i), VPA: "mail/relay", Reason: "Its requests are within the recommended range, and differ from the target by only 0%", Priority: &answers.Priority{}}
		if i == 2 {
			now, action, rule, class = "1", "InPlace", "update/resize", ""
			p.Reason, p.Priority.ResourceDiff = "It is 3d old, and its requests differ from the target by 37%", 0.373
			p.Change = []answers.Change{{Container: "relay", Field: "requests.cpu", From: "1", To: "627m"}}
		}
		p.Action, p.Rule, p.Class = action, rule, class
		report.Pods = append(report.Pods, explain.Pod{
			RunningPod: answers.RunningPod{PlannedPod: p}, Node: fmt.Sprintf("node-%d", i), Phase: "Running", QOS: "Burstable",
			Containers: []explain.PodContainer{
				{Container: "relay", Field: "requests.cpu", Now: now, New: "627m"},
				{Container: "relay", Field: "requests.memory", Now: "700Mi", New: "700Mi"}, {Container: "relay", Field: "limits.memory", Now: "1400Mi", New: "1400Mi"},
				{Container: "tls", Field: "requests.cpu", Now: "12m", New: "12m"},
			},
		})
		report.Decisions = append(report.Decisions, answers.Decision{
			ID: fmt.Sprintf("4c01d%07d", i), Time: Now.Add(time.Duration(29*i-70) * time.Minute), Component: "updater", Pod: p.Pod, Action: "InPlace",
			Rule: "update/resize", Changes: []string{"container relay: requests.cpu 1 → 627m"}, Inputs: "c0ffee000001", Rules: rules.Digest,
		})
	}
	return report
}

// history is a day of usage that rises, and of the target that follows it.
func history() []explain.Point {
	var out []explain.Point
	for hour := range 24 {
		used := 200 + 5*hour + 60*(hour%3)
		target := 400 + 227*hour/23
		out = append(out, explain.Point{
			Time: Now.Add(time.Duration(hour-24) * time.Hour), Usage: fmt.Sprintf("%dm", used), Request: "1",
			Target: fmt.Sprintf("%dm", target), LowerBound: fmt.Sprintf("%dm", target/2), UpperBound: fmt.Sprintf("%dm", 1700-25*hour),
		})
	}
	return out
}
