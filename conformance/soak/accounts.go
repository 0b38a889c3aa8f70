package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
)

// system is the namespace of celvpa in deploy/manifests. The lab's audit log has the requests of its service accounts.
const system = "celvpa-system"

// install applies what deploy/manifests has beside Deployments, Services and what belongs to them: CRDs, service accounts, their
// permissions, and the registration of the webhook, which is empty.
func install(ctx context.Context, cluster *harness.Cluster) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	file := filepath.Join(root, "deploy", "manifests", "celvpa.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	objects, err := harness.Decode(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	wanted := []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration", "Lease"}
	for _, o := range objects {
		if !slices.Contains(wanted, o.GetKind()) {
			continue
		}
		err := cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("soak"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := cluster.WaitEstablished(ctx, o.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// token is one of a component's service account, which outlives the soak.
func token(ctx context.Context, cluster *harness.Cluster, component string, duration time.Duration) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "celvpa-" + component}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64((duration + time.Hour).Seconds()))}}
	if err := cluster.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("asking for a token of %s: %w", account.Name, err)
	}
	return request.Status.Token, nil
}
