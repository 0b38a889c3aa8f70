package backtest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/backtest/history"
)

// Choice is what was chosen by the first part of a history, and what that would have done.
type Choice struct {
	Condition string        `json:"condition"`
	Least     string        `json:"least"` // the figure that decides among policies that satisfy the condition
	From      time.Time     `json:"from"`  // the first sample
	Split     time.Time     `json:"split"` // the end of the first part
	To        time.Time     `json:"to"`    // the last sample
	Classes   []ClassChoice `json:"classes"`
	Apply     string        `json:"apply"` // RuleOverlays in YAML
	// All compares all workloads, those of no class included, with each class under its policy.
	All Parts `json:"all"`
}

// ClassChoice is the policy of a class.
type ClassChoice struct {
	Class  string `json:"class"`
	Policy string `json:"policy"` // the default, if none satisfies the condition
	// Nearest is the policy that misses the condition by least, if none satisfies it, and Unmet are the parts that it misses.
	Nearest string   `json:"nearest,omitempty"`
	Unmet   []string `json:"unmet,omitempty"`
	// MissedLater are the parts of the condition that the policy misses in the rest of the history, if it satisfied all in the first.
	MissedLater []string `json:"missedLater,omitempty"`
	Parts
}

// Parts compare both parts of the history. Neither knows more than what was before it.
type Parts struct {
	First Compared `json:"first"`
	Rest  Compared `json:"rest"`
}

// Compared are the figures of the same workloads by two policies.
type Compared struct {
	Upstream Measures `json:"upstream"`
	Chosen   Measures `json:"chosen"`
}

// Chosen is the name of the policy with each class under its own.
const Chosen = "chosen"

// Choose chooses a policy for each class, among those that are named, the default first: the one with the least of a figure
// that satisfies the condition, the earlier one of two.
func (c *Condition) Choose(r *Report, names []string) ([]ClassChoice, error) {
	hours := float64(r.Window.Seconds) / 3600
	upstream := r.policy(Upstream)
	var out []ClassChoice
	for i := range upstream.Classes {
		reference := &upstream.Classes[i]
		class := ClassChoice{Class: reference.Name, Policy: names[0]}
		least, nearest, leastFar := math.Inf(1), math.Inf(1), math.Inf(1)
		found := false
		for _, name := range names {
			of := r.policy(name).class(reference.Name)
			if of == nil {
				continue // an error says why
			}
			known := values(&of.Measures, &reference.Measures, hours)
			amount := known[c.Least].(float64)
			unmet, far, err := c.unmet(known)
			switch {
			case err != nil:
				return nil, err
			case len(unmet) == 0 && amount < least:
				class.Policy, class.Nearest, class.Unmet, least, found = name, "", nil, amount, true
			case len(unmet) > 0 && !found && (far < nearest || far == nearest && amount < leastFar):
				class.Nearest, class.Unmet, nearest, leastFar = name, unmet, far, amount
			}
		}
		out = append(out, class)
	}
	return out, nil
}

// Compare fills in what the policies of the classes did in both parts.
func (c *Condition) Compare(choice *Choice, first, rest *Report) error {
	parts := func(class string) Parts {
		return Parts{
			First: Compared{first.measures(Upstream, class), first.measures(Chosen, class)},
			Rest:  Compared{rest.measures(Upstream, class), rest.measures(Chosen, class)},
		}
	}
	for i := range choice.Classes {
		of := &choice.Classes[i]
		of.Parts = parts(of.Class)
		if of.Nearest != "" {
			continue
		}
		var err error
		if of.MissedLater, _, err = c.unmet(values(&of.Rest.Chosen, &of.Rest.Upstream, float64(rest.Window.Seconds)/3600)); err != nil {
			return err
		}
	}
	choice.To, choice.All = rest.Window.To, parts("")
	return nil
}

// measures are those of a class, or of all workloads, by a policy. Without usage of the class they are 0.
func (r *Report) measures(policy, class string) (out Measures) {
	p := r.policy(policy)
	if p != nil && class == "" {
		return p.Fleet.Measures
	}
	if of := p.class(class); of != nil {
		return of.Measures
	}
	return out
}

// policy finds a policy; nil = none.
func (r *Report) policy(name string) *Policy {
	if i := slices.IndexFunc(r.Policies, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return &r.Policies[i]
	}
	return nil
}

// class finds a class; nil = none.
func (p *Policy) class(name string) *Class {
	if p == nil {
		return nil
	}
	if i := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Name == name }); i >= 0 {
		return &p.Classes[i]
	}
	return nil
}

// Split is the end of the first part of a history, which is a share of it or, if that is 0, a time. Either part must be
// as long as recommendations take to settle.
func Split(spans []history.Span, share float64, length, settle time.Duration) (time.Time, error) {
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range spans {
		from, to = min(from, s.First), max(to, s.Last)
	}
	if from > to {
		return time.Time{}, nil // a replay says that there is nothing
	}
	whole := time.Duration(to - from)
	if share > 0 {
		length = time.Duration(float64(whole) * share).Truncate(time.Second)
	}
	if length < settle || whole-length < settle {
		return time.Time{}, fmt.Errorf("the history is %s long, the first part would be %s and the rest %s: either must be %s or longer, the time in which a sample loses half its weight; replay a longer history",
			duration.HumanDuration(whole), duration.HumanDuration(length), duration.HumanDuration(max(0, whole-length)), duration.HumanDuration(settle))
	}
	return clock(from + int64(length)), nil
}
