package main

import (
	"cmp"
	"strings"

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

// ruleList is what celvpa rules list prints.
type ruleList struct {
	Pipelines []listedPipeline `json:"pipelines"`
	Overlays  []listedOverlay  `json:"overlays"`
	RuleSets  []listedRuleSet  `json:"ruleSets"`
}

type listedPipeline struct {
	Name    string `json:"name"` // name@version
	Digest  string `json:"digest"`
	Default bool   `json:"default"`
}

type listedOverlay struct {
	Name        string `json:"name"`
	Mode        string `json:"mode"`
	Priority    int    `json:"priority"`
	Match       string `json:"match"` // in words
	At          string `json:"at"`    // file:line:col
	Description string `json:"description"`
}

type listedRuleSet struct {
	Point       string `json:"point"`   // empty = no pipeline runs it
	RuleSet     string `json:"ruleSet"` // name@version
	At          string `json:"at"`
	Description string `json:"description"`
}

func listCommand(o *ruleOptions) *cobra.Command {
	p := &printer{}
	cmd := &cobra.Command{
		Use: "list", Short: "List pipelines, overlays and rule sets, with where they run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			files, err := o.read(o.dir)
			if err != nil {
				return err
			}
			list := newRuleList(files)
			return p.print(cmd.OutOrStdout(), list, map[string]func(*page){
				"table": func(p *page) { list.print(p, firstSentence) },
				"wide":  func(p *page) { list.print(p, oneLine) },
			})
		},
	}
	p.add(cmd, "table", "table", "wide", "json", "yaml")
	return cmd
}

func newRuleList(files *ruleFiles) *ruleList {
	library, book := files.Library, files.book
	out := &ruleList{Pipelines: []listedPipeline{}, Overlays: []listedOverlay{}, RuleSets: []listedRuleSet{}}
	add := func(point, id string) {
		set := library.RuleSets[id]
		out.RuleSets = append(out.RuleSets, listedRuleSet{Point: point, RuleSet: id, At: set.Name.Pos.String(), Description: set.Description})
	}
	listed := map[string]bool{}
	for _, plan := range book.Plans() {
		out.Pipelines = append(out.Pipelines, listedPipeline{Name: plan.Pipeline(), Digest: plan.Digest(), Default: plan == book.Default()})
		for _, point := range plan.Points() {
			for _, id := range plan.RuleSets(point) {
				if !listed[id] {
					listed[id] = true
					add(point, id)
				}
			}
		}
	}
	for _, one := range book.Overlays() {
		out.Overlays = append(out.Overlays, listedOverlay{
			Name: one.Name.Value, Mode: one.ModeOf(), Priority: one.PriorityOf(), Match: one.Match.String(), At: one.Name.Pos.String(), Description: one.Description,
		})
	}
	for _, id := range library.RuleSetIDs() {
		if !listed[id] {
			add("", id)
		}
	}
	return out
}

// print prints tables, with as much of descriptions as about leaves.
func (l *ruleList) print(p *page, about func(string) string) {
	for _, one := range l.Pipelines {
		serves := ""
		if one.Default {
			serves = ", the default"
		}
		p.printf("pipeline %s, digest %s%s\n", one.Name, one.Digest, serves)
	}
	if len(l.Overlays) > 0 {
		p.row("\nOVERLAY", "MODE", "PRIORITY", "MATCHES", "AT", "DESCRIPTION")
		for _, one := range l.Overlays {
			p.row(one.Name, one.Mode, one.Priority, one.Match, one.At, about(one.Description))
		}
		p.end()
	}
	p.row("\nPOINT", "RULE SET", "AT", "DESCRIPTION")
	for _, one := range l.RuleSets {
		p.row(cmp.Or(one.Point, "(not run)"), one.RuleSet, one.At, about(one.Description))
	}
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i > 0 {
		return text[:i+1]
	}
	return text
}
