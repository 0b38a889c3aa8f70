package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/inspect"
	"github.com/celvpa/celvpa/crds/quantity"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/ask"
	htmlpage "github.com/celvpa/celvpa/explain/page"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// explainOptions hold the flags of celvpa explain.
type explainOptions struct {
	offline
	usage []string
	ask   ask.Options
}

// explainCommand answers why, on a cluster.
func explainCommand(compile compileFunc) *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain [[KIND] NAME | KIND/NAME]",
		Short: "Show why a VPA recommends what it does, what happens to its pods next, and what blocks that",
		Long: `Explains one VerticalPodAutoscaler of a cluster. NAME is that of a VerticalPodAutoscaler, of a pod or of a workload;
KIND/NAME, as in pod/web-1 or deploy/web, says which. Without it, the only VerticalPodAutoscaler of the namespace is
explained, or the only one with the labels of -l.

The first line is the verdict: what happens next, or what keeps it from happening. Below are the blockers, the most urgent
first, each with a token that scripts can rely on; then what is recommended, by which rule; then what the updater would do with
the pods, and why. -o wide has all findings, percentiles of usage, every step of every rule, each pod, the last decisions and
events, and the processes with their rules.

It asks the recommender, the updater and the admission controller what they know, through the API server, and reads the
objects around the VPA. What a process that cannot be asked would say is computed from these objects, by the rules of this
program and its flags; the end of the output says what could not be found out, and the permission that is missing.
With -f it explains an object of manifests, and asks nobody; -n says its namespace if several have one of that name. What the
recommender knows then comes from VerticalPodAutoscalerCheckpoints among the manifests or, with --usage, from a file as of
celvpa recommend, whose recommendation replaces that in the status.

It changes nothing. Exit code 0: there is a report, whatever it says; 2: there is none.`,
		Example: `  celvpa explain web
  celvpa explain pod/web-5d9c7c6b9-x2x7p -n shop -o wide
  kubectl vpa explain deploy/web -n shop --context prod
  celvpa explain web -o json | jq -r '.findings[] | [.class, .token, .text] | @tsv'
  celvpa explain web -o html > web.html
  celvpa explain -f pods.yaml -f deploy/ deploy/web
  celvpa explain -f pods.yaml -f deploy/ --usage usage.csv web`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.add(cmd, compile)
	cmd.Args = takes(0, 2)
	cmd.Flags().StringArrayVar(&o.usage, "usage", nil, "with -f: file with usage, or - for standard input; can be repeated")
	cmd.Flags().StringVar(&o.now, "now", "", "with -f: the time at which the updater looks, in RFC 3339 or seconds since 1970; empty = that of the last row of usage, without --usage that of the newest checkpoint, or now without any")
	o.addProcesses(cmd)
	o.addTables(cmd, "table", "table", "wide", "json", "yaml", "html")
	return cmd
}

// addCluster adds the flags of a command that reads a cluster only.
func (o *explainOptions) addCluster(cmd *cobra.Command, compile compileFunc) {
	cmd.Args = takes(0, 2)
	o.rules.compile, o.rules.points = compile, explain.Points
	o.addSelector(cmd)
	o.live.add(cmd, nil)
	o.addProcesses(cmd)
}

// addProcesses adds the flags that say which processes to ask, and the completion of what about.
func (o *explainOptions) addProcesses(cmd *cobra.Command) {
	cmd.ValidArgsFunction = o.live.subjects
	cmd.Flags().StringSliceVar(&o.ask.Namespaces, "celvpa-namespace", nil, "namespaces of celvpa's processes, separated by commas, whose Services with label "+inspect.ServiceLabel+
		"=true are believed; empty = kube-system and that of the Service in vpa-webhook-config or, if they have none, celvpa-system")
	cmd.Flags().StringVar(&o.ask.ServiceAccount, "service-account", "", "service account, as NAMESPACE/NAME, whose tokens the processes of its namespace, or of --celvpa-namespace, are asked with; empty = celvpa-explain in their namespace")
}

