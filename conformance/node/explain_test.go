package node

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/celvpa/celvpa/explain"
)

// whyOf asks `celvpa explain` about a VPA. The components answer from their pods.
func whyOf(ctx context.Context, ns, name string) (r explain.Report, err error) {
	out, err := exec.CommandContext(ctx, program, "explain", name, "-n", ns, "--kubeconfig", kubeconfig, "--celvpa-namespace", system, "-o", "json").Output()
	if err != nil && len(out) == 0 {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// explained waits until celvpa gives a rule as the reason for what happens to a VPA's pods.
func explained(t *testing.T, ns, name, rule string) explain.Report {
	t.Helper()
	var r explain.Report
	if *beside { // nobody reaches what the process would answer
		t.Logf("celvpa explain %s is not asked whether it says %s: celvpa runs beside the cluster", name, rule)
		time.Sleep(besideWaits) // the states that are read next must last
		return r
	}
	untilEvery(t, 4*time.Second, patience, "celvpa explain "+name+" to say "+rule, func(ctx context.Context) (bool, string) {
		var err error
		if r, err = whyOf(ctx, ns, name); err != nil {
			return false, err.Error()
		}
		said := r.Verdict.Token + ": " + r.Verdict.Text
		for _, f := range r.Findings {
			said += "; " + f.Token
		}
		return strings.Contains(said, rule), said
	})
	return r
}

// answeredByAll waits until the recommender, the updater and the admission controller have said what they know of a VPA.
func answeredByAll(t *testing.T, ns, name string) {
	t.Helper()
	untilEvery(t, 4*time.Second, patience, "celvpa explain "+name+" to be answered by all components", func(ctx context.Context) (bool, string) {
		r, err := whyOf(ctx, ns, name)
		if err != nil {
			return false, err.Error()
		}
		who := []string{}
		for _, p := range r.Processes {
			who = append(who, p.Component+" "+p.Version+" in "+p.Instance)
		}
		text := strings.Join(who, "; ")
		return strings.Contains(text, "recommender") && strings.Contains(text, "updater") && strings.Contains(text, "admission-controller") && len(r.Unknown) == 0,
			text + "; verdict: " + r.Verdict.Text + "; unknown: " + strings.Join(r.Unknown, ", ")
	})
}
