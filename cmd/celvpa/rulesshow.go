package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			out := newPage(cmd.OutOrStdout())
			return cmp.Or(showRule(out, o, args[0]), out.Flush())
		},
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
		part, err := findPart(book, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s%s", path, part.digest, part.text, part.calls)
		return nil
	}
	found := false
	for _, id := range library.RuleSetIDs() {
		set := library.RuleSets[id]
		if id != path && set.Name.Value != path {
			continue
		}
		found = true
		part, err := findPart(book, id)
		if err != nil {
			part.digest = "unknown: no pipeline runs it"
		}
		fmt.Fprintf(out, "# %s, digest %s\n%s%s", set.Name.Pos.File, part.digest, set.Name.Source(), part.calls)
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

// shownPart is a rule set or a part of it.
type shownPart struct {
	text, digest string
	calls        string // what the definitions stand for that it calls, as comments
}

// findPart looks a path up in the default pipeline, else in the others.
func findPart(book *compile.Rulebook, path string) (shownPart, error) {
	part, err := partOf(book.Default(), path)
	if err == nil {
		return part, nil
	}
	for _, plan := range book.Plans() {
		if part, other := partOf(plan, path); other == nil {
			return part, nil
		}
	}
	return shownPart{}, err
}

func partOf(plan *engine.Plan, path string) (out shownPart, err error) {
	if out.text, out.digest, err = plan.Part(path); err != nil {
		return out, err
	}
	calls, err := plan.Calls(path)
	for _, one := range calls {
		out.calls += "# " + one + "\n"
	}
	return out, err
}
