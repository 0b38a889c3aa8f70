package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// commandsOf are all commands, by their path.
func commandsOf(cmd *cobra.Command) map[string]*cobra.Command {
	out := map[string]*cobra.Command{cmd.CommandPath(): cmd}
	for _, sub := range cmd.Commands() {
		for path, c := range commandsOf(sub) {
			out[path] = c
		}
	}
	return out
}

// TestExamplesOfTheHelpParse, and main commands have three or more.
func TestExamplesOfTheHelpParse(t *testing.T) {
	root := rootCommand(compileOnce)
	call := regexp.MustCompile(`(?:celvpa|kubectl vpa) ([^|>&]*)`)
	quoted := regexp.MustCompile(`'[^']*'|"[^"]*"`)
	for path, cmd := range commandsOf(root) {
		lines := strings.Split(strings.TrimSpace(cmd.Example), "\n")
		if cmd.GroupID != "" {
			require.GreaterOrEqual(t, len(lines), 3, path)
		}
		if cmd.Example == "" {
			continue
		}
		for _, line := range lines {
			require.Regexp(t, `^(  )?\S`, line, path)
			calls := call.FindAllStringSubmatch(quoted.ReplaceAllString(line, "x"), -1)
			require.NotEmpty(t, calls, line)
			for _, words := range calls {
				text, _, _ := strings.Cut(words[1], "   ") // what it is for
				fresh, rest, err := rootCommand(compileOnce).Find(strings.Fields(text))
				require.NoError(t, err, line)
				require.NoError(t, fresh.ParseFlags(rest), line)
			}
		}
	}
}

// TestHelpHasFlagsInGroups: every flag once, those that are named in one exist, and what is nobody's is input.
func TestHelpHasFlagsInGroups(t *testing.T) {
	root := rootCommand(compileOnce)
	all := map[string]bool{"help": true}
	for path, cmd := range commandsOf(root) {
		out, _, err := run("", append(strings.Fields(path)[1:], "--help")...)
		require.NoError(t, err, path)
		for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) {
				all[f.Name] = true
				if !f.Hidden {
					require.Len(t, regexp.MustCompile(`(?m)^  (-\w,|   ) --`+regexp.QuoteMeta(f.Name)+`[ \n]`).FindAllString(out, -1), 1, "--%s of %s:\n%s", f.Name, path, out)
				}
			})
		}
	}
	out, _, err := run("", "plan", "--help")
	require.NoError(t, err)
	titles := regexp.MustCompile(`(?m)^([A-Z][a-z ]+):$`).FindAllStringSubmatch(out, -1)
	var got []string
	for _, m := range titles {
		got = append(got, m[1])
	}
	require.Equal(t, []string{"Usage", "Examples", "Input", "Cluster", "Policy", "Policy params", "Output", "Global"}, got)
	for _, g := range flagGroups[2:] {
		for _, name := range g.names {
			require.True(t, all[name], "no command has --%s", name)
		}
	}
	for line := range strings.Lines(out[:strings.Index(out, "Usage:")]) {
		require.LessOrEqual(t, len([]rune(line)), usualWidth+1, line)
	}
	require.False(t, slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool { return strings.HasSuffix(line, " ") }))
}

// TestHelpNamesTheProgramAsItWasCalled, in usage, text and examples.
func TestHelpNamesTheProgramAsItWasCalled(t *testing.T) {
	for name, want := range map[string]string{"kubectl-vpa": "kubectl vpa", "celvpa": "celvpa"} {
		root := rootCommand(compileOnce)
		calledAs(root, name, []string{"plan", "--help"})
		var out strings.Builder
		require.NoError(t, runCommand(root, &out, &out))
		require.Contains(t, out.String(), "Usage:\n  "+want+" plan [-f PATH…] [flags]\n")
		require.Contains(t, out.String(), "\n  "+want+" plan -n shop --context prod\n")
		require.Contains(t, out.String(), "-o yaml | "+want+" plan -f -")
		require.Equal(t, name == "celvpa", strings.Contains(out.String(), "celvpa plan"))
	}
}
