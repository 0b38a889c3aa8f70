package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

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
