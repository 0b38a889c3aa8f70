package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/parallel"
)

// Watch is called as work goes on: what is being done, in words, and how much of it is done.
type Watch func(what string, done, of int)

// comparison compares two sets of rules.
type comparison struct {
	*world
	pods   []*corev1.Pod
	sides  [2]*side // by the rules in force, and by the others
	differ []bool   // VPAs whose rules differ, by position
	asked  []bool   // VPAs that something may change for: those, and those that share pods with them
	alike  map[[2]*engine.Plan]alike
	watch  Watch
}

// Compare says what would change by a candidate for the rules, on which the cluster's RuleOverlays
// are laid except those of which it has its own. Recommendations that other rules would change are
// computed by both from the cluster's checkpoints; see Restored. The error lists what cannot be
// used.
func (c *Cluster) Compare(ctx context.Context, candidate *compile.Rulebook, watch Watch) (*Impact, error) {
	after, unusable := c.laidUnder(candidate)
	w, unread := c.world()
	x := &comparison{world: w, watch: watch, alike: map[[2]*engine.Plan]alike{}}
	pods, unreadPods := c.pods()
	x.pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	})
	x.addOwners(x.pods)
	x.assign()
	x.sides = [2]*side{x.side(c.book), x.side(after)}
	x.findDifferences()
	unrestored := x.recommend(ctx)
	x.judge()
	x.update(ctx)
	return x.assemble(ctx), faults.Join(unusable, unread, unreadPods, unrestored, ctx.Err())
}

// laidUnder lays the cluster's overlays on other rules. The error lists those that the rules in force
// take, and the others do not.
func (c *Cluster) laidUnder(candidate *compile.Rulebook) (*compile.Rulebook, error) {
	overlays, _ := c.set.RuleOverlays() // Load said what cannot be read
	var replaced []string
	for i := len(overlays) - 1; i >= 0; i-- {
		switch name := overlays[i].Name; {
		case !c.book.HasOverlay(name):
			overlays = slices.Delete(overlays, i, i+1)
		case candidate.HasOverlay(name):
			if !c.installed.HasOverlay(name) {
				replaced = append(replaced, name)
			}
			overlays = slices.Delete(overlays, i, i+1)
		}
	}
	if slices.Sort(replaced); len(replaced) > 0 {
		c.note("the candidate replaces RuleOverlay %s of the cluster", strings.Join(replaced, ", "))
	}
	after, err := policy.WithOverlays(c.Here(candidate), overlays)
	if err != nil {
		err = fmt.Errorf("with the candidate: %w", err)
	}
	return after, err
}

// assign finds the VPAs of all pods.
func (x *comparison) assign() {
	selected := make([][]int, len(x.pods))
	x.each(context.Background(), "matching pods with VerticalPodAutoscalers", len(x.pods), func(i int) {
		selected[i] = x.selects(x.pods[i])
	})
	for i, pod := range x.pods {
		x.selecting[pod] = selected[i]
	}
}

// findDifferences finds the VPAs whose rules differ, and those that share pods with them.
func (x *comparison) findDifferences() {
	x.differ, x.asked = make([]bool, len(x.vpas)), make([]bool, len(x.vpas))
	var pinned []string
	for i, v := range x.vpas {
		before, after := x.sides[0].selection(v.Object), x.sides[1].selection(v.Object)
		x.differ[i] = before.Plan != after.Plan && before.Plan.Digest() != after.Plan.Digest() || (before.Err == nil) != (after.Err == nil)
		x.asked[i] = x.differ[i]
		if x.differ[i] && !x.pair(v.Object).count {
			x.note("the candidate changes how usage is counted (points %s and %s), which acts on future usage only: it is left out here", facts.UsageWindow, facts.UsageOOM)
		}
		if v.Object.Annotations[policy.AnnotationPipeline] != "" && !x.differ[i] {
			pinned = append(pinned, v.Key())
		}
	}
	for _, pod := range x.pods {
		if selected := x.selecting[pod]; slices.ContainsFunc(selected, func(i int) bool { return x.differ[i] }) {
			for _, i := range selected {
				x.asked[i] = true
			}
		}
	}
	if slices.Sort(pinned); len(pinned) > 0 {
		x.note("%s pinned with annotation %s, and the candidate does not change that pipeline for them: %s", are(len(pinned), "VerticalPodAutoscaler"), policy.AnnotationPipeline, Few(pinned))
	}
}

