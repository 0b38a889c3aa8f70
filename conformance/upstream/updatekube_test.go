package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	updaterutils "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/utils"
	"k8s.io/client-go/kubernetes"
	clientofcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

// kubeClient implements the part of a client with which upstream evicts and resizes.
type (
	kubeClient struct {
		kubernetes.Interface
		cycle *upstreamCycle
	}
	kubeCore struct {
		clientofcore.CoreV1Interface
		cycle *upstreamCycle
	}
	kubePods struct {
		clientofcore.PodInterface
		cycle *upstreamCycle
	}
)

func (k kubeClient) CoreV1() clientofcore.CoreV1Interface { return kubeCore{cycle: k.cycle} }
func (k kubeCore) Pods(string) clientofcore.PodInterface  { return kubePods{cycle: k.cycle} }
func (k kubePods) EvictV1(_ context.Context, e *policyv1.Eviction) error {
	k.cycle.out.Done = append(k.cycle.out.Done, doneEvict+e.Name)
	return nil
}

func (k kubePods) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string) (*corev1.Pod, error) {
	pod := k.cycle.pod(name)
	if !slices.Equal(sub, []string{"resize"}) {
		return pod, nil
	}
	after := podAnswer{Patch: data}
	after.apply(pod.DeepCopy())
	if after.Failed != "" {
		return nil, apierrors.NewBadRequest(after.Failed)
	}
	if qosOf(after.Pod) != qosOf(pod) {
		if !k.cycle.qosKnown {
			k.cycle.out.Done = append(k.cycle.out.Done, doneTry+name)
		}
		return nil, refusalOf("Invalid")
	}
	if err := refusalOf(k.cycle.Refusals[name]); err != nil {
		k.cycle.out.Done = append(k.cycle.out.Done, doneTry+name)
		return nil, err
	}
	k.cycle.out.Done = append(k.cycle.out.Done, doneResize+name)
	k.cycle.out.Resized[name] = after.Pod
	return after.Pod, nil
}

// refusalNames are the kinds of refusal of a resize.
var refusalNames = []string{"NodeCapacity", "Quota", "NotSupported", "Invalid", "Conflict", "NotAnswered", "Gone", "Forbidden"}

// passes reports whether a refusal says nothing about the pod itself.
func passes(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// refusalOf is the error that a client returns; nil = none.
func refusalOf(name string) error {
	pods := schema.GroupResource{Resource: "pods"}
	invalid := func(path *field.Path, text string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Forbidden(path, text)})
	}
	switch name {
	case "NodeCapacity":
		err := apierrors.NewForbidden(pods, "p", errors.New("node doesn't have enough capacity: cpu"))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: updaterutils.InfeasibleCauseNodeCapacity, Message: "cpu"})
		return err
	case "Quota":
		return apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1"))
	case "NotSupported":
		return invalid(field.NewPath("spec"), "pod resize is not supported on this node")
	case "Invalid":
		return invalid(field.NewPath("spec"), "Pod QOS Class may not change as a result of resizing")
	case "Conflict":
		return apierrors.NewConflict(pods, "p", errors.New("the object has been modified"))
	case "NotAnswered":
		return apierrors.NewServerTimeout(pods, "patch", 1)
	case "Gone":
		return apierrors.NewNotFound(pods, "p")
	case "Forbidden":
		return apierrors.NewForbidden(pods, "p", errors.New("denied by a policy"))
	}
	return nil
}
