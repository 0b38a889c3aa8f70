// Package simulate is a cluster made of manifests: the objects as controllers see them, the rules with the RuleOverlays among
// them, and a clock that stands where the caller puts it. Its methods answer what the recommender, the updater, the admission
// controller and the API server would do, with the code that they run in a cluster.
//
// Load takes the manifests, package manifests reads them, package usagefile reads what containers used. Results are plain
// structs: their JSON is what `celvpa … -o json` prints, and scripts depend on its names. An error says what could not be
// read or used; the result has the rest. No flags and no output here: that is cmd/celvpa.
package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Cluster is what manifests say of a cluster at one time.
type Cluster struct {
	set       *manifests.Set
	installed *compile.Rulebook // the rules without RuleOverlay objects
	book      *compile.Rulebook // with them
	clock     clock.PassiveClock
	notes     []string
}

// Load makes a cluster of manifests, with rules that the RuleOverlays among them change. The error says which of these cannot
// be used; the cluster does without them.
func Load(set *manifests.Set, rules *compile.Rulebook, at clock.PassiveClock) (*Cluster, error) {
	overlays, unread := set.RuleOverlays()
	book, unusable := policy.WithOverlays(rules, overlays)
	return &Cluster{set: set, installed: rules, book: book, clock: at}, faults.Join(unread, set.Twice("RuleOverlay"), unusable)
}

// Notes are remarks on the results so far, in order: what was guessed or left out, and what has no effect.
func (c *Cluster) Notes() []string { return c.notes }

// At is a clock that stands.
func At(t time.Time) clock.PassiveClock { return stopped(t) }

type stopped time.Time

// Now implements clock.PassiveClock.
func (s stopped) Now() time.Time { return time.Time(s) }

// Since implements clock.PassiveClock.
func (s stopped) Since(t time.Time) time.Duration { return time.Time(s).Sub(t) }

// limitRanges are those of each namespace.
func (c *Cluster) limitRanges() (map[string][]corev1.LimitRange, error) {
	list, err := c.set.LimitRanges()
	out := map[string][]corev1.LimitRange{}
	for _, one := range firsts(list, func(r *corev1.LimitRange) string { return r.Namespace + "/" + r.Name }) {
		out[one.Namespace] = append(out[one.Namespace], one)
	}
	return out, err
}

// firsts are the objects of which none before has the same key.
func firsts[T any](list []T, key func(*T) string) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(one T) bool {
		k := key(&one)
		again := seen[k]
		seen[k] = true
		return again
	})
}
