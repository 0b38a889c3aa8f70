package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keepLogs writes what the pods of celvpa have logged to a folder: also what a container that was
// restarted had logged before.
func keepLogs(ctx context.Context, folder string) error {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.InNamespace(system)); err != nil {
		return fmt.Errorf("listing the pods of celvpa: %w", err)
	}
	faults := []error{os.RemoveAll(folder), os.MkdirAll(folder, 0o755)}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			faults = append(faults, keepLog(ctx, folder, p.Name, s.Name, false))
			if s.RestartCount > 0 {
				faults = append(faults, keepLog(ctx, folder, p.Name, s.Name, true))
			}
		}
	}
	return errors.Join(faults...)
}

func keepLog(ctx context.Context, folder, pod, container string, previous bool) error {
	text, err := clients.CoreV1().Pods(system).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	name := pod + "-" + container
	if previous {
		name += "-previous"
	}
	return os.WriteFile(filepath.Join(folder, name+".log"), text, 0o644)
}
