package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/inspect"
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
KIND/NAME, as in pod/web-1 or deploy/web, says which. Without it, the only VerticalPodAutoscaler of the namespace is explained.

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
	o.printer.add(cmd, "table", "table", "wide", "json", "yaml", "html")
	return cmd
}

// addCluster adds the flags of a command that reads a cluster only.
func (o *explainOptions) addCluster(cmd *cobra.Command, compile compileFunc) {
	cmd.Args = takes(0, 2)
	o.rules.compile, o.rules.points = compile, explain.Points
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
	if err := o.check("--usage", o.usage, "namespace"); err != nil {
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
	subject, err := explain.ParseSubject(o.live.overrides.Context.Namespace, args...)
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
	return faults.Join(err, o.print(cmd.OutOrStdout(), report, explainForms(report)))
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
	m := explain.Manifests{Cluster: cluster, Set: set, Remember: o.rules.halfLives, Now: now}
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
		Client: c,
		Now:    now,
		Ask: func(ctx context.Context, namespace, name string) (*ask.Result, error) {
			return ask.VPA(ctx, o.ask, namespace, name)
		},
	}
	book, err := o.book(fill)
	if err != nil {
		options.Unknown = []string{fmt.Sprintf("what the rules of this program say: %v", err)}
		return explain.Explain(ctx, options, subject)
	}
	options.Rules, options.Unknown = explain.RulesIn(ctx, c, book)
	if fill {
		options.Simulate = func(ctx context.Context, v *vpav1.VerticalPodAutoscaler) (explain.Simulated, error) {
			return explain.Simulate(ctx, c, book, o.rules.halfLives, v, now)
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

// subjects completes names of VPAs.
func (l *live) subjects(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, namespace, err := l.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list vpav1.VerticalPodAutoscalerList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range list.Items {
		v := &list.Items[i]
		out = append(out, fmt.Sprintf("%s\t%s", v.Name, explain.TargetText(v)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// explain serves what the components of this process know on --explain-address. All of them have joined.
func (p *process) explain(o *options) error {
	if o.explainAddress == "" {
		return nil
	}
	log := ctrl.Log.WithName("explain")
	certificate, get, err := selfSigned("--explain-address", log)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this host's name for --explain-address: %w", err)
	}
	return errors.Join(p.manager.Add(certificate), p.manager.Add(&inspect.Server{
		Sources: p.explains, Address: o.explainAddress, Certificate: get, Client: p.manager.GetClient(), Namespaces: o.namespaces(),
		Elected: p.manager.Elected(), Instance: host, Version: newBuildInfo().Version, Clock: clock.RealClock{}, Log: log,
	}))
}
