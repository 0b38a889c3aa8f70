package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		if err := c.ready(ctx); err != nil {
			out = append(out, err.Error())
		} else if m, err := scrape(ctx, c.address); err == nil && m["celvpa_webhook_reachable"] != nil && m.value("celvpa_webhook_reachable") != 1 {
			out = append(out, c.name+": the webhook is not reachable")
		}
	}
	for _, w := range churn.slots {
		if text := s.lacks(ctx, w); text != "" {
			out = append(out, fmt.Sprintf("VPA %s/%s: %s", w.namespace, w.name, text))
		}
	}
	if text := s.orphanLacks(ctx); text != "" {
		out = append(out, text)
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

// orphanLacks says what the VPA without a target should say and does not.
func (s *soak) orphanLacks(ctx context.Context) string {
	var v vpav1.VerticalPodAutoscaler
	err := s.cluster.Get(ctx, client.ObjectKey{Namespace: namespaces[0], Name: "no-target"}, &v)
	switch is := conditions(&v); {
	case apierrors.IsNotFound(err), err != nil:
		return fmt.Sprintf("VPA no-target: %s", err)
	case is[vpav1.ConfigUnsupported].Status != corev1.ConditionTrue:
		return fmt.Sprintf("VPA no-target: condition ConfigUnsupported is %q, although its target does not exist", is[vpav1.ConfigUnsupported].Status)
	case is[vpav1.RecommendationProvided].Status == corev1.ConditionTrue:
		return "VPA no-target: it has a recommendation, although its target does not exist"
	}
	return ""
}

func conditions(v *vpav1.VerticalPodAutoscaler) map[vpav1.VerticalPodAutoscalerConditionType]vpav1.VerticalPodAutoscalerCondition {
	out := map[vpav1.VerticalPodAutoscalerConditionType]vpav1.VerticalPodAutoscalerCondition{}
	for _, one := range v.Status.Conditions {
		out[one.Type] = one
	}
	return out
}

// crashes lists what the runtime says in the components' logs of a panic, a race or a deadlock.
func (s *soak) crashes() (out []finding, err error) {
	for _, c := range s.components {
		for _, file := range c.logs {
			lines, err := crash(file)
			if err != nil {
				return nil, err
			}
			if len(lines) > 0 {
				out = append(out, finding{Component: c.name, Message: "crash", Error: lines[0], Count: len(lines), First: filepath.Base(file)})
			}
		}
	}
	return out, nil
}

// ofRuntime is how Go's runtime begins what it says.
var ofRuntime = regexp.MustCompile(`^(panic:|fatal error:|goroutine \d+ |WARNING: DATA RACE|runtime:|SIG[A-Z]+:|unexpected fault)`)

func crash(file string) (out []string, err error) {
	log, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if ofRuntime.MatchString(lines.Text()) {
			out = append(out, lines.Text())
		}
	}
	return out, lines.Err()
}
