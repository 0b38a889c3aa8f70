package harness

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Audited is the namespace of the service accounts whose requests are in a lab's audit log.
const Audited = "audited"

// Account is a service account of namespace Audited with a ClusterRole of its own.
type Account struct {
	Name, Token string
	Role        *rbacv1.ClusterRole
	objects     []client.Object
}

// NewAccount creates an account that may do what these rules allow. Its role is named after it, with a prefix.
func (c *Cluster) NewAccount(ctx context.Context, name, prefix string, rules []rbacv1.PolicyRule) (*Account, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Audited}}
	if err := c.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating namespace %s: %w", Audited, err)
	}
	a := &Account{Name: name, Role: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: prefix + name}, Rules: rules}}
	user := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Audited, Name: name}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: a.Role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Audited, Name: name}}}
	a.objects = []client.Object{binding, a.Role, user}
	for _, o := range a.objects {
		if err := c.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("creating account %s: %T: %w", name, o, err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, user, token); err != nil {
		return nil, fmt.Errorf("creating a token for account %s: %w", name, err)
	}
	a.Token = token.Status.Token
	return a, nil
}

// User is the name of the account in the audit log.
func (a *Account) User() string { return "system:serviceaccount:" + Audited + ":" + a.Name }

// DeleteAccount deletes an account and its role.
func (c *Cluster) DeleteAccount(ctx context.Context, a *Account) error {
	for _, o := range a.objects {
		if err := c.Delete(ctx, o); err != nil {
			return fmt.Errorf("deleting account %s: %T: %w", a.Name, o, err)
		}
	}
	return nil
}
