package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/compile"
	"github.com/spf13/cobra"
)

func showCommand(o *ruleOptions) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION][/STAGE[/RULE]]", Short: "Show a rule set or a part of it with its digest, a pipeline or an overlay", Args: takes(1, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return o.addresses(word), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return showRule(cmd.OutOrStdout(), o, args[0]) },
	}
}

// showRule prints rule sets, pipelines and overlays as they are written, and parts of rule sets as they are understood,
// with the digest that overlays can insist on.
func showRule(out io.Writer, o *ruleOptions, path string) error {
	files, err := o.read(o.dir)
	if err != nil {
		return err
	}
	library, book := files.Library, files.book
	if strings.Contains(path, "/") {
		text, digest, err := findPart(book, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s", path, digest, text)
		return nil
	}
	found := false
	for _, id := range library.RuleSetIDs() {
		set := library.RuleSets[id]
		if id != path && set.Name.Value != path {
			continue
		}
		found = true
		_, digest, err := findPart(book, id)
		if err != nil {
			digest = "unknown: no pipeline runs it"
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s", set.Name.Pos.File, digest, set.Name.Source())
	}
	for _, plan := range book.Plans() {
		if name, _ := plan.NameAndVersion(); name == path || plan.Pipeline() == path {
			found = true
			p := library.Pipelines[plan.Pipeline()]
			fmt.Fprintf(out, "# %s, digest %s\n%s", p.Name.Pos.File, plan.Digest(), p.Name.Source())
		}
	}
	if o := library.Overlays[path]; o != nil {
		found = true
		fmt.Fprintf(out, "# %s\n%s", o.Name.Pos.File, o.Name.Source())
	}
	if !found {
		return fmt.Errorf("there is no rule set, pipeline or overlay %q; there are: %s", path,
			strings.Join(slices.Concat(library.RuleSetIDs(), slices.Sorted(maps.Keys(library.Pipelines)), slices.Sorted(maps.Keys(library.Overlays))), ", "))
	}
	return nil
}

// findPart looks a path up in the default pipeline, else in the others.
func findPart(book *compile.Rulebook, path string) (text, digest string, err error) {
	if text, digest, err = book.Default().Part(path); err == nil {
		return text, digest, nil
	}
	for _, plan := range book.Plans() {
		if text, digest, other := plan.Part(path); other == nil {
			return text, digest, nil
		}
	}
	return "", "", err
}
