package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	kubernetesVersion    = "v1.37.1"
	etcdVersion          = "v3.7.0"
	kwokVersion          = "v0.8.0"
	metricsServerVersion = "v0.9.0"
	prometheusVersion    = "v3.15.0" // the Go module calls it v0.315.0

	kubeStateMetricsVersion = "v2.20.0"

	containerdVersion = "v2.2.9"
	cniPluginsVersion = "v1.9.1"
)

// part is a program of the lab.
type part struct {
	name    string // file name
	version string
	pkg     string // Go package
	from    *build
	need    need
}

// need says which labs need a part.
type need int

const (
	always need = iota
	node        // labs with a node in a virtual machine
	asked       // none, unless somebody asks for it
)

// build says how parts are built. What is missing of one is built by one go command, so that packages compile once and the programs
// link side by side. What celvpa uses, too, has the same version in this module as in celvpa's (a test holds it): such packages compile
// once for both.
type build struct {
	folder  string // of a module below this one, for programs that do not build with these versions; empty = this one
	ldflags string
	tags    string
	cold    string // duration of the first build on two cores
}

var (
	kubernetes = &build{ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion, cold: "4 min", tags: "programs"}
	etcd       = &build{ldflags: "-s -w", cold: "20 s"}
	// For tests of usage history and of what deploy/monitoring holds. The tag drops cloud service discovery, a third of the packages;
	// without the tag builtinassets there is no web UI.
	prometheus = &build{folder: "prometheus", cold: "4 min", tags: "remove_all_sd",
		ldflags: "-s -w -X github.com/prometheus/common/version.Version=" + prometheusVersion[1:]}
	// The container runtime and the network plugins of a virtual machine. The tags drop snapshotters that need C libraries.
	containerd = &build{folder: "containerd", cold: "90 s", tags: "no_btrfs no_devmapper no_zfs osusergo netgo static_build",
		ldflags: "-s -w -X github.com/containerd/containerd/v2/version.Version=" + containerdVersion}
	kubeStateMetrics = &build{ldflags: "-s -w", cold: "2 min"}
)

// together is the package of programs that are one: each of them is a link to it.
const together = "./programs"

