package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/celvpa/celvpa/conformance/lab/vm"
)

// nodeName is the real node of a lab with a virtual machine.
const nodeName = "vm"

// egressSelector sends what the API server asks of nodes, pods and services through the virtual machine's agent, which has the API
// server's certificate.
const egressSelector = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      tcp:
        url: %q
        tlsConfig: {caBundle: %[2]s/ca.crt, clientCert: %[2]s/admin.crt, clientKey: %[2]s/admin.key}
`

// machine returns the lab's virtual machine; nil if its nodes are simulated.
func (c *cluster) machine() (*vm.Machine, error) {
	m := &vm.Machine{Dir: filepath.Join(c.dir, "node")}
	text, err := os.ReadFile(portsFile(m))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(string(text), &m.Port, &m.TLSPort); err != nil {
		return nil, fmt.Errorf("%s: %w", portsFile(m), err)
	}
	return m, nil
}

func portsFile(m *vm.Machine) string { return filepath.Join(m.Dir, "ports") }

// newMachine chooses the agent's ports, which the API server must know when it starts.
func (c *cluster) newMachine() error {
	m := &vm.Machine{Dir: filepath.Join(c.dir, "node")}
	var err error
	if m.Port, err = freePort(); err != nil {
		return err
	}
	for m.TLSPort = m.Port; m.TLSPort == m.Port; {
		if m.TLSPort, err = freePort(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(portsFile(m), fmt.Appendln(nil, m.Port, m.TLSPort), 0o644); err != nil {
		return err
	}
	keys := filepath.Join(c.dir, "kwok", "clusters", c.name, "pki") // written by kwokctl
	return os.WriteFile(c.egressFile(), fmt.Appendf(nil, egressSelector, m.TLSProxy(), keys), 0o644)
}

func (c *cluster) egressFile() string { return filepath.Join(c.dir, "egress.yaml") }

// nodeBase builds what the virtual machine starts from, unless it is there.
func (c *cluster) nodeBase(ctx context.Context) (*vm.Base, error) {
	if err := vm.Missing(); err != nil {
		return nil, err
	}
	programs := map[string]string{}
	var names []string
	for _, part := range allParts {
		if part.need == node {
			names = append(names, part.name)
			programs[part.name] = c.parts.path(part.name)
		}
	}
	if err := c.parts.ensure(ctx, names...); err != nil {
		return nil, err
	}
	guest, err := c.parts.guest(ctx)
	if err != nil {
		return nil, err
	}
	programs["guest"] = guest
	done := progress("preparing the node's disk", "20 s the first time")
	base, err := vm.EnsureBase(ctx, c.parts.dir, programs)
	done(err)
	return base, err
}

// guest builds the program of this module that runs in the virtual machine.
func (p *parts) guest(ctx context.Context) (string, error) {
	dir, err := moduleDir()
	if err != nil {
		return "", err
	}
	to := filepath.Join(p.dir, "guest")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", to, "./vm/guest")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the virtual machine's agent: %w\n%s", err, text)
	}
	return to, nil
}

// nodeStarts is how often the virtual machine is switched on before startNode gives up, and nodeStart is how long it may take.
const (
	nodeStarts = 3
	nodeStart  = 5 * time.Minute
)

// startNode switches the virtual machine on and waits until its node is ready. If the machine hangs it is switched off and on again:
// QEMU without KVM sometimes does that to a machine that boots.
func (c *cluster) startNode(ctx context.Context) error {
	machine, err := c.realNode()
	if err != nil {
		return err
	}
	base, err := c.nodeBase(ctx)
	if err != nil {
		return err
	}
	config, err := c.restConfig()
	if err != nil {
		return err
	}
	objects, err := newObjects(config)
	if err != nil {
		return err
	}
	for start := 1; ; start++ {
		if err := machine.Start(ctx, base, vm.Settings{Node: nodeName, Kubeconfig: c.kubeconfig()}); err != nil {
			return err
		}
		done := progress("waiting for the node", "about 30 s")
		err = objects.waitForNode(ctx, nodeName, nodeStart, func() bool { return machine.PID() != 0 && !machine.LockedUp() })
		done(err)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%w; %ssee %s and %s/log/kubelet.log", err, machine.Complaint(), machine.Console(), machine.Proxy())
		if start == nodeStarts || ctx.Err() != nil || machine.PID() == 0 {
			return err
		}
		fmt.Println("lab: the virtual machine hangs, which happens to emulated ones: switching it off and on again")
		if err := machine.Kill(ctx); err != nil {
			return err
		}
	}
}

// killNode ends the virtual machine as a power cut would.
func (c *cluster) killNode(ctx context.Context) error {
	machine, err := c.realNode()
	if err != nil {
		return err
	}
	return machine.Kill(ctx)
}

// load imports an image archive into the node.
func (c *cluster) load(ctx context.Context, file string) error {
	machine, err := c.realNode()
	if err != nil {
		return err
	}
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := machine.Load(ctx, archive); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Printf("lab: %s is on the node of %s\n", filepath.Base(file), c.name)
	return nil
}

func (c *cluster) realNode() (*vm.Machine, error) {
	machine, err := c.machine()
	if err == nil && machine == nil {
		err = fmt.Errorf("lab %s has no real node: start one with lab up -name %s -node vm", c.name, c.name)
	}
	return machine, err
}
