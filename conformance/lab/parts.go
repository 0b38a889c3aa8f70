package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	kubernetesVersion    = "v1.37.1"
	etcdVersion          = "v3.6.15"
	kwokVersion          = "v0.8.0"
	metricsServerVersion = "v0.9.0"
	prometheusVersion    = "v3.15.0" // the Go module calls it v0.315.0
)

// part is a program of the lab.
type part struct {
	name    string // file name
	version string
	pkg     string // Go package; its own module if install is true
	module  string // folder of the module that pins it, below conformance/lab; empty = conformance/lab
	install bool   // built with `go install pkg@version`; no module of ours pins it
	ldflags string
	tags    string
	extra   bool   // optional: built only on request
	cold    string // duration of the first build on two cores
}

var kubeFlags = "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion

var allParts = []part{
	{name: "etcd", version: etcdVersion, pkg: "go.etcd.io/etcd/server/v3", module: "etcd", ldflags: "-s -w", cold: "20 s"},
	{name: "kube-apiserver", version: kubernetesVersion, pkg: "k8s.io/kubernetes/cmd/kube-apiserver", ldflags: kubeFlags, cold: "5 min"},
	{name: "kube-controller-manager", version: kubernetesVersion, pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", ldflags: kubeFlags, cold: "3 min"},
	{name: "kube-scheduler", version: kubernetesVersion, pkg: "k8s.io/kubernetes/cmd/kube-scheduler", ldflags: kubeFlags, cold: "1 min"},
	{name: "kwok", version: kwokVersion, pkg: "sigs.k8s.io/kwok/cmd/kwok", ldflags: "-s -w", cold: "1 min"},
	{name: "kwokctl", version: kwokVersion, pkg: "sigs.k8s.io/kwok/cmd/kwokctl", ldflags: "-s -w", cold: "15 s"},
	{name: "metrics-server", version: metricsServerVersion, pkg: "sigs.k8s.io/metrics-server/cmd/metrics-server", install: true, ldflags: "-s -w", cold: "2 min"},
	// For tests of usage history. The tag drops cloud service discovery, a third of the packages;
	// without the tag builtinassets there is no web UI.
	{name: "prometheus", version: prometheusVersion, pkg: "github.com/prometheus/prometheus/cmd/prometheus", module: "prometheus", extra: true,
		ldflags: "-s -w -X github.com/prometheus/common/version.Version=" + prometheusVersion[1:], tags: "remove_all_sd", cold: "4 min"},
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
	for _, one := range allParts {
		if one.name != name {
			continue
		}
		if own := p.own(one); own != "" {
			return own
		}
		return filepath.Join(p.dir, one.name+"-"+one.version)
	}
	return ""
}

// own returns the user's prebuilt part, named etcd or etcd-v3.6.15, or "".
func (p *parts) own(one part) string {
	if p.prebuilt == "" {
		return ""
	}
	for _, name := range []string{one.name, one.name + "-" + one.version} {
		if _, err := os.Stat(filepath.Join(p.prebuilt, name)); err == nil {
			return filepath.Join(p.prebuilt, name)
		}
	}
	return ""
}

// wanted returns the named parts, or by default those that every lab needs.
func wanted(names []string) ([]part, error) {
	var out []part
	for _, one := range allParts {
		if len(names) == 0 && !one.extra || slices.Contains(names, one.name) {
			out = append(out, one)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(allParts, func(one part) bool { return one.name == name }) {
			return nil, fmt.Errorf("no part %q: there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	return out, nil
}

func partNames() []string {
	var out []string
	for _, one := range allParts {
		out = append(out, one.name)
	}
	return out
}

// ensure builds missing parts. A lock keeps two labs from building the same one.
func (p *parts) ensure(ctx context.Context, names ...string) error {
	needed, err := wanted(names)
	if err != nil {
		return err
	}
	if p.prebuilt != "" {
		if info, err := os.Stat(p.prebuilt); err != nil || !info.IsDir() {
			return fmt.Errorf("LAB_PARTS=%s is not a folder that can be read", p.prebuilt)
		}
		if !slices.ContainsFunc(allParts, func(one part) bool { return p.own(one) != "" }) {
			return fmt.Errorf("LAB_PARTS=%s holds none of the lab's programs: etcd, kube-apiserver, …", p.prebuilt)
		}
	}
	var missing []part
	for _, one := range needed {
		if _, err := os.Stat(p.path(one.name)); err != nil {
			missing = append(missing, one)
		}
	}
	if len(missing) == 0 {
		return nil
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
	for i, one := range missing {
		if _, err := os.Stat(p.path(one.name)); err == nil {
			continue // built meanwhile by the previous lock holder
		}
		label := fmt.Sprintf("[%d/%d] building %s %s", i+1, len(missing), one.name, one.version)
		if err := p.build(ctx, one, label); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) build(ctx context.Context, one part, label string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(p.dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	args := []string{"build", "-tags", one.tags, "-ldflags", one.ldflags, "-o", filepath.Join(work, one.name), one.pkg}
	if one.install {
		args = []string{"install", "-tags", one.tags, "-ldflags", one.ldflags, one.pkg + "@" + one.version}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(module, one.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+work)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	done := progress(label, "the first time about "+one.cold+" on two cores, seconds once compiled")
	err = cmd.Run()
	done(err)
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", one.name, err, strings.TrimSpace(output.String()))
	}
	return os.Rename(filepath.Join(work, one.name), filepath.Join(p.dir, one.name+"-"+one.version))
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
