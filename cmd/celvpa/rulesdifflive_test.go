package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/simulate"
)

// diffLive compares with a candidate on the example of a cluster.
func diffLive(t *testing.T, candidate string, more ...string) (out, stderr string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "candidate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(candidate), 0o600))
	return run("", append([]string{"rules", "diff", "--live", file, "-f", "../../examples/checkpoint", "--now", planNow}, more...)...)
}

const twoCores = "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: two-cores}\nspec: {change: [{params: {containerMaxAllowed.cpu: 2}}]}\n"

func TestACandidateIsComparedByWhatItDoes(t *testing.T) {
	out, stderr, err := diffLive(t, twoCores, "-o", "json")
	require.NoError(t, err)
	require.Equal(t, []string{"recommendations by both sets of rules are computed from checkpoints, which hold neither the memory windows that are open nor usage since they were written"}, notesIn(stderr))
	var got struct {
		Items []struct {
			VPA      string
			Requests struct{ CPU, Memory string }
			Pods     []struct {
				Pod           string
				Before, After simulate.Action
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Items, 1)
	require.Equal(t, "payments/ledger", got.Items[0].VPA)
	require.Equal(t, "-2962m", got.Items[0].Requests.CPU) // 2 × (3481m - 2)
	require.Equal(t, "0", got.Items[0].Requests.Memory)
	require.Equal(t, "eligibility/within-recommended-range", got.Items[0].Pods[0].Before.Rule)
	require.Equal(t, "update/evict", got.Items[0].Pods[0].After.Rule)

	out, _, err = diffLive(t, twoCores, "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^payments/ledger-0 +payments/ledger +-1\.481 +0 +Skip \(eligibility/within-recommended-range\) +Evict \(update/evict\) +container app: requests\.cpu 3481m → 2$`, out)
}

// TestManifestsAreComparedAtTheTimeOfTheNewestCheckpoint: at the time of day, usage in old manifests has expired, and nothing changed.
func TestManifestsAreComparedAtTheTimeOfTheNewestCheckpoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "candidate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(twoCores, "containerMaxAllowed.cpu: 2", "estimate.marginFraction: 0.3", 1)), 0o600))
	out, _, err := run("", "rules", "diff", "--live", file, "-f", "../../examples/checkpoint")
	require.NoError(t, err)
	require.Contains(t, out, "container app: target.cpu 3481m → 3935m")
}

func TestTheTopOfManyIsPrintedWithTheTotalsOfAll(t *testing.T) {
	moreVPAs := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: never}\nspec: {change: [{params: {minReplicas: 9}}]}\n"
	all, _, err := diffLive(t, moreVPAs, "-f", "../../examples/updater")
	require.NoError(t, err)
	out, _, err := diffLive(t, moreVPAs, "-f", "../../examples/updater", "--top", "2")
	require.NoError(t, err)
	require.Regexp(t, `(?s)^VPA.*\n\S+/\S+ .*\n\S+/\S+ .*\n… and \d+ other VerticalPodAutoscalers\n\n`, out)
	require.Equal(t, all[bytes.Index([]byte(all), []byte("\n\n")):], out[bytes.Index([]byte(out), []byte("\n\n")):], "the totals")
}

func TestWhatCannotBeComparedIsRefusedWithTheReason(t *testing.T) {
	for name, tt := range map[string]struct {
		candidate string
		args      []string
		err       string
	}{
		"a rule that does not compile": {"apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: bad}\nspec: {change: [{params: {estimate.marginFraction: lots}}]}\n", nil, `candidate.yaml:4:`},
		"a cluster beside manifests":   {twoCores, []string{"-n", "web"}, "-f and --namespace exclude each other: objects come from manifests or from a cluster"},
		"a number of rows below zero":  {twoCores, []string{"--top", "-1"}, "--top is -1; give the number of VPAs to print, or 0 for all"},
		"test tables beside a cluster": {twoCores, []string{"--answers"}, "if any flags in the group [live answers] are set none of the others can be"},
		"two candidates":               {twoCores, []string{"more"}, "wrong number of arguments (2); write celvpa rules diff A B | diff --live CANDIDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := diffLive(t, tt.candidate, tt.args...)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.err)
		})
	}
	empty := filepath.Join(t.TempDir(), "none.yaml")
	require.NoError(t, os.WriteFile(empty, []byte(twoCores), 0o600))
	_, _, err := run("", "rules", "diff", "--live", empty, "-f", empty)
	require.EqualError(t, err, "there is no VerticalPodAutoscaler in "+empty+": nothing was compared")
	_, _, err = run("", "rules", "diff", "--live", "nowhere", "-f", empty)
	require.EqualError(t, err, "cannot read nowhere: no such file or directory; name a folder or file of rules")
	_, _, err = run("", "rules", "diff", "shipped", "shipped", "-A")
	require.EqualError(t, err, "--all-namespaces is for --live")
	_, _, err = run("", "rules", "diff", "shipped", "shipped", "-o", "wide")
	require.EqualError(t, err, "--output is wide, which is for --live; use table, json or yaml")
}

func TestProgressIsShownNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.next = time.Time{}
	p.count("reading", 1, 0)
	require.Empty(t, out.String(), "only terminals show it")

	p.terminal, p.next = true, time.Now().Add(time.Hour)
	p.count("reading", 1, 0)
	require.Empty(t, out.String(), "what ends soon shows nothing")

	p.next = time.Time{}
	p.count("reading", 1, 2)
	p.count("reading", 2, 2)
	p.end()
	require.Equal(t, "\r\x1b[Kcelvpa: reading: 1 of 2\r\x1b[K", out.String())
}