func (o *explainOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.check("--usage", o.usage); err != nil {
		return err
	}
	switch {
	case len(o.files) == 0 && o.now != "":
		return errors.New("--now is for manifests: name them with -f; what processes answer is about the present")
	case len(o.files) == 0 && len(o.usage) > 0:
		return errors.New("--usage is for manifests: name them with -f; in a cluster the recommender answers for its usage")
	case len(o.files) > 0 && (len(o.ask.Namespaces) > 0 || o.ask.ServiceAccount != ""):
		return errors.New("-f excludes --celvpa-namespace and --service-account: with manifests, no process is asked")
	}
	subject, err := o.subject(o.live.overrides.Context.Namespace, args)
	if err != nil {
		return err
	}
	var report *explain.Report
	if len(o.files) > 0 {
		report, err = o.offlineReport(cmd, subject)
	} else {
		report, err = o.liveReport(cmd.Context(), subject, true)
	}
	if report == nil {
		return err
	}
	if o.form == "html" {
		return faults.Join(err, htmlpage.Write(cmd.OutOrStdout(), report))
	}
	return faults.Join(err, o.print(cmd.OutOrStdout(), report, map[string]func(*page){
		"table": func(p *page) { printSummary(p, report) },
		"wide":  func(p *page) { printReport(p, report) },
	}))
}

// subject is what arguments name.
func (o *explainOptions) subject(namespace string, args []string) (explain.Subject, error) {
	if o.selector != nil && len(args) > 0 {
		return explain.Subject{}, fmt.Errorf("name an object, or choose one with -l, but not both: %s -l %s", strings.Join(args, " "), o.selector)
	}
	return explain.ParseSubject(namespace, args...)
}

// offlineReport explains an object of manifests.
func (o *explainOptions) offlineReport(cmd *cobra.Command, subject explain.Subject) (*explain.Report, error) {
	usage, notes, unreadUsage := usagefile.Read(o.usage, cmd.InOrStdin())
	if len(o.usage) > 0 && unreadUsage != nil && len(usage.Rows) == 0 {
		return nil, unreadUsage // what a recommender would see is not known, nor what follows from it
	}
	book, err := o.rules.open()
	if err != nil {
		return nil, err
	}
	set, unread := o.readFiles(cmd)
	seen := usage.End()
	if len(o.usage) == 0 {
		seen = simulate.LastCheckpoint(set)
	}
	now, err := o.time(seen)
	if err != nil {
		return nil, err
	}
	cluster, unusable := simulate.Load(set, book, simulate.At(now))
	m := explain.Manifests{Cluster: cluster, Set: set, Now: now, Selector: o.selector}
	if len(o.usage) > 0 {
		m.Usage = usage
	}
	report, wrong := explain.Offline(cmd.Context(), m, subject)
	printNotes(cmd, append(notes, cluster.Notes()...))
	return report, faults.Join(unreadUsage, unread, unusable, wrong)
}

