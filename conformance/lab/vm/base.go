package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rootFiles are the machine's start-up scripts and settings.
//
//go:embed root
var rootFiles embed.FS

// installed is where the programs of Base go in the machine.
var installed = map[string]string{
	"kubelet": "usr/bin", "containerd": "usr/bin", "containerd-shim-runc-v2": "usr/bin", "ctr": "usr/bin", "guest": "usr/bin",
	"bridge": "opt/cni/bin", "loopback": "opt/cni/bin", "host-local": "opt/cni/bin",
}

// diskSize is that of the machine's disk, a sparse file of which 0.5 GB are written at first.
const diskSize = "8G"

// Base is what machines start from. They copy the disk and share the rest.
type Base struct{ Kernel, Initrd, Disk string }

// EnsureBase makes the base in a folder, unless it is there for the same programs (name to path) and settings.
func EnsureBase(ctx context.Context, folder string, programs map[string]string) (*Base, error) {
	key, err := baseKey(programs)
	if err != nil {
		return nil, err
	}
	done := filepath.Join(folder, "node-"+key)
	base := &Base{Kernel: filepath.Join(done, "vmlinuz"), Initrd: filepath.Join(done, "initrd"), Disk: filepath.Join(done, "disk.ext4")}
	if _, err := os.Stat(done); err == nil {
		return base, nil
	}
	if err := Missing(); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(folder, ".node-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := makeBase(ctx, work, programs); err != nil {
		return nil, err
	}
	if err := os.Rename(filepath.Join(work, "base"), done); err != nil {
		if _, made := os.Stat(done); made != nil { // another lab was not faster
			return nil, err
		}
	}
	return base, removeOthers(folder, done)
}

// baseKey changes with the programs and the settings.
func baseKey(programs map[string]string) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		fmt.Fprintln(sum, name)
		if err := addContent(sum, programs[name]); err != nil {
			return "", fmt.Errorf("the node's %s: %w", name, err)
		}
	}
	err := fs.WalkDir(rootFiles, "root", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := rootFiles.ReadFile(path)
		fmt.Fprintln(sum, path, len(text))
		sum.Write(text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

func addContent(to io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, file)
	return err
}

// removeOthers deletes the bases of older programs; running machines have copies.
func removeOthers(folder, keep string) error {
	found, err := filepath.Glob(filepath.Join(folder, "node-*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if path != keep {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeBase builds the root file system in a folder and writes kernel, initial RAM disk and disk to its folder base.
func makeBase(ctx context.Context, work string, programs map[string]string) error {
	root, base := filepath.Join(work, "root"), filepath.Join(work, "base")
	for _, folder := range []string{root, base} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := unpackDebian(ctx, root); err != nil {
		return err
	}
	kernels, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return fmt.Errorf("the Debian packages hold %d kernels, not one (%w)", len(kernels), err)
	}
	if err := os.Rename(kernels[0], filepath.Join(base, "vmlinuz")); err != nil {
		return err
	}
	version := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	busybox := filepath.Join(root, "bin", "busybox")
	if err := run(ctx, root, busybox, "depmod", "-b", root, version); err != nil {
		return err
	}
	if err := makeInitrd(ctx, filepath.Join(work, "initrd"), root, version, filepath.Join(base, "initrd")); err != nil {
		return err
	}
	if err := fillRoot(ctx, root, programs); err != nil {
		return err
	}
	disk := filepath.Join(base, "disk.ext4")
	return run(ctx, work, "mkfs.ext4", "-q", "-d", root, "-E", "root_owner=0:0", disk, diskSize)
}

// fillRoot adds to what Debian's packages hold.
func fillRoot(ctx context.Context, root string, programs map[string]string) error {
	for _, folder := range []string{"dev", "proc", "sys", "run", "tmp", "var/log", "var/lib", "etc", "boot"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	for _, large := range []string{"boot", "usr/share"} { // symbols and documentation
		if err := os.RemoveAll(filepath.Join(root, large)); err != nil {
			return err
		}
	}
	if err := linkApplets(ctx, root); err != nil {
		return err
	}
	for name, path := range programs {
		if err := copyFile(path, filepath.Join(root, installed[name], name)); err != nil {
			return err
		}
	}
	if err := copyEmbedded(root); err != nil {
		return err
	}
	return writePause(programs["guest"], filepath.Join(root, "var/lib/pause.tar"))
}

// linkApplets makes busybox's programs, such as sh and mount, and init.
func linkApplets(ctx context.Context, root string) error {
	list, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "busybox"), "--list").Output()
	if err != nil {
		return fmt.Errorf("listing the programs of busybox: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "sbin"), 0o755); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if name == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			return err
		}
	}
	return os.Symlink("../bin/busybox", filepath.Join(root, "sbin", "init"))
}

// copyEmbedded writes the scripts, which all may be run, and settings.
func copyEmbedded(root string) error {
	return fs.WalkDir(rootFiles, "root", func(path string, entry fs.DirEntry, err error) error {
		to := filepath.Join(root, strings.TrimPrefix(path, "root"))
		if err != nil || path == "root/init" {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := rootFiles.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, modeOf(text))
	})
}

func modeOf(text []byte) os.FileMode {
	if bytes.HasPrefix(text, []byte("#!")) {
		return 0o755
	}
	return 0o644
}
