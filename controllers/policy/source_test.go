package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/source"
	"github.com/celvpa/celvpa/rules"
)

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

func newSource(t *testing.T, dir string) (*Source, *[]string, *testclock.FakeClock) {
	t.Helper()
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := NewSource(Options{Path: dir}, 2*time.Second, clk, log)
	require.NoError(t, err)
	return s, &logged, clk
}

func TestChangedFilesAreSwappedInAndBrokenOnesAreNot(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	s, logged, _ := newSource(t, dir)
	first := s.Rules()
	s.Reload(t.Context())
	require.Same(t, first, s.Rules(), "nothing changed, nothing is compiled")

	estimate := filepath.Join(dir, "estimate.yaml")
	edit(t, estimate, "default: 0.15", "default: 0.25")
	settled(t, s)
	second := s.Rules()
	require.NotEqual(t, first.Default().Digest(), second.Default().Digest())
	require.Contains(t, (*logged)[0], "rules reloaded")

	failures := testutil.ToFloat64(reloads.WithLabelValues("error"))
	edit(t, estimate, "default: 0.25", "default: much")
	settled(t, s)
	s.Reload(t.Context())
	require.Same(t, second, s.Rules(), "the last good rules stay")
	require.Equal(t, failures+2, testutil.ToFloat64(reloads.WithLabelValues("error")), "a failure is tried again")
	require.Len(t, *logged, 2, "and logged once")
	require.Contains(t, (*logged)[1], `param marginFraction: \"much\" is not a finite number`)

	require.NoError(t, os.RemoveAll(dir))
	s.Reload(t.Context())
	require.Same(t, second, s.Rules(), "a folder that is gone takes nothing with it")

	require.NoError(t, os.CopyFS(dir, rules.FS))
	settled(t, s)
	require.Equal(t, first.Default().Digest(), s.Rules().Default().Digest(), "the same files give the same digest")
	require.Equal(t, 1.0, testutil.ToFloat64(rulesInfo.WithLabelValues("default", "1.0.0", first.Default().Digest())))
}

// TestAChangeThatIsTakenBackIsASuccess: alert CelvpaRulesOutdated fired minutes after the rules were as before.
func TestAChangeThatIsTakenBackIsASuccess(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	s, _, clk := newSource(t, dir)
	began := float64(clk.Now().Unix())
	require.Equal(t, began, testutil.ToFloat64(lastSuccess))

	clk.Step(time.Hour)
	s.Reload(t.Context())
	require.Equal(t, began, testutil.ToFloat64(lastSuccess), "nothing was reloaded")
	estimate := filepath.Join(dir, "estimate.yaml")
	edit(t, estimate, "default: 0.15", "default: much")
	settled(t, s)
	require.Equal(t, began, testutil.ToFloat64(lastSuccess))

	clk.Step(time.Minute)
	edit(t, estimate, "default: much", "default: 0.15")
	settled(t, s)
	require.Equal(t, float64(clk.Now().Unix()), testutil.ToFloat64(lastSuccess))
}

func TestFailedRulesAreLoggedAndCounted(t *testing.T) {
	_, logged, _ := newSource(t, "")
	log := funcr.New(func(_, args string) { *logged = append(*logged, args) }, funcr.Options{})
	Report(log, "nothing is lost", nil)
	require.Empty(t, *logged, "no failure is not a failure")
	before := testutil.ToFloat64(ruleErrors.WithLabelValues("set/stage/rule"))
	Report(log, "nothing is lost", &engine.RuleError{Path: "set/stage/rule", Err: errors.New("division by zero")})
	require.Equal(t, before+1, testutil.ToFloat64(ruleErrors.WithLabelValues("set/stage/rule")))
	require.Contains(t, (*logged)[0], "rule failed")
	require.Contains(t, (*logged)[0], "nothing is lost")
	require.Contains(t, (*logged)[0], "division by zero")
}

