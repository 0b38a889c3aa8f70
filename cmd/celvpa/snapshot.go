package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/backtest/snapshot"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// snapshotOptions hold the flags of celvpa snapshot.
type snapshotOptions struct {
	files     []string
	live      live
	history   historyFlags
	to        string
	anonymise bool
	salt      string
}

// snapshotKinds are those that a backtest reads of a cluster.
var snapshotKinds = slices.Concat([]schema.GroupVersionKind{manifests.VPAKind, manifests.PDBKind}, manifests.PodKinds)

// partEnd ends the name of a snapshot that was interrupted.
const partEnd = ".part"

// leastSalt is how long a salt has to be, so that nobody finds it by trying.
const leastSalt = 16

// snapshotCommand writes what a backtest needs into one file.
func snapshotCommand() *cobra.Command {
	o := &snapshotOptions{}
	cmd := &cobra.Command{
		Use:   "snapshot [-f PATH…] --history SOURCE… --to FILE",
		Short: "Write the manifests and the usage that a backtest needs into one file",
		Long: `Writes one compressed file that celvpa backtest --history reads in place of manifests and usage, with the same result.

Without -f it reads the objects of a cluster, as kubectl does. It keeps workloads, pods, VerticalPodAutoscalers, RuleOverlays,
PodDisruptionBudgets and LimitRanges, and of these what a backtest goes by: no environments, images, commands, volumes or
annotations, and no other objects. Usage is written as it is read; memory does not grow with it.

With --anonymise, namespaces, objects, pods, containers, labels and custom kinds get other names, the same ones throughout,
and labels that nothing selects by are dropped. Nobody can tell or guess the names from the file: they are made with a salt
that is forgotten. With --salt-file they are the same in several snapshots. Numbers, times and the text of rules stay.

The file is a gzipped tar archive with YAML and CSV in it: look at it before you send it to others.

What was read until the first interrupt (Ctrl-C) is kept in FILE.part, a snapshot, too. A snapshot is a source of a snapshot:
with --history FILE.part beside the URL and --history-begin only the rest is read.

Exit code 0: all was read; 2: something could not be read, which the file lacks then. If no usage came, there is no file, and an
earlier one of its name stays.`,
		Example: `  celvpa snapshot -A --history https://thanos.example --to cluster.tar.gz
  celvpa snapshot -f deploy/ --history usage.csv --anonymise --to shop.tar.gz
  celvpa backtest --history shop.tar.gz
  celvpa snapshot -A --history cluster.tar.gz.part --history https://thanos.example --history-begin 2026-03-20T10:00:00Z --to cluster.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder with manifests, or - for standard input; can be repeated")
	o.live.add(cmd, snapshotKinds)
	o.history.add(cmd)
	f.StringVar(&o.to, "to", "", "file to write, or - for standard output")
	f.BoolVar(&o.anonymise, "anonymise", false, "replace all names, consistently and for good")
	f.StringVar(&o.salt, "salt-file", "", "with --anonymise: file with a secret of at least 16 bytes from which other names are made; empty = one that is forgotten")
	return cmd
}

func (o *snapshotOptions) check() error {
	flag := o.live.given()
	switch {
	case flag != "" && len(o.files) > 0:
		return fmt.Errorf("-f and --%s exclude each other: objects come from manifests or from a cluster", flag)
	case slices.Contains(o.files, manifests.Stdin) && slices.Contains(o.history.from, manifests.Stdin):
		return errors.New("-f and --history cannot both be standard input")
	case o.to == "":
		return errors.New("--to names the file to write, such as --to cluster.tar.gz")
	case o.salt != "" && !o.anonymise:
		return errors.New("--salt-file is for --anonymise: add it")
	}
	if info, err := os.Stat(o.to); err == nil && info.IsDir() {
		return fmt.Errorf("--to %s is a folder; name a file in it, such as %s", o.to, filepath.Join(o.to, "cluster.tar.gz"))
	}
	return nil
}

// salted returns the salt; nil without --anonymise.
func (o *snapshotOptions) salted() ([]byte, error) {
	if !o.anonymise {
		return nil, nil
	}
	if o.salt == "" {
		salt := make([]byte, 32)
		_, err := rand.Read(salt)
		return salt, err
	}
	salt, err := os.ReadFile(o.salt)
	if err == nil && len(salt) < leastSalt {
		err = fmt.Errorf("%s has %d bytes; use at least %d, as from head -c 32 /dev/urandom", o.salt, len(salt), leastSalt)
	}
	if err != nil {
		return nil, fmt.Errorf("--salt-file: %w", err)
	}
	return salt, nil
}

func (o *snapshotOptions) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	salt, err := o.salted()
	if err != nil {
		return err
	}
	display := newProgress(cmd.ErrOrStderr(), o.to == manifests.Stdin)
	sources, err := o.history.sources(cmd, time.Now().UTC(), times{}, display)
	if err != nil {
		return err
	}
	for _, source := range sources {
		if file, is := source.(*snapshot.File); is {
			file.Continued = o.history.begin != ""
		}
	}
	set, unread := o.read(cmd)
	if len(set.Documents) == 0 {
		return faults.Join(unread, errors.New("there are no objects: nothing is written; name manifests with -f, or a cluster with --context"))
	}
	ctx, usual := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer usual()
	context.AfterFunc(ctx, usual) // the second signal ends it at once
	watch := func(done, of int64) { display.count("reading usage", int(done), int(of)) }
	var result snapshot.Result
	path, unreadUsage, err := o.write(ctx, cmd.OutOrStdout(), func(to io.Writer) (bool, error) {
		var complete bool
		var err error
		result, complete, err = snapshot.Write(ctx, to, set, sources, snapshot.Options{Salt: salt, Watch: watch})
		if err != nil && !came(sources, result) {
			return false, faults.Join(err, fmt.Errorf("no usage came, so %s is not written", o.to)) // an earlier one may have more
		}
		return complete, err
	})
	display.end()
	printNotes(cmd, result.Notes)
	if path != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "celvpa: %s: %s and %s of usage\n", path, simulate.Counted(result.Objects, "object"), simulate.Counted(int(result.Points), "point"))
		printLacks(cmd, path, sources)
	}
	return faults.Join(unread, unreadUsage, err)
}

// came says whether there is usage, of a server if one was asked.
func came(sources []history.Source, r snapshot.Result) bool {
	for _, source := range sources {
		if _, is := source.(*history.Prometheus); is {
			_, served := lacking(sources)
			return served && r.Points > 0
		}
	}
	return r.Points > 0
}

// lacking is from when on usage of servers is missing, zero = it is not, and whether any server gave
// usage.
func lacking(sources []history.Source) (begin time.Time, served bool) {
	for _, source := range sources {
		if server, is := source.(*history.Prometheus); is {
			lacks, from, any := server.Lacks()
			if lacks && (begin.IsZero() || from.Before(begin)) {
				begin = from
			}
			served = served || any
		}
	}
	return begin, served
}

// printLacks says what a snapshot lacks of servers, and how to read the rest.
func printLacks(cmd *cobra.Command, path string, sources []history.Source) {
	if begin, served := lacking(sources); served && !begin.IsZero() {
		fmt.Fprintf(cmd.ErrOrStderr(), "celvpa: %s lacks usage from %s on: to read the rest, run the command again with --history %s beside the URL, and --history-begin %[2]s\n",
			path, begin.UTC().Format(time.RFC3339), path)
	}
}

// read returns the objects: of the manifests, else of the snapshots, else of the cluster.
func (o *snapshotOptions) read(cmd *cobra.Command) (*manifests.Set, error) {
	if len(o.files) > 0 {
		set, err := manifests.Read(o.files, cmd.InOrStdin())
		if left := set.LeftOut(); left != "" {
			printNotes(cmd, []string{left})
		}
		return set, err
	}
	if set, err := o.history.objects(); set != nil {
		return set, err
	}
	set, notes, err := o.live.read(cmd.Context())
	printNotes(cmd, notes)
	return set, err
}

// write makes the file, under its name only once it is complete: what was read until the context ended
// goes under another one. path is empty if there is no file.
func (o *snapshotOptions) write(ctx context.Context, out io.Writer, by func(io.Writer) (bool, error)) (path string, unread, err error) {
	if o.to == manifests.Stdin {
		complete, err := by(out)
		if !complete {
			return "", nil, err
		}
		return o.to, err, nil
	}
	file, err := os.CreateTemp(filepath.Dir(o.to), filepath.Base(o.to)+".*.part")
	if err != nil {
		return "", nil, fmt.Errorf("--to: %w", err)
	}
	complete, unread := by(file)
	if err := file.Close(); !complete || err != nil {
		_ = os.Remove(file.Name())
		return "", nil, faults.Join(unread, err)
	}
	path = o.to
	if ctx.Err() != nil {
		path += partEnd
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return file.Name(), unread, fmt.Errorf("--to: %w; %s is complete", err, file.Name()) // it took long to read
	}
	return path, unread, nil
}
