package pagetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain"
)

// Large is a workload of many containers, with more of everything.
func Large(containers int) *explain.Report {
	report := &explain.Report{
		Subject: "StatefulSet batch/workers", VPA: "batch/workers", Target: "StatefulSet/workers", Mode: "Recreate", Now: Now,
		Verdict:   explain.Verdict{Token: "update/budget-spent", Action: "Wait", Text: "With those of this cycle, 1 of 2 replicas are disrupted or not running; at most 1 may be (--eviction-tolerance)"},
		Processes: processes("65895351f390", "0f1e2d3c4b5a"), Rules: rules,
	}
	pod := explain.Pod{RunningPod: answers.RunningPod{PlannedPod: answers.PlannedPod{
		Pod: "batch/workers-0", VPA: "batch/workers", Action: "Wait", Rule: "update/budget-spent", Class: explain.Waiting, Reason: report.Verdict.Text,
	}}, Node: "node-1", Phase: "Running", QOS: "Guaranteed"}
	for i := range containers {
		name := fmt.Sprintf("worker-%03d", i)
		target := fmt.Sprintf("%dm", 115+i)
		falls := []answers.Fall{{At: Now.Add(20 * time.Hour), Target: "90m"}, {At: Now.Add(70 * time.Hour), Target: "60m"}}
		for _, resource := range []string{"cpu", "memory"} {
			now := "100m"
			a := explain.Amounts{
				Container: name, Resource: resource, Usage: usage("50m", fmt.Sprintf("%dm", 100+i), "150m", "190m"), LastUsage: "55m",
				Target: target, LowerBound: "60m", UpperBound: "400m", Falls: falls,
				Way: []engine.Step{estimate("target", "59:13", "unset", fmt.Sprintf("%dm", 100+i), ""), estimate("add-safety-margin", "68:13", fmt.Sprintf("%dm", 100+i), target, "")},
			}
			if resource == "memory" {
				now, a.Usage, a.LastUsage, a.Falls = "128Mi", usage("104857600", "157286400", "157286400", "209715200"), "104857600", nil
				a.Target, a.LowerBound, a.UpperBound = "180879360", "120586240", "1Gi"
				a.Way = []engine.Step{estimate("target", "59:13", "unset", "157286400", ""), estimate("add-safety-margin", "68:13", "157286400", "180879360", "")}
			}
			report.Resources = append(report.Resources, a)
			pod.Containers = append(pod.Containers, explain.PodContainer{Container: name, Field: "requests." + resource, Now: now, New: a.Target})
		}
		pod.Change = append(pod.Change, answers.Change{Container: name, Field: "requests.cpu", From: "100m", To: target})
		report.Findings = append(report.Findings, explain.Finding{Token: "little-history", Class: explain.Info, About: "container " + name, Text: "Upper bounds are wide"})
		report.Decisions = append(report.Decisions, answers.Decision{
			ID: fmt.Sprintf("%012x", i), Time: Now.Add(time.Duration(i-containers) * time.Minute), Component: "recommender", Action: "Recommend",
			Changes: []string{"container " + name + ": target.cpu 100m → " + target}, Inputs: "c0ffee000001", Rules: rules.Digest,
		})
	}
	report.Pods = []explain.Pod{pod}
	return report
}

// Attack is what every text of Hostile holds: markup, ends of attributes, of the style and of the
// title, controls, and characters that turn the direction of what follows.
const Attack = `<script>window.hacked=1</script>"'><img src=x onerror=window.hacked=1></style></title>&lt;{}%s` + "\x00\x1b[31m\u202Eevil\u2066\u200B\xff שלום"

// Hostile has Attack in every text but the quantities that charts draw.
func Hostile() *explain.Report {
	report := Resized()
	attack(reflect.ValueOf(report).Elem())
	return report
}

var drawn = []string{"Amount", "Target", "LowerBound", "UpperBound"}

func attack(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if v.String() != "" {
			v.SetString(Attack + v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			attack(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			attack(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !slices.Contains(drawn, name) {
				attack(v.Field(i))
			}
		}
	}
}