// TestAConfigMapUpdateIsSeen swaps a symlink the way kubelet does.
func TestAConfigMapUpdateIsSeen(t *testing.T) {
	mount := t.TempDir()
	version := func(name string) string {
		dir := filepath.Join(mount, name)
		require.NoError(t, os.CopyFS(dir, rules.FS))
		return dir
	}
	version("..one")
	require.NoError(t, os.Symlink("..one", filepath.Join(mount, "..data")))
	entries, err := os.ReadDir(filepath.Join(mount, "..one"))
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.Symlink(filepath.Join("..data", e.Name()), filepath.Join(mount, e.Name())))
	}
	s, _, clk := newSource(t, mount)
	before := s.Rules().Default().Digest()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	edit(t, filepath.Join(version("..two"), "estimate.yaml"), "default: 0.15", "default: 0.25")
	require.NoError(t, os.Symlink("..two", filepath.Join(mount, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	hang.Until(t, clk.HasWaiters)
	clk.Step(2 * time.Second)
	hang.Until(t, func() bool { return s.Rules().Default().Digest() != before })
	cancel()
	require.NoError(t, <-done)
}

const ownTable = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleTest
metadata: {name: margin}
spec:
  point: container.estimate
  given:
    usage: {cpu: {1: 1}, memory: {1: 1Gi}}
    history: {span: 24h, samples: 1440}
    containers: 1
  rows:
  - {name: target, given: {bound: {target: {}}}, expect: {bound: {target: {now: {cpu: 1150m, memory: 1234803097}}}}}
  - {name: a gate and a param of its own, gates: {InPlace: true}, params: {estimate.marginFraction: 1}, given: {bound: {target: {}}}, expect: {bound: {target: {now: {cpu: 2, memory: 2Gi}}}}}
`

func TestRulesThatFailTheirOwnTablesAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, rules.FS))
	s, logged, clk := newSource(t, dir)
	first := s.Rules()

	table := filepath.Join(dir, "margin.yaml")
	require.NoError(t, os.WriteFile(table, []byte(ownTable), 0o600))
	edit(t, filepath.Join(dir, "estimate.yaml"), "default: 0.15", "default: 0.25")
	settled(t, s)
	require.Same(t, first, s.Rules(), "the last good rules stay")
	require.Contains(t, (*logged)[0], `RuleTest margin, row \"target\": bound.target.now.cpu: want 1150m, got 1250m`)
	_, err := NewSource(Options{Path: dir}, time.Second, clk, funcr.New(func(string, string) {}, funcr.Options{}))
	require.ErrorContains(t, err, table+`:12:5: RuleTest margin, row "target": bound.target.now.memory: want 1234803097, got 1280Mi`)
	require.Len(t, source.Problems(err), 2)

	edit(t, table, "1150m, memory: 1234803097", "1250m, memory: 1280Mi")
	settled(t, s)
	require.NotEqual(t, first.Default().Digest(), s.Rules().Default().Digest(), "tables that pass are swapped in")
	_, err = NewSource(Options{Path: dir, Params: map[string]string{"estimate.marginFraction": "7"}}, time.Second, clk, funcr.New(func(string, string) {}, funcr.Options{}))
	require.NoError(t, err, "what flags change is no fault of the rules")
}

func TestSlowRulesAreNamedInAMetric(t *testing.T) {
	of := func(overlay string) float64 {
		return testutil.ToFloat64(slowRules.WithLabelValues("slow-set", overlay))
	}
	Report(logr.Discard(), "values unchanged",
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("too many steps"), Slow: &engine.Payer{RuleSet: "slow-set", Overlay: "theirs"}},
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("too many steps"), Slow: &engine.Payer{RuleSet: "slow-set"}},
		&engine.RuleError{Path: "slow-set/stage/rule", Err: errors.New("division by zero")}, nil)
	require.Equal(t, []float64{1, 1}, []float64{of("theirs"), of("")})
}
