package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/examples/cookbook"
)

// newCommand prints recipes of the cookbook, from which people start overlays of their own.
func newCommand() *cobra.Command {
	return &cobra.Command{
		Use: "new [RECIPE]", Short: "Print an overlay with its test table to start from; without a recipe, list them", Args: takes(0, 1),
		Example: "  celvpa rules new window > window.yaml\n  celvpa test --rules-dir window.yaml --run ^window/",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return recipes(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				text, err := cookbook.FS.ReadFile(args[0] + ".yaml")
				if err != nil {
					return fmt.Errorf("there is no recipe %q; %sthere are %s", args[0], faults.Near(args[0], recipes()), strings.Join(recipes(), ", "))
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			out := newPage(cmd.OutOrStdout())
			out.header("RECIPE", "WHAT IT DOES")
			for _, name := range recipes() {
				text, err := cookbook.FS.ReadFile(name + ".yaml")
				if err != nil {
					return err
				}
				first, _, _ := strings.Cut(string(text), "\n")
				out.row(name, strings.TrimPrefix(first, "# "))
			}
			out.end()
			return out.Flush()
		},
	}
}

// recipes are the names of all recipes, sorted.
func recipes() (names []string) {
	files, _ := fs.Glob(cookbook.FS, "*.yaml") // it fails for a bad pattern only
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".yaml"))
	}
	return names
}
