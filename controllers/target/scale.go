package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// permanent is a failure that stays until an object changes: a retry does not help.
type permanent struct{ error }

// Unwrap returns the cause.
func (p permanent) Unwrap() error { return p.error }

func isPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p)
}

// readScale reads a custom controller through its scale subresource: in the version of the key,
// else in another version of its group and kind that is served (UPSTREAM.md §2.4). It is not found
// when no version has it; then the controller says whether its kind has none. After an error the
// answer is unknown.
func readScale(ctx context.Context, api client.Client, k Key) (controller, bool, error) {
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil {
		return controller{}, false, permanent{fmt.Errorf("apiVersion %q: %w", k.APIVersion, err)}
	}
	if k.Kind == "" || k.Name == "" {
		return controller{}, false, nil
	}
	var failed error
	try := func(version string) (c controller, found bool) {
		c, found, err := readVersion(ctx, api, k, gv.Group, version)
		if err != nil && failed == nil {
			failed = fmt.Errorf("reading the scale of %s in namespace %s: %w", k, k.Namespace, err)
		}
		return c, found
	}
	if gv.Version != "" {
		if c, found := try(gv.Version); found || isPermanent(failed) {
			return c, found, failed
		}
	}
	mappings, err := api.RESTMapper().RESTMappings(schema.GroupKind{Group: gv.Group, Kind: k.Kind})
	if err != nil && !meta.IsNoMatchError(err) && failed == nil {
		failed = fmt.Errorf("finding the versions of %s: %w", k, err)
	}
	for _, m := range mappings {
		if version := m.GroupVersionKind.Version; version != gv.Version {
			if c, found := try(version); found {
				return c, true, nil
			}
		}
	}
	if kinds, tells := api.(Kinds); tells && failed == nil {
		has, known := kinds.HasScale(ctx, k.groupKind())
		return controller{scaleless: known && !has}, false, nil
	}
	return controller{}, false, failed
}

// readVersion reads a scale in one version.
func readVersion(ctx context.Context, api client.Client, k Key, group, version string) (controller, bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: k.Kind})
	object.SetNamespace(k.Namespace)
	object.SetName(k.Name)
	answer := &unstructured.Unstructured{} // the client takes no typed subresource of an untyped object
	answer.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	err := api.SubResource("scale").Get(ctx, object, answer)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return controller{}, false, nil
	}
	if err != nil {
		return controller{}, false, err
	}
	var scale autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &scale); err != nil {
		return controller{}, false, permanent{err}
	}
	c := controller{replicas: &scale.Spec.Replicas, owners: scale.OwnerReferences, uid: scale.UID, created: scale.CreationTimestamp.Time}
	if text := scale.Status.Selector; text != "" {
		if err := checkSelectorText(len(text)); err != nil {
			return controller{}, false, permanent{fmt.Errorf("its selector: %w", err)}
		}
		selector, err := labels.Parse(text)
		if err != nil {
			return controller{}, false, permanent{fmt.Errorf("its selector is %q: %w", text, err)}
		}
		c.selector = render(ofAllRevisions(selector))
	}
	return c, true, nil
}

// ofAllRevisions drops the requirements of a selector that name one revision of the workload, and keeps a selector that has no
// others. The scale of an Argo Rollout with the blue/green strategy selects the pods of the active ReplicaSet by the hash of their
// template; those of the next one belong to the same target, and so does the history of the last one.
func ofAllRevisions(s labels.Selector) labels.Selector {
	all, selectable := s.Requirements()
	kept := slices.DeleteFunc(slices.Clone(all), func(r labels.Requirement) bool { return namesRevision(r.Key()) })
	if !selectable || len(kept) == 0 || len(kept) == len(all) {
		return s
	}
	return labels.NewSelector().Add(kept...)
}

// namesRevision reports whether the values of a label are names of revisions, such as pod-template-hash,
// controller-revision-hash, rollouts-pod-template-hash and example.com/revision.
func namesRevision(label string) bool {
	name := label[strings.LastIndex(label, "/")+1:]
	return name == "revision" || strings.HasSuffix(name, "-revision") || strings.HasSuffix(name, "-hash")
}

// silent reports whether a failure concerns the API of a kind as a whole, as opposed to one object:
// its server does not answer, or says that it cannot. What fails before it is sent, such as a
// request that the client cannot form, says nothing about a server.
func silent(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return errors.As(err, new(net.Error)) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
	}
	switch answer.Status().Reason {
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTooManyRequests:
		return true
	case metav1.StatusReasonUnknown:
		return answer.Status().Code >= http.StatusInternalServerError
	}
	return false
}

// nameable reports whether an object can have this name and namespace: clients refuse to put others
// into a path.
func (k Key) nameable() bool {
	return len(rest.IsValidPathSegmentName(k.Name)) == 0 && len(rest.IsValidPathSegmentName(k.Namespace)) == 0
}

// probes are, by kind with an outage whose retry is due, the object with the most recent answer. One
// that never gets an answer, for reasons of its own, must not decide about all others. s.mu is held.
func (s *Scales) probes(now time.Time) map[schema.GroupKind]Key {
	out := map[schema.GroupKind]Key{}
	if len(s.outages) == 0 {
		return out
	}
	for k, e := range s.entries {
		kind := k.groupKind()
		if s.outages[kind] == nil || e.answered.IsZero() || e.busy != nil || now.Sub(e.read) > scaleForget || s.held(k, e, now) != nil {
			continue
		}
		if best, ok := out[kind]; !ok || e.answered.After(s.entries[best].answered) {
			out[kind] = k
		}
	}
	return out
}
