package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/conformance/soak/watcher"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// report is what a soak found.
type report struct {
	head     string
	growths  map[string][]growth // of the longest life of each component
	lives    map[string]int
	counts   []string // what happened, and how often
	problems []problems
}

// problems are those of one sort; any fails the soak.
type problems struct {
	title string
	list  []string
}

func (r *report) pass() bool {
	return !slices.ContainsFunc(r.problems, func(p problems) bool { return len(p.list) > 0 })
}

// warmUp is how long a life may take to fill its caches: a quarter of the soak, at most 4 minutes.
func (s *soak) warmUp() time.Duration { return min(s.options.duration/4, 4*time.Minute) }

// report collects what was found, once the components have stopped.
func (s *soak) report(started time.Time, churn *churn, missing []string) (*report, error) {
	if err := s.watch.look(time.Now().Add(settled)); err != nil {
		return nil, err
	}
	r := &report{growths: map[string][]growth{}, lives: map[string]int{},
		head: fmt.Sprintf("soak of %s, %d workloads, seed %d; the longest life of each component, after a warm-up of %s",
			time.Since(started).Round(time.Second), s.options.scale, s.options.seed, s.warmUp())}
	var grows, unexplained []string
	proxies := map[string]int{}
	for _, c := range s.components {
		for effect, n := range c.proxy.Counts() {
			proxies[effect] += n
		}
		r.lives[c.name], r.growths[c.name] = len(c.logs), c.growths(s.warmUp())
		for _, g := range r.growths[c.name] {
			if !g.flat() {
				grows = append(grows, c.name+": "+g.String())
			}
		}
	}
	findings, explained := s.errors.result()
	crashes, err := s.crashes()
	if err != nil {
		return nil, err
	}
	for _, f := range append(findings, crashes...) {
		unexplained = append(unexplained, f.String())
	}
	if s.watch.evictions == 0 || s.watch.resizes == 0 {
		missing = append(missing, "celvpa evicted or resized nothing, so that nothing was judged")
	}
	r.counts = []string{
		fmt.Sprintf("%d evictions and %d resizes judged; %d refused by the API server; %d errors explained", s.watch.evictions, s.watch.resizes, s.watch.refused, explained),
		"faults: " + listed(s.faults.counts()), "what the proxies did: " + listed(proxies), "churn: " + listed(churn.done),
	}
	r.problems = []problems{{"budgets and modes that were broken", s.watch.wrong}, {"what grows, or lived too short to tell", grows},
		{"errors that nothing explains", unexplained}, {"what is missing in the end", missing}, {"requests that the shipped roles do not allow", s.watch.forbidden}}
	return r, nil
}

// progress prints a line.
func (s *soak) progress(started time.Time) {
	s.watch.mu.Lock()
	evictions, resizes, wrong := s.watch.evictions, s.watch.resizes, len(s.watch.wrong)
	s.watch.mu.Unlock()
	unexplained, explained := s.errors.result()
	say("%s of %s: %d evictions, %d resizes, %d wrong; errors: %d explained, %d kinds unexplained", time.Since(started).Round(time.Second),
		s.options.duration, evictions, resizes, wrong, explained, len(unexplained))
}

// write prints the report.
func (r *report) write(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\n\ncomponent\tlives\tmeasure\tstart\tend\t\n", r.head)
	for _, name := range slices.Sorted(maps.Keys(r.growths)) {
		for _, g := range r.growths[name] {
			verdict := "GROWS, OR NOT JUDGED"
			if g.flat() {
				verdict = "flat"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%.1f\t%.1f\t%s\n", name, r.lives[name], g.name, g.start/g.unit, g.end/g.unit, verdict)
		}
	}
	_ = table.Flush()
	fmt.Fprintf(out, "\n%s\n", strings.Join(r.counts, "\n"))
	for _, p := range r.problems {
		fmt.Fprintf(out, "%s: %d\n", p.title, len(p.list))
		for _, problem := range p.list {
			fmt.Fprintf(out, "  %s\n", problem)
		}
	}
	if r.pass() {
		fmt.Fprintln(out, "PASS")
	} else {
		fmt.Fprintln(out, "FAIL")
	}
}

// listed are numbers by name.
func listed(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(out, ", ")
}

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

// watch has the watcher judge what the audit log says that celvpa did.
type watch struct {
	judge  *watcher.Judge
	audit  *harness.AuditTail
	faults *faultLog

	mu                 sync.Mutex
	waiting            []watcher.Act // acts that are not judged yet
	evictions, resizes int
	refused            int
	forbidden          []string // requests that the shipped roles do not allow
	wrong              []string
}

func newWatch(history *watcher.History, faults *faultLog, audit *harness.AuditTail) *watch {
	known := func(at time.Time) time.Time { return faults.known(updater, at) }
	return &watch{judge: &watcher.Judge{History: history, Rules: watcher.Rules{MinReplicas: 2, Tolerance: 0.5}, Known: known},
		audit: audit, faults: faults}
}

// settled is how long after an act the watches have shown what it led to.
const settled = 5 * time.Second

// look judges what celvpa did until some seconds before now.
func (w *watch) look(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.audit.Read(w.note); err != nil {
		return err
	}
	slices.SortFunc(w.waiting, func(a, b watcher.Act) int { return a.At.Compare(b.At) }) // the log has them as they were answered
	until := now.Add(-settled)
	for len(w.waiting) > 0 && w.waiting[0].At.Before(until) {
		w.record(w.judge.Judge(w.waiting[0]))
		w.waiting = w.waiting[1:]
	}
	return nil
}

func (w *watch) record(wrong []string) {
	for _, text := range wrong {
		say("WRONG: %s", text)
	}
	w.wrong = append(w.wrong, wrong...)
}

// note takes note of a request of celvpa.
func (w *watch) note(event harness.AuditEvent) {
	const account = "system:serviceaccount:" + system + ":celvpa-"
	o := event.ObjectRef
	if o == nil || !strings.HasPrefix(event.User.Username, account) {
		return
	}
	if event.Forbidden() && !w.faults.during([]kind{serverRestart}, "", event.StageTimestamp, retries) {
		w.forbidden = append(w.forbidden, strings.TrimPrefix(event.User.Username, account)+": "+event.Verb+" "+event.RequestURI)
	}
	act := watcher.Act{At: event.RequestReceivedTimestamp, Resize: o.Subresource == "resize", Pod: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}
	if event.ResponseStatus == nil { // nobody was notified that it was carried out; the watcher sees what it did
		return
	}
	if o.Resource != "pods" || o.Subresource != "eviction" && !act.Resize || strings.Contains(event.RequestURI, "dryRun=") {
		return
	}
	switch code := event.ResponseStatus.Code; {
	case code >= 300:
		w.refused++
		return
	case act.Resize:
		w.resizes++
	default:
		w.evictions++
	}
	w.waiting = append(w.waiting, act)
}
