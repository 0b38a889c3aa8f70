package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/simulate"
)

// staleAfter is how old the last usage of a running container may be: ten intervals of
// metrics-server and of the recommender at their defaults.
const staleAfter = 10 * time.Minute

// amounts lists what is recommended for each container and resource, with the way to it where the
// recommender reports it.
func amounts(v *vpav1.VerticalPodAutoscaler, r *answers.Recommender) (out []Amounts) {
	recommended := v.Status.Recommendation
	if recommended == nil {
		recommended = &vpav1.RecommendedPodResources{}
	}
	known := map[string]*answers.Container{}
	names := map[string]bool{}
	for i := range recommended.ContainerRecommendations {
		names[recommended.ContainerRecommendations[i].ContainerName] = true
	}
	if r != nil {
		for i := range r.Containers {
			known[r.Containers[i].Name] = &r.Containers[i]
			names[r.Containers[i].Name] = true
		}
	}
	for _, name := range sortedKeys(names) {
		c := recommendationFor(v, name)
		for _, res := range facts.ScaledResources {
			a := Amounts{Container: name, Resource: string(res), Target: text(c.Target, res), LowerBound: text(c.LowerBound, res), UpperBound: text(c.UpperBound, res), Uncapped: text(c.UncappedTarget, res)}
			if k := known[name]; k != nil {
				usage := k.CPU
				if res == corev1.ResourceMemory {
					usage = k.Memory
				}
				a.Usage, a.LastUsage, a.Falls = usage.Percentiles, usage.Last, usage.Falls
				a.Way = way(k.Steps, "", string(res), "target")
				a.Way = append(a.Way, way(r.PodSteps, name, string(res), "target")...)
				a.Bounds = way(k.Steps, "", string(res), "lowerBound", "upperBound")
			}
			if a.Target != "" || len(a.Usage) > 0 {
				out = append(out, a)
			}
		}
	}
	if pod := recommended.PodRecommendation; pod != nil {
		for _, res := range facts.ScaledResources {
			a := Amounts{Resource: string(res), Target: text(pod.Target, res), LowerBound: text(pod.LowerBound, res), UpperBound: text(pod.UpperBound, res), Uncapped: text(pod.UncappedTarget, res)}
			if r != nil {
				a.Way = way(r.PodSteps, "", string(res), "target")
			}
			if a.Target != "" {
				out = append(out, a)
			}
		}
	}
	return out
}

func text(list corev1.ResourceList, name corev1.ResourceName) string {
	if q, has := list[name]; has {
		return q.String()
	}
	return ""
}

// way are the steps that set some bounds of a resource. Rules set the bounds of a container in now,
// with the bound as item; those of the pod set them by their names, with the container as item.
func way(steps []engine.Step, container, res string, bounds ...string) (out []engine.Step) {
	for _, s := range steps {
		ofContainer := container == "" && s.Field == "now."+res && slices.Contains(bounds, s.Item)
		ofPod := container != "" && s.Item == container && slices.ContainsFunc(bounds, func(bound string) bool { return s.Field == bound+"."+res })
		if ofContainer || ofPod {
			out = append(out, s)
		}
	}
	return out
}

// recommendationFindings say why there is no recommendation, or none that one would expect.
func recommendationFindings(o *objects, r *answers.Recommender, now time.Time) (out []Finding) {
	v := o.vpa
	for _, c := range v.Status.Conditions {
		isTrue := c.Status == corev1.ConditionTrue
		switch {
		case c.Type == vpav1.RulesApplied && !isTrue && c.Reason == "RulesNotFound":
			out = append(out, finding("pipeline-gone", "", "change the annotation that pins the pipeline, or install its version again", "%s", c.Message))
		case c.Type == vpav1.RulesApplied && !isTrue:
			out = append(out, finding("rules-failed", "", "see the log of the recommender", "%s", c.Message))
		case c.Type == vpav1.LowConfidence && isTrue && (r == nil || !r.Known): // else its steps say more
			out = append(out, littleHistory("", "%s", c.Message))
		case c.Type == vpav1.ConfigUnsupported && isTrue && o.problem == "":
			out = append(out, finding("target-unusable", "", "", "%s", c.Message))
		}
	}
	if v.SpecUnreadable != "" || v.StatusUnreadable != "" {
		out = append(out, finding("vpa-unreadable", "", "write the VPA again", "%s", strings.TrimSpace(v.SpecUnreadable+" "+v.StatusUnreadable)))
	}
	if o.problem != "" {
		return append(out, finding("target-unusable", "", "name an existing workload in spec.targetRef, the topmost controller of its pods", "%s", o.problem))
	}
	if o.selector != nil && o.podsKnown && len(o.pods) == 0 {
		return append(out, finding("no-pods", "", "scale the workload up, or check its selector against the labels of its pods", "no pod in namespace %s has the labels %s, which the target selects", v.Namespace, o.selector))
	}
	if r == nil {
		return out
	}
	if !r.Known {
		return append(out, finding("other-recommender", "", "start a recommender with that --recommender-name, or remove spec.recommenders", "the VPA asks for recommender %s, and the one that runs does not serve it", strings.Join(recommenders(v), ", ")))
	}
	return append(out, usageFindings(o, r, now)...)
}

