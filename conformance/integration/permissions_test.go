package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// account is a service account with the permissions that a page of the docs prints, and no others.
type account struct{ *harness.Account }

// accountOfTheDocs creates an account, and deletes it when the test ends.
func accountOfTheDocs(t *testing.T, pageName, name string) *account {
	t.Helper()
	a, err := cluster.NewAccount(t.Context(), name, "it-", roleOfTheDocs(t, pageName).Rules)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.DeleteAccount(context.Background(), a)) })
	return &account{a}
}

// roleOfTheDocs has the rules of the ClusterRole and the Role that a page prints.
func roleOfTheDocs(t *testing.T, pageName string) *rbacv1.ClusterRole {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", pageName))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\n")
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "```")
	joined := &rbacv1.ClusterRole{}
	for _, part := range strings.Split("apiVersion: rbac.authorization.k8s.io/v1\n"+text, "---\n") {
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		require.NoError(t, yaml.UnmarshalStrict([]byte(part), role))
		joined.Rules = append(joined.Rules, role.Rules...)
	}
	require.Greater(t, len(joined.Rules), 10)
	return joined
}

// info is the user info of the account.
func (a *account) info() clientcmdapi.AuthInfo { return clientcmdapi.AuthInfo{Token: a.Token} }

// kubeconfig writes a kubeconfig of this account.
func (a *account) kubeconfig(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	for name := range config.AuthInfos {
		*config.AuthInfos[name] = a.info()
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// asksForACustomKind creates a VPA whose target is of a kind that celvpa does not know and that no
// other test uses, and returns an owner reference to it. Call it before the process starts.
func (a *account) asksForACustomKind(t *testing.T, v *vpav1.VerticalPodAutoscaler) metav1.OwnerReference {
	t.Helper()
	crd := rolloutCRD()
	crd.Spec.Group = a.Name + ".example.com"
	crd.Name = "rollouts." + crd.Spec.Group
	create(t, crd)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), crd)) })
	require.NoError(t, cluster.WaitEstablished(t.Context(), crd.Name))
	version, owner := crd.Spec.Group+"/v1", &unstructured.Unstructured{}
	hang.Eventually(t, "the kind of "+crd.Name, func(ctx context.Context) (bool, error) {
		owner.Object = map[string]any{"apiVersion": version, "kind": "Rollout",
			"metadata": map[string]any{"namespace": v.Namespace, "name": v.Name}, "spec": map[string]any{"replicas": int64(1)}}
		return cluster.Create(ctx, owner) == nil, nil
	})
	v.Spec.TargetRef = crossVersion(version, "Rollout", v.Name)
	create(t, v)
	return metav1.OwnerReference{APIVersion: version, Kind: "Rollout", Name: v.Name, UID: owner.GetUID(), Controller: ptr.To(true)}
}

// permission is one that a role grants or a request needs.
type permission struct{ verb, group, resource, subresource string }

// String is the notation of the tests' lists.
func (p permission) String() string {
	text := p.verb + " " + schema.GroupResource{Group: p.group, Resource: p.resource}.String()
	if p.subresource != "" {
		text += "/" + p.subresource
	}
	return text
}

// covers reports whether a granted permission includes a needed one.
func (p permission) covers(asked permission) bool {
	matches := func(granted, asked string) bool { return granted == "*" || granted == asked }
	return matches(p.verb, asked.verb) && matches(p.group, asked.group) && matches(p.resource, asked.resource) && p.subresource == asked.subresource
}

// granted lists the permissions of a role.
func granted(role *rbacv1.ClusterRole) (out []permission) {
	for _, r := range role.Rules {
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				resource, subresource, _ := strings.Cut(name, "/")
				for _, verb := range r.Verbs {
					out = append(out, permission{verb: verb, group: group, resource: resource, subresource: subresource})
				}
			}
		}
	}
	return out
}

// onDemand are resources that only some rules need, such as those of anOverlayIsForNamespacesByLabel.
var onDemand = map[string]bool{"namespaces": true, "nodes": true}

// usesAllItMay requires that the audit log has a request of this account for each permission of its
// role, and no refused request. but lists permissions that this test does not use, with reasons.
func (a *account) usesAllItMay(t *testing.T, but map[string]string) {
	t.Helper()
	all := granted(a.Role)
	for text, why := range but {
		require.True(t, slices.ContainsFunc(all, func(p permission) bool { return p.String() == text }), "%q is not granted: take it out of the list", text)
		require.NotEmpty(t, why, text)
	}
	var unused, refused []string
	_ = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, hang.Limit, true, func(context.Context) (bool, error) { // watches are logged late
		var asked map[permission]bool
		asked, refused = a.asked(t)
		unused = nil
		for _, p := range all {
			if !used(p, asked) && but[p.String()] == "" && !onDemand[p.resource] {
				unused = append(unused, p.String())
			}
		}
		return len(unused) == 0 || len(refused) > 0, nil
	})
	require.Empty(t, refused, "the page of the docs does not grant these")
	require.Empty(t, unused, "the page of the docs grants these, and nothing asks for them: take them out of the page, or say in the test why they are needed")
}

// used reports whether one of the requests needs a permission. API servers that do not stream lists
// need list in addition to watch.
func used(p permission, asked map[permission]bool) bool {
	for request := range asked {
		if p.covers(request) {
			return true
		}
		if request.verb == "watch" {
			request.verb = "list"
			if p.covers(request) {
				return true
			}
		}
	}
	return false
}

// asked is what the audit log has of this account: its requests, and those that were forbidden.
func (a *account) asked(t *testing.T) (all map[permission]bool, refused []string) {
	t.Helper()
	all = map[permission]bool{}
	user := a.User()
	require.NoError(t, harness.AuditEvents(kubeconfig, user, func(event harness.AuditEvent) {
		if event.User.Username != user || event.ObjectRef == nil {
			return
		}
		p := permission{verb: event.Verb, group: event.ObjectRef.APIGroup, resource: event.ObjectRef.Resource, subresource: event.ObjectRef.Subresource}
		if event.Forbidden() {
			refused = append(refused, p.String())
			return
		}
		all[p] = true
	}))
	return all, refused
}
