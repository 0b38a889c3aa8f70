package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/backtest/history"
	prometheus "github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// historyFlags say where recorded usage comes from.
type historyFlags struct {
	from   []string
	server prometheus.Config

	ofServer *pflag.FlagSet
}

func (h *historyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&h.from, "history", nil, "where usage comes from: a file as for celvpa recommend --usage, - for standard input,\nor the URL of a Prometheus, a Thanos or a Mimir; can be repeated")
	h.ofServer = pflag.NewFlagSet("history", pflag.ContinueOnError)
	prometheus.AddReadFlags(h.ofServer, &h.server, "history")
	f.AddFlagSet(h.ofServer)
}

// times are the ends of a part of the time; zero = open.
type times struct{ from, to time.Time }

// parseTimes reads the values of two flags.
func parseTimes(begin, from, end, to string) (out times, err error) {
	for _, tt := range []struct {
		flag, text string
		at         *time.Time
	}{{begin, from, &out.from}, {end, to, &out.to}} {
		if tt.text == "" {
			continue
		}
		if *tt.at, err = usagefile.ParseTime(tt.text); err != nil {
			return times{}, fmt.Errorf("%s: %w", tt.flag, err)
		}
	}
	return out, nil
}

// served is what is read of servers: what is replayed, or --history-length up to its end.
func (h *historyFlags) served(now time.Time, replayed times) times {
	out := replayed
	if out.to.IsZero() || out.to.After(now) {
		out.to = now
	}
	length := out.to.Add(-time.Duration(h.server.Length))
	if out.from.IsZero() || h.ofServer.Lookup("history-length").Changed && out.from.Before(length) {
		out.from = length
	}
	return out
}

// sources are what --history names: files before servers, each in their order. now is the time of day. Servers are asked for what is wanted
// only; display shows why one has to be waited for.
func (h *historyFlags) sources(cmd *cobra.Command, now time.Time, wanted times, display *progress) ([]history.Source, error) {
	if len(h.from) == 0 {
		return nil, fmt.Errorf("--history says where usage comes from: name a file, or the URL of a Prometheus")
	}
	served := h.served(now, wanted)
	if slices.ContainsFunc(h.from, manifests.IsURL) {
		if !served.from.Before(served.to) {
			return nil, fmt.Errorf("what is replayed begins at %s, which is not before %s: see --from and --to", served.from.Format(time.RFC3339), served.to.Format(time.RFC3339))
		}
	} else {
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
	var out, servers []history.Source
	var files []string
	for _, from := range h.from {
		if !manifests.IsURL(from) {
			files = append(files, from)
			continue
		}
		config := h.server
		config.Address = from
		if err := config.Validate(); err != nil {
			return nil, err
		}
		servers = append(servers, &history.Prometheus{History: config, From: served.from, To: served.to, Clock: clock.RealClock{}, Waiting: display.note})
	}
	if len(files) > 0 {
		out = append(out, history.Files{Paths: files, Stdin: cmd.InOrStdin()})
	}
	return append(out, servers...), nil
}
