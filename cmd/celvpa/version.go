package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
)

// What the linker sets in a release. In other builds they are empty.
var (
	version string // such as v0.1.0
	commit  string // hash, with -dirty behind it if the work tree had changes
	date    string // of the commit, RFC 3339
)

// nextVersion is the version of a build that is no release, and the default of make release.
//
//go:embed version.txt
var nextVersion string

// buildInfo is what celvpa version prints.
type buildInfo struct {
	Version     string `json:"version"`
	Commit      string `json:"commit,omitempty"`
	BuildDate   string `json:"buildDate,omitempty"`
	GoVersion   string `json:"goVersion"`
	Platform    string `json:"platform"`
	RulesDigest string `json:"rulesDigest"`
}

// newBuildInfo is about this program, without its rules.
func newBuildInfo() buildInfo {
	info := buildInfo{Version: version, Commit: commit, BuildDate: date, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if built, ok := debug.ReadBuildInfo(); ok {
		info.complete(built)
	}
	info.Version = cmp.Or(info.Version, strings.TrimSpace(nextVersion))
	return info
}

// complete takes what the linker did not set from what go build and go install record.
func (b *buildInfo) complete(built *debug.BuildInfo) {
	if built.Main.Version != "(devel)" {
		b.Version = cmp.Or(b.Version, built.Main.Version)
	}
	settings := map[string]string{}
	for _, s := range built.Settings {
		settings[s.Key] = s.Value
	}
	if b.Commit == "" {
		b.Commit = settings["vcs.revision"]
		if settings["vcs.modified"] == "true" {
			b.Commit += "-dirty"
		}
	}
	b.BuildDate = cmp.Or(b.BuildDate, settings["vcs.time"])
}

// print prints a line for each fact that is known.
func (b buildInfo) print(p *page) {
	for _, line := range [][2]string{
		{"Version", b.Version}, {"Commit", b.Commit}, {"Built", b.BuildDate}, {"Go", b.GoVersion}, {"Platform", b.Platform}, {"Rules", b.RulesDigest},
	} {
		if line[1] != "" {
			p.row(line[0]+":", line[1])
		}
	}
}

func versionCommand(compile compileFunc) *cobra.Command {
	p := &printer{}
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, how it was built, and the digest of the shipped rules", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			info := newBuildInfo()
			// The digest is that of all rules, however few are compiled.
			rules, err := policy.Open(policy.Options{Points: []string{facts.VPAOrder}})
			if err != nil {
				return fmt.Errorf("the shipped rules are broken:\n%w", err)
			}
			book, err := compile(rules)
			if err != nil {
				return fmt.Errorf("the shipped rules are broken:\n%w", err)
			}
			info.RulesDigest = book.Default().Digest()
			return p.print(cmd.OutOrStdout(), info, map[string]func(*page){"table": info.print})
		},
	}
	p.add(cmd, "table", "table", "json", "yaml")
	return cmd
}

// addVersionFlag adds --version, without the shorthand -v, which is the verbosity of logs. A template
// of our own would need text/template, with which the linker keeps all methods: 18 MB.
func addVersionFlag(cmd *cobra.Command) {
	cmd.Version = newBuildInfo().Version
	cmd.Flags().Bool("version", false, "print the version and exit (celvpa's own)")
}

// userAgent is how a component names itself to API servers, in the form that those of Kubernetes use.
func userAgent(component string) string {
	info := newBuildInfo()
	return fmt.Sprintf("%s/%s (%s)", component, info.Version, info.Platform)
}

var buildInfoMetric = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "celvpa_build_info",
	Help: "Always 1. Its labels are the version, its commit and how it was built.",
}, []string{"version", "commit", "go_version", "platform"})

func init() {
	info := newBuildInfo()
	buildInfoMetric.WithLabelValues(info.Version, info.Commit, info.GoVersion, info.Platform).Set(1)
	metrics.Registry.MustRegister(buildInfoMetric)
}
