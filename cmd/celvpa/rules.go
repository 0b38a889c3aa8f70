package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/rules"
)

// rulesCommand groups what an operator does with rule files.
func rulesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "Look at rules and check them"}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "rules-dir", "", "folder with rule files to use instead of the shipped ones")
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the rule sets and where the pipeline runs them", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return listRules(cmd.OutOrStdout(), dir) },
		},
		&cobra.Command{
			Use: "show NAME[@VERSION]", Short: "Show a rule set as it is written, with its place", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return showRule(cmd.OutOrStdout(), dir, args[0]) },
		},
		&cobra.Command{
			Use: "points", Short: "Print the points at which rule sets plug in, with their facts", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return printPoints(cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "lint PATH…", Short: "Compile rule files and tell what is wrong or most likely a mistake",
			Long: "Compiles each folder as a complete set of rules, its pipeline included. Exit code 0: nothing found; 1: findings; 2: it could not be read.",
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return lintRules(cmd.OutOrStdout(), args) },
		},
	)
	return cmd
}

// source is the shipped rule files, or a folder, and how positions name it.
func source(dir string) (files fs.FS, shown string) {
	if dir == "" {
		return rules.FS, rules.Dir
	}
	return os.DirFS(dir), dir
}

func loadLibrary(dir string) (*engine.Library, error) {
	files, shown := source(dir)
	return engine.Load(files, shown)
}

func listRules(out io.Writer, dir string) error {
	library, err := loadLibrary(dir)
	if err != nil {
		return err
	}
	plan, err := policy.Load(policy.Options{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "pipeline %s, digest %s\n\n", plan.Pipeline(), plan.Digest())
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POINT\tRULE SET\tAT\tDESCRIPTION")
	listed := map[string]bool{}
	for _, point := range plan.Points() {
		for _, id := range plan.RuleSets(point) {
			set := library.RuleSets[id]
			listed[id] = true
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", point, id, set.Name.Pos, firstSentence(set.Description))
		}
	}
	for _, id := range library.RuleSetIDs() {
		if set := library.RuleSets[id]; !listed[id] {
			fmt.Fprintf(table, "(not run)\t%s\t%s\t%s\n", id, set.Name.Pos, firstSentence(set.Description))
		}
	}
	return table.Flush()
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i > 0 {
		return text[:i+1]
	}
	return text
}

func showRule(out io.Writer, dir, name string) error {
	library, err := loadLibrary(dir)
	if err != nil {
		return err
	}
	files, shown := source(dir)
	found := false
	for _, id := range library.RuleSetIDs() {
		set := library.RuleSets[id]
		if id != name && set.Name.Value != name {
			continue
		}
		found = true
		path, err := filepath.Rel(shown, set.Name.Pos.File)
		if err != nil {
			return fmt.Errorf("finding %s: %w", set.Name.Pos.File, err)
		}
		text, err := fs.ReadFile(files, filepath.ToSlash(path))
		if err != nil {
			return fmt.Errorf("reading %s: %w", set.Name.Pos.File, err)
		}
		fmt.Fprintf(out, "# %s\n%s", set.Name.Pos.File, text)
	}
	if !found {
		return fmt.Errorf("there is no rule set %q; there are: %s", name, strings.Join(library.RuleSetIDs(), ", "))
	}
	return nil
}

func printPoints(out io.Writer) error {
	registry, err := policy.Registry()
	if err != nil {
		return err
	}
	return registry.Describe(out)
}

func lintRules(out io.Writer, paths []string) error {
	found := 0
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a folder that can be read", path)
		}
		plan, err := policy.Load(policy.Options{Dir: path})
		problems := engine.Problems(err)
		if err != nil && len(problems) == 0 {
			return fmt.Errorf("%s: %w", path, err)
		}
		if plan != nil {
			problems = plan.Findings()
		}
		for _, p := range problems {
			fmt.Fprintln(out, p)
		}
		found += len(problems)
	}
	if found > 0 {
		fmt.Fprintf(out, "%d found\n", found)
		return errNo
	}
	fmt.Fprintln(out, "nothing found")
	return nil
}