var allParts = []part{
	{name: "etcd", version: etcdVersion, pkg: "go.etcd.io/etcd/server/v3", from: etcd},
	{name: "kube-apiserver", version: kubernetesVersion, pkg: together, from: kubernetes},
	{name: "kube-controller-manager", version: kubernetesVersion, pkg: together, from: kubernetes},
	{name: "kube-scheduler", version: kubernetesVersion, pkg: together, from: kubernetes},
	{name: "kwok", version: kwokVersion, pkg: together, from: kubernetes},
	{name: "kwokctl", version: kwokVersion, pkg: "sigs.k8s.io/kwok/cmd/kwokctl", from: kubernetes},
	{name: "metrics-server", version: metricsServerVersion, pkg: together, from: kubernetes},
	{name: "prometheus", version: prometheusVersion, pkg: "github.com/prometheus/prometheus/cmd/prometheus", from: prometheus, need: asked},
	{name: "promtool", version: prometheusVersion, pkg: "github.com/prometheus/prometheus/cmd/promtool", from: prometheus, need: asked},
	{name: "kube-state-metrics", version: kubeStateMetricsVersion, pkg: "k8s.io/kube-state-metrics/v2", from: kubeStateMetrics, need: asked},
	{name: "kubelet", version: kubernetesVersion, pkg: "k8s.io/kubernetes/cmd/kubelet", from: kubernetes, need: node},
	{name: "containerd", version: containerdVersion, pkg: "github.com/containerd/containerd/v2/cmd/containerd", from: containerd, need: node},
	{name: "containerd-shim-runc-v2", version: containerdVersion, pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", from: containerd, need: node},
	{name: "ctr", version: containerdVersion, pkg: "github.com/containerd/containerd/v2/cmd/ctr", from: containerd, need: node},
	{name: "bridge", version: cniPluginsVersion, pkg: "github.com/containernetworking/plugins/plugins/main/bridge", from: containerd, need: node},
	{name: "loopback", version: cniPluginsVersion, pkg: "github.com/containernetworking/plugins/plugins/main/loopback", from: containerd, need: node},
	{name: "host-local", version: cniPluginsVersion, pkg: "github.com/containernetworking/plugins/plugins/ipam/host-local", from: containerd, need: node},
}

// program is the file that go build writes for the part: named as its package, whose path may end in a version.
func (p part) program() string {
	name := path.Base(p.pkg)
	if major := strings.TrimPrefix(name, "v"); major != name && strings.Trim(major, "0123456789") == "" {
		return path.Base(path.Dir(p.pkg))
	}
	return name
}

// parts builds programs once and caches them.
type parts struct {
	dir      string // holds name-version files
	prebuilt string // LAB_PARTS
}

func newParts(labDir string) *parts {
	prebuilt := os.Getenv("LAB_PARTS")
	if full, err := filepath.Abs(prebuilt); err == nil && prebuilt != "" {
		prebuilt = full // make it independent of the working directory
	}
	return &parts{dir: filepath.Join(labDir, "parts"), prebuilt: prebuilt}
}

// path prefers the user's prebuilt part to ours.
func (p *parts) path(name string) string {
	for _, part := range allParts {
		if part.name != name {
			continue
		}
		if own := p.own(part); own != "" {
			return own
		}
		return filepath.Join(p.dir, part.name+"-"+part.version)
	}
	return ""
}

// own returns the user's prebuilt part, named etcd or etcd-v3.7.0, or "".
func (p *parts) own(wanted part) string {
	if p.prebuilt == "" {
		return ""
	}
	for _, name := range []string{wanted.name, wanted.name + "-" + wanted.version} {
		if _, err := os.Stat(filepath.Join(p.prebuilt, name)); err == nil {
			return filepath.Join(p.prebuilt, name)
		}
	}
	return ""
}

// wanted returns the named parts, or by default those that every lab needs.
func wanted(names []string) ([]part, error) {
	var out []part
	for _, part := range allParts {
		if len(names) == 0 && part.need == always || slices.Contains(names, part.name) {
			out = append(out, part)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(allParts, func(q part) bool { return q.name == name }) {
			return nil, fmt.Errorf("no part %q: there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	return out, nil
}

func partNames() []string {
	var out []string
	for _, part := range allParts {
		out = append(out, part.name)
	}
	return out
}

// missing lists which of the named parts, by default of those that every lab needs, are not built.
func (p *parts) missing(names ...string) ([]part, error) {
	needed, err := wanted(names)
	if err != nil {
		return nil, err
	}
	if p.prebuilt != "" {
		if info, err := os.Stat(p.prebuilt); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("LAB_PARTS=%s is not a folder that can be read", p.prebuilt)
		}
		if !slices.ContainsFunc(allParts, func(q part) bool { return p.own(q) != "" }) {
			return nil, fmt.Errorf("LAB_PARTS=%s holds none of the lab's programs: etcd, kube-apiserver, …", p.prebuilt)
		}
	}
	return slices.DeleteFunc(needed, func(q part) bool {
		_, err := os.Stat(p.path(q.name))
		return err == nil
	}), nil
}

// ensure builds missing parts. A lock keeps two labs from building the same one.
func (p *parts) ensure(ctx context.Context, names ...string) error {
	if missing, err := p.missing(names...); err != nil || len(missing) == 0 {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("the lab's programs must be built and there is no go on the PATH: install Go 1.26 or set LAB_PARTS to a folder with prebuilt programs")
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(p.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for another build in %s: %w", p.dir, err)
	}
	missing, err := p.missing(names...) // the previous lock holder may have built them
	if err != nil {
		return err
	}
	for len(missing) > 0 {
		from := missing[0].from
		var list, others []part
		for _, part := range missing {
			if part.from == from {
				list = append(list, part)
			} else {
				others = append(others, part)
			}
		}
		if err := p.build(ctx, from, list); err != nil {
			return err
		}
		missing = others
	}
	return nil
}

// build builds parts that are built in the same way.
func (p *parts) build(ctx context.Context, from *build, list []part) error {
	dir, err := moduleDir()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(p.dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	args := []string{"build", "-tags", from.tags, "-ldflags", from.ldflags, "-o", work + "/"}
	var names []string
	for _, part := range list {
		if !slices.Contains(args, part.pkg) {
			args = append(args, part.pkg)
		}
		names = append(names, part.name+" "+part.version)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(dir, from.folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	label := "building " + names[0]
	if len(names) > 1 {
		label = fmt.Sprintf("building %d programs", len(names))
		fmt.Println("lab: to be built:", strings.Join(names, ", "))
	}
	done := progress(label, "the first time about "+from.cold+" on two cores, seconds once compiled")
	err = cmd.Run()
	done(err)
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", strings.Join(names, ", "), err, strings.TrimSpace(output.String()))
	}
	for _, part := range list {
		if err := p.install(part, filepath.Join(work, part.program())); err != nil {
			return err
		}
	}
	return nil
}

// install moves what was built for a part to its place. Programs that are one are linked to it.
func (p *parts) install(wanted part, built string) error {
	to := filepath.Join(p.dir, wanted.name+"-"+wanted.version)
	if wanted.pkg != together {
		return os.Rename(built, to)
	}
	program := filepath.Base(built) + "-" + kubernetesVersion
	err := os.Rename(built, filepath.Join(p.dir, program))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it was moved for another part
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) { // a link to a program that is gone
		return err
	}
	return os.Symlink(program, to)
}

// progress prints the label, the elapsed time every ten seconds, and the result on done.
func progress(label, hint string) (done func(error)) {
	start := time.Now()
	fmt.Printf("lab: %s (%s)\n", label, hint)
	quit := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				fmt.Printf("lab: %s … %s\n", label, elapsed(start))
			}
		}
	}()
	return func(err error) {
		close(quit)
		<-finished
		how := "done in"
		if err != nil {
			how = "failed after"
		}
		fmt.Printf("lab: %s: %s %s\n", label, how, elapsed(start))
	}
}

func elapsed(since time.Time) string { return time.Since(since).Round(time.Second / 10).String() }