// liveReport explains an object of a cluster. fill computes what processes do not say.
func (o *explainOptions) liveReport(ctx context.Context, subject explain.Subject, fill bool) (*explain.Report, error) {
	c, namespace, err := o.live.connect()
	if err != nil {
		if fill { // celvpa history reads no manifests
			err = fmt.Errorf("%w; or name manifests with -f", err)
		}
		return nil, err
	}
	subject.Namespace = namespace
	if o.ask.Config, err = o.live.rest(); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	options := explain.Options{
		Client:   c,
		Now:      now,
		Selector: o.selector,
		Ask: func(ctx context.Context, namespace, name string) (*ask.Result, error) {
			return ask.VPA(ctx, o.ask, namespace, name)
		},
	}
	book, err := o.book(fill)
	if err != nil {
		options.Unknown = []string{fmt.Sprintf("the rules of this program: %v", err)}
		return explain.Explain(ctx, options, subject)
	}
	options.Rules, options.Unknown = explain.RulesIn(ctx, c, book)
	if fill {
		options.Simulate = func(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (explain.Simulated, error) {
			return explain.Simulate(ctx, c, book, v, now)
		}
	}
	return explain.Explain(ctx, options, subject)
}

// book compiles the rules of the flags, or the shipped ones for a command without such flags.
func (o *explainOptions) book(flags bool) (*compile.Rulebook, error) {
	if flags {
		return o.rules.open()
	}
	return o.rules.ruleOptions.open()
}

// printSummary prints a report for a screen: the verdict, what blocks, the numbers, and the pods with what changes and why.
func printSummary(p *page, r *explain.Report) {
	printHeadline(p, r)
	blocks := slices.DeleteFunc(slices.Clone(r.Findings), func(f explain.Finding) bool {
		ofPods := strings.Contains(f.Token, "/") // is said with the pods
		return f.Class == explain.Info || f.Class == explain.Settled && ofPods
	})
	for i := range blocks {
		if blocks[i].Token == r.Verdict.Token {
			blocks[i].Text = "" // the verdict has it
			break
		}
	}
	printFindings(p, blocks)
	printTargets(p, r.Resources)
	printGroups(p, r)
	printUnknown(p, r.Unknown, p.wrapped)
	if left := len(r.Findings) - len(blocks); left > 0 {
		p.printf("\n-o wide shows %s.\n", simulate.Counted(left, "more finding"))
	}
}

// printTargets prints what is recommended for each container, and what set it.
func printTargets(p *page, list []explain.Amounts) {
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	computed := slices.ContainsFunc(list, func(a explain.Amounts) bool { return len(a.Way) > 0 || len(a.Usage) > 0 })
	if computed {
		p.header("CONTAINER", "RESOURCE", "P90", "LOWER", "TARGET", "UPPER", "TARGET SET BY")
	} else {
		p.header("CONTAINER", "RESOURCE", "LOWER", "TARGET", "UPPER")
	}
	for i := range list {
		a := &list[i]
		container, lower, target, upper := cmp.Or(a.Container, podRow), short(a.LowerBound), short(a.Target), short(a.UpperBound)
		if !computed {
			p.row(container, a.Resource, lower, target, upper)
			continue
		}
		by := "-"
		if n := len(a.Way); n > 0 {
			by = a.Way[n-1].Path()
		}
		p.row(container, a.Resource, quantity.Short(percentile(a.Usage, "90")), lower, target, upper, by)
	}
	p.end()
}

// short is an amount as people read it.
func short(amount string) string { return cmp.Or(quantity.Short(amount), "-") }

// podGroup are pods with which the updater does the same by the same rule.
type podGroup struct {
	action, why string // of the first
	mixed       bool   // others have another reason or other changes
	pods        []string
}

// printGroups prints what happens to the pods and why, with a paragraph for each action and rule.
func printGroups(p *page, r *explain.Report) {
	namespace, _, _ := strings.Cut(r.VPA, "/")
	var groups []*podGroup
	for i := range r.Pods {
		pod := &r.Pods[i]
		action, why := cmp.Or(pod.Action, "-"), pod.Reason
		if action == facts.DoEvict && r.Verdict.Token == explain.BudgetBlocks {
			action += ", which API servers refuse"
		}
		if pod.Rule != "" {
			action += ", by " + pod.Rule
		}
		if changes := requestChanges(pod.Change); changes != "" {
			why += " (" + changes + ")"
		}
		at := slices.IndexFunc(groups, func(g *podGroup) bool { return g.action == action })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &podGroup{action: action, why: why})
		}
		g := groups[at]
		g.mixed = g.mixed || g.why != why
		g.pods = append(g.pods, strings.TrimPrefix(pod.Pod, namespace+"/"))
	}
	if len(groups) > 0 {
		p.printf("\n")
	}
	for _, g := range groups {
		text := simulate.Few(g.pods) + ": " + g.action + ": " + g.why
		if g.mixed {
			text += "; that is the first, and -o wide has all"
		}
		p.wrapped("", text)
	}
}

// requestChanges says how requests change; of limits it says only that they do.
func requestChanges(list []answers.Change) string {
	var out []string
	limits := ""
	container := "-"
	for _, change := range list {
		field, isRequest := strings.CutPrefix(change.Field, "requests.")
		if !isRequest {
			limits = "; and limits"
			continue
		}
		text := field + " " + change.FromTo(false)
		if n := len(out); n > 0 && change.Container == container {
			out[n-1] += ", " + text
			continue
		}
		container = change.Container
		out = append(out, cmp.Or(container, "the pod")+" "+text)
	}
	if len(out) == 0 {
		return strings.TrimPrefix(limits, "; and ")
	}
	return strings.Join(out, "; ") + limits
}

// printReport prints all of a report as text.
func printReport(p *page, r *explain.Report) {
	printHeadline(p, r)
	printFindings(p, r.Findings)
	printAmounts(p, r.Resources)
	printPods(p, r.Pods)
	printHistory(p, r)
	printProcesses(p, r)
	printUnknown(p, r.Unknown, p.line)
}

// printHeadline prints the verdict, with its token if there is one, and what it is about.
func printHeadline(p *page, r *explain.Report) {
	verdict := r.Verdict.Text
	if r.Verdict.Token != "unknown" {
		verdict += " (" + r.Verdict.Token + ")"
	}
	p.wrapped("", verdict)
	if r.VPA != "" {
		p.wrapped("", fmt.Sprintf("VerticalPodAutoscaler %s, %s, mode %s, at %s", r.VPA, cmp.Or(r.Target, "no target"), r.Mode, stamp(r.Now)))
	}
}

