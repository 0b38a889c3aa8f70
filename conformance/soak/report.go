package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
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
