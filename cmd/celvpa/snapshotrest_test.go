package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/backtest/snapshot"
)

// TestAnInterruptedSnapshotGoesOn: what came before is kept, and not asked for again.
func TestAnInterruptedSnapshotGoesOn(t *testing.T) {
	asked := 0
	var earliest int64
	before := func() {}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.FormValue("query"); strings.Contains(query, " > 1.1 * ") || strings.HasPrefix(query, "count by (cluster)") {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`) // no series contradict each other
			return
		}
		asked++
		var times [3]int64
		for i, name := range []string{"start", "end", "step"} {
			at, err := strconv.ParseFloat(r.FormValue(name), 64)
			require.NoError(t, err)
			times[i] = int64(at)
		}
		if earliest == 0 {
			earliest = times[0]
		}
		before() // may end the command, and the test goes on: nothing is written after this
		var values []string
		for at := times[0]; at <= times[1]; at += times[2] {
			values = append(values, fmt.Sprintf(`[%d,"%d"]`, at, at%7))
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"web","pod":"shop-7c5687bd57-659fr","container":"app"},"values":[%s]}]}}`, strings.Join(values, ","))
	}))
	defer server.Close()
	folder := t.TempDir()
	objects := filepath.Join(folder, "shop.yaml")
	require.NoError(t, os.WriteFile(objects, []byte("{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop, namespace: web}, spec: {template: {spec: {containers: [{name: app}]}}}}"), 0o600))
	run := func(ctx context.Context, to string, args ...string) (string, error) {
		var said bytes.Buffer
		cmd := snapshotCommand()
		cmd.SetArgs(append([]string{"-f", objects, "--history", server.URL, "--history-end", "2026-03-31T00:00:00Z", "--to", filepath.Join(folder, to)}, args...))
		cmd.SetErr(&said)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		asked, earliest = 0, 0
		err := cmd.ExecuteContext(ctx)
		return said.String(), err
	}
	points := func(name string) (out [][]history.Point, notes []string) {
		file, is, err := snapshot.Open(filepath.Join(folder, name))
		require.NoError(t, err)
		require.True(t, is)
		store := history.NewStore(history.DefaultMemory, folder, nil)
		defer store.Close()
		require.NoError(t, file.Read(t.Context(), store))
		require.NoError(t, store.Seal())
		for i := range store.Spans() {
			one, err := store.Read(i, nil)
			require.NoError(t, err)
			out = append(out, one)
		}
		return out, store.Notes()
	}
	_, err := run(t.Context(), "whole")
	require.NoError(t, err)

	interrupted := func(at int, args ...string) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before = func() {
			if asked == at {
				cancel()
			}
		}
		defer func() { before = func() {} }()
		return run(ctx, "cut", args...)
	}
	_, err = interrupted(1)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(folder, "cut.part"), "nothing came")
	said, err := interrupted(7)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, filepath.Join(folder, "cut"))
	part := filepath.Join(folder, "cut.part")
	require.Contains(t, said, "celvpa: "+part+" lacks usage from ")
	begin := regexp.MustCompile(`--history-begin (\S+)\n`).FindStringSubmatch(said)
	require.NotNil(t, begin, said)
	_, notes := points("cut.part")
	require.Contains(t, strings.Join(notes, "\n"), "lacks what could not be read when it was made")

	_, err = run(t.Context(), "cut", "--history", part, "--history-begin", begin[1])
	require.NoError(t, err)
	wanted, err := parseTimes("", begin[1], "", "")
	require.NoError(t, err)
	require.Equal(t, wanted.from.Unix(), earliest)
	got, notes := points("cut")
	want, _ := points("whole")
	require.Equal(t, want, got)
	require.Empty(t, notes, "it lacks nothing")
}
