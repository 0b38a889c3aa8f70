package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// taken is what the control plane has taken since it started.
type taken struct {
	apiserver, etcd   float64 // CPU seconds
	logged            float64 // bytes that etcd wrote to its log
	database          float64 // bytes of etcd's database, as it is
	updates, updating float64 // of VPAs and checkpoints, that the API server asked etcd for, and the seconds until etcd's answers
}

// writeRow is one kind of writes by so many writers.
type writeRow struct {
	of            string
	writers       int
	took          []time.Duration // each write, at least one
	within        time.Duration   // all of them
	before, after taken
}

// cells are the row in the table.
func (r *writeRow) cells() []string {
	n := float64(len(r.took))
	took := slices.Sorted(slices.Values(r.took))
	at := func(part float64) float64 { return took[int(part*float64(len(took)-1))].Seconds() }
	inEtcd := "–"
	if updates := r.after.updates - r.before.updates; updates > 0 {
		inEtcd = milliseconds((r.after.updating - r.before.updating) / updates)
	}
	return []string{
		r.of, fmt.Sprint(r.writers), count(n / r.within.Seconds()), milliseconds(at(0.5)), milliseconds(at(0.99)), inEtcd,
		seconds((r.after.apiserver - r.before.apiserver) * 1000 / n), seconds((r.after.etcd - r.before.etcd) * 1000 / n),
		fmt.Sprintf("%.1f KiB", (r.after.logged-r.before.logged)/n/(1<<10)), mebibytes(r.after.database),
	}
}

// tabulate prints the table of writes.
func tabulate(to io.Writer, title string, rows []writeRow) error {
	fmt.Fprintf(to, "\n%s\n", title)
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells []string) { fmt.Fprintln(out, strings.Join(cells, "\t")+"\t") }
	line([]string{"", "writers", "writes/s", "p50", "p99", "etcd, mean", "API server, CPU/1000", "etcd, CPU/1000", "log, a write", "database"})
	for i := range rows {
		line(rows[i].cells())
	}
	return out.Flush()
}
