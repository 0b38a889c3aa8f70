// Command quality replays usage of real virtual machines, GWA-T-12 of the Grid Workloads Archive, by upstream's defaults and by
// others, and says how these compare: what they request, how often that is too little, and how often they change it.
//
// Half of the VMs are for tuning rules, the other half for judging them (halfOf). No trace belongs into the repository.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/engine/faults"
)

func main() {
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "quality:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("quality", flag.ContinueOnError)
	flags.SetOutput(progress)
	traces := flags.String("traces", "", "folder of GWA-T-12's files, or a file with the columns "+strings.Join(cutColumns, ", "))
	half := flags.String("vms", "decide", "VMs to replay: tune, decide (the other half) or all")
	krr := flags.String("krr", krrFolder, "folder with the rules of KRR")
	form := flags.String("o", "table", "output: table or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *traces == "":
		return errors.New("-traces is missing: name a folder of traces (make bench-quality TRACES=folder)")
	case *half != "tune" && *half != "decide" && *half != "all":
		return fmt.Errorf("-vms is %q; want tune, decide or all", *half)
	case *form != "table" && *form != "json":
		return fmt.Errorf("-o is %q; want table or json", *form)
	}
	candidates, err := policies(*krr, flags.Args())
	if err != nil {
		return err
	}
	vms, leftOut, err := readTraces(*traces, func(id string) bool { return *half == "all" || halfOf(id) == *half })
	if err != nil {
		return err
	}
	found := &result{Half: *half, LeftOut: leftOut}
	for _, v := range vms {
		found.VMs = append(found.VMs, v.id)
	}
	fmt.Fprintf(progress, "%d VMs, %d policies\n", len(vms), len(candidates))
	report, notes, err := replay(ctx, vms, candidates, watch(progress))
	for _, note := range notes {
		fmt.Fprintln(progress, note)
	}
	if report == nil {
		return err
	}
	found.Policies = judge(report)
	if *form == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return faults.Join(err, encoder.Encode(found))
	}
	return faults.Join(err, found.print(out))
}

// watch says every ten seconds how much is done.
func watch(to io.Writer) func(done, of int64) {
	const pause = 10 * time.Second
	begin := time.Now()
	var next atomic.Int64
	next.Store(int64(pause))
	return func(done, of int64) {
		since := time.Since(begin)
		if due := next.Load(); int64(since) < due || !next.CompareAndSwap(due, int64(since+pause)) {
			return
		}
		left := time.Duration(float64(since) * float64(of-done) / float64(max(done, 1)))
		fmt.Fprintf(to, "replaying: %d%% after %s, about %s left\n", 100*done/of, since.Round(time.Second), left.Round(time.Second))
	}
}

func (r *result) print(to io.Writer) error {
	fmt.Fprintf(to, "%d VMs (%s)\n", len(r.VMs), r.Half)
	for _, text := range r.LeftOut {
		fmt.Fprintln(to, text)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nPOLICY\tCORE-HOURS\tCPU-SLACK\tCPU-OVER\tGIB-HOURS\tMEM-SLACK\tOOMS\tCHANGES/DAY")
	for _, p := range r.Policies {
		fmt.Fprintf(table, "%s\t%.0f\t%.1f%%\t%.2f%%\t%.0f\t%.1f%%\t%d\t%.2f\n", p.Name, p.CoreHours, 100*p.CPUSlack, 100*p.CPUOver, p.GiBHours, 100*p.MemorySlack, p.OOMs, p.Changes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(to, "\nRatios to %s, with 95%% intervals over VMs:\n", backtest.Upstream)
	fmt.Fprintln(table, "POLICY\tCORES\tCPU-OVER\tGIB\tOOMS")
	for _, p := range r.Policies {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Ratios.Cores, p.Ratios.CPUOver, p.Ratios.GiB, p.Ratios.OOMs)
	}
	return table.Flush()
}

func (i *interval) String() string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", i.Value, i.Low, i.High)
}
