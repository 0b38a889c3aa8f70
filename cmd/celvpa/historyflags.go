package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/backtest/snapshot"
	prometheus "github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// historyFlags say where recorded usage comes from.
type historyFlags struct {
	from   []string
	end    string
	server prometheus.Config

	ofServer *pflag.FlagSet
}

func (h *historyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&h.from, "history", nil, "where usage comes from: a file as for celvpa recommend --usage, - for standard input, a snapshot,\nor the URL of a Prometheus, a Thanos or a Mimir; can be repeated")
	h.ofServer = pflag.NewFlagSet("history", pflag.ContinueOnError)
	prometheus.AddReadFlags(h.ofServer, &h.server, "history")
	h.ofServer.StringVar(&h.end, "history-end", "", "where the history ends that is read from a URL, in RFC 3339 or seconds since 1970; empty = now")
	f.AddFlagSet(h.ofServer)
}

// isServer says that a history is read from a server, and not from a file.
func isServer(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// openSnapshot opens a file of --history if it is a snapshot.
func openSnapshot(from string) (*snapshot.File, bool, error) {
	if from == usagefile.Stdin {
		return nil, false, nil
	}
	return snapshot.Open(from)
}

// objects are those of the snapshots that --history names; nil if it names none.
func (h *historyFlags) objects() (*manifests.Set, error) {
	var out *manifests.Set
	var errs []error
	for _, from := range h.from {
		if isServer(from) {
			continue
		}
		if f, is, err := openSnapshot(from); err == nil && is { // sources has said what is wrong
			set, err := f.Manifests()
			errs = append(errs, err)
			if out == nil {
				out = &manifests.Set{}
			}
			out = snapshot.Over(out, set)
		}
	}
	return out, faults.Join(errs...)
}

// sources are what --history names, in its order. now is the time of day.
func (h *historyFlags) sources(cmd *cobra.Command, now time.Time) ([]history.Source, error) {
	if len(h.from) == 0 {
		return nil, fmt.Errorf("--history says where usage comes from: name a file, a snapshot, or the URL of a Prometheus")
	}
	if !slices.ContainsFunc(h.from, isServer) {
		var given error
		h.ofServer.VisitAll(func(f *pflag.Flag) {
			if f.Changed {
				given = fmt.Errorf("--%s is for a server, and --history names none: leave it out, or give a URL", f.Name)
			}
		})
		if given != nil {
			return nil, given
		}
	}
	if h.end != "" {
		var err error
		if now, err = usagefile.ParseTime(h.end); err != nil {
			return nil, fmt.Errorf("--history-end: %w", err)
		}
	}
	var out []history.Source
	var files []string
	for _, from := range h.from {
		if !isServer(from) {
			f, is, err := openSnapshot(from)
			switch {
			case err != nil:
				return nil, err
			case is:
				out = append(out, f)
			default:
				files = append(files, from)
			}
			continue
		}
		config := h.server
		config.Address = from
		if err := config.Validate(); err != nil {
			return nil, err
		}
		out = append(out, history.Prometheus{History: config, To: now, Clock: clock.RealClock{}})
	}
	if len(files) > 0 {
		out = append(out, history.Files{Paths: files, Stdin: cmd.InOrStdin()})
	}
	return out, nil
}
