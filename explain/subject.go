package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Subject is what is asked about.
type Subject struct {
	Kind      string // as in a manifest, in any case, or a short name of kubectl; empty = whatever has the name
	Name      string
	Namespace string // empty = any
}

// vpaKind is the kind of a VPA.
const vpaKind = "VerticalPodAutoscaler"

// kinds are the names that kubectl users write, in lower case.
var kinds = map[string]string{
	"vpa": vpaKind, "verticalpodautoscalers": vpaKind, "verticalpodautoscaler": vpaKind,
	"po": "Pod", "pod": "Pod", "pods": "Pod",
	"deploy": "Deployment", "deployments": "Deployment", "deployment": "Deployment",
	"sts": "StatefulSet", "statefulsets": "StatefulSet", "statefulset": "StatefulSet",
	"ds": "DaemonSet", "daemonsets": "DaemonSet", "daemonset": "DaemonSet",
	"rs": "ReplicaSet", "replicasets": "ReplicaSet", "replicaset": "ReplicaSet",
	"rc": "ReplicationController", "replicationcontrollers": "ReplicationController", "replicationcontroller": "ReplicationController",
	"job": "Job", "jobs": "Job", "cj": "CronJob", "cronjob": "CronJob", "cronjobs": "CronJob",
}

// ParseSubject reads NAME, KIND/NAME or KIND and NAME, as kubectl does. KIND may have a group, as kubectl
// get -o name prints it. Nothing stands for the only VPA.
func ParseSubject(namespace string, args ...string) (Subject, error) {
	s := Subject{Namespace: namespace}
	switch {
	case len(args) == 0:
	case len(args) == 1:
		kind, name, found := strings.Cut(args[0], "/")
		if !found {
			kind, name = "", args[0]
		}
		s.Kind, s.Name = kind, name
	case len(args) == 2 && !strings.Contains(args[0]+args[1], "/"):
		s.Kind, s.Name = args[0], args[1]
	default:
		return s, fmt.Errorf("name one object to explain: NAME, KIND/NAME or KIND NAME")
	}
	if len(args) > 0 && s.Name == "" || len(args) == 1 && strings.Contains(args[0], "/") && s.Kind == "" {
		return s, fmt.Errorf("%q names no object; write NAME, KIND/NAME or KIND NAME", strings.Join(args, " "))
	}
	s.Kind, _, _ = strings.Cut(s.Kind, ".")
	s.Kind = cmp.Or(kinds[strings.ToLower(s.Kind)], s.Kind)
	return s, nil
}

// String returns e.g. pod shop/web-1.
func (s Subject) String() string {
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + s.Name
	}
	return strings.TrimSpace(s.Kind + " " + name)
}

// found is the VPA of a subject; nil when none controls it.
type found struct {
	Subject
	vpa *vpav1.VerticalPodAutoscaler
	pod *corev1.Pod // if the subject is one
	why string      // no VPA controls it
}

// find finds the VPA that a subject is, or that controls it: the first by compare of those with its target.
func find(ctx context.Context, c client.Client, s Subject, compare order) (found, error) {
	if s.Name == "" {
		return findOnly(ctx, c, s)
	}
	switch s.Kind {
	case vpaKind:
		v, err := findVPA(ctx, c, s)
		return found{Subject: s.of(v), vpa: v}, err
	case "Pod":
		return findByPod(ctx, c, s, compare)
	case "":
		v, err := findVPA(ctx, c, s)
		if !isUnknown(err) {
			return found{Subject: s.of(v), vpa: v}, err
		}
		if s.Namespace != "" {
			if of, failed := findByPod(ctx, c, s, compare); failed == nil || !apierrors.IsNotFound(failed) {
				return of, failed
			}
		}
		of, failed := findByTarget(ctx, c, s, compare)
		if failed != nil || of.vpa != nil {
			return of, failed
		}
		return of, fmt.Errorf("no VerticalPodAutoscaler, pod or target of a VerticalPodAutoscaler is named %s%s%s", s.Name, in(s.Namespace), near(ctx, c, s))
	}
	return findByTarget(ctx, c, s, compare)
}

