package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
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
func find(ctx context.Context, c client.Client, s Subject, selector labels.Selector, compare order) (found, error) {
	if s.Namespace != "" && s.Name != "" && (s.Kind == vpaKind || s.Kind == "") { // whoever may get it need not list
		v := &vpav1.VerticalPodAutoscaler{}
		err := c.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, v)
		if err == nil {
			return found{Subject: s.of(v), vpa: v}, nil
		}
		if !apierrors.IsNotFound(err) {
			return found{}, vpaError("VerticalPodAutoscaler "+s.Namespace+"/"+s.Name, err)
		}
	}
	list, err := vpas(ctx, c, s.Namespace)
	if err != nil {
		return found{}, err
	}
	if selector != nil {
		all := len(list)
		list = slices.DeleteFunc(list, func(v vpav1.VerticalPodAutoscaler) bool { return !selector.Matches(labels.Set(v.Labels)) })
		if len(list) == 0 && all > 0 {
			return found{}, fmt.Errorf("no VerticalPodAutoscaler%s matches -l %s", in(s.Namespace), selector)
		}
	}
	if s.Name == "" && len(list) == 1 {
		return found{Subject: s.of(&list[0]), vpa: &list[0]}, nil
	}
	if s.Kind == vpaKind || s.Kind == "" && s.Name != "" {
		v, err := s.first(list, compare, func(v *vpav1.VerticalPodAutoscaler) bool { return v.Name == s.Name })
		if v != nil || err != nil {
			return found{Subject: s.of(v), vpa: v}, err
		}
	}
	if s.Kind == "Pod" || s.Kind == "" && s.Name != "" {
		pod, err := s.podIn(ctx, c)
		if err != nil {
			return found{}, err
		}
		if pod != nil {
			return findByPod(ctx, c, pod, list, compare)
		}
	}
	if s.Kind == vpaKind || s.Kind == "Pod" || s.Name == "" {
		return found{}, s.nobody(list)
	}
	v, err := s.first(list, compare, func(v *vpav1.VerticalPodAutoscaler) bool {
		of := target.Of(v)
		return of.Name == s.Name && (s.Kind == "" || strings.EqualFold(of.Kind, s.Kind))
	})
	if v == nil && err == nil {
		err = s.nobody(list)
	}
	if err != nil {
		return found{}, err
	}
	return found{Subject: Subject{Kind: target.Of(v).Kind, Name: s.Name, Namespace: v.Namespace}, vpa: v}, nil
}

// of is the subject for a VPA.
func (s Subject) of(v *vpav1.VerticalPodAutoscaler) Subject {
	if v == nil {
		return s
	}
	return Subject{Kind: vpaKind, Name: v.Name, Namespace: v.Namespace}
}

// first is the first by compare of the VPAs that fit; nil without any. The error is that they are in several
// namespaces.
func (s Subject) first(list []vpav1.VerticalPodAutoscaler, compare order, fits func(*vpav1.VerticalPodAutoscaler) bool) (first *vpav1.VerticalPodAutoscaler, err error) {
	var namespaces []string
	for i := range list {
		if v := &list[i]; fits(v) {
			if first == nil || compare(v, first) < 0 {
				first = v
			}
			namespaces = append(namespaces, v.Namespace)
		}
	}
	return first, s.several(namespaces)
}

// podIn is the pod that a subject may be; nil if there is none.
func (s Subject) podIn(ctx context.Context, c client.Client) (*corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingFields{"metadata.name": s.Name}); err != nil {
		return nil, readError("pods"+in(s.Namespace), err)
	}
	var namespaces []string
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	if len(namespaces) == 0 {
		return nil, nil
	}
	return &list.Items[0], s.several(namespaces)
}

// findByPod finds the VPA that controls a pod.
func findByPod(ctx context.Context, c client.Client, pod *corev1.Pod, list []vpav1.VerticalPodAutoscaler, compare order) (found, error) {
	out := found{Subject: Subject{Kind: "Pod", Name: pod.Name, Namespace: pod.Namespace}, pod: pod}
	r := &target.Resolver{Client: c}
	top, err := r.Topmost(ctx, pod)
	if apierrors.IsForbidden(err) {
		return out, readError("the owners of pod "+pod.Namespace+"/"+pod.Name, err)
	}
	for i := range list {
		if v := &list[i]; top != nil {
			if selects, _ := top.Selects(ctx, v, pod); selects && (out.vpa == nil || compare(v, out.vpa) < 0) {
				out.vpa = v
			}
		}
	}
	if out.vpa == nil {
		out.why = "no VerticalPodAutoscaler controls the pod: " + matcher.WhyNone(ctx, r, pod, func(owner target.Key) (contenders []matcher.Contender) {
			for i := range list {
				if target.Of(&list[i]).Unversioned() == owner.Unversioned() {
					contenders = append(contenders, matcher.Contender{VPA: &list[i]})
				}
			}
			return contenders
		})
	}
	return out, nil
}

// several is the error of a subject that is in more than one namespace.
func (s Subject) several(namespaces []string) error {
	slices.Sort(namespaces)
	if namespaces = slices.Compact(namespaces); len(namespaces) < 2 {
		return nil
	}
	return fmt.Errorf("%s is in namespaces %s; choose one with -n", s, simulate.Few(namespaces))
}

// nobody is the error of a subject that is not there.
func (s Subject) nobody(list []vpav1.VerticalPodAutoscaler) error {
	names, known := make([]string, len(list)), sets.New[string]()
	for i := range list {
		names[i] = list[i].Namespace + "/" + list[i].Name
		known.Insert(list[i].Name)
		if s.Kind != vpaKind {
			known.Insert(target.Of(&list[i]).Name)
		}
	}
	slices.Sort(names)
	have := "there is no VerticalPodAutoscaler" + in(s.Namespace)
	i := slices.IndexFunc(list, func(v vpav1.VerticalPodAutoscaler) bool { return v.Namespace == s.Kind && v.Name == s.Name })
	switch {
	case i >= 0: // as namespace/name
		return fmt.Errorf("%q is not a kind; for namespace %s, write %s -n %s", s.Kind, s.Kind, s.Name, s.Kind)
	case len(names) > 0:
		have = "there are the VerticalPodAutoscalers " + simulate.Few(names)
	}
	known.Delete(s.Name) // it is of another kind
	if near := faults.DidYouMean(s.Name, sets.List(known)); s.Name != "" && near != "" {
		have = near
	}
	lower, short := strings.ToLower(s.Kind), slices.Sorted(maps.Keys(kinds))
	if near := faults.DidYouMean(lower, short); near != "" && !slices.Contains(short, lower) {
		have = near
	}
	if s.Name == "" {
		return fmt.Errorf("name one object to explain: %s", have)
	}
	return fmt.Errorf("no VerticalPodAutoscaler, pod or target of a VerticalPodAutoscaler is called %s: %s", s, have)
}

func in(namespace string) string {
	if namespace == "" {
		return " in any namespace"
	}
	return " in namespace " + namespace
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
