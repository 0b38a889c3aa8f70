package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/celvpa/celvpa/conformance/soak/flat"
)

// report is what a soak found.
type report struct {
	Pass     bool   `json:"pass"`
	Seed     uint64 `json:"seed"`
	Scale    int    `json:"scale"`
	Duration string `json:"duration"`
	WarmUp   string `json:"warmUp"`

	Components []componentReport `json:"components"`
	Evictions  int               `json:"evictions"`
	Resizes    int               `json:"resizes"`
	Refused    map[int]int       `json:"refused"` // evictions and resizes, by HTTP code
	Faults     map[kind]int      `json:"faults"`
	Proxies    map[string]int    `json:"proxies"` // what the proxies did, by effect
	Churn      map[string]int    `json:"churn"`

	Wrong       []string  `json:"wrong"`       // broken budgets, modes and bounds
	Grows       []string  `json:"grows"`       // what is not flat
	Unexplained []finding `json:"unexplained"` // errors
	Missing     []string  `json:"missing"`     // of VPAs and components in the end
	Forbidden   []string  `json:"forbidden"`   // requests that the shipped roles do not allow
}

// componentReport has the figures of a component.
type componentReport struct {
	Name      string             `json:"name"`
	Lives     int                `json:"lives"`
	Measures  []measureReport    `json:"measures"` // of the longest life
	Counted   map[string]float64 `json:"counted"`  // of all lives
	Explained int                `json:"explained"`
	CPU       float64            `json:"cpuSeconds"` // of the last life
}

// measureReport is a verdict, in the unit of its rule.
type measureReport struct {
	Name    string  `json:"name"`
	Start   float64 `json:"start"`
	End     float64 `json:"end"`
	PerHour float64 `json:"perHour"`
	Rise    float64 `json:"rise"`
	Allowed float64 `json:"allowed"`
	Seconds float64 `json:"seconds"`
	Points  int     `json:"points"` // 0 = too few to judge
	Flat    bool    `json:"flat"`
}

// warmUp is how long a life may take to fill its caches: a quarter of the soak, at most 4 minutes.
func (s *soak) warmUp() time.Duration { return min(s.options.duration/4, 4*time.Minute) }

// report collects what was found, while the components still run.
func (s *soak) report(started time.Time, churn *churn, missing []string) *report {
	r := &report{Seed: s.options.seed, Scale: s.options.scale, Duration: time.Since(started).Round(time.Second).String(), WarmUp: s.warmUp().String(),
		Faults: s.faults.counts(), Proxies: map[string]int{}, Churn: churn.done, Missing: missing}
	delete(r.Faults, objectsChange)
	for _, c := range s.components {
		for effect, n := range c.proxy.Counts() {
			r.Proxies[effect] += n
		}
		one := componentReport{Name: c.name, Lives: c.lives, Counted: c.totals.sums(), CPU: c.cpu()}
		for _, v := range c.verdicts(s.warmUp()) {
			one.Measures = append(one.Measures, measureReport{v.Name, v.Start / v.Unit, v.End / v.Unit, v.PerHour() / v.Unit, v.Rise / v.Unit, v.Allowed / v.Unit, v.Span.Seconds(), judged(v), v.Flat()})
			if !v.Flat() {
				r.Grows = append(r.Grows, c.name+": "+v.String())
			}
		}
		for _, name := range []string{"panics", "lost events", "rule errors"} {
			if n := one.Counted[name]; n > 0 && name != "lost events" {
				r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %.0f %s", c.name, n, name))
			}
		}
		r.Components = append(r.Components, one)
	}
	return r
}

func judged(v flat.Verdict) int {
	if !v.Judged {
		return 0
	}
	return v.Points
}

// finish adds what is known once the components have stopped, and decides.
func (s *soak) finish(r *report) error {
	if err := s.watch.look(time.Now().Add(settled)); err != nil {
		return err
	}
	unexplained, explained := s.errors.result()
	more, err := s.crashes()
	if err != nil {
		return err
	}
	r.Unexplained = append(unexplained, more...)
	for i := range r.Components {
		r.Components[i].Explained = explained[r.Components[i].Name]
	}
	r.Wrong = append(r.Wrong, s.watch.wrong...)
	r.Evictions, r.Resizes, r.Refused, r.Forbidden = s.watch.evictions, s.watch.resizes, s.watch.refused, s.watch.forbidden
	if r.Evictions == 0 || r.Resizes == 0 {
		r.Missing = append(r.Missing, "celvpa evicted or resized nothing, so that nothing was judged")
	}
	r.Pass = len(r.Wrong)+len(r.Grows)+len(r.Unexplained)+len(r.Missing)+len(r.Forbidden) == 0
	return nil
}