// findOnly finds the VPA of a namespace that has one only.
func findOnly(ctx context.Context, c client.Client, s Subject) (found, error) {
	list, err := vpas(ctx, c, s.Namespace)
	if err != nil {
		return found{}, err
	}
	if len(list) == 1 {
		return found{Subject: s.of(&list[0]), vpa: &list[0]}, nil
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Namespace + "/" + list[i].Name
	}
	slices.Sort(names)
	if len(names) == 0 {
		return found{}, fmt.Errorf("there is no VerticalPodAutoscaler%s", in(s.Namespace))
	}
	return found{}, fmt.Errorf("name one object to explain, for instance one of the VerticalPodAutoscalers%s: %s", in(s.Namespace), simulate.Few(names))
}

// of is the subject for a VPA.
func (s Subject) of(v *vpav1.VerticalPodAutoscaler) Subject {
	if v == nil {
		return s
	}
	return Subject{Kind: vpaKind, Name: v.Name, Namespace: v.Namespace}
}

func in(namespace string) string {
	if namespace == "" {
		return " in any namespace"
	}
	return " in namespace " + namespace
}

// unknown is the error of a VPA that does not exist.
type unknown struct{ error }

func isUnknown(err error) bool { _, is := err.(unknown); return is }

func findVPA(ctx context.Context, c client.Client, s Subject) (*vpav1.VerticalPodAutoscaler, error) {
	if s.Namespace != "" {
		v := &vpav1.VerticalPodAutoscaler{}
		err := c.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, v)
		switch {
		case apierrors.IsNotFound(err):
			return nil, unknown{fmt.Errorf("VerticalPodAutoscaler %s/%s does not exist%s", s.Namespace, s.Name, near(ctx, c, s))}
		case err != nil:
			return nil, vpaError("VerticalPodAutoscaler "+s.Namespace+"/"+s.Name, err)
		}
		return v, nil
	}
	list, err := vpas(ctx, c, "")
	if err != nil {
		return nil, err
	}
	var named []*vpav1.VerticalPodAutoscaler
	var where []string
	for i := range list {
		if list[i].Name == s.Name {
			named, where = append(named, &list[i]), append(where, list[i].Namespace)
		}
	}
	switch len(named) {
	case 0:
		return nil, unknown{fmt.Errorf("no namespace has a VerticalPodAutoscaler %s%s", s.Name, near(ctx, c, s))}
	case 1:
		return named[0], nil
	}
	slices.Sort(where)
	return nil, fmt.Errorf("namespaces %s have a VerticalPodAutoscaler %s: choose one with -n", strings.Join(where, ", "), s.Name)
}

func vpas(ctx context.Context, c client.Client, namespace string) ([]vpav1.VerticalPodAutoscaler, error) {
	var list vpav1.VerticalPodAutoscalerList
	// From the API server's cache: an older list is better than reading etcd for it.
	err := c.List(ctx, &list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return nil, vpaError("VerticalPodAutoscalers"+in(namespace), err)
	}
	return list.Items, nil
}

// vpaError is readError for VPAs, which a cluster may not know.
func vpaError(what string, err error) error {
	if meta.IsNoMatchError(err) {
		return manifests.ErrNoVPAs
	}
	return readError(what, err)
}

// readError says what could not be read, and the way out.
func readError(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot read %s: %w; ask for permission to get and list them, or choose another namespace with -n", what, err)
	}
	return fmt.Errorf("cannot read %s: %w", what, err)
}

