// Command celvpa is a Vertical Pod Autoscaler whose every decision is a rule in a file. Each subcommand is thin: it
// reads flags, joins packages and runs.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/faults"
)

// The exit codes besides 0.
const (
	// exitNo: a policy answer is no, e.g. a lint finding.
	exitNo = 1
	// exitCannotRun: the command could not run: a bad flag, an unreadable file, no API server.
	exitCannotRun = 2
)

// The groups of commands in celvpa --help.
const (
	componentGroup = "components"
	answerGroup    = "answers"
	policyGroup    = "policy"
)

// errNo is returned by commands that ran and whose answer is no. They have printed why.
var errNo = errors.New("the answer is no")

// profileRate is Go's default: profiles sample one allocation in so many bytes.
const profileRate = 512 << 10

func main() {
	runtime.MemProfileRate = 0 // unless --profiling is set: sampling takes a megabyte
	root := rootCommand((*policy.Rules).Compile)
	calledAs(root, os.Args[0], os.Args[1:])
	switch err := runCommand(root, os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, errNo):
		os.Exit(exitNo)
	default:
		printErrors(root.ErrOrStderr(), err)
		os.Exit(exitCannotRun)
	}
}

// printErrors prints a line for each of several errors.
func printErrors(out io.Writer, err error) {
	for _, fault := range faults.List(err) {
		fmt.Fprintln(out, "celvpa:", fault)
	}
}

// rootCommand is celvpa with all its commands, whose rules compile compiles.
func rootCommand(compile compileFunc) *cobra.Command {
	root := parentCommand(&cobra.Command{
		Use:   "celvpa",
		Short: "A Vertical Pod Autoscaler whose every decision is a rule in a file",
		Long: `celvpa sizes pods from what they use. It speaks upstream VPA's API (autoscaling.k8s.io/v1), and its policy is
written in CEL rule files that can be read and changed without touching Go.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.AddGroup(
		&cobra.Group{ID: componentGroup, Title: "Components, which run in a cluster:"},
		&cobra.Group{ID: answerGroup, Title: "Questions about manifests, or about a cluster that is only read:"},
		&cobra.Group{ID: policyGroup, Title: "Rules and what is made from them:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(componentGroup,
		componentCommand("run", "Run recommender, updater and admission controller in one process", recommenderPart, updaterPart, admissionPart),
		componentCommand("recommender", "Sample usage and write recommendations", recommenderPart),
		componentCommand("updater", "Bring running pods to their recommendation", updaterPart),
		componentCommand("admission-controller", "Give new pods their recommendation and refuse invalid VPAs", admissionPart),
	)
	add(answerGroup, demoCommand(compile), explainCommand(compile), vpasCommand(compile), historyCommand(compile), recommendCommand(compile), admitCommand(compile), planCommand(compile), backtestCommand(compile), validateCommand(compile))
	add(policyGroup, rulesCommand(compile), testCommand(compile), crdCommand(compile))
	add("", referenceCommand(), versionCommand(compile))
	addVersionFlag(root)
	refuseUnknownWords(root)
	setHelp(root)
	root.SetGlobalNormalizationFunc(normalize)
	root.SetFlagErrorFunc(badFlag)
	return root
}

// badFlag says which flag may be meant, and where the flags of a command are listed.
func badFlag(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = faults.Near("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w; %s%s --help lists the flags", err, hint, cmd.CommandPath())
}

// unknownCommand refuses arguments of a command that only has others.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("unknown command %q for %q; %s%[2]s --help says what there is", args[0], cmd.CommandPath(), faults.Near(args[0], names))
}

// takes refuses fewer or more arguments, and says how the command is written. most is 0 without a bound.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || most > 0 && n > most {
			return fmt.Errorf("wrong number of arguments (%d); write %s", n, cmd.UseLine())
		}
		return nil
	}
}

// refuseUnknownWords makes cobra's own commands, help and completion, end with an error where they know no such command or shell.
func refuseUnknownWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			parentCommand(cmd)
		case "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				found, rest, err := cmd.Root().Find(args)
				if err != nil {
					return err
				}
				return unknownCommand(found, rest)
			}
		}
	}
}

// parentCommand makes a command that only has others refuse what is none of them.
func parentCommand(cmd *cobra.Command) *cobra.Command {
	cmd.Args = unknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// calledAs makes the program what its own name says, so that links to it stand in for upstream's programs, whose images are
// started without naming a command, and for plugins of kubectl. By any other name it is celvpa with all its commands.
func calledAs(root *cobra.Command, name string, args []string) {
	name = filepath.Base(name)
	switch name {
	case "kubectl-vpa":
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vpa"}
	case "kubectl_complete-vpa": // what kubectl asks for completions of kubectl vpa
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	default:
		if component := strings.TrimPrefix(name, "vpa-"); isComponent(component) {
			args = append([]string{component}, args...)
		}
	}
	root.SetArgs(args)
}

// isComponent reports whether a command is a component that upstream has, too.
func isComponent(name string) bool {
	return name == "recommender" || name == "updater" || name == "admission-controller"
}