// printUnknown prints what could not be found out, each with a function that takes an indent and a text.
func printUnknown(p *page, list []string, write func(indent, text string)) {
	if len(list) == 0 {
		return
	}
	p.printf("\nNot known:\n")
	for _, text := range list {
		write("  ", text)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// printFindings prints a block for each: class, token and what it is about, then why, then the way out.
func printFindings(p *page, findings []explain.Finding) {
	if len(findings) == 0 {
		return
	}
	p.printf("\n")
	for _, f := range findings {
		about := ""
		if f.About != "" {
			about = ", " + f.About
		}
		p.line("", f.Class+": "+f.Token+about)
		if f.Text != "" {
			p.wrapped("    ", f.Text)
		}
		if f.WayOut != "" {
			p.wrapped("  ", f.NextStep())
		}
	}
}

// shown are the percentiles in the table.
var shown = []string{"50", "90", "95"}

func printAmounts(p *page, list []explain.Amounts) {
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	p.header("CONTAINER", "RESOURCE", "P50", "P90", "P95", "LAST", "LOWER", "TARGET", "UPPER", "TARGET SET BY")
	for i := range list {
		a := &list[i]
		cells := []any{cmp.Or(a.Container, podRow), a.Resource}
		for _, percent := range shown {
			cells = append(cells, percentile(a.Usage, percent))
		}
		by := "-"
		if n := len(a.Way); n > 0 {
			step := a.Way[n-1]
			by = step.Path() + " (from " + cmp.Or(step.From, "unset") + ")"
		}
		for _, amount := range []string{a.LastUsage, a.LowerBound, a.Target, a.UpperBound} {
			cells = append(cells, cmp.Or(amount, "-"))
		}
		p.row(append(cells, by)...)
	}
	p.end()
	for i := range list {
		a := &list[i]
		if steps := slices.Concat(a.Way, a.Bounds); len(steps) > 0 {
			about := "container " + a.Container
			if a.Container == "" {
				about = "the pod"
			}
			p.printf("\n%s of %s\n", a.Resource, about)
			p.steps("  ", steps)
		}
	}
}

func percentile(list []answers.Percentile, percent string) string {
	for _, p := range list {
		if p.Percent == percent {
			return p.Amount
		}
	}
	return "-"
}

func printPods(p *page, pods []explain.Pod) {
	if len(pods) == 0 {
		return
	}
	p.printf("\n")
	p.header("POD", "ACTION", "RULE", "PRIORITY", "CHANGE", "NODE", "PHASE", "REASON")
	for i := range pods {
		pod := &pods[i]
		changes := make([]string, len(pod.Change))
		for j, change := range pod.Change {
			changes[j] = change.String()
		}
		p.row(pod.Pod, cmp.Or(pod.Action, "-"), cmp.Or(pod.Rule, "-"), pod.Priority, cmp.Or(strings.Join(changes, "; "), "-"),
			cmp.Or(pod.Node, "-"), cmp.Or(pod.Phase, "-"), cmp.Or(pod.Reason, "-"))
	}
	p.end()
	for i := range pods {
		if len(pods[i].Steps) > 0 {
			p.printf("\n%s\n", oneLine(pods[i].Pod))
			p.steps("  ", pods[i].Steps)
		}
	}
}

// printHistory prints what the processes decided, and the events.
func printHistory(p *page, r *explain.Report) {
	if len(r.Decisions) > 0 {
		p.printf("\n")
		p.header("TIME", "BY", "POD", "DECISION", "RULE", "WHY", "ID")
		for _, d := range r.Decisions {
			why := strings.Join(append(slices.Clone(d.Changes), d.Reason), "; ")
			p.row(stamp(d.Time), d.Component, cmp.Or(d.Pod, "-"), d.Action, cmp.Or(d.Rule, "-"), strings.Trim(why, "; "), d.ID)
		}
		p.end()
	}
	if len(r.Events) > 0 {
		p.printf("\n")
		p.header("TIME", "TYPE", "EVENT", "MESSAGE")
		for _, e := range r.Events {
			p.row(stamp(e.Time), e.Type, e.Reason, e.Message)
		}
		p.end()
		if r.EventsCut > 0 {
			p.printf("%s left out.\n", simulate.Counted(r.EventsCut, "older event"))
		}
	}
}

// printProcesses prints the processes with their rules, or those of the report if none was asked.
func printProcesses(p *page, r *explain.Report) {
	list := r.Processes
	if len(list) == 0 && r.Rules.Digest != "" {
		list = []answers.Process{{Component: "this program", Instance: "-", Version: newBuildInfo().Version, Rules: r.Rules}}
	}
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	p.header("PROCESS", "INSTANCE", "VERSION", "RULES", "DIGEST", "OVERLAYS")
	for _, process := range list {
		p.row(process.Component, process.Instance, process.Version, process.Rules.Pipeline, process.Rules.Digest, cmp.Or(strings.Join(process.Rules.Overlays, ", "), "-"))
	}
	p.end()
}
