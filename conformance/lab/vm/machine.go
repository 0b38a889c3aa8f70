// Package vm runs a Kubernetes node in a small virtual machine: a Debian kernel, containerd, runc and a kubelet under QEMU.
//
// The machine has QEMU's user networking, which needs no privileges: it reaches this machine's loopback as 10.0.2.2. The other
// way round there is one forwarded port, on which the agent (folder guest) listens. It is an HTTP CONNECT proxy, so that an API
// server with an egress selector reaches the kubelet, pods and the webhooks in them.
package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/celvpa/celvpa/conformance/lab/detached"
)

const (
	memory = "3584" // MiB
	cpus   = "2"
	// HostAddress is this machine's loopback as the virtual machine sees it.
	HostAddress = "10.0.2.2"
)

// Machine is a virtual machine that keeps its disk, logs and process ID in a folder.
type Machine struct {
	Dir string
	// These ports on loopback are forwarded to the agent.
	Port, TLSPort int
}

// Settings are what a machine gets when it starts.
type Settings struct {
	Node       string // name of the node
	Kubeconfig string // of an API server that listens on this machine's loopback
}

// Proxy is the URL of the agent: an HTTP proxy into the machine's networks.
func (m *Machine) Proxy() string { return "http://127.0.0.1:" + strconv.Itoa(m.Port) }

// TLSProxy is Proxy for clients that insist on TLS: it serves the kubeconfig's client certificate.
func (m *Machine) TLSProxy() string { return "https://127.0.0.1:" + strconv.Itoa(m.TLSPort) }

func (m *Machine) disk() string { return filepath.Join(m.Dir, "disk.ext4") }
func (m *Machine) process() detached.Process {
	return detached.Process{File: filepath.Join(m.Dir, "qemu.pid"), Mark: m.disk()}
}

// Console is the file with what the machine's kernel and start-up scripts print.
func (m *Machine) Console() string { return filepath.Join(m.Dir, "console.log") }

func (m *Machine) qemuLog() string { return filepath.Join(m.Dir, "qemu.log") }

// Complaint is what QEMU itself printed, if anything, and a semicolon.
func (m *Machine) Complaint() string {
	text, err := os.ReadFile(m.qemuLog())
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return ""
	}
	return string(bytes.TrimSpace(text)) + "; "
}

// LockedUp says whether the machine's kernel has found that a processor stood still for 20 s.
func (m *Machine) LockedUp() bool {
	text, err := os.ReadFile(m.Console())
	return err == nil && (bytes.Contains(text, []byte("BUG: soft lockup")) || bytes.Contains(text, []byte("detected stalls on CPUs/tasks")))
}

// Start switches the machine on. The first time its disk is a copy of the base's; later it is as the machine left it.
func (m *Machine) Start(ctx context.Context, base *Base, settings Settings) error {
	if m.PID() != 0 {
		return nil
	}
	if err := Missing(); err != nil {
		return err
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(m.disk()); err != nil {
		if err := run(ctx, m.Dir, "cp", "--sparse=always", "--reflink=auto", base.Disk, m.disk()); err != nil {
			return err
		}
	}
	config := filepath.Join(m.Dir, "config.tar")
	if err := writeSettings(config, settings); err != nil {
		return err
	}
	cmd := exec.Command(lookup("qemu-system-x86_64"),
		"-name", settings.Node, "-accel", accelerator(), "-cpu", "max", "-smp", cpus, "-m", memory,
		"-display", "none", "-monitor", "none", "-no-reboot", "-serial", "file:"+m.Console(),
		"-kernel", base.Kernel, "-initrd", base.Initrd, "-append", "console=ttyS0 quiet psi=1 panic=1",
		"-drive", "file="+m.disk()+",format=raw,if=virtio,cache=unsafe",
		"-drive", "file="+config+",format=raw,if=virtio,readonly=on",
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:8470,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:8471", m.Port, m.TLSPort), "-device", "virtio-net-pci,netdev=net")
	if err := os.Remove(m.Console()); err != nil && !errors.Is(err, os.ErrNotExist) { // what an earlier start has left says nothing about this one
		return err
	}
	if err := m.process().Start(cmd, m.qemuLog()); err != nil { // QEMU's own -daemonize would hide why it failed
		return fmt.Errorf("starting the virtual machine: %w", err)
	}
	return nil
}

// accelerator emulates the processor, which works on every machine, unless LAB_ACCEL says otherwise (kvm).
func accelerator() string {
	if chosen := os.Getenv("LAB_ACCEL"); chosen != "" {
		return chosen
	}
	return "tcg,thread=multi"
}

// writeSettings writes the archive that the machine unpacks at its start.
func writeSettings(to string, settings Settings) error {
	config, err := clientcmd.LoadFromFile(settings.Kubeconfig)
	if err != nil {
		return err
	}
	if err := api.FlattenConfig(config); err != nil {
		return err
	}
	var address string
	var certificate, key []byte
	for _, cluster := range config.Clusters {
		_, port, found := strings.Cut(strings.TrimPrefix(cluster.Server, "https://"), ":")
		if !found {
			return fmt.Errorf("the API server's address %s has no port", cluster.Server)
		}
		address = HostAddress + ":" + port
		cluster.Server, cluster.TLSServerName = "https://"+address, "127.0.0.1"
	}
	for _, user := range config.AuthInfos {
		certificate, key = user.ClientCertificateData, user.ClientKeyData
	}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	files := tar.NewWriter(&text)
	for _, file := range []struct {
		name string
		text []byte
	}{
		{"etc/hostname", []byte(settings.Node + "\n")},
		{"etc/lab/apiserver", []byte(address + "\n")},
		{"etc/lab/tls.crt", certificate},
		{"etc/lab/tls.key", key},
		{"etc/kubernetes/kubeconfig", kubeconfig},
	} {
		if err := addFile(files, file.name, file.text, 0o600); err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, text.Bytes(), 0o600)
}

// PID returns the running machine's process ID, or 0.
func (m *Machine) PID() int { return m.process().PID() }

// Kill switches the machine off as a power cut would, and waits until its process is gone.
func (m *Machine) Kill(ctx context.Context) error {
	if err := m.process().Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the virtual machine: %w", err)
	}
	for m.PID() != 0 {
		select {
		case <-ctx.Done():
			return errors.New("the virtual machine did not end")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := os.Remove(m.process().File); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Load imports an image archive, in Docker's or OCI's format, into the machine's containerd.
func (m *Machine) Load(ctx context.Context, archive io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Proxy()+"/images", archive)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the virtual machine's agent: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return fmt.Errorf("containerd refused the image archive: %s", strings.TrimSpace(string(text)))
	}
	return nil
}