// progress prints a line.
func (s *soak) progress(started time.Time) {
	var parts []string
	for _, c := range s.components {
		c.mu.Lock()
		if n := len(c.samples); n > 0 && len(c.samples[n-1]) > 0 {
			last := c.samples[n-1][len(c.samples[n-1])-1]
			parts = append(parts, fmt.Sprintf("%s %.1f MiB (heap %.1f) %.0f goroutines", c.name, last.rss/(1<<20), last.heap/(1<<20), last.goroutines))
		}
		c.mu.Unlock()
	}
	s.watch.mu.Lock()
	evictions, resizes, wrong := s.watch.evictions, s.watch.resizes, len(s.watch.wrong)
	s.watch.mu.Unlock()
	unexplained, explained := s.errors.result()
	for _, f := range unexplained[min(s.printed, len(unexplained)):] {
		say("unexplained error of %s at %s: %s: %s", f.Component, f.First, f.Message, f.Error)
	}
	s.printed = max(s.printed, len(unexplained))
	sum := 0
	for _, n := range explained {
		sum += n
	}
	say("%s of %s: %d evictions, %d resizes, %d wrong; errors: %d explained, %d kinds unexplained; %s", time.Since(started).Round(time.Second), s.options.duration,
		evictions, resizes, wrong, sum, len(unexplained), strings.Join(parts, "; "))
}

// write prints the report for people.
func (r *report) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "soak of %s, %d workloads, seed %d; the longest life of each component, after a warm-up of %s\n\n", r.Duration, r.Scale, r.Seed, r.WarmUp)
	fmt.Fprintln(table, "component\tmeasure\tstart\tend\tper hour\trise\tallowed\tspan\t")
	for _, c := range r.Components {
		for _, m := range c.Measures {
			fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%+.1f\t%+.1f\t%.1f\t%.0f s\t%s\n", c.Name, m.Name, m.Start, m.End, m.PerHour, m.Rise, m.Allowed, m.Seconds, word(m.Flat, "flat", word(m.Points == 0, "NOT JUDGED", "GROWS")))
		}
	}
	fmt.Fprintln(table, "\ncomponent\tlives\tCPU\tcycles\treviews\tlost events\terrors explained")
	for _, c := range r.Components {
		fmt.Fprintf(table, "%s\t%d\t%.0f s\t%.0f\t%.0f\t%.0f\t%d\n", c.Name, c.Lives, c.CPU, c.Counted["cycles"], c.Counted["reviews"], c.Counted["lost events"], c.Explained)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d evictions and %d resizes judged; refused by the API server: %s\n", r.Evictions, r.Resizes, counts(r.Refused))
	fmt.Fprintf(out, "faults: %s\n", counts(r.Faults))
	fmt.Fprintf(out, "what the proxies did: %s\n", counts(r.Proxies))
	fmt.Fprintf(out, "churn: %s\n", counts(r.Churn))
	var unexplained []string
	for _, f := range r.Unexplained {
		unexplained = append(unexplained, fmt.Sprintf("%s, %d times since %s: %s: %s", f.Component, f.Count, f.First, f.Message, f.Error))
	}
	for _, part := range []struct {
		title string
		list  []string
	}{{"budgets, modes and bounds that were broken", r.Wrong}, {"what grows, or lived too short to tell", r.Grows}, {"errors that nothing explains", unexplained},
		{"what is missing in the end", r.Missing}, {"requests that the shipped roles do not allow", r.Forbidden}} {
		fmt.Fprintf(out, "%s: %s\n", part.title, word(len(part.list) == 0, "none", fmt.Sprint(len(part.list))))
		for _, one := range part.list {
			fmt.Fprintf(out, "  %s\n", one)
		}
	}
	_, err := fmt.Fprintln(out, word(r.Pass, "PASS", "FAIL"))
	return err
}

func word(yes bool, then, otherwise string) string {
	if yes {
		return then
	}
	return otherwise
}

// counts lists numbers by name.
func counts[K kind | string | int](of map[K]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%v %d", name, of[name]))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
