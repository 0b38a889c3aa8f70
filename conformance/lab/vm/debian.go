package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Tools that must be installed on this machine, with the Debian package of each. What runs inside of the virtual machine is
// downloaded and unpacked without being installed.
var tools = []struct{ program, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"mkfs.ext4", "e2fsprogs"},
	{"apt-get", "apt"},
	{"dpkg-deb", "dpkg"},
}

// kernelPackage depends on the newest kernel of the distribution.
const kernelPackage = "linux-image-cloud-amd64"

// userland are the packages whose files the machine needs: a shell with the usual tools, and runc with its libraries.
var userland = []string{"busybox-static", "runc", "libseccomp2", "libc6"}

// Missing says what this machine lacks to run a node, and how to get it; nil if nothing.
func Missing() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the node's kernel and programs are for linux/amd64, and this machine is %s/%s: use a cluster with real nodes, such as kind, by KUBECONFIG",
			runtime.GOOS, runtime.GOARCH)
	}
	var programs, packages []string
	for _, tool := range tools {
		if lookup(tool.program) == "" {
			programs, packages = append(programs, tool.program), append(packages, tool.pkg)
		}
	}
	if lookup("apt-get") == "" {
		return errors.New("the node's kernel and runc are Debian packages, and there is no apt-get here: use a cluster with real nodes, such as kind, by KUBECONFIG")
	}
	if len(programs) > 0 {
		return fmt.Errorf("a node in a virtual machine needs %s; install it with: apt-get install --no-install-recommends %s",
			strings.Join(programs, ", "), strings.Join(packages, " "))
	}
	return nil
}

// lookup finds a program on the PATH or in the folders of the administrator, which other users' PATH may lack.
func lookup(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, folder := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return path
		}
	}
	return ""
}

// unpackDebian downloads the kernel and the userland and unpacks them into a folder.
func unpackDebian(ctx context.Context, into string) error {
	work, err := os.MkdirTemp(filepath.Dir(into), ".debian-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil { // apt downloads as another user
		return err
	}
	kernel, err := kernelOf(ctx)
	if err != nil {
		return err
	}
	if err := run(ctx, work, "apt-get", append([]string{"download", "--quiet", kernel}, userland...)...); err != nil {
		return fmt.Errorf("downloading the node's Debian packages (apt-get update may help): %w", err)
	}
	found, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range found {
		if err := run(ctx, work, "dpkg-deb", "-x", deb, into); err != nil {
			return err
		}
	}
	return nil
}

// kernelOf finds the package that kernelPackage depends on.
func kernelOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", kernelPackage).Output()
	if err == nil {
		for line := range strings.Lines(string(out)) {
			if name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); found {
				return "linux-image-" + name, nil
			}
		}
	}
	return "", errors.Join(fmt.Errorf("no package %s with a kernel: run apt-get update, or use a cluster with real nodes by KUBECONFIG", kernelPackage), err)
}

// run runs a program in a folder; its output is part of the error.
func run(ctx context.Context, folder, program string, args ...string) error {
	path := lookup(program)
	if path == "" {
		path = program
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, strings.TrimSpace(string(text)))
	}
	return nil
}
