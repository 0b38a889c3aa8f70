package main

import (
	"github.com/spf13/cobra"
)

// rulesCommand groups what an operator does with rule files.
func rulesCommand(compile compileFunc) *cobra.Command {
	cmd := parentCommand(&cobra.Command{Use: "rules", Short: "Look at rules, check them and see what a change does"})
	o := &ruleOptions{compile: compile}
	o.add(cmd)
	cmd.AddCommand(listCommand(o), showCommand(o), pointsCommand(), checksCommand(o), lintCommand(o), diffCommand(o), renderCommand(o))
	return cmd
}
