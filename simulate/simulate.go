// Package simulate is a cluster made of manifests: objects as controllers see them, rules with
// RuleOverlays, and a fixed clock. It answers what the recommender, the updater, the admission
// controller and the API server would do, by running their code.
//
// Results are plain structs; scripts depend on the JSON names of `celvpa … -o json`. An error says
// what could not be used; the result has the rest. Flags and output belong in cmd/celvpa.
package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Cluster is a cluster at one point in time.
type Cluster struct {
	set       *manifests.Set
	installed *compile.Rulebook // rules without RuleOverlays
	book      *compile.Rulebook // rules with RuleOverlays
	clock     clock.PassiveClock
	notes     []string
	noted     map[string]bool // the same

	statuses map[string]vpav1.VerticalPodAutoscalerStatus // of VPAs, by namespace/name, in place of those in the manifests; see Feed

	// Watch receives the progress of long answers; nil = nobody.
	Watch func(what string, done, of int)

	selection *Selection // nil = all VPAs
}

// Selection is which VPAs answers are about.
type Selection struct {
	Namespace string          // empty = all
	Labels    labels.Selector // labels.Everything() = all
}

func (s *Selection) matches(namespace string, of labels.Set) bool {
	return s == nil || (s.Namespace == "" || s.Namespace == namespace) && s.Labels.Matches(of)
}

// pod reports whether answers are about a pod, and the VPA that controls it; nil = none.
func (s *Selection) pod(namespace string, v *vpav1.VerticalPodAutoscaler) bool {
	switch {
	case s == nil:
		return true
	case v == nil:
		return s.Labels.Empty() && s.matches(namespace, nil)
	}
	return s.matches(v.Namespace, v.Labels)
}

// Select makes answers be about some VPAs. The others still have their pods. It reports whether there is any.
func (c *Cluster) Select(selection Selection) bool {
	c.selection = &selection
	documents, _ := c.set.VPAs() // whoever uses them reports what cannot be read
	return slices.ContainsFunc(documents, func(d manifests.Document) bool { return selection.matches(d.Namespace, d.Labels()) })
}

// Selects reports whether answers are about a VPA.
func (c *Cluster) Selects(v *vpav1.VerticalPodAutoscaler) bool {
	return c.selection.matches(v.Namespace, labels.Set(v.Labels))
}

func (c *Cluster) progress(what string, done, of int) {
	if c.Watch != nil {
		c.Watch(what, done, of)
	}
}

// Load makes a cluster from manifests and rules, changed by the RuleOverlays in the manifests. The
// error lists unusable ones, which it skips.
func Load(set *manifests.Set, rules *compile.Rulebook, at clock.PassiveClock) (*Cluster, error) {
	overlays, unread := set.RuleOverlays()
	c := &Cluster{set: set, clock: at}
	c.installed = c.Here(rules)
	book, unusable := policy.WithOverlays(c.installed, overlays)
	c.book = book
	if left := set.LeftOut(); left != "" {
		c.note("%s", left)
	}
	return c, faults.Join(unread, set.Twice("RuleOverlay"), unusable)
}

// Notes are remarks on the results so far, in order: guesses, omissions, and what has no effect.
func (c *Cluster) Notes() []string {
	_, wayOut := c.lacking()
	for _, unknown := range c.set.Unknown() {
		c.note("%s%s", unknown, wayOut)
	}
	return c.notes
}

// At returns a fixed clock.
func At(t time.Time) clock.PassiveClock { return stopped(t) }

type stopped time.Time

// Now implements clock.PassiveClock.
func (s stopped) Now() time.Time { return time.Time(s) }

// Since implements clock.PassiveClock.
func (s stopped) Since(t time.Time) time.Duration { return time.Time(s).Sub(t) }

func (c *Cluster) limitRanges() (map[string][]corev1.LimitRange, error) {
	list, err := c.set.LimitRanges()
	out := map[string][]corev1.LimitRange{}
	for _, limitRange := range firsts(list, func(r *corev1.LimitRange) string { return r.Namespace + "/" + r.Name }) {
		out[limitRange.Namespace] = append(out[limitRange.Namespace], limitRange)
	}
	return out, err
}

// firsts drops later duplicates by key.
func firsts[T any](list []T, key func(*T) string) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item T) bool {
		k := key(&item)
		again := seen[k]
		seen[k] = true
		return again
	})
}

// Here returns rules with the labels of the cluster's namespaces and workloads.
func (c *Cluster) Here(rules *compile.Rulebook) *compile.Rulebook {
	return rules.WithLabels(policy.LabelsOf(func() facts.Objects { return c.set }))
}

// Rules are those in force, with the RuleOverlays of the manifests.
func (c *Cluster) Rules() *compile.Rulebook { return c.book }

// Pods returns the pods, without duplicates. The error lists those that cannot be read.
func (c *Cluster) Pods() ([]corev1.Pod, error) {
	pods, err := c.set.Pods()
	return firsts(pods, func(p *corev1.Pod) string { return keyOfPod(p) }), err
}

// note adds a note unless it exists.
func (c *Cluster) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if !c.noted[text] {
		c.noted[text] = true
		c.notes = append(c.notes, text)
	}
}

// lacking says of an object that the cluster lacks where it was looked for; wayOut is what to do about it.
func (c *Cluster) lacking() (what, wayOut string) {
	if c.set.IsLive() {
		return "was not found in the cluster", ""
	}
	return "is not in the manifests", "; add its manifest with -f"
}

const maxNames = 5

// Few joins the first names, with an ellipsis for the rest.
func Few(names []string) string {
	if len(names) > maxNames {
		names = append(slices.Clone(names[:maxNames]), "…")
	}
	return strings.Join(names, ", ")
}

// Counted formats a number with its noun, e.g. 1 row or 2 rows.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// podKinds are pods and their controllers.
var podKinds = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}

// noteTwice notes duplicate objects of some kinds.
func (c *Cluster) noteTwice(kinds ...string) {
	for _, kind := range kinds {
		for _, fault := range faults.List(c.set.Twice(kind)) {
			c.note("%v; the first counts", fault)
		}
	}
}
