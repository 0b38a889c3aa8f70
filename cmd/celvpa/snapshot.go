package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/backtest/snapshot"
	"github.com/celvpa/celvpa/engine/faults"
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

Exit code 0: all was read; 2: something could not be read, which the file lacks then, or there is no file.`,
		Example: `  celvpa snapshot -A --history https://thanos.example --to cluster.tar.gz
  celvpa snapshot -f deploy/ --history usage.csv --anonymise --to shop.tar.gz
  celvpa backtest --history shop.tar.gz`,
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
	sources, err := o.history.sources(cmd, time.Now().UTC())
	if err != nil {
		return err
	}
	set, unread := o.read(cmd)
	if len(set.Documents) == 0 {
		return faults.Join(unread, errors.New("there are no objects: nothing is written; name manifests with -f, or a cluster with --context"))
	}
	told := newProgress(cmd.ErrOrStderr(), o.to == manifests.Stdin)
	watch := func(done, of int64) { told.tell("reading usage", int(done), int(of)) }
	var result snapshot.Result
	unreadUsage, err := o.write(cmd, func(ctx context.Context, to io.Writer) (bool, error) {
		var complete bool
		var err error
		result, complete, err = snapshot.Write(ctx, to, set, sources, snapshot.Options{Salt: salt, Watch: watch})
		return complete, err
	})
	told.end()
	printNotes(cmd, result.Notes)
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "celvpa: %s: %d objects and %d points of usage\n", o.to, result.Objects, result.Points)
	}
	return faults.Join(unread, unreadUsage, err)
}

// read returns the objects: of the manifests, else of the snapshots, else of the cluster.
func (o *snapshotOptions) read(cmd *cobra.Command) (*manifests.Set, error) {
	if len(o.files) > 0 {
		return manifests.Read(o.files, cmd.InOrStdin())
	}
	if set, err := o.history.objects(); set != nil {
		return set, err
	}
	set, notes, err := o.live.read(cmd.Context())
	printNotes(cmd, notes)
	return set, err
}

// write makes the file, under its name only once it is complete.
func (o *snapshotOptions) write(cmd *cobra.Command, by func(context.Context, io.Writer) (bool, error)) (unread, err error) {
	if o.to == manifests.Stdin {
		complete, err := by(cmd.Context(), cmd.OutOrStdout())
		if !complete {
			return nil, err
		}
		return err, nil
	}
	file, err := os.CreateTemp(filepath.Dir(o.to), filepath.Base(o.to)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // nothing once it was renamed
	complete, unread := by(cmd.Context(), file)
	if err := file.Close(); !complete || err != nil {
		return nil, faults.Join(unread, err)
	}
	if err := os.Rename(file.Name(), o.to); err != nil {
		return unread, fmt.Errorf("--to: %w", err)
	}
	return unread, nil
}
