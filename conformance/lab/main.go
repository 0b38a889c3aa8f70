// Command lab runs a real Kubernetes control plane on this machine: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, KWOK nodes and metrics-server, built from their Go
// modules. It is its own module to keep those dependencies out of the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/celvpa/celvpa/conformance/lab/vm"
)

const usage = `lab: a real Kubernetes control plane on this machine, with simulated nodes or a real one

  lab up    [-name NAME] [-nodes N] [-node vm] [-metrics-server=false]
                                      start a lab, building its parts first if need be; idempotent.
                                      -node vm: one real node in a virtual machine instead of simulated ones
  lab down  [-name NAME]              stop it and delete its data
  lab pid [-name NAME] COMPONENT      print the process ID of etcd, kube-apiserver, kube-controller-manager, kube-scheduler or
                                      kwok-controller
  lab restart [-name NAME] COMPONENT  kill it, start it again and wait until the API server is ready
  lab build [PART…]                   build the parts of a lab only, or these
  lab path PART                       print where a part is, built or not
  lab load [-name NAME] FILE          import an image archive into the real node's containerd
  lab node kill|start [-name NAME]    cut the real node's power; switch it on again
  lab node missing                    say what this machine lacks to run a real node
  lab kubeconfig [-name NAME]         print the path of its kubeconfig; beside it, audit.log is the API server's log of what
                                      the service accounts of namespace audited asked for

Environment
  LAB_DIR     where parts and clusters are kept (default: bin/lab beside the repository's Makefile)
  LAB_PARTS   a folder with prebuilt programs (etcd, kube-apiserver, …); what is missing there is built.
              A lab remembers the folder that it was started with.
  LAB_ACCEL   accelerator of the virtual machine, as QEMU's -accel (default: tcg,thread=multi, which emulates the processor
              and works everywhere; kvm is faster where it works)
`

const commands = "up, down, pid, restart, build, path, load, node or kubeconfig"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Print(usage)
		return errors.New("say what to do: " + commands)
	}
	if args[0] == "node" {
		if len(args) == 1 {
			return errors.New("say what to do with the node: kill, start or missing")
		}
		args = append([]string{"node " + args[1]}, args[2:]...)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	name := flags.String("name", "celvpa", "name of the lab; several run side by side")
	nodes := flags.Int("nodes", 2, "simulated nodes of 32 CPU, 256 GiB and 500 pods each")
	kind := flags.String("node", "", `"vm" for one real node in a virtual machine, in place of simulated ones`)
	metrics := flags.Bool("metrics-server", true, "start metrics-server; without it nobody serves metrics.k8s.io")
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	dir, err := labDir()
	if err != nil {
		return err
	}
	parts := newParts(dir)
	lab, err := newCluster(dir, *name, parts)
	if err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return parts.ensure(ctx, flags.Args()...)
	case "path":
		if _, err := wanted(flags.Args()); err != nil || flags.NArg() != 1 {
			return errors.Join(errors.New("say which part: lab path PART"), err)
		}
		fmt.Println(parts.path(flags.Arg(0)))
		return nil
	case "up":
		lab.recallParts()
		if *kind != "" && *kind != "vm" {
			return fmt.Errorf("-node %q: the only kind of real node is vm", *kind)
		}
		return lab.up(ctx, *nodes, *kind == "vm", *metrics)
	case "down":
		lab.recallParts()
		return lab.down(ctx)
	case "pid":
		pid, err := lab.pid(flags.Arg(0))
		if err != nil {
			return err
		}
		fmt.Println(pid)
		return nil
	case "restart":
		return lab.restart(ctx, flags.Arg(0))
	case "load":
		if flags.NArg() != 1 {
			return errors.New("say which image archive: lab load [-name NAME] FILE")
		}
		return lab.load(ctx, flags.Arg(0))
	case "node kill":
		return lab.killNode(ctx)
	case "node start":
		lab.recallParts()
		return lab.startNode(ctx)
	case "node missing":
		return vm.Missing()
	case "kubeconfig":
		fmt.Println(lab.kubeconfig())
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("no command %q: use %s", args[0], commands)
}

// labDir is LAB_DIR, or bin/lab of the repository.
func labDir() (string, error) {
	if dir := os.Getenv("LAB_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(module, "..", "..", "bin", "lab"), nil
}

// moduleDir is the working directory, or conformance/lab below it.
func moduleDir() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{wd, filepath.Join(wd, "conformance", "lab")} {
		if _, err := os.Stat(filepath.Join(dir, "pins.go")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("run lab from the repository's root or from conformance/lab (now in %s)", wd)
}
