package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"

	"github.com/celvpa/celvpa/conformance/bench/crowd"
)

// size is what was measured at one size of a cluster.
type size struct {
	vpas                 int
	recommender, updater []value
}

type sizes []size

func amountOf(values []value, name string) float64 {
	for _, v := range values {
		if v.name == name {
			return v.amount
		}
	}
	return math.NaN()
}

// The tables of the page stand between these lines.
const (
	tablesBegin = "<!-- measured: make sizing -->"
	tablesEnd   = "<!-- /measured -->"
)

// markdown are the tables of the page: what to give, what was measured, and what an object takes.
func (s sizes) markdown(note string) string {
	var out strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | ")) }
	rule := func(n int) { line(strings.Split(strings.TrimSuffix(strings.Repeat("---:,", n), ","), ",")...) }

	line("VPAs", "pods", "containers", "recommender: CPU", "memory", "`--kube-api-qps`", "updater: CPU", "memory")
	rule(8)
	for _, row := range s {
		_, qps := pace(row.vpas)
		line(thousands(row.vpas), thousands(row.vpas*crowd.PodsOfWorkload), thousands(row.vpas*crowd.PodsOfWorkload*crowd.ContainersOfPod),
			giveCPU(row.recommender), giveMemory(row.recommender), fmt.Sprintf("%.0f", qps), giveCPU(row.updater), giveMemory(row.updater))
	}
	if note != "" {
		note = ", " + note
	}
	fmt.Fprintf(&out, "\nMeasured on %d cores%s, for %.0f minutes of the cluster's time:\n\n", runtime.NumCPU(), note, amountOf(s[0].recommender, "minutes"))
	line("VPAs", "recommender: RSS, peak", "CPU a minute", "cycle without writes, mean", "longest", "updater: RSS, peak", "CPU a minute", "pods a second")
	rule(8)
	for _, row := range s {
		r, u := row.recommender, row.updater
		line(thousands(row.vpas), mebibytes(amountOf(r, "RSS, peak")), tenths(amountOf(r, "CPU per minute")), tenths(amountOf(r, "cycle without writes, mean")),
			tenths(amountOf(r, "cycle without writes, longest")), mebibytes(amountOf(u, "RSS, peak")), tenths(amountOf(u, "CPU per minute")), thousands(int(amountOf(u, "pods per second"))))
	}
	if len(s) > 1 {
		fmt.Fprintf(&out, "\nFrom the smallest to the largest of these clusters, each VPA with its %d pods and %d containers adds\n%s to the recommender, and %s to the updater.\n",
			crowd.PodsOfWorkload, crowd.PodsOfWorkload*crowd.ContainersOfPod,
			s.slope(func(z size) []value { return z.recommender }), s.slope(func(z size) []value { return z.updater }))
	}
	return out.String()
}

// slope is what one more VPA takes.
func (s sizes) slope(of func(size) []value) string {
	first, last := s[0], s[len(s)-1]
	per := func(name string) float64 {
		return (amountOf(of(last), name) - amountOf(of(first), name)) / float64(last.vpas-first.vpas)
	}
	return fmt.Sprintf("%.0f KiB and %.2f ms of CPU a minute", per("RSS, peak")/1024, per("CPU per minute")*1000)
}

// giveMemory is a limit: a quarter more than the peak, in steps of 64Mi below 1Gi and of 256Mi above.
func giveMemory(values []value) string {
	mib := amountOf(values, "RSS, peak") * 1.25 / (1 << 20)
	step := 64.0
	if mib > 1024 {
		step = 256
	}
	if mib = math.Ceil(mib/step) * step; math.Mod(mib, 1024) == 0 {
		return fmt.Sprintf("%.0fGi", mib/1024)
	}
	return fmt.Sprintf("%.0fMi", mib)
}

// giveCPU is a request: twice the mean, as all work is done in a part of the minute, in steps of 50m.
func giveCPU(values []value) string {
	return fmt.Sprintf("%.0fm", math.Ceil(amountOf(values, "CPU per minute")/60*2*1000/50)*50)
}

func tenths(v float64) string { return fmt.Sprintf("%.1f s", v) }

func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// replaceIn writes the tables into a page.
func (s sizes) replaceIn(file, note string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(text), tablesBegin+"\n")
	_, tail, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q between which the tables go", file, tablesBegin, tablesEnd)
	}
	return os.WriteFile(file, []byte(head+tablesBegin+"\n"+s.markdown(note)+tablesEnd+tail), 0o644)
}
