package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// calmWithin is how long it may take until all is well after the last fault: reflectors wait for a minute, and the recommender needs
// some cycles with new samples.
const calmWithin = 10 * time.Minute

// settle ends what is wrong on purpose and waits until each VPA has what it should have. It returns what is still missing.
func (s *soak) settle(ctx context.Context, churn *churn) (late []string, err error) {
	if err := churn.calm(ctx); err != nil {
		return nil, err
	}
	limit := time.Now().Add(calmWithin)
	for {
		late = s.missing(ctx, churn)
		if err := s.watch.look(time.Now()); err != nil {
			return nil, err
		}
		if len(late) == 0 || time.Now().After(limit) || !pause(ctx, 2*time.Second) {
			break
		}
	}
	pause(ctx, settled+time.Second) // for what the last acts led to
	return late, s.watch.look(time.Now())
}

// missing lists what is not as it should be.
func (s *soak) missing(ctx context.Context, churn *churn) (out []string) {
	for _, c := range s.components {
		metrics, err := c.metrics(ctx)
		reachable, found := metrics["celvpa_webhook_reachable"]
		err = errors.Join(err, c.ready(ctx))
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%s is not ready: %s", c.name, err))
		case found && reachable != 1:
			out = append(out, c.name+": the webhook is not reachable")
		case metrics["celvpa_rule_errors_total"] > 0:
			out = append(out, fmt.Sprintf("%s: rules failed %.0f times", c.name, metrics["celvpa_rule_errors_total"]))
		}
	}
	for _, w := range churn.slots {
		if text := s.lacks(ctx, w); text != "" {
			out = append(out, fmt.Sprintf("VPA %s/%s: %s", w.namespace, w.name, text))
		}
	}
	return out
}

// lacks says what a VPA should have and has not.
func (s *soak) lacks(ctx context.Context, w *workload) string {
	var v vpav1.VerticalPodAutoscaler
	if err := s.cluster.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, &v); err != nil {
		return err.Error()
	}
	is := conditions(&v)
	for condition, wanted := range map[vpav1.VerticalPodAutoscalerConditionType]corev1.ConditionStatus{
		vpav1.RecommendationProvided: corev1.ConditionTrue, vpav1.RulesApplied: corev1.ConditionTrue,
		vpav1.NoPodsMatched: "", vpav1.ConfigUnsupported: "", vpav1.FetchingHistory: "",
	} {
		if got := is[condition]; got.Status != wanted && !(wanted == "" && got.Status == corev1.ConditionFalse) {
			return fmt.Sprintf("condition %s is %q, not %q: %s", condition, got.Status, wanted, got.Message)
		}
	}
	if v.Status.Recommendation == nil {
		return "it has no recommendation"
	}
	for i := range w.containers {
		name := fmt.Sprintf("c%d", i)
		found := slices.ContainsFunc(v.Status.Recommendation.ContainerRecommendations, func(r vpav1.RecommendedContainerResources) bool {
			return r.ContainerName == name && !r.Target.Cpu().IsZero() && !r.Target.Memory().IsZero()
		})
		if !found {
			return "container " + name + " has no recommendation"
		}
	}
	return ""
}

func conditions(v *vpav1.VerticalPodAutoscaler) map[vpav1.VerticalPodAutoscalerConditionType]vpav1.VerticalPodAutoscalerCondition {
	out := map[vpav1.VerticalPodAutoscalerConditionType]vpav1.VerticalPodAutoscalerCondition{}
	for _, condition := range v.Status.Conditions {
		out[condition.Type] = condition
	}
	return out
}

// ofRuntime is how Go's runtime begins what it says of a panic, a race or a deadlock.
var ofRuntime = regexp.MustCompile(`(?m)^(panic:|fatal error:|goroutine \d+ |WARNING: DATA RACE|runtime:|SIG[A-Z]+:|unexpected fault).*$`)

// crashes lists what the runtime says in the components' logs.
func (s *soak) crashes() (out []finding, err error) {
	for _, c := range s.components {
		for _, file := range c.logs {
			log, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if lines := ofRuntime.FindAllString(string(log), -1); len(lines) > 0 {
				out = append(out, finding{c.name, "crash", lines[0], len(lines), filepath.Base(file)})
			}
		}
	}
	return out, nil
}
