package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/celvpa/celvpa/webhook"
)

// What a tenant may have others log: a forged line, colours, and the end of a JSON text.
const injected = "infeasible\nE1122 12:00:00.000000 1 main.go:1] \"forged\"\r\x1b[31mred\x1b[0m\",\"level\":\"error\",\"x\":\"\u2028"

type name struct{ text string }

func (n name) String() string { return n.text }

func TestALineOfTheLogStaysOneLine(t *testing.T) {
	defer klog.CaptureState().Restore()
	var text, structured bytes.Buffer
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	require.NoError(t, flags.Set("logtostderr", "false"))
	require.NoError(t, flags.Set("stderrthreshold", "FATAL"))
	require.NoError(t, flags.Set("one_output", "true"))
	klog.SetOutput(&text)
	for format, log := range map[string]logr.Logger{"text": inLines(klog.NewKlogr()), "json": jsonLines(zap.New(zap.JSONEncoder(), zap.WriteTo(&structured)))} {
		out := map[string]*bytes.Buffer{"text": &text, "json": &structured}[format]
		for kind, write := range map[string]func(logr.Logger){
			"a value":            func(l logr.Logger) { l.Info("m", "note", injected) },
			"an error":           func(l logr.Logger) { l.Error(errors.New(injected), "m", "note", 1) },
			"an error for value": func(l logr.Logger) { l.Info("m", "note", errors.New(injected)) },
			"a name":             func(l logr.Logger) { l.Info("m", "note", types.NamespacedName{Name: injected}) },
			"a Stringer":         func(l logr.Logger) { l.Info("m", "note", name{injected}) },
			"a nil Stringer":     func(l logr.Logger) { l.Info("m", "note", (*name)(nil), "other", injected) },
			"a list":             func(l logr.Logger) { l.Info("m", "note", []string{injected}) },
			"a value of all":     func(l logr.Logger) { l.WithValues("note", injected).WithName("n").Info("m", "b", injected) },
			"a message":          func(l logr.Logger) { l.Info(injected) },
			"cut to length":      func(l logr.Logger) { webhook.ShortValues(l).Error(errors.New(injected), "m", "note", injected) },
		} {
			out.Reset()
			write(log)
			klog.Flush()
			line := out.String()
			require.Equal(t, 1, strings.Count(line, "\n"), "%s, %s: %s", format, kind, line)
			require.True(t, strings.HasSuffix(line, "\n"))
			require.NotContains(t, line, "\x1b", "%s, %s", format, kind)
			require.NotContains(t, line, "\r", "%s, %s", format, kind)
			require.Contains(t, line, "forged", "%s, %s: it is logged", format, kind)
			if format == "text" {
				require.Contains(t, line, "logging_test.go:", "%s: whoever logged it is named", kind)
				continue
			}
			var fields map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &fields), "%s", kind)
			require.NotContains(t, fields, "x", "%s", kind)
		}
	}
}

// TestLibrariesLogNoDetailsByDefault: client-go's watches took fifty lines, before any of celvpa's.
func TestLibrariesLogNoDetailsByDefault(t *testing.T) {
	defer klog.CaptureState().Restore()
	var text bytes.Buffer
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		require.NoError(t, flags.Set(name, value))
	}
	klog.SetOutput(&text)
	logged := func(v string) (names []string) {
		require.NoError(t, flags.Set("v", v))
		text.Reset()
		log := inLines(klog.NewKlogr())
		library := log.WithName("controller-runtime").WithName("cache").WithValues("a", "b").WithCallDepth(0)
		log.WithName("updater").V(4).Info("own detail")
		library.Info("a library's line")
		library.V(3).Info("a library's detail")
		library.Error(errors.New("broken"), "a library's error")
		klog.Flush()
		for line := range strings.Lines(text.String()) {
			require.Contains(t, line, "logging_test.go:", "whoever logged it is named")
			names = append(names, strings.Split(line, `"`)[1])
		}
		return names
	}
	require.Equal(t, []string{"own detail", "a library's line", "a library's error"}, logged("4"))
	require.Equal(t, []string{"own detail", "a library's line", "a library's detail", "a library's error"}, logged("5"))
	require.Equal(t, []string{"a library's line", "a library's error"}, logged("0"))
}

// TestTheLogBeginsWithWhatRuns: the version, the rules and the interval.
func TestTheLogBeginsWithWhatRuns(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	kubeconfig := write(t, t.TempDir(), "config",
		"{clusters: [{name: c, cluster: {server: '"+server.URL+"'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}")
	require.Regexp(t, `^I\d+ .* "starting" version="[^"]+" pipeline="default@1\.0\.0" digest="\w+" updaterInterval="30s"\n`,
		called(t, "updater", "--kubeconfig", kubeconfig, "--updater-interval", "30s"))
	require.Regexp(t, `^\{"level":"info","ts":[\d.e+]+,"msg":"starting","version":"[^"]+","pipeline":"default@1\.0\.0","digest":"\w+","recommenderInterval":"1m0s"\}\n`,
		called(t, "recommender", "--kubeconfig", kubeconfig, "--logging-format", "json"))
}