func recommenders(v *vpav1.VerticalPodAutoscaler) (out []string) {
	for _, r := range v.Spec.Recommenders {
		if r != nil {
			out = append(out, r.Name)
		}
	}
	return out
}

// usageFindings are about the usage that the recommender has seen.
func usageFindings(o *objects, r *answers.Recommender, now time.Time) (out []Finding) {
	v := o.vpa
	const check = "check that `kubectl top pod` shows the pod, and the log of the recommender"
	unsampled := func(about, of string, written time.Time) Finding {
		sees := "the recommender sees " + simulate.Counted(r.Pods, "pod")
		if written.IsZero() {
			return finding("no-samples", about, check, "%s, but no usage%s", sees, of)
		}
		return finding("no-samples", about, "give the time of the manifests with --now, or newer usage", "%s, but no usage%s at %s: that in checkpoints, written at %s, has expired or is empty",
			sees, of, now.UTC().Format(time.RFC3339), written.Format(time.RFC3339))
	}
	if r.Pods > 0 && !slices.ContainsFunc(r.Containers, func(c answers.Container) bool { return isSampled(&c) }) {
		return append(out, unsampled("", "", slices.MaxFunc(append(slices.Collect(maps.Values(o.written)), time.Time{}), time.Time.Compare)))
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		switch {
		case !c.Present || !isScaled(c):
		case !isSampled(c):
			out = append(out, unsampled("container "+c.Name, " of this container", o.written[c.Name]))
		case c.LastSample != nil && now.Sub(*c.LastSample) > staleAfter:
			out = append(out, finding("samples-stale", "container "+c.Name, check, "the last of its %d CPU samples is %s old", c.Samples, now.Sub(*c.LastSample).Round(time.Second)))
		}
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		if !recommendedIn(v.Status.Recommendation, c.Name) && recommendedIn(r.Recommendation, c.Name) {
			out = append(out, finding("recommendation-pending", "container "+c.Name, "the recommender writes it in its next cycle", "there are %d CPU and %d memory samples, and the recommendation is not written yet", c.Samples, c.MemorySamples))
		} else if c.Present && isSampled(c) && lacksSamples(c) && !recommendedIn(r.Recommendation, c.Name) {
			out = append(out, finding("too-few-samples", "container "+c.Name, "more samples; see --recommendation-min-samples", "there are %d CPU and %d memory samples, too few for a recommendation", c.Samples, c.MemorySamples))
		}
		for _, oom := range c.OOMs {
			out = append(out, oomFinding(c.Name, oom))
		}
		out = append(out, fallFindings(c)...)
	}
	explained := slices.ContainsFunc(out, func(f Finding) bool { return slices.Contains(notWritten, f.Token) })
	if r.Recommendation != nil && !explained && !sameTargets(r.Recommendation, v.Status.Recommendation) {
		out = append(out, finding("recommendation-pending", "", "the recommender writes it in its next cycle", "the recommender has computed new targets, which are not in the status yet"))
	}
	return append(out, historyFindings(r)...)
}

// isSampled reports whether any usage of a container counts.
func isSampled(c *answers.Container) bool { return c.Samples > 0 || c.MemorySamples > 0 }

// isScaled reports whether rules recommend anything for a container: the decision of point container.select is the only one on
// the way.
func isScaled(c *answers.Container) bool {
	return !slices.ContainsFunc(c.Steps, func(s engine.Step) bool { return s.Field == "" && s.To == facts.DoIgnore })
}

// lacksSamples reports whether rules say that too little is known of a resource that they would recommend.
func lacksSamples(c *answers.Container) bool {
	return slices.ContainsFunc(c.Steps, func(s engine.Step) bool { return strings.HasPrefix(s.Field, "unknown.") && s.To == "true" })
}

