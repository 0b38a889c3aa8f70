package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// forgottenToo is another namespace that the webhook does not serve.
const forgottenToo = "up-permissions-forgotten"

// upstreamsPermissionsAreEnough: the updater runs with the account of upstream's manifests. They do
// not allow writing the condition, so there is only an event.
func upstreamsPermissionsAreEnough(t *testing.T) {
	const user = "system:serviceaccount:kube-system:vpa-updater"
	crds := upstreamCRDs(t)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(crds), "vpa-rbac.yaml"))
	require.NoError(t, err)
	objects, err := harness.Decode(text)
	require.NoError(t, err)
	for _, o := range objects {
		create(t, o)
		t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), o)) })
	}

	ns, forgotten := namespace(t, "up-permissions"), namespace(t, forgottenToo)
	deployed(t, ns, "evicted", 2, small)
	deployed(t, ns, "resized", 2, small)
	deployed(t, forgotten, "web", 2, small)
	boosted(t, ns, "boosted", 1, "updatePolicy: {updateMode: Initial}", "1", target("250m", "100Mi"))
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	watchedOver(t, forgotten, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	as := clientcmdapi.AuthInfo{Impersonate: user}
	u, v := startUpdaterAs(t, as, ns), startUpdaterAs(t, as, forgotten)
	become(t, ns, "evicted", 2, "200m/- 200Mi/-")
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "boosted", 1, "250m/500m 100Mi/-")
	unboosted(t, ns, "boosted")
	requireEvent(t, ns, "EvictedPod", "update/evict")
	requireEvent(t, forgotten, "UpdatesHaveNoEffect", "eviction/successors-unchanged")
	hang.Eventually(t, "what the condition would report", func(context.Context) (bool, error) {
		return v.Says("no permission to write condition UpdatesHaveNoEffect; grant patch on verticalpodautoscalers/status"), nil
	})
	v.cycles(1)
	u.forbiddenOnly(`ruleoverlays`, `verticalpodautoscalers/status`) // celvpa's own
	v.forbiddenOnly(`ruleoverlays`, `verticalpodautoscalers/status`)
}

// forbiddenOnly requires that the log reports no other forbidden request.
func (u *anUpdater) forbiddenOnly(but ...string) {
	u.t.Helper()
	for _, line := range u.Lines() {
		text := fmt.Sprint(line)
		if strings.Contains(text, "forbidden") && !slices.ContainsFunc(but, func(one string) bool { return strings.Contains(text, one) }) {
			require.Fail(u.t, "this was forbidden", text)
		}
	}
}

// thePermissionsOfTheUpdaterInTheDocsAreThoseItNeeds runs the updater with the permissions of
// docs/updater.md: they are enough, and all are used.
func thePermissionsOfTheUpdaterInTheDocsAreThoseItNeeds(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-of-the-docs")
	ns, forgotten := namespace(t, "up-docs"), namespace(t, forgottenByTheDocs)
	held := deployed(t, ns, "held", 2, small)
	tried := deployed(t, ns, "tried", 1, small)
	deployed(t, ns, "evicted", 2, small)
	deployed(t, ns, "resized", 2, small)
	deployed(t, forgotten, "web", 2, small)
	boosted(t, ns, "boosted", 1, "updatePolicy: {updateMode: Initial}", "1", target("250m", "100Mi"))
	create(t, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "keep-all"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "held"}}}})
	for app, mode := range map[string]string{"held": "Recreate", "evicted": "Recreate", "resized": "InPlaceOrRecreate"} {
		watchedOver(t, ns, app, "updatePolicy: {updateMode: "+mode+"}", target("200m", "200Mi"))
	}
	watchedOver(t, ns, "tried", one("InPlace"), target("40", "200Mi"))
	watchedOver(t, forgotten, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	owner := a.asksForACustomKind(t, vpa(ns, "custom", vpav1.UpdateModeRecreate))
	create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "custom", OwnerReferences: []metav1.OwnerReference{owner}}, Spec: podSpec(t, small)})
	recommendNow(t, ns, "custom", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns, "--leader-elect=false")
	v := startUpdaterAs(t, a.info(), forgotten)
	become(t, ns, "evicted", 2, "200m/- 200Mi/-")
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "boosted", 1, "250m/500m 100Mi/-")
	unboosted(t, ns, "boosted")
	requireEvent(t, ns, "EvictionRefused", "")
	requireEvent(t, ns, "InPlaceResizeSkipped", "resize/known-infeasible")
	hang.Eventually(t, "the condition", func(ctx context.Context) (bool, error) {
		var written vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, client.ObjectKey{Namespace: forgotten, Name: "web"}, &written)
		return condition(&written, "UpdatesHaveNoEffect") != nil, err
	})
	u.cycles(1)
	same(t, ns, "held", held)
	same(t, ns, "tried", tried)
	u.forbiddenOnly("NodeCapacity", "Node didn't have enough capacity", "node capacity")
	v.forbiddenOnly()
	a.usesAllItMay(t, map[string]string{
		"get verticalpodautoscalers.autoscaling.k8s.io": "one whose status another process wrote meanwhile is read before its condition is written",
	})
}

// forgottenByTheDocs is a third namespace that the webhook does not serve.
const forgottenByTheDocs = "up-docs-forgotten"

// withoutPermissionToResize the updater does not evict instead: missing permissions are not the
// pods' fault.
func withoutPermissionToResize(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-without-resizes")
	a.Role.Rules = slices.DeleteFunc(a.Role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/resize") })
	require.NoError(t, cluster.Update(t.Context(), a.Role))
	ns := namespace(t, "up-forbidden")
	before := deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns)
	u.decided("web", "resize/not-permitted")
	requireEvent(t, ns, "ResizeRefused", "cannot patch resource")
	u.cycles(1)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Zero(t, u.requests.of("eviction", "web"))
}

// whereOnlyCoreEventsAreAllowed, as by charts for the older API, no event is lost.
func whereOnlyCoreEventsAreAllowed(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-with-core-events")
	for i := range a.Role.Rules {
		if r := &a.Role.Rules[i]; slices.Contains(r.APIGroups, "events.k8s.io") {
			r.APIGroups = []string{""}
		}
	}
	require.NoError(t, cluster.Update(t.Context(), a.Role))
	ns := namespace(t, "up-core-events")
	deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns)
	become(t, ns, "web", 2, "200m/- 200Mi/-")
	requireEvent(t, ns, "EvictedPod", "update/evict")
	requireEvent(t, ns, "EvictedByVPA", "update/evict")
	require.Equal(t, 1, u.Log.Count("events are written to the core API from now on: this process may not create events in API group events.k8s.io"))
	require.Zero(t, u.counted("celvpa_dropped_events_total"))
}

// aPatchForAnotherPodOfTheName changes nothing, and the API server answers it without a reason, as
// the updater expects.
func aPatchForAnotherPodOfTheName(t *testing.T) {
	ns := namespace(t, "up-uid")
	for _, p := range deployed(t, ns, "web", 1, small) {
		body := []byte(`[{"op":"test","path":"/metadata/uid","value":"of-another"},{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"200m"}]`)
		err := cluster.SubResource("resize").Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.JSONPatchType, body))
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.EqualError(t, err, "the server rejected our request due to an error in our request")
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("of-another")}}
		err = cluster.SubResource("eviction").Create(t.Context(), p.DeepCopy(), eviction)
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.ErrorContains(t, err, "UID")
		for _, now := range same(t, ns, "web", map[types.UID]corev1.Pod{p.UID: p}) {
			has(t, &now, "100m/- 100Mi/-")
		}
	}
}
