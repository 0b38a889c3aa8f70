package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// logOf is what a container of celvpa has logged, or did before it was restarted.
func logOf(ctx context.Context, pod, container string, previous bool) ([]byte, error) {
	text, err := clients.CoreV1().Pods(system).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	return text, nil
}

func keepLog(ctx context.Context, folder, pod, container string, previous bool) error {
	text, err := logOf(ctx, pod, container, previous)
	if err != nil {
		return err
	}
	name := pod + "-" + container
	if previous {
		name += "-previous"
	}
	return os.WriteFile(filepath.Join(folder, name+".log"), text, 0o644)
}

// logged looks for a line with all of some words in the log of the updater, also in that of before a restart. Run beside the
// node, celvpa has no pods, and nothing is found.
func logged(ctx context.Context, words ...string) (line string, found bool) {
	var pods corev1.PodList
	if err := cluster.List(ctx, &pods, client.InNamespace(system)); err != nil {
		return "", false
	}
	for _, p := range pods.Items {
		for _, s := range p.Status.ContainerStatuses {
			for _, previous := range []bool{false, true} {
				if !strings.Contains(p.Name, "updater") || previous && s.RestartCount == 0 {
					continue
				}
				text, _ := logOf(ctx, p.Name, s.Name, previous) // a container that is not found has no lines
				for line := range strings.Lines(string(text)) {
					if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
						return strings.TrimSpace(line), true
					}
				}
			}
		}
	}
	return "", false
}
