package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/inspect"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// system is where celvpa seems to run.
const system = "kube-system"

// explainAddress is where celvpa serves what it knows, so that the API server reaches it; empty on a
// machine without a network, and in the user's own cluster, whose API server may be anywhere.
func explainAddress(foreign bool) (string, error) {
	if foreign {
		return "", nil
	}
	address, err := harness.OutsideAddress()
	if errors.Is(err, harness.ErrNoOutsideAddress) {
		return "", nil
	}
	return address, err
}

// publish lets celvpa explain ask celvpa through the API server, in the namespace of the quickstart only.
func publish(ctx context.Context, cluster *harness.Cluster, address string) error {
	meta, account := metav1.ObjectMeta{Namespace: namespace, Name: inspect.ServiceAccount}, metav1.ObjectMeta{Namespace: system, Name: inspect.ServiceAccount}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{vpav1.GroupVersion.Group}, Resources: []string{"verticalpodautoscalers/explain"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: meta.Name}}},
	} {
		if err := cluster.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %T %s: %w", o, meta.Name, err)
		}
	}
	before := metav1.ObjectMeta{Namespace: system, Name: "celvpa"} // of a run on the same lab
	for _, o := range []client.Object{&corev1.Pod{ObjectMeta: before}, &corev1.Service{ObjectMeta: before}} {
		if err := client.IgnoreNotFound(cluster.Delete(ctx, o, client.GracePeriodSeconds(0))); err != nil {
			return fmt.Errorf("deleting %T %s: %w", o, before.Name, err)
		}
	}
	return cluster.Publish(ctx, system, before.Name, inspect.PortName, address, map[string]string{inspect.ServiceLabel: "true"})
}

// showWhy prints why the pods are as they are.
func showWhy(ctx context.Context, program, kubeconfig string) error {
	args := []string{"explain", "web", "-n", namespace}
	say("why             celvpa %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", kubeconfig, "--celvpa-namespace", system)...)
	var fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = os.Stdout, &fault
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("celvpa explain: %w: %s", err, strings.TrimSpace(fault.String()))
	}
	return nil
}
