package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

// system is the namespace of celvpa.
const system = "celvpa-system"

// helm runs helm on the cluster.
func helm(ctx context.Context, args ...string) error {
	home, err := os.MkdirTemp("", "celvpa-helm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "helm"), append(args, "--namespace", system)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", args[0], err, text)
	}
	return nil
}

// release installs or upgrades celvpa with the values of testdata.
func release(ctx context.Context, command, version string, more ...string) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	args := []string{command, "celvpa", filepath.Join(root, "deploy", "chart", "celvpa"),
		"--values", filepath.Join(root, "conformance", "node", "testdata", "values.yaml"), "--set", "image.tag=" + version}
	return helm(ctx, append(args, more...)...)
}

func install(ctx context.Context) error {
	if err := release(ctx, "upgrade", firstVersion, "--install", "--create-namespace"); err != nil {
		return err
	}
	return rolledOut(ctx, patience)
}

func uninstall(ctx context.Context) error {
	if lab != nil {
		return nil // the whole cluster goes
	}
	return helm(ctx, "uninstall", "celvpa", "--ignore-not-found")
}

// rolledOut waits until the Deployments of celvpa are what was asked for, and nothing else is left.
func rolledOut(ctx context.Context, limit time.Duration) error {
	waiting := ""
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := cluster.List(ctx, &list, client.InNamespace(system)); err != nil {
			return false, nil // the next look may be answered
		}
		waiting = ""
		for _, d := range list.Items {
			s := d.Status
			if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
				waiting += fmt.Sprintf(" %s: %d pods, %d new, %d available;", d.Name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
			}
		}
		return len(list.Items) == 3 && waiting == "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for celvpa to roll out: %w:%s", err, waiting)
	}
	return nil
}
