package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

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
