package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestShellsCompleteValues as cobra's scripts ask for them.
func TestShellsCompleteValues(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "overlay.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: mine}\nspec: {change: [{params: {estimate.marginFraction: 0.2}}]}\n")
	config := write(t, dir, "kubeconfig", "apiVersion: v1\nkind: Config\ncontexts: [{name: prod, context: {cluster: a}}, {name: dev, context: {cluster: a}}]\n")
	for args, want := range map[string][]string{
		"validate -o ":                                                      {"github", "json", "junit", "table", "yaml"},
		"plan --output w":                                                   {"wide"},
		"plan --pipeline ":                                                  {"default@1.0.0"},
		"plan --feature-gates InPlace=true,Mem":                             {"InPlace=true,MemoryPerCPURatio=true"},
		"plan --kubeconfig " + config + " --context ":                       {"dev", "prod"},
		"plan --kubeconfig " + dir + "/missing -n ":                         nil,
		"rules show container-ca":                                           {"container-caps"},
		"rules show container-caps@":                                        {"container-caps@1.0.0"},
		"rules show --rules-dir " + dir + " mi":                             {"mine"},
		"rules show --rules-dir " + dir + "/missing co":                     nil,
		"rules show container-caps extra":                                   nil,
		"rules diff ":                                                       {"shipped"},
		"rules diff --live -o ":                                             {"table", "wide", "name", "json", "yaml"},
		"validate --rules-dir " + dir + "/missing --pipeline ":              nil,
		"rules lint --rules-dir " + dir + " --feature-gates InPlace=true,C": {"InPlace=true,CPUStartupBoost=true"},
	} {
		t.Run(args, func(t *testing.T) {
			out, _, err := run("", append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(args, " ")...)...)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var got []string // shells leave out what does not begin with the word
			words := strings.Split(args, " ")
			for _, line := range lines[:len(lines)-1] { // the last one is the directive
				if strings.HasPrefix(line, words[len(words)-1]) {
					got = append(got, line)
				}
			}
			require.ElementsMatch(t, want, got)
		})
	}
}

// TestKubeconfigsThatDoNotExist are named, with what else there is to do.
func TestKubeconfigsThatDoNotExist(t *testing.T) {
	_, err := celvpa(t, "plan", "--kubeconfig", "missing.yaml")
	require.ErrorContains(t, err, "missing.yaml")
	require.ErrorContains(t, err, "give --kubeconfig and --context")
	_, err = celvpa(t, "plan", "-f", os.DevNull, "--context", "web")
	require.EqualError(t, err, "-f and --context exclude each other: objects come from manifests or from a cluster; kubectl get -o yaml saves those of a cluster")
}

// TestCobrasOwnCommandsRefuseUnknownWords, which cobra answers with the help of another command and exit code 0.
func TestCobrasOwnCommandsRefuseUnknownWords(t *testing.T) {
	for args, fails := range map[string]string{
		"help":              "",
		"help plan":         "",
		"help rules show":   "",
		"help plann":        `unknown command "plann" for "celvpa"`,
		"help rules shown":  `unknown command "shown" for "celvpa rules"`,
		"help plan shop":    `unknown command "shop" for "celvpa plan"`,
		"completion":        "",
		"completion tcsh":   `unknown command "tcsh" for "celvpa completion"`,
		"completion bash x": `unknown command "x" for "celvpa completion bash"`,
	} {
		t.Run(args, func(t *testing.T) {
			out, _, err := run("", strings.Split(args, " ")...)
			requireEnd(t, err, fails, false)
			require.Equal(t, fails == "", out != "", out)
		})
	}
}
