package vm

import (
	"archive/tar"
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

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
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

// bootModules are what the kernel needs to find its disk, and what these need.
var bootModules = []string{"virtio_pci", "virtio_blk"}

// makeInitrd writes the initial RAM disk, a cpio archive with a shell, the modules of the disk and the script that mounts it. It
// is put together in a folder of its own.
func makeInitrd(ctx context.Context, folder, root, version, to string) error {
	for _, name := range []string{"bin", "dev", "proc", "disk"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(root, "bin", "busybox"), filepath.Join(folder, "bin", "busybox")); err != nil {
		return err
	}
	for _, applet := range []string{"sh", "mount", "modprobe", "switch_root"} {
		if err := os.Symlink("busybox", filepath.Join(folder, "bin", applet)); err != nil {
			return err
		}
	}
	modules, err := modulesFor(root, version, bootModules)
	if err != nil {
		return err
	}
	for _, module := range append(modules, "modules.dep") {
		path := filepath.Join("lib", "modules", version, module)
		if err := copyFile(filepath.Join(root, path), filepath.Join(folder, path)); err != nil {
			return err
		}
	}
	script, err := rootFiles.ReadFile("root/init")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "init"), script, 0o755); err != nil {
		return err
	}
	return archive(ctx, folder, to)
}

// archive writes a folder as a cpio archive.
func archive(ctx context.Context, folder, to string) error {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", "find . | ./bin/busybox cpio -o -H newc -R 0:0")
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("writing the initial RAM disk: %w\n%s", err, strings.TrimSpace(complaint.String()))
	}
	return out.Close()
}

// modulesFor lists the files of kernel modules and of all that they depend on, as depmod found it.
func modulesFor(root, version string, names []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "lib", "modules", version, "modules.dep"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		found := false
		for line := range strings.Lines(string(text)) {
			file, needs, _ := strings.Cut(line, ":")
			if strings.HasPrefix(filepath.Base(file), name+".ko") {
				found = true
				out = append(append(out, file), strings.Fields(needs)...)
			}
		}
		if !found {
			return nil, fmt.Errorf("kernel %s has no module %s", version, name)
		}
	}
	return out, nil
}

// pauseImage is that of containerd's settings.
const pauseImage = "lab.local/pause:1"

// writePause writes the image archive of the pods' sandboxes.
func writePause(program, to string) error {
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := addFile(files, "guest", text, 0o755); err != nil {
		return err
	}
	if err := files.Close(); err != nil {
		return err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return fmt.Errorf("making %s: %w", pauseImage, err)
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return fmt.Errorf("making %s: %w", pauseImage, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config.Entrypoint = []string{"/guest", "pause"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag(pauseImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, image)
}

func addFile(to *tar.Writer, name string, text []byte, mode int64) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}

// copyFile copies a file with its mode, and makes the folder it goes to.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
