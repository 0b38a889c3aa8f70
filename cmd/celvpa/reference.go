package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// referenceCommand prints the pages of docs/ that are made from the program itself.
func referenceCommand() *cobra.Command {
	cmd := parentCommand(&cobra.Command{Use: "reference", Short: "Print the reference of flags and metrics"})
	cmd.AddCommand(
		&cobra.Command{Use: "flags", Short: "The flags of the components, in Markdown", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			out := newPage(cmd.OutOrStdout())
			return cmp.Or(printFlags(out, cmd.Root()), out.Flush())
		}},
		&cobra.Command{Use: "metrics", Short: "The metrics of the components, in Markdown", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return printMetrics(cmd.OutOrStdout())
		}},
	)
	return cmd
}

const flagsHead = `# Flags of the components

All flags of the components. "celvpa reference flags" prints this page. Flags that upstream has keep its names and defaults, so
manifests stay as they are; an underscore may replace a dash. A flag that sets a param names its rule set; overlays can set the
param for some VPAs only. "celvpa run" takes the flags of all three components.
`

// printFlags lists the flags of each component, those that all have first.
func printFlags(out io.Writer, root *cobra.Command) error {
	fmt.Fprint(out, flagsHead)
	var components []*cobra.Command
	for _, name := range []string{"recommender", "updater", "admission-controller"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	count := map[string]int{}
	for _, c := range components {
		c.Flags().VisitAll(func(f *pflag.Flag) { count[f.Name+f.DefValue]++ })
	}
	section := func(title string, c *cobra.Command, keep func(*pflag.Flag) bool) {
		fmt.Fprintf(out, "\n## %s\n\n| flag | default | |\n|---|---|---|\n", title)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if keep(f) {
				fmt.Fprintf(out, "| `--%s` | %s | %s |\n", f.Name, code(f.DefValue), cellText(f.Usage))
			}
		})
	}
	section("All components", components[0], func(f *pflag.Flag) bool { return count[f.Name+f.DefValue] == len(components) })
	for _, c := range components {
		section("celvpa "+c.Name(), c, func(f *pflag.Flag) bool { return count[f.Name+f.DefValue] < len(components) })
	}
	return nil
}

// code is a value in Markdown, empty for an empty one.
func code(value string) string {
	if value == "" || value == "[]" {
		return ""
	}
	return "`" + strings.ReplaceAll(value, "|", "\\|") + "`"
}

// cellText is text that fits into a cell of a Markdown table.
func cellText(text string) string {
	return strings.NewReplacer("\n", "<br>", "|", "\\|", "<", "&lt;").Replace(strings.TrimSpace(text))
}

const metricsHead = `# Metrics

All metrics that the components serve at /metrics on --address, in addition to those of the Go runtime, the process and its
clients. "celvpa reference metrics" prints this page. Metrics that begin with vpa_ have upstream's names and labels; those that
begin with celvpa_ are celvpa's own. A component serves only those that apply to it.

| metric | labels | |
|---|---|---|
`

// described takes a metric's description apart: there is no other way to its name.
var described = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", (?:unit: "[^"]*", )?constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}\}$`)

// printMetrics lists the metrics that are registered.
func printMetrics(out io.Writer) error {
	registry, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		return fmt.Errorf("the registry of metrics, a %T, cannot be listed", metrics.Registry)
	}
	list := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(list)
		close(list)
	}()
	var rows []string
	for d := range list {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			return fmt.Errorf("a metric cannot be described: %s", d)
		}
		if strings.HasPrefix(m[1], "vpa_") || strings.HasPrefix(m[1], "celvpa_") {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", m[1], strings.ReplaceAll(m[3], ",", ", "), cellText(strings.ReplaceAll(m[2], `\"`, `"`))))
		}
	}
	slices.Sort(rows)
	fmt.Fprint(out, metricsHead)
	_, err := fmt.Fprintln(out, strings.Join(rows, "\n"))
	return err
}
