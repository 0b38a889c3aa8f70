package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// inputHelp says in the help of commands what they read.
const inputHelp = `Without -f it reads the objects of a cluster, as kubectl does: those in the namespace of the current context, or as
--kubeconfig, --context, -n, -A and --as say. It only gets and lists.

PATH is a file, a folder whose *.yaml, *.yml and *.json files are read at any depth, a URL, or - for standard input. `

// offline is what the commands that work on manifests, or on the objects of a cluster, have in common.
type offline struct {
	printer
	files    []string
	ignore   []string
	selector labels.Selector // of VPAs; nil = all
	live     live
	explain  bool
	now      string
	rules    policyFlags
	display  *progress // set by load
}

// add gives a command the flags that all of them have.
func (o *offline) add(cmd *cobra.Command, compile compileFunc) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("files are named with -f: %s -f %s", cmd.CommandPath(), args[0])
		}
		return nil
	}
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file, folder or URL with manifests, or - for standard input; can be repeated")
	cmd.Flags().StringArrayVar(&o.ignore, "ignore", nil, "pattern of files and folders to leave out below folders of -f, as in .gitignore, e.g. charts or **/test/*.yaml; can be repeated")
	o.addSelector(cmd)
	o.rules.compile = compile
	o.rules.add(cmd)
	o.live.add(cmd, o.rules.of.kinds)
	o.live.optional = o.rules.of.optional
}

// check refuses flags that cannot work. others are files of the flag named other, which can be standard input, too. Flags of the
// cluster do not go with manifests, but for --namespace.
func (o *offline) check(other string, others []string) error {
	if err := o.printer.check(); err != nil {
		return err
	}
	for _, pattern := range o.ignore {
		if err := manifests.CheckPattern(pattern); err != nil {
			return fmt.Errorf("--ignore: %w", err)
		}
	}
	if flag := o.live.given("namespace"); flag != "" && len(o.files) > 0 {
		return fmt.Errorf("-f and --%s exclude each other: objects come from manifests or from a cluster; kubectl get -o yaml saves those of a cluster", flag)
	}
	if slices.Contains(o.files, manifests.Stdin) && slices.Contains(others, manifests.Stdin) {
		return fmt.Errorf("-f and %s cannot both be standard input", other)
	}
	return nil
}

// time is that of --now; without it the first of others that is not zero, else the time of day.
func (o *offline) time(others ...time.Time) (time.Time, error) {
	if o.now == "" {
		return cmp.Or(append(others, time.Now().UTC().Truncate(time.Second))...), nil
	}
	now, err := usagefile.ParseTime(o.now)
	if err != nil {
		return now, fmt.Errorf("--now: %w", err)
	}
	return now, nil
}

// readFiles reads the manifests.
func (o *offline) readFiles(cmd *cobra.Command) (*manifests.Set, error) {
	files := manifests.Files{Paths: o.files, Ignore: o.ignore}
	if o.display != nil {
		files.Watch = o.display.count
	}
	return files.Read(cmd.InOrStdin())
}

// load makes a cluster of the manifests, or else of a real one, at a time. The error says what cannot be used; the cluster has the rest.
func (o *offline) load(cmd *cobra.Command, book *compile.Rulebook, at time.Time) (*simulate.Cluster, error) {
	var set *manifests.Set
	var unread error
	o.display = newProgress(cmd.ErrOrStderr())
	if len(o.files) > 0 {
		set, unread = o.readFiles(cmd)
	} else {
		var notes []string
		o.live.watch = o.display.count
		set, notes, unread = o.live.read(cmd.Context())
		o.printNotes(cmd, notes)
	}
	cluster, unusable := simulate.Load(set, book, simulate.At(at))
	cluster.Watch = o.display.count
	return cluster, faults.Join(unread, unusable, o.narrow(cluster))
}

// narrow makes answers be about the VPAs of --selector, and of manifests about those of --namespace. The error is that there are none.
func (o *offline) narrow(cluster *simulate.Cluster) error {
	selection, wanted := simulate.Selection{Labels: labels.Everything()}, ""
	if o.selector != nil {
		selection.Labels, wanted = o.selector, " matches -l "+o.selector.String()
	}
	if namespace := o.live.overrides.Context.Namespace; namespace != "" && len(o.files) > 0 {
		selection.Namespace, wanted = namespace, " of namespace "+namespace+wanted
	}
	if wanted == "" || cluster.Select(selection) {
		return nil
	}
	return fmt.Errorf("no VerticalPodAutoscaler in %s%s", o.input(), wanted)
}

// input names what is read, for messages.
func (o *offline) input() string {
	if len(o.files) == 0 {
		return o.live.String()
	}
	return strings.Join(o.files, ", ")
}

// addSelector adds --selector.
func (o *offline) addSelector(cmd *cobra.Command) {
	cmd.Flags().FuncP("selector", "l", "`labels` of the VerticalPodAutoscalers to answer about, as in kubectl: app=web,tier!=test, or 'tier in (a, b)'; empty = all", func(text string) error {
		selector, err := labels.Parse(text)
		if err == nil && !selector.Empty() {
			o.selector = selector
		}
		return err
	})
	completes(cmd, "selector", func(string) []string { return nil })
}

// open checks the flags of a command without others, and loads its cluster. unread is what cannot be used of the objects.
func (o *offline) open(cmd *cobra.Command) (cluster *simulate.Cluster, unread, err error) {
	if err := o.check("", nil); err != nil {
		return nil, nil, err
	}
	now, err := o.time()
	if err != nil {
		return nil, nil, err
	}
	book, err := o.rules.open()
	if err != nil {
		return nil, nil, err
	}
	cluster, unread = o.load(cmd, book, now)
	return cluster, unread, nil
}

// printNotes prints notes in place of the progress.
func (o *offline) printNotes(cmd *cobra.Command, notes []string) {
	o.display.end()
	printNotes(cmd, notes)
}

// printNotes prints notes to standard error.
func printNotes(cmd *cobra.Command, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "celvpa:", breaks.Replace(note))
	}
}

// emptyInput is the error that there is nothing to answer about, which may come.
type emptyInput struct{ error }

// end is the error of a command that has printed its answer: what could not be read or used; else that the input was empty,
// as the format nothing says of the files; else errNo for an answer that is no.
func (o *offline) end(errs error, empty bool, nothing string, no bool) error {
	switch {
	case errs != nil:
		return errs
	case empty:
		return emptyInput{fmt.Errorf(nothing, o.input())}
	case no:
		return errNo
	}
	return nil
}
