package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestAnAnswerIsPrintedAgainWhenItChanges, and so is what could not be read meanwhile.
func TestAnAnswerIsPrintedAgainWhenItChanges(t *testing.T) {
	type look struct {
		text, note string
		err        error
	}
	down := errors.New("the API server does not answer")
	for name, tt := range map[string]struct {
		form        string
		looks       []look
		out, stderr string
		err         error
	}{
		"changes":            {"table", []look{{text: "a\n"}, {text: "a\n"}, {text: "b\n"}, {text: "b\n"}}, "a\n\nb\n", "", nil},
		"documents":          {"yaml", []look{{text: "a: 1\n"}, {text: "a: 2\n"}}, "a: 1\n---\na: 2\n", "", nil},
		"JSON":               {"json", []look{{text: "{}\n"}, {text: "[]\n"}}, "{}\n[]\n", "", nil},
		"notes of one":       {"table", []look{{text: "a\n", note: "n\n"}, {text: "a\n", note: "n\n"}, {text: "b\n", note: "n\n"}}, "a\n\nb\n", "n\n", nil},
		"a failure between":  {"table", []look{{text: "a\n"}, {err: down}, {err: down}, {text: "a\n"}, {text: "b\n"}}, "a\n\nb\n", "celvpa: " + down.Error() + "\n", nil},
		"a failure at first": {"table", []look{{note: "n\n", err: down}}, "", "n\n", down},
		"nothing at first":   {"table", []look{{err: emptyInput{down}}, {err: emptyInput{down}}, {text: "a\n"}}, "a\n", "celvpa: " + down.Error() + "\n", nil},
		"a part at first":    {"table", []look{{text: "a\n", err: down}, {text: "b\n"}}, "a\n\nb\n", "celvpa: " + down.Error() + "\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var out, stderr bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetContext(ctx)
			cmd.SetOut(&out)
			cmd.SetErr(&stderr)
			w := &watching{}
			w.add(cmd)
			require.NoError(t, cmd.ParseFlags([]string{"-w", "--watch-interval", time.Nanosecond.String()}))
			i := 0
			err := w.run(cmd, &offline{printer: printer{form: tt.form}}, func() error {
				look := tt.looks[i]
				if i++; i == len(tt.looks) {
					stop()
				}
				fmt.Fprint(cmd.ErrOrStderr(), look.note)
				fmt.Fprint(cmd.OutOrStdout(), look.text)
				return look.err
			})
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.out, out.String())
			require.Equal(t, tt.stderr, stderr.String())
		})
	}
}

func TestWhatCannotBeWatchedIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"list -w -f x.yaml":                     "--watch is for a cluster, and -f names manifests: leave out one of them",
		"plan --watch --now 0":                  "--watch looks at the present, and --now names a time: leave out one of them",
		"plan -w --watch-interval 0s":           "--watch-interval is 0s; it must be greater than 0",
		"list --watch-interval 1m -f x.yaml":    "--watch-interval is for --watch: add -w, or leave it out",
		"list -w --kubeconfig missing.yaml":     "there is no cluster to read",
		"plan -w -o xml --kubeconfig none.yaml": `--output is "xml"`,
	} {
		_, _, err := run("", strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
}
