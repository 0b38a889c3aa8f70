package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/rules"
)

// compiled are rulebooks of the shipped rules, by the options that they were compiled with.
var compiled sync.Map

// shippedSets are the compiled rule sets of the shipped rules, most of which options leave as they are.
var shippedSets compile.Cache

// compileOnce compiles as celvpa does, and the shipped rules once for each set of options. Of a folder laid over them, rule sets
// that it does not replace are not compiled again. Commands do not change rulebooks, and concurrent ones share them as
// components do.
func compileOnce(r *policy.Rules) (*compile.Rulebook, error) {
	r.Options.Cache = &shippedSets
	if r.Options.Path != "" {
		return r.Compile()
	}
	once, _ := compiled.LoadOrStore(fmt.Sprintf("%+v", r.Options), sync.OnceValues(r.Compile))
	return once.(func() (*compile.Rulebook, error))()
}

// load is policy.Load for the shipped rules, once for each set of options.
func load(o policy.Options) (*compile.Rulebook, error) {
	files, err := policy.Open(o)
	if err != nil {
		return nil, err
	}
	return compileOnce(files)
}

// run runs a command and returns what it prints to standard output and to standard error.
func run(stdin string, args ...string) (out, stderr string, err error) {
	var outBuffer, errBuffer bytes.Buffer
	err = runTo(&outBuffer, &errBuffer, stdin, args...)
	return outBuffer.String(), errBuffer.String(), err
}

// celvpa runs a command and returns all that it prints.
func celvpa(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return piped(t, "", args...)
}

// piped is celvpa with something on standard input.
func piped(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runTo(&out, &out, stdin, args...)
	return out.String(), err
}

// No test of this package reads the cluster of whoever runs it.
func init() {
	_ = os.Setenv("KUBECONFIG", os.DevNull)
	_ = os.Unsetenv("KUBERNETES_SERVICE_HOST")
}

func runTo(out, stderr io.Writer, stdin string, args ...string) error {
	root := rootCommand(compileOnce)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(args)
	return runCommand(root, out, stderr)
}

// notesIn are the lines of standard error, without the name of the program.
func notesIn(stderr string) (notes []string) {
	for line := range strings.Lines(stderr) {
		notes = append(notes, strings.TrimPrefix(strings.TrimSpace(line), "celvpa: "))
	}
	return notes
}

// requireEnd holds the end of a command: that it could not run, for a reason; that its answer is no; or that all is well.
func requireEnd(t *testing.T, err error, fails string, no bool) {
	t.Helper()
	switch {
	case fails != "":
		require.ErrorContains(t, err, fails)
		require.False(t, errors.Is(err, errNo))
	case no:
		require.ErrorIs(t, err, errNo)
	default:
		require.NoError(t, err)
	}
}

// ownRules is a folder with one file of the shipped rules, changed. Laid over them it replaces that file.
func ownRules(t *testing.T, file, from, to string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := rules.FS.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	write(t, dir, file, strings.Replace(string(text), from, to, 1))
	return dir
}

// write writes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// fullDisk accepts nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestAnAnswerThatCannotBeWrittenIsAnError: regression, some commands ended with 0 and a file cut short.
func TestAnAnswerThatCannotBeWrittenIsAnError(t *testing.T) {
	for _, args := range []string{"rules list", "rules show default", "rules show container-caps/policy", "rules points", "rules checks", "reference api", "reference flags", "reference metrics", "crd", "version"} {
		require.ErrorContains(t, runTo(fullDisk{}, io.Discard, "", strings.Fields(args)...), "no space left on device", args)
	}
}

// TestOnlyOfflineCommandsWriteFiles: what runs in a cluster writes none, keys least of all, and can have a read-only root file system.
func TestOnlyOfflineCommandsWriteFiles(t *testing.T) {
	offline := []string{"cmd/celvpa/backtestchoose.go", "cmd/celvpa/crd.go", "cmd/celvpa/demo.go"} // each to the place that a flag names
	writes := regexp.MustCompile(`\b(os|root)\.(Create|CreateTemp|WriteFile|Mkdir|MkdirAll|MkdirTemp|Rename|Link|Symlink|Chmod|CopyFS)\(|\b(os|syscall)\.O_(WRONLY|RDWR|CREATE|CREAT|APPEND)\b`)
	root := filepath.Join("..", "..")
	var found []string
	for _, folder := range []string{"cmd", "controllers", "crds", "engine", "rules", "simulate", "webhook"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && writes.Match(text) {
				path, err = filepath.Rel(root, path)
				found = append(found, filepath.ToSlash(path))
			}
			return err
		}))
	}
	slices.Sort(found)
	require.Equal(t, offline, found)
}

// TestANameThatIsLikeAKnownOneIsNamed, whatever it is the name of.
func TestANameThatIsLikeAKnownOneIsNamed(t *testing.T) {
	file := write(t, t.TempDir(), "tiers.yaml", tiers())
	config := write(t, t.TempDir(), "kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://localhost:1'}}]\ncontexts: [{name: prod, context: {cluster: a}}]\n")
	for args, want := range map[string]string{
		"plann":                            "plan",
		"help plann":                       "plan",
		"rules shwo":                       "show",
		"reference flag":                   "flags",
		"plan --selectr a":                 "--selector",
		"updater --eviction-tolerence=1":   "--eviction-tolerance",
		"list -o wid":                      "wide",
		"rules list --sort-by piont":       "POINT",
		"rules list --pipeline defualt":    "default",
		"rules list --pipelines folow":     "follow",
		"plan --feature-gates InPlce=on":   "", // on is no boolean
		"plan --feature-gates InPlce=true": "InPlace",
		"backtest --choose true --least fotprint --sweep a=1 --history x": "footprint",
		"rules show contaner-caps":                                        "container-caps",
		"rules show container-caps@2.0.0":                                 "container-caps@1.0.0",
		"rules show container-caps/policyy":                               "",
		"rules points pod.updat":                                          "pod.update",
		"rules new windw":                                                 "window",
		"list --context prd":                                              "prod",
		"explain silvr":                                                   "silver",
		"explain deplo/web":                                               "deploy",
	} {
		words := strings.Fields(args)
		switch words[0] {
		case "explain":
			words = append(words, "-f", file)
		case "list":
			words = append(words, "--kubeconfig", config)
		}
		_, _, err := run("", words...)
		require.Error(t, err, args)
		if want != "" {
			require.ErrorContains(t, err, "did you mean "+want+"?", args)
		}
	}
}