// findByPod finds the VPA whose target is the topmost controller of a pod.
func findByPod(ctx context.Context, c client.Client, s Subject, compare order) (found, error) {
	if s.Namespace == "" {
		return found{Subject: s}, fmt.Errorf("pods of one name may be in several namespaces: choose one with -n")
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, pod); apierrors.IsNotFound(err) {
		return found{Subject: s}, err
	} else if err != nil {
		return found{Subject: s}, readError("pod "+s.Namespace+"/"+s.Name, err)
	}
	out := found{Subject: Subject{Kind: "Pod", Name: pod.Name, Namespace: pod.Namespace}, pod: pod}
	owner := target.ControllerOf(pod.OwnerReferences)
	if owner == nil {
		out.why = "no controller owns the pod (metadata.ownerReferences), and a VPA acts on pods of controllers only"
		return out, nil
	}
	owners := []metav1.OwnerReference{*owner}
	for len(owners) < maxOwners { // up to the topmost one
		above, err := ownerOf(ctx, c, pod.Namespace, owners[len(owners)-1])
		if err != nil {
			return out, err
		}
		if above == nil {
			break
		}
		owners = append(owners, *above)
	}
	return out.controlledBy(ctx, c, owners, compare)
}

// maxOwners bounds the walk up.
const maxOwners = 16

// ownerOf is what controls an owner; nil = nothing, or it is gone.
func ownerOf(ctx context.Context, c client.Client, namespace string, of metav1.OwnerReference) (*metav1.OwnerReference, error) {
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil || of.Kind == "Node" {
		return nil, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gv.WithKind(of.Kind))
	err = c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: of.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(of.Kind+" "+namespace+"/"+of.Name, err)
	}
	return target.ControllerOf(object.OwnerReferences), nil
}

// controlledBy finds the VPA that has the last of some owners as its target.
func (f found) controlledBy(ctx context.Context, c client.Client, owners []metav1.OwnerReference, compare order) (found, error) {
	list, err := vpas(ctx, c, f.Namespace)
	if err != nil {
		return f, err
	}
	top := owners[len(owners)-1]
	for i, owner := range owners {
		v := firstWith(list, compare, func(of target.Key) bool { return of.Kind == owner.Kind && of.Name == owner.Name })
		switch {
		case v == nil:
		case i < len(owners)-1:
			f.why = fmt.Sprintf("VerticalPodAutoscaler %s/%s has the target %s %s, which %s %s controls; its target must be the topmost controller",
				f.Namespace, v.Name, owner.Kind, owner.Name, top.Kind, top.Name)
		default:
			f.vpa, f.why = v, ""
			return f, nil
		}
	}
	if f.why == "" {
		f.why = fmt.Sprintf("no VerticalPodAutoscaler in namespace %s has the target %s %s, the topmost controller of the pod", f.Namespace, top.Kind, top.Name)
	}
	return f, nil
}

// findByTarget finds the VPA that has a workload as its target.
func findByTarget(ctx context.Context, c client.Client, s Subject, compare order) (found, error) {
	list, err := vpas(ctx, c, s.Namespace)
	if err != nil {
		return found{Subject: s}, err
	}
	v := firstWith(list, compare, func(of target.Key) bool {
		return of.Name == s.Name && (s.Kind == "" || strings.EqualFold(of.Kind, s.Kind))
	})
	if v == nil {
		return found{Subject: s, why: fmt.Sprintf("no VerticalPodAutoscaler%s has the target %s%s", in(s.Namespace), strings.TrimSpace(s.Kind+" "+s.Name), near(ctx, c, s))}, nil
	}
	return found{Subject: Subject{Kind: target.Of(v).Kind, Name: s.Name, Namespace: v.Namespace}, vpa: v}, nil
}

// firstWith is the first by compare of the VPAs whose target fits; nil without any.
func firstWith(list []vpav1.VerticalPodAutoscaler, compare order, fits func(target.Key) bool) (first *vpav1.VerticalPodAutoscaler) {
	for i := range list {
		if v := &list[i]; fits(target.Of(v)) && (first == nil || compare(v, first) < 0) {
			first = v
		}
	}
	return first
}
