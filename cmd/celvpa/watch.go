package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watching prints an answer about a cluster again whenever it changes.
type watching struct {
	on    bool
	every time.Duration
}

func (w *watching) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.on, "watch", "w", false, "print the answer again whenever it changes, until interrupted; for a cluster")
	cmd.Flags().DurationVar(&w.every, "watch-interval", 10*time.Second, "with --watch: time between two looks at the cluster")
}

// check refuses flags that cannot work beside --watch.
func (w *watching) check(cmd *cobra.Command, o *offline) error {
	switch {
	case !w.on && cmd.Flags().Changed("watch-interval"):
		return errors.New("--watch-interval is for --watch: add -w, or leave it out")
	case w.on && len(o.files) > 0:
		return errors.New("--watch is for a cluster, and -f names manifests: leave out one of them")
	case w.on && o.now != "":
		return errors.New("--watch looks at the present, and --now names a time: leave out one of them")
	case w.on && w.every <= 0:
		return fmt.Errorf("--watch-interval is %s; it must be greater than 0", w.every)
	}
	return nil
}

// run calls a function that answers, again and again with --watch. An answer that fails does not end it, except the first, unless
// there is only nothing yet to answer about.
func (w *watching) run(cmd *cobra.Command, o *offline, answer func() error) error {
	if err := w.check(cmd, o); err != nil || !w.on {
		if err == nil {
			err = answer()
		}
		return err
	}
	out, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	defer cmd.SetOut(out)
	defer cmd.SetErr(stderr)
	var last, said string
	for first := true; ; first = false {
		var text, notes bytes.Buffer
		cmd.SetOut(&text)
		cmd.SetErr(&notes)
		err := answer()
		if empty := (emptyInput{}); first && err != nil && text.Len() == 0 && !errors.As(err, &empty) {
			fmt.Fprint(stderr, notes.String())
			return err
		}
		printErrors(&notes, err)
		if now := notes.String(); now != said {
			fmt.Fprint(stderr, now)
			said = now
		}
		if now := text.String(); now != last && now != "" {
			if last != "" {
				fmt.Fprint(out, o.between())
			}
			if _, err := fmt.Fprint(out, now); err != nil {
				return fmt.Errorf("writing the answer: %w", err)
			}
			last = now
		}
		select {
		case <-cmd.Context().Done():
		case <-time.After(w.every):
		}
		if cmd.Context().Err() != nil {
			return nil
		}
	}
}

// between is what stands between two answers.
func (p *printer) between() string {
	return map[string]string{"yaml": "---\n", "table": "\n", "wide": "\n"}[p.form]
}
