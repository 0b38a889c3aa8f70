package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
)

const (
	archiveHeader = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\tMemory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s]\n"
	cutHeader     = "vm,timestamp,cpu_mhz_used,cpu_mhz_provisioned,memory_kb_used,memory_kb_provisioned\n"
	begin         = 1372629804
)

func everyone(string) bool { return true }

func write(t *testing.T, folder, name, text string) string {
	path := filepath.Join(folder, name)
	var out bytes.Buffer
	out.WriteString(text)
	if strings.HasSuffix(name, ".gz") {
		out.Reset()
		packed := gzip.NewWriter(&out)
		_, err := packed.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, packed.Close())
	}
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// rows are those of a VM of the cut layout, every five minutes for some days; its days are busy.
func rows(id string, days float64, mhz float64) string {
	var out strings.Builder
	for at := 0.0; at <= days*86400; at += 300 {
		busy := 1 + math.Sin(at/86400*2*math.Pi)
		fmt.Fprintf(&out, "%s,%.0f,%.1f,5200,%.0f,4194304\n", id, begin+at, mhz*busy, 1e6*(1+busy))
	}
	return out.String()
}

func TestBothLayoutsAreRead(t *testing.T) {
	folder := t.TempDir()
	var seconds, millis strings.Builder
	for at := begin; at <= begin+4*86400; at += 300 {
		fmt.Fprintf(&seconds, "%d;\t4;\t10400.0;\t260.0;\t2.5;\t1048576.0;\t1024.0;\t0\n", at)
		fmt.Fprintf(&millis, "%d000;\t4;\t10400.0;\t2.6E2;\t2.5;\t1048576.0;\t1024.0;\t0\n", at)
	}
	write(t, folder, "1.csv", archiveHeader+seconds.String())
	write(t, folder, "2.csv", archiveHeader+millis.String())
	write(t, folder, "README.md", "no trace")
	write(t, folder, "cut.csv.gz", cutHeader+rows("3", 4, 260))
	vms, leftOut, err := readTraces(folder, everyone)
	require.NoError(t, err)
	require.Empty(t, leftOut)
	require.Len(t, vms, 3)
	require.Equal(t, []string{"1", "2", "3"}, []string{vms[0].id, vms[1].id, vms[2].id})
	require.Equal(t, vms[0].samples, vms[1].samples)
	require.Equal(t, sample{at: begin * int64(time.Second), cpu: 100, memory: 1 << 20}, vms[0].samples[0])
	require.Equal(t, []int64{4000, 1 << 30, 2000, 4 << 30}, []int64{vms[0].cpu, vms[0].memory, vms[2].cpu, vms[2].memory})
}

func TestVMsThatSayTooLittleAreNamed(t *testing.T) {
	off := fmt.Sprintf("off,%d,0,0,0,0\n", begin)
	balloon := fmt.Sprintf("slow,%d,1,2600,100,100\n", begin-300)
	path := write(t, t.TempDir(), "cut.csv", cutHeader+off+balloon+rows("slow", 4, 1)+rows("short", 2, 9)+rows("idle", 4, 0))
	vms, leftOut, err := readTraces(path, everyone)
	require.NoError(t, err)
	require.Len(t, vms, 1)
	require.Equal(t, int64(4<<30), vms[0].memory)
	require.Equal(t, []string{"left out, under 3 days of samples: 2 (off, short)", "left out, no CPU at all: 1 (idle)"}, leftOut)
}