// notWritten are the findings that say why targets in the status are not those that are computed.
var notWritten = []string{"no-samples", "samples-stale", "recommendation-pending", "too-few-samples", "target-falls-slowly"}

func recommendedIn(r *vpav1.RecommendedPodResources, container string) bool {
	return r != nil && slices.ContainsFunc(r.ContainerRecommendations, func(c vpav1.RecommendedContainerResources) bool { return c.ContainerName == container })
}

func sameTargets(a, b *vpav1.RecommendedPodResources) bool {
	if a == nil || b == nil || len(a.ContainerRecommendations) != len(b.ContainerRecommendations) {
		return a == b
	}
	for i := range a.ContainerRecommendations {
		if !equality.Semantic.DeepEqual(a.ContainerRecommendations[i].Target, b.ContainerRecommendations[i].Target) {
			return false
		}
	}
	return true
}

// counts is the outcome of an OOM that has become a sample.
const counts = "accepted"

func oomFinding(container string, o answers.OOM) Finding {
	about := fmt.Sprintf("container %s of pod %s", container, o.Pod)
	at := o.Time.UTC().Format(time.RFC3339)
	if o.Outcome == counts && o.CountsAs != "" {
		by := ""
		if len(o.Steps) > 0 {
			by = " (" + o.Steps[len(o.Steps)-1].Path() + ")"
		}
		return finding("oom-counted", about, "", "it ran out of memory at %s with %s, which counts as a sample of %s%s", at, quantity.Short(o.Reported), quantity.Short(o.CountsAs), by)
	}
	return finding("oom-ignored", about, "", "it ran out of memory at %s with %s, which does not count: %s", at, quantity.Short(o.Reported), o.Outcome)
}

// fallFindings say when targets fall that are above what is used now.
func fallFindings(c *answers.Container) (out []Finding) {
	for _, of := range []struct {
		name  string
		usage answers.Usage
	}{{"cpu", c.CPU}, {"memory", c.Memory}} {
		falls := of.usage.Falls
		if len(falls) == 0 || of.usage.Last == "" || of.usage.Last == "0" { // nothing was seen since the start
			continue
		}
		first, last := falls[0], falls[len(falls)-1]
		more := ""
		if len(falls) > 1 {
			more = fmt.Sprintf(", and %s at %s", quantity.Short(last.Target), last.At.UTC().Format(time.RFC3339))
		}
		out = append(out, finding("target-falls-slowly", "container "+c.Name, "old samples have lost their weight, half of it in each half-life (--"+of.name+"-histogram-decay-half-life)",
			"if %s usage stays at %s, its target falls to %s at %s%s", of.name, quantity.Short(of.usage.Last), quantity.Short(first.Target), first.At.UTC().Format(time.RFC3339), more))
	}
	return out
}

// confidenceLow is the field that rules set of a container whose history is short.
const confidenceLow = "confidence.low"

// littleHistory is about bounds that are wide because rules consider a history short.
func littleHistory(about, format string, args ...any) Finding {
	return finding("little-history", about, "bounds narrow as history grows", format, args...)
}

// historyFindings say for which containers rules consider the history short, and how they came to
// their upper bounds.
func historyFindings(r *answers.Recommender) (out []Finding) {
	for i := range r.Containers {
		c := &r.Containers[i]
		by := lastOf(c.Steps, "", confidenceLow)
		if by.To != "true" || c.FirstSample == nil || c.LastSample == nil || !recommendedIn(r.Recommendation, c.Name) {
			continue
		}
		why := fmt.Sprintf("history is %s over %s, which is little (%s)", simulate.Counted(c.Samples, "sample"), c.LastSample.Sub(*c.FirstSample).Round(time.Second), by.Path())
		for _, res := range facts.ScaledResources {
			var steps []string
			for _, s := range append(way(c.Steps, "", string(res), "upperBound"), way(r.PodSteps, c.Name, string(res), "upperBound")...) {
				steps = append(steps, quantity.Short(s.To)+" by "+s.Path())
			}
			if len(steps) > 0 {
				why += fmt.Sprintf("; the upper bound of %s is %s", res, strings.Join(steps, ", then "))
			}
		}
		out = append(out, littleHistory("container "+c.Name, "%s", why))
	}
	return out
}

func recommendationFor(v *vpav1.VerticalPodAutoscaler, container string) (out vpav1.RecommendedContainerResources) {
	if r := v.Status.Recommendation; r != nil {
		for _, c := range r.ContainerRecommendations {
			if c.ContainerName == container {
				out = c
			}
		}
	}
	return out
}