func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

// recommend computes recommendations by both sets of rules, where these differ.
func (x *comparison) recommend(ctx context.Context) error {
	checkpoints, unread := x.set.Checkpoints()
	differing := *x.world
	differing.vpas = nil
	var positions []int
	for i, v := range x.vpas {
		if x.differ[i] {
			positions, differing.vpas = append(positions, i), append(differing.vpas, v)
		}
	}
	pods := slices.DeleteFunc(slices.Clone(x.pods), func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(x.selecting[pod], func(i int) bool { return x.differ[i] })
	})
	restored, unrestored := differing.restored(pods, checkpoints)
	for n, side := range x.sides {
		restored.State.UseRules(side.book)
		for k, i := range positions {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			x.progress([...]string{"recommending by the rules in force", "recommending by the candidate"}[n], k+1, len(positions))
			if status := restored.Status(x.vpas[i].Object.Namespace, x.vpas[i].Object.Name); status != nil {
				side.recommended[i] = status.Recommendation
			}
		}
	}
	var kept []string
	for _, i := range positions {
		v, before, after := x.vpas[i], x.sides[0].recommended[i], x.sides[1].recommended[i]
		switch {
		case x.pair(v.Object).recommend:
		case before != nil:
			x.note("recommendations by both sets of rules are computed from checkpoints, which hold neither the memory windows that are open nor usage since they were written")
		case v.Object.Status.Recommendation != nil:
			kept = append(kept, v.Key())
		}
		if before == nil || after == nil || equality.Semantic.DeepEqual(before, after) {
			x.sides[0].recommended[i], x.sides[1].recommended[i] = nil, nil
		}
	}
	if slices.Sort(kept); len(kept) > 0 {
		x.note("%s without a checkpoint: the recommendation is compared as it is, as if the candidate did not change it: %s", Counted(len(kept), "VerticalPodAutoscaler"), Few(kept))
	}
	return faults.Join(unread, unrestored)
}

// pair compares the plans of a VPA, once for all VPAs with the same.
func (x *comparison) pair(v *vpav1.VerticalPodAutoscaler) alike {
	key := [2]*engine.Plan{policy.For(x.sides[0].book, v).Plan, policy.For(x.sides[1].book, v).Plan}
	if known, ok := x.alike[key]; ok {
		return known
	}
	out := alike{recommend: true, count: true}
	for _, line := range engine.Diff(key[0], key[1]) {
		if strings.HasPrefix(line, "pipeline ") ||
			about(line, key, facts.ContainerPolicy, facts.ContainerSelect, facts.ContainerEstimate, facts.ContainerRecommend, facts.PodRecommend) {
			out.recommend = false
		}
		if about(line, key, facts.UsageWindow, facts.UsageOOM) {
			out.count = false
		}
	}
	x.alike[key] = out
	return out
}

// alike says in what two plans have the same rule sets.
type alike struct {
	recommend bool
	count     bool // of usage
}

// about reports whether a line of engine.Diff is about some points: it begins with one of them, with
// a rule set that runs there, or with a param that one of those reads.
func about(line string, plans [2]*engine.Plan, points ...string) bool {
	subject := line[:strings.IndexAny(line+":", ":/ ")]
	if slices.Contains(points, subject) {
		return true
	}
	if param, shared := strings.CutPrefix(line, "param "); shared {
		param, _, _ = strings.Cut(param, " ")
		return slices.ContainsFunc(points, func(point string) bool { return plans[0].ReadsParam(point, param) || plans[1].ReadsParam(point, param) })
	}
	return slices.ContainsFunc(points, func(point string) bool {
		return slices.ContainsFunc(slices.Concat(plans[0].RuleSets(point), plans[1].RuleSets(point)), func(set string) bool {
			name, _, _ := strings.Cut(set, "@")
			return name == subject
		})
	})
}

// progress reports how far something is.
func (x *comparison) progress(what string, done, of int) {
	if x.watch != nil {
		x.watch(what, done, of)
	}
}

// each calls f for 0 to n-1 on all cores until the context ends, and reports progress.
func (x *comparison) each(ctx context.Context, what string, n int, f func(i int)) {
	var done atomic.Int64
	parallel.Each(n, func(i int) {
		if ctx.Err() == nil {
			f(i)
			x.progress(what, int(done.Add(1)), n)
		}
	})
}