func TestUnreadableTracesAreNamed(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"an empty file":        {"1.csv", "", "1.csv:1: there is no header"},
		"no column of archive": {"1.csv", strings.Replace(archiveHeader, "CPU usage [MHZ]", "CPU", 1), `1.csv:1: column "CPU usage [MHZ]" is missing`},
		"no column of the cut": {"a.csv.gz", strings.Replace(cutHeader, "vm,", "", 1), `a.csv.gz:1: column "vm" is missing`},
		"a short row":          {"a.csv", cutHeader + rows("1", 0, 1) + "1,2,3\n", `a.csv:3: column "cpu_mhz_provisioned" is missing`},
		"no number":            {"a.csv", cutHeader + "1,1372629804,x,1,1,1\n", `a.csv:2: column "cpu_mhz_used" is "x"; want a number from 0 to 9e+12`},
		"a negative number":    {"a.csv", cutHeader + "1,1372629804,1,1,-1,1\n", `a.csv:2: column "memory_kb_used" is "-1"`},
		"another file":         {"a.txt", "", "holds no *.csv and no *.csv.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, folder, tt.file, tt.text)
			_, _, err := readTraces(folder, everyone)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestHalvesAreFixed(t *testing.T) {
	halves := map[string]int{}
	for i := range 1000 {
		halves[halfOf(fmt.Sprint(i))]++
	}
	require.Len(t, halves, 2)
	require.InDelta(t, 500, halves["tune"], 50)
	require.Equal(t, "tune", halfOf("2"))
}

func TestIntervalsAreTheSameInEachRun(t *testing.T) {
	of, to := []float64{1, 2, 3, 4}, []float64{2, 2, 2, 0}
	first := compare(drawn(4), of, to)
	require.Equal(t, first, compare(drawn(4), of, to))
	require.InDelta(t, 10.0/6, first.Value, 1e-9)
	require.Less(t, first.Low, first.Value)
	require.Greater(t, first.High, first.Value)
	require.Equal(t, &interval{2, 2, 2}, compare(drawn(2), []float64{2, 4}, []float64{1, 2}))
	require.Nil(t, compare(drawn(2), []float64{1, 1}, []float64{0, 0}))
}

func TestFoldersOfRulesAreChecked(t *testing.T) {
	for name, tt := range map[string]struct{ folder, want string }{
		"a name twice":   {"x/krr", `two policies are called "krr"`},
		"a baseline":     {"manifest", `two policies are called "manifest"`},
		"no such folder": {"none", "policy none"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policies("krr", []string{tt.folder})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestTheRulesOfKRRPassTheirTables(t *testing.T) {
	base, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	over, err := base.Over("krr")
	require.NoError(t, err)
	require.NoError(t, over.TestOwn())
}

func TestOtherPipelinesArePinned(t *testing.T) {
	base, err := policy.Open(policy.Options{})
	require.NoError(t, err)
	before := len(pipelines(base))
	lean, err := base.Over("../../examples/pipeline")
	require.NoError(t, err)
	list := pipelines(lean)
	require.Len(t, list, before+1)
	i := slices.IndexFunc(list, func(of tried) bool { return of.name == "lean@1.0.0" })
	require.GreaterOrEqual(t, i, 0)
	candidate, err := list[i].candidate(lean)
	require.NoError(t, err)
	require.Contains(t, candidate.Book.Default().Pipeline(), "lean")
}

func TestPoliciesAreCompared(t *testing.T) {
	folder := t.TempDir()
	path := write(t, folder, "cut.csv.gz", cutHeader+rows("1", 4, 1000)+rows("2", 4, 300))
	generous := filepath.Join(folder, "generous")
	require.NoError(t, os.Mkdir(generous, 0o700))
	write(t, generous, "o.yaml", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {mode: Audit, change: [{params: {estimate.marginFraction: 1}}]}\n")
	var out, progress bytes.Buffer
	args := []string{"-traces", path, "-vms", "all", "-krr", "krr"}
	require.NoError(t, run(context.Background(), append(args, "-o", "json", generous), &out, &progress), progress.String())
	var found result
	require.NoError(t, json.Unmarshal(out.Bytes(), &found))
	require.Equal(t, []string{"1", "2"}, found.VMs)
	byName := map[string]row{}
	for _, p := range found.Policies {
		byName[p.Name] = p
	}
	require.InDelta(t, 4*96, byName["manifest"].CoreHours, 1)
	require.Zero(t, byName["manifest"].Changes)
	require.Positive(t, byName["upstream"].Changes)
	require.Equal(t, &interval{1, 1, 1}, byName["upstream"].Ratios.Cores)
	require.Greater(t, byName["generous"].CoreHours, byName["upstream"].CoreHours)
	require.Greater(t, byName["generous"].Ratios.Cores.Low, 1.0)
	require.NotEqual(t, byName["krr"].CoreHours, byName["upstream"].CoreHours)

	out.Reset()
	require.NoError(t, run(context.Background(), args, &out, &progress))
	require.Contains(t, out.String(), "2 VMs (all)")
	require.Regexp(t, `(?m)^upstream +1\.000 \[1\.000, 1\.000\]`, out.String())
	require.ErrorContains(t, run(context.Background(), []string{"-traces", path, "-vms", "some"}, &out, &progress), "want tune, decide or all")
}
