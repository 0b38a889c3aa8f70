package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	backtestpage "github.com/celvpa/celvpa/backtest/page"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/rules"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// backtestOptions hold the flags of celvpa backtest.
type backtestOptions struct {
	offline
	history  historyFlags
	folders  []string // of --rules
	sweeps   []string
	from, to string
	interval time.Duration
	points   int
	choice   chooser

	priced, asked     bool // for prices, for pipelines
	coreHour, gibHour float64
}

// backtestCommand replays recorded usage by several policies.
func backtestCommand(compile compileFunc) *cobra.Command {
	o := &backtestOptions{}
	cmd := &cobra.Command{
		Use:   "backtest [-f PATH…] --history SOURCE [--rules DIR…] [--sweep PARAM=VALUE,VALUE…]",
		Short: "Replay recorded usage by several policies, and compare what each would have done",
		Long: `Replays recorded usage by a virtual clock: samples arrive when they did, the recommender writes its recommendations, the
updater evicts or resizes pods within its budgets, admission changes the replacements, and a container that wants more memory
than its limit is OOM-killed, which the recommender hears of. The rules and the code are those of a cluster, and nothing is
known in advance. docs/backtest.md defines the measures, and says what is modelled and what cannot be known.

Without -f it reads the objects of a cluster, as kubectl does: those in the namespace of the current context, or as
--kubeconfig, --context, -n, -A and --as say. It only gets and lists. Recommendations in the manifests do not count.

SOURCE is a file as celvpa recommend --usage reads it: CSV, Prometheus's JSON answer to a range query, or an export of
VictoriaMetrics, compressed or not; - is standard input. A file may be larger than memory. SOURCE may also be the URL of a
Prometheus, a Thanos or a Mimir. Which usage belongs to which workload is decided as by celvpa recommend.

These policies run beside each other:
  manifest   requests and limits stay as the manifests have them
  hindsight  the least constant requests that usage never exceeds, which nobody can know in advance
  upstream   the shipped rules with upstream's defaults, without flags and RuleOverlays
  shipped    the rules of the flags, with the RuleOverlays of the manifests; named after the folder of --rules-dir with that
  NAME       each folder of --rules, laid over the former, by the folder's name
  follow     and careful: the other shipped pipelines, or those of --pipelines
  …+OVERLAY  for each RuleOverlay in mode Audit or Warn: the same, with it enforced
  …[P=V]     for each value of --sweep: the same, with the parameter set. Of several sweeps all combinations run.

Policies that decide alike for a workload share its replay. All cores are used.

--choose chooses, for each class of workloads, of shipped, --pipelines and their --sweep the policy with the least FIGURE that satisfies
a condition, by the first part of the history alone. The report then is about that part. What was chosen is compared with
upstream in both parts, and the RuleOverlays that carry it out are printed, or written to --write.

Exit code 0: there is a report, whatever it says; 1: no policy satisfies --choose for a class, which keeps its policy; 2: an input could not be read, nothing could be replayed, or the rules could
not be used. Readable input is answered even then.`,
		Example: `  celvpa backtest -f deploy/ --history usage.csv
  celvpa backtest -f deploy/ --history usage.csv --rules my-rules
  celvpa backtest -f deploy/ --history usage.csv --sweep estimate.marginFraction=0.05,0.15,0.3 --sweep estimate.target.cpu=0.9,0.95
  celvpa backtest -f deploy/ --history cpu.json.gz --history memory.json.gz -o json --series 200
  celvpa backtest -f deploy/ --history usage.csv --sweep estimate.marginFraction=0.05,0.15,0.3 -o html > backtest.html
  celvpa backtest -f deploy/ --history usage.csv --sweep estimate.marginFraction=0.1,0.2,0.3 --choose 'ooms <= upstream.ooms && cpuOver <= upstream.cpuOver' --least cores --class namespace
  celvpa backtest -A --context prod --history https://thanos.example --prometheus-header "X-Scope-OrgID: a" --history-length 14d
  celvpa backtest -A --context prod --history usage.csv --price-core-hour 0.04 --price-gib-hour 0.005 -o csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.add(cmd, compile)
	f := cmd.Flags()
	o.history.add(cmd)
	pipelines := cmd.PersistentFlags().Lookup("pipelines")
	pipelines.Usage, pipelines.DefValue = "pipelines to be tried, too; '' = none", strings.Join(rules.PipelineNames, ",")
	f.StringArrayVar(&o.folders, "rules", nil, "folder of rule files, or one of them, to be tried, too; can be repeated")
	f.StringArrayVar(&o.sweeps, "sweep", nil, "parameter of rules with the values to try, as set.param=v1,v2; can be repeated for combinations")
	f.StringVar(&o.from, "from", "", "the first moment to replay, in RFC 3339 or seconds since 1970; empty = the first sample")
	f.StringVar(&o.to, "to", "", "the last moment to replay; empty = the last sample")
	f.DurationVar(&o.interval, "interval", backtest.UpstreamInterval, "time between two cycles of the recommender, and of the updater")
	f.Float64Var(&o.coreHour, "price-core-hour", 0, "price of a requested core for an hour")
	f.Float64Var(&o.gibHour, "price-gib-hour", 0, "price of a requested GiB of memory for an hour")
	f.IntVar(&o.points, "series", 0, "with -o json, yaml or html: steps of usage, requests, limits, bounds and events over time, for each container; 0 = none, and as many as a chart shows with html")
	o.choice.add(cmd)
	o.addTables(cmd, "table", "table", "wide", "json", "yaml", "csv", "html")
	return cmd
}

// check refuses flags that cannot work.
func (o *backtestOptions) check(cmd *cobra.Command) error {
	if o.asked = cmd.Flags().Changed("pipelines"); !o.asked {
		o.rules.more = rules.PipelineNames
	}
	o.priced = cmd.Flags().Changed("price-core-hour") || cmd.Flags().Changed("price-gib-hour")
	switch {
	case o.interval < time.Second:
		return fmt.Errorf("--interval is %s; it must be a second or more", o.interval)
	case o.coreHour < 0 || o.gibHour < 0:
		return errors.New("--price-core-hour and --price-gib-hour must not be less than 0")
	case o.points < 0 || o.points > maxPoints:
		return fmt.Errorf("--series is %d; it is a number of steps from 0 to %d", o.points, maxPoints)
	case o.points > 0 && o.form != "json" && o.form != "yaml" && o.form != "html":
		return errors.New("--series is for -o json, yaml and html")
	}
	if err := o.offline.check("--history", o.history.from); err != nil {
		return err
	}
	return o.choice.check(cmd, o)
}

// maxPoints is more than any page can show.
const maxPoints = 10_000

func (o *backtestOptions) run(cmd *cobra.Command) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	wanted, err := o.window()
	if err != nil {
		return err
	}
	display := newProgress(cmd.ErrOrStderr())
	defer display.end()
	sources, err := o.history.sources(cmd, time.Now().UTC(), wanted, display)
	if err != nil {
		return err
	}
	defer backtest.Tune()()
	rules, err := o.policies()
	if err != nil {
		return err
	}
	begin := time.Now()
	store := history.NewStore(history.DefaultMemory, "", func(done, of int64) {
		if of > 0 { // seconds of a server's
			display.bar("reading the history", begin, done, of)
			return
		}
		display.count("points of the history read", int(done), 0)
	})
	defer store.Close()
	window := history.Between{Sink: store, From: math.MinInt64, To: math.MaxInt64}
	if !wanted.from.IsZero() {
		window.From = wanted.from.UnixNano()
	}
	if !wanted.to.IsZero() {
		window.To = wanted.to.UnixNano()
	}
	var unreadParts []error
	for _, source := range sources {
		unreadParts = append(unreadParts, source.Read(cmd.Context(), window))
	}
	unread := faults.Join(unreadParts...)
	if err := store.Seal(); err != nil {
		return err
	}
	if when := o.when(); when != "" && len(store.Spans()) == 0 {
		return faults.Join(unread, fmt.Errorf("the history has no usage %s: nothing was replayed; see --from and --to", when))
	}
	set, unreadObjects := o.objects(cmd)
	overlays, unusable := set.RuleOverlays()
	overlays = o.choice.kept(overlays)
	candidates, rejected := rules.candidates(overlays)
	settings := o.settings(display)
	if err := o.choice.prepare(&settings, store.Spans(), rules); err != nil {
		return faults.Join(unread, err)
	}
	cluster, unloaded := simulate.Load(set, rules.named[0].book, simulate.At(time.Time{}))
	if err := o.narrow(cluster); err != nil {
		return faults.Join(unread, unreadObjects, err)
	}
	report, notes, failed := backtest.Run(cmd.Context(), cluster, store, candidates, settings)
	errs := faults.Join(unread, unreadObjects, unusable, rejected, unloaded, failed)
	if report != nil && o.choice.condition != nil {
		again := func(ctx context.Context, candidates []backtest.Candidate, settings backtest.Options) (*backtest.Report, error) {
			out, _, err := backtest.Run(ctx, cluster, store, candidates, settings)
			return out, err
		}
		errs = faults.Join(errs, o.choice.choose(cmd.Context(), report, rules, overlays, settings, again))
	}
	display.end()
	printNotes(cmd, slices.Concat(rules.notes, store.Notes(), notes))
	if report == nil {
		return errs
	}
	forms := tables(func(p *page, wide bool) {
		printBacktest(p, report, wide)
		o.choice.printChoice(p, report.Choice, wide)
	})
	forms["csv"] = func(p *page) { printBacktestCSV(p, report) }
	if o.form == "html" {
		return faults.Join(errs, backtestpage.Write(cmd.OutOrStdout(), report))
	}
	if err := faults.Join(errs, o.print(cmd.OutOrStdout(), report, forms)); err != nil {
		return err
	}
	return o.choice.end(report.Choice)
}

// window is from --from to --to.
func (o *backtestOptions) window() (times, error) {
	out, err := parseTimes("--from", o.from, "--to", o.to)
	if err == nil && o.from != "" && o.to != "" && !out.from.Before(out.to) {
		err = fmt.Errorf("--from %s is not before --to %s", o.from, o.to)
	}
	return out, err
}

// when says which time is replayed; empty = all of it.
func (o *backtestOptions) when() string {
	switch {
	case o.from != "" && o.to != "":
		return "from " + o.from + " to " + o.to
	case o.from != "":
		return "from " + o.from + " on"
	case o.to != "":
		return "up to " + o.to
	}
	return ""
}

// objects reads the manifests, or else a cluster.
func (o *backtestOptions) objects(cmd *cobra.Command) (*manifests.Set, error) {
	if len(o.files) > 0 {
		return o.readFiles(cmd)
	}
	set, notes, err := o.live.read(cmd.Context())
	printNotes(cmd, notes)
	return set, err
}

func (o *backtestOptions) settings(display *progress) backtest.Options {
	out := backtest.Options{Interval: o.interval, Points: o.points}
	if o.form == "html" && o.points == 0 {
		out.Points = backtestpage.Points
	}
	if o.priced {
		out.Prices = &backtest.Prices{CoreHour: o.coreHour, GiBHour: o.gibHour}
	}
	begin := time.Now()
	out.Watch = func(done, of int64) { display.bar("replaying", begin, done, of) }
	return out
}

// neverUpdatedNames is how many workloads are named that were never updated.
const neverUpdatedNames = 5

func printBacktest(p *page, r *backtest.Report, wide bool) {
	printWindow(p, r)
	head := append([]string{"POLICY"}, measureHead(wide)...)
	if r.Prices != nil {
		head = append(head, "COST")
	}
	p.header(append(head, "FRONT")...)
	hours := float64(r.Window.Seconds) / 3600
	for i := range r.Policies {
		policy := &r.Policies[i]
		p.row(append(fleetCells(policy, hours, wide), mark(policy.Pareto))...)
	}
	if !wide {
		printNeverUpdated(p, r, wide)
		p.printf("\n-o wide shows more columns, each container and what is modelled; -o html draws it.\n")
		return
	}
	p.printf("\nContainers: median, 95th percentile and worst.\n")
	p.header("POLICY", "CPU-SLACK", "CPU-OVER", "MEM-SLACK", "MEM-OVER", "OOMS", "EVICTIONS/DAY")
	for i := range r.Policies {
		s := &r.Policies[i].Fleet.Spread
		p.row(r.Policies[i].Name, three(s.CPUSlackShare, percentOf), three(s.CPUOverRequestShare, percentOf), three(s.MemorySlackShare, percentOf),
			three(s.MemOverRequestShare, percentOf), three(s.OOMs, number), three(s.EvictionsPerDay, number))
	}
	printContainers(p, r, hours)
	printNeverUpdated(p, r, wide)
	p.printf("\nWhat is modelled:\n")
	for _, text := range r.Modelled {
		p.wrapped("- ", text)
	}
}

func printWindow(p *page, r *backtest.Report) {
	first := &r.Policies[0]
	p.printf("%s to %s, %s: %s, %s.\n", r.Window.From.Format(time.RFC3339), r.Window.To.Format(time.RFC3339),
		lengthText(r.Window.Seconds), simulate.Counted(len(first.Workloads), "workload"), simulate.Counted(len(first.Containers), "container"))
	for i := range r.Policies {
		if policy := &r.Policies[i]; policy.SameAs != "" {
			p.printf("%s decides as %s does.\n", policy.Name, policy.SameAs)
		}
	}
	p.printf("\n")
}

func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func three(q backtest.Quantiles, write func(float64) string) string {
	return write(q.P50) + " " + write(q.P95) + " " + write(q.Worst)
}

// printContainers prints the containers of each policy, those with OOM kills first, then those with the most slack.
func printContainers(p *page, r *backtest.Report, hours float64) {
	for i := range r.Policies {
		policy := &r.Policies[i]
		if policy.SameAs != "" {
			continue
		}
		list := slices.Clone(policy.Containers)
		slices.SortStableFunc(list, func(a, b backtest.Container) int { return compareWorst(&a, &b) })
		p.printf("\nContainers by policy %s:\n", namesOf(r, policy))
		p.header(append([]string{"NAMESPACE", "WORKLOAD", "CONTAINER"}, measureHead(true)...)...)
		for j := range list {
			c := &list[j]
			p.row(append([]any{c.Namespace, c.Workload, c.Container}, measureCells(&c.Measures, hours, true)...)...)
		}
	}
}

// namesOf names a policy and those that decide as it does.
func namesOf(r *backtest.Report, policy *backtest.Policy) string {
	names := policy.Name
	for _, other := range r.Policies {
		if other.SameAs == policy.Name {
			names += ", " + other.Name
		}
	}
	return names
}

// printNeverUpdated says of which workloads the policies never changed a running pod, by reason. Those of sweeps and those that nobody
// asked for are left out, unless wide.
func printNeverUpdated(p *page, r *backtest.Report, wide bool) {
	for i := range r.Policies {
		policy := &r.Policies[i]
		if policy.SameAs == "" && (wide || policy.Name != backtest.Hindsight && policy.Params == nil && !policy.Implicit) {
			printNeverUpdatedBy(p, namesOf(r, policy), policy, wide)
		}
	}
}

func printNeverUpdatedBy(p *page, names string, policy *backtest.Policy, wide bool) {
	of := map[string][]string{}
	for i := range policy.Workloads {
		if w := &policy.Workloads[i]; w.NeverUpdated != nil {
			why := w.NeverUpdated.Reason + " (" + w.NeverUpdated.Rule + ")"
			of[why] = append(of[why], w.Namespace+"/"+w.Workload)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(of)) {
		list, more := of[why], ""
		if left := len(list) - neverUpdatedNames; left > 0 && !wide {
			list, more = list[:neverUpdatedNames], fmt.Sprintf(" and %d more", left)
		}
		p.printf("\n")
		p.wrapped("", fmt.Sprintf("By %s, no pod of %s%s was ever evicted or resized: %s", names, strings.Join(list, ", "), more, why))
	}
}

// compareWorst puts containers with OOMs first, then those with the most slack, a core counting as 4 GiB.
func compareWorst(a, b *backtest.Container) int {
	slack := func(c *backtest.Container) float64 { return c.CPU.SlackMean + c.Memory.SlackMeanBytes/(4<<30) }
	switch {
	case a.OOMs != b.OOMs:
		return b.OOMs - a.OOMs
	case slack(a) > slack(b):
		return -1
	case slack(a) < slack(b):
		return 1
	}
	return 0
}

func mark(is bool) string {
	if is {
		return "*"
	}
	return "-"
}

// percentOf writes a share with one digit.
func percentOf(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// number writes a figure with three digits at most.
func number(value float64) string {
	return strconv.FormatFloat(value, 'g', max(3, len(strconv.Itoa(int(value)))), 64)
}

// length is a time in seconds.
type length int64

// String implements fmt.Stringer.
func (s length) String() string { return lengthText(int64(s)) }

// lengthText writes a time in days and hours, or in smaller units.
func lengthText(seconds int64) string {
	const day = 24 * 3600
	switch {
	case seconds >= day && seconds%day < 3600:
		return fmt.Sprintf("%dd", seconds/day)
	case seconds >= day:
		return fmt.Sprintf("%dd%dh", seconds/day, seconds%day/3600)
	}
	text := (time.Duration(seconds) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// printBacktestCSV writes a row for each container and policy, and one for each fleet, whose namespace,
// workload and container are empty.
func printBacktestCSV(p *page, r *backtest.Report) {
	out := csv.NewWriter(p)
	head := []string{"policy", "namespace", "workload", "kind", "container",
		"cpu_slack_mean", "cpu_slack_share", "cpu_over_request_share", "cpu_throttled_core_seconds", "cpu_requested_core_hours", "cpu_used_core_hours",
		"memory_slack_mean_bytes", "memory_slack_share", "memory_over_request_share", "memory_requested_gib_hours", "memory_used_gib_hours",
		"ooms", "evictions", "resizes", "flaps", "first_recommendation_seconds", "adapt_seconds_p50", "adapt_seconds_worst", "observed_seconds", "cost"}
	p.fail(out.Write(head))
	for i := range r.Policies {
		policy := &r.Policies[i]
		for j := range policy.Containers {
			c := &policy.Containers[j]
			p.fail(out.Write(append([]string{policy.Name, c.Namespace, c.Workload, c.Kind, c.Container}, measureRow(&c.Measures)...)))
		}
		p.fail(out.Write(append([]string{policy.Name, "", "", "", ""}, measureRow(&policy.Fleet.Measures)...)))
	}
	out.Flush()
	p.fail(out.Error())
}

func measureRow(m *backtest.Measures) []string {
	f := func(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
	first, cost := "", ""
	if m.FirstRecommendationSeconds != nil {
		first = strconv.FormatInt(*m.FirstRecommendationSeconds, 10)
	}
	if m.Cost != nil {
		cost = f(*m.Cost)
	}
	return []string{
		f(m.CPU.SlackMean), f(m.CPU.SlackShare), f(m.CPU.OverRequestShare), f(m.CPU.ThrottledCoreSeconds), f(m.CPU.RequestedCoreHours), f(m.CPU.UsedCoreHours),
		f(m.Memory.SlackMeanBytes), f(m.Memory.SlackShare), f(m.Memory.OverRequestShare), f(m.Memory.RequestedGiBHours), f(m.Memory.UsedGiBHours),
		strconv.Itoa(m.OOMs), strconv.Itoa(m.Evictions), strconv.Itoa(m.Resizes), strconv.Itoa(m.Flaps), first,
		strconv.FormatInt(m.AdaptSeconds.P50, 10), strconv.FormatInt(m.AdaptSeconds.Worst, 10), f(m.ObservedSeconds), cost,
	}
}
