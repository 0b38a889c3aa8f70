package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a group of flags in the help of commands.
type flagGroup struct {
	title string
	names []string
	has   func(*pflag.Flag) bool // more; nil = none
}

// What is in no other group.
const (
	ofComponents = iota
	ofOthers
	groupsBefore // the number of these
)

// flagGroups are in the order of the help.
var flagGroups = []flagGroup{
	ofComponents: {title: "Component"},
	ofOthers:     {title: "Input"},
	{title: "Cluster", names: []string{
		"kubeconfig", "context", "namespace", "all-namespaces", "as", "as-group", "celvpa-namespace", "service-account",
		"kube-api-qps", "kube-api-burst", "vpa-object-namespace", "ignored-vpa-object-namespaces"}},
	{title: "Leader election", has: func(f *pflag.Flag) bool { return strings.HasPrefix(f.Name, "leader-elect") }},
	{title: "Policy", names: []string{
		"rules-dir", "rules-reload-interval", "pipeline", "pipelines", "feature-gates", "rules", "sweep", "choose", "least", "class", "train"}},
	{title: "Policy params", has: func(f *pflag.Flag) bool { _, is := f.Value.(*paramFlag); return is }},
	{title: "Output", names: []string{
		"output", "sort-by", "no-headers", "explain", "watch", "watch-interval", "top", "coverage", "series", "price-core-hour",
		"price-gib-hour", "write", "out", "vap"}},
	{title: "Logging", names: []string{
		"logging-format", "decisions-kept", "log-decisions", "v", "vmodule", "add-dir-header", "alsologtostderr", "alsologtostderrthreshold",
		"legacy-stderr-threshold-behavior", "log-backtrace-at", "log-dir", "log-file", "log-file-max-size", "logtostderr", "one-output",
		"skip-headers", "skip-log-headers", "stderrthreshold"}},
	{title: "Global", names: []string{"help", "version"}},
}

// groupOf is the position of a flag's group.
func groupOf(cmd *cobra.Command, flag *pflag.Flag) int {
	for i, g := range flagGroups[groupsBefore:] {
		if slices.Contains(g.names, flag.Name) || g.has != nil && g.has(flag) {
			return groupsBefore + i
		}
	}
	if cmd.GroupID == componentGroup {
		return ofComponents
	}
	return ofOthers
}

// componentExamples are those of the commands that run in a cluster.
var componentExamples = map[string]string{
	"run": `  celvpa run --kubeconfig ~/.kube/config
  celvpa run --rules-dir my-rules --pipelines careful
  celvpa run --vpa-object-namespace shop --logging-format json`,
	"recommender": `  celvpa recommender --kubeconfig ~/.kube/config
  celvpa recommender --storage prometheus --prometheus-address http://prometheus.monitoring:9090
  celvpa recommender --rules-dir my-rules --target-cpu-percentile 0.95`,
	"updater": `  celvpa updater --kubeconfig ~/.kube/config
  celvpa updater --eviction-tolerance 0.2 --min-replicas 3
  celvpa updater --vpa-object-namespace shop --feature-gates InPlace=true`,
	"admission-controller": `  celvpa admission-controller --kubeconfig ~/.kube/config --register-by-url --webhook-address 10.0.0.5
  celvpa admission-controller --client-ca-file ca.crt --tls-cert-file tls.crt --tls-private-key tls.key
  celvpa admission-controller --rules-dir my-rules --webhook-failure-policy-fail`,
}

// setHelp makes a command and those below it print their help with flags in groups, by the name that the program was called by.
// Templates would need text/template; see addVersionFlag.
func setHelp(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		p := newPage(cmd.OutOrStdout())
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		for paragraph := range strings.SplitSeq(asCalled(cmd, text), "\n\n") {
			if strings.Contains(paragraph, "\n ") { // a list
				p.printf("%s\n\n", paragraph)
				continue
			}
			p.printf("%s\n\n", wrap(paragraph, screenWidth(), 0, 0))
		}
		p.printf("%s", asCalled(cmd, usageOf(cmd)))
		p.fail(p.Flush()) // there is nobody to tell
	})
}

// usageOf is how a command is written, with examples, its commands and its flags.
func usageOf(cmd *cobra.Command) string {
	var out strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&out, format, args...) }
	write("Usage:\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		write("  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		write("  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		write("\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		title := "\n" + group.Title + "\n"
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				write("%s  %-*s %s\n", title, sub.NamePadding(), sub.Name(), sub.Short)
				title = ""
			}
		}
	}
	sets := make([]*pflag.FlagSet, len(flagGroups))
	for _, all := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		all.VisitAll(func(flag *pflag.Flag) {
			at := groupOf(cmd, flag)
			if sets[at] == nil {
				sets[at] = pflag.NewFlagSet(flagGroups[at].title, pflag.ContinueOnError)
			}
			sets[at].AddFlag(flag)
		})
	}
	for i, set := range sets {
		if set != nil && set.HasAvailableFlags() {
			write("\n%s:\n%s", flagGroups[i].title, set.FlagUsagesWrapped(terminalWidth()))
		}
	}
	if cmd.HasAvailableSubCommands() {
		write("\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	return out.String()
}

// asCalled is a text about celvpa's commands with the name that the program was called by, such as kubectl vpa.
func asCalled(cmd *cobra.Command, text string) string {
	name := cmd.Root().CommandPath()
	if name == cmd.Root().Name() {
		return text
	}
	var commands []string
	for _, sub := range cmd.Root().Commands() {
		commands = append(commands, sub.Name())
	}
	return regexp.MustCompile(`\bcelvpa (`+strings.Join(commands, "|")+`)\b`).ReplaceAllString(text, name+" $1")
}
