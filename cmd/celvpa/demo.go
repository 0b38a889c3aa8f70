package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	story "github.com/celvpa/celvpa/examples/demo"
)

// demoFolder is where the demo writes without --dir, and what its story calls that folder.
const demoFolder = "celvpa-demo"

// demo prints a story, and runs what stands behind a $ as a shell would, in the folder of --dir.
type demo struct {
	compile compileFunc
	dir     string
	cmd     *cobra.Command
}

// demoCommand shows what the other commands do.
func demoCommand(compile compileFunc) *cobra.Command {
	d := &demo{compile: compile}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show celvpa at work on recorded usage, without a cluster",
		Long: `Writes manifests and recorded usage to a folder, and runs celvpa's commands on them: what would be recommended and why, what
new and running pods would get, and what a change of rules would do. Above each answer is the command to type for it. No
cluster is asked, and nothing is sent anywhere.

It writes to the folder of --dir only, which must be new or empty.

Exit code 0: all commands ran; 2: one could not run, or the folder has files.`,
		Example: "  celvpa demo\n  celvpa demo | less\n  celvpa demo --dir /tmp/celvpa",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	cmd.Flags().StringVar(&d.dir, "dir", demoFolder, "folder for manifests, usage and results: a new or empty one")
	_ = cmd.MarkFlagDirname("dir") // it fails for an unknown flag only
	return cmd
}

func (d *demo) run(cmd *cobra.Command) error {
	d.cmd, d.dir = cmd, filepath.Clean(d.dir)
	if err := d.prepare(); err != nil {
		return err
	}
	for line := range strings.Lines(strings.ReplaceAll(story.Story, " \\\n", " \\")) { // a command in each
		if err := d.print(d.typed(line)); err != nil {
			return err
		}
		if command, is := strings.CutPrefix(line, "$ celvpa "); is {
			if err := d.command(strings.Fields(strings.ReplaceAll(command, " \\", " "))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demo) print(text string) error {
	_, err := io.WriteString(d.cmd.OutOrStdout(), text)
	return err
}

// typed is a line of the story for this folder, and for the name that the program was called by.
func (d *demo) typed(line string) string {
	folder := filepath.ToSlash(d.dir)
	if regexp.MustCompile(`[^\w./@%+:=,-]`).MatchString(folder) {
		folder = "'" + strings.ReplaceAll(folder, "'", `'\''`) + "'"
	}
	if command, is := strings.CutPrefix(line, "$ celvpa "); is {
		line = "$ " + d.cmd.Root().CommandPath() + " " + strings.ReplaceAll(command, " \\", " \\\n")
	}
	return strings.ReplaceAll(line, demoFolder, folder)
}

// prepare writes manifests and usage into a new or empty folder.
func (d *demo) prepare() error {
	switch there, err := os.ReadDir(d.dir); {
	case err == nil && len(there) > 0:
		return fmt.Errorf("%s holds files, which may have been changed since an earlier demo: remove it, or name a new folder with --dir", d.dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fs.WalkDir(story.Files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := story.Files.ReadFile(file)
		if err != nil {
			return err
		}
		return d.write(file, text)
	})
}

func (d *demo) write(name string, text []byte) error {
	file := filepath.Join(d.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// command runs a command of the story, whose output may go to a file, or to head -LINES and cut -c1-COLUMNS.
func (d *demo) command(words []string) error {
	var args []string
	file, first, width := "", -1, -1 // what is printed; -1 = all
	for i, word := range words {
		name, below := strings.CutPrefix(word, demoFolder+"/")
		switch {
		case word == ">" || word == "|" || word == "head" || word == "cut":
		case i > 0 && words[i-1] == ">":
			file = name
		case i > 0 && words[i-1] == "head":
			first, _ = strconv.Atoi(strings.TrimPrefix(word, "-"))
		case i > 0 && words[i-1] == "cut":
			width, _ = strconv.Atoi(strings.TrimPrefix(word, "-c1-"))
		case below:
			args = append(args, filepath.Join(d.dir, filepath.FromSlash(name)))
		default:
			args = append(args, word)
		}
	}
	var out bytes.Buffer
	root := rootCommand(d.compile)
	root.Annotations = d.cmd.Root().Annotations
	root.SetArgs(args)
	if err := runCommand(root, &out, behind(d.cmd.ErrOrStderr())); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	if file != "" {
		return d.write(file, out.Bytes())
	}
	lines := strings.SplitAfter(out.String(), "\n")
	if first >= 0 {
		lines = lines[:min(first, len(lines))]
	}
	for i, line := range lines {
		if width >= 0 && len(line) > width {
			lines[i] = line[:width] + "\n"
		}
	}
	return d.print(strings.Join(lines, ""))
}
