package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// review is what an API server asks about a new pod.
type review struct {
	pod  []byte // as JSON
	body []byte // the AdmissionReview
}

//go:embed review.yaml
var reviewFile string

var reviewTemplate = template.Must(template.New("review.yaml").Parse(reviewFile))

// reviews writes one review for each Deployment, of a pod that its ReplicaSet would create.
func (l *lab) reviews(ctx context.Context) ([]review, error) {
	owners, err := l.replicaSets(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]review, l.vpas)
	for i := range out {
		if out[i], err = reviewOf(owners[key(i).Name]); err != nil {
			return nil, fmt.Errorf("writing the review of a pod of %s: %w", key(i), err)
		}
	}
	return out, nil
}

// reviewOf has its fields in the order in which API servers write them.
func reviewOf(owner *appsv1.ReplicaSet) (r review, err error) {
	var text bytes.Buffer
	err = reviewTemplate.Execute(&text, map[string]any{
		"Namespace": owner.Namespace, "ReplicaSet": owner.Name, "OwnerUID": owner.UID, "Hash": owner.Labels["pod-template-hash"],
		"Deployment": metav1.GetControllerOf(owner).Name, "UID": uuid.NewUUID(),
	})
	if err != nil {
		return r, err
	}
	var asked admissionv1.AdmissionReview
	if err := yaml.UnmarshalStrict(text.Bytes(), &asked); err != nil {
		return r, err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(asked.Request.Object.Raw, &pod); err != nil {
		return r, err
	}
	if r.pod, err = json.Marshal(&pod); err != nil {
		return r, err
	}
	asked.Request.Object.Raw = r.pod
	r.body, err = json.Marshal(&asked)
	return r, err
}

func meanSize(reviews []review) (mean int) {
	for _, r := range reviews {
		mean += len(r.body)
	}
	return mean / max(len(reviews), 1)
}

// replicaSets waits until each Deployment has one, and returns them by the name of the Deployment.
func (l *lab) replicaSets(ctx context.Context) (map[string]*appsv1.ReplicaSet, error) {
	out := map[string]*appsv1.ReplicaSet{}
	err := wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.ReplicaSetList
		if err := l.List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil {
				out[owner.Name] = &list.Items[i]
			}
		}
		return len(out) >= l.vpas, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a ReplicaSet of each Deployment: %w", err)
	}
	return out, nil
}

func applyPatch(pod, patch []byte) (*corev1.Pod, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	text, err := operations.Apply(pod)
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	var out corev1.Pod
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading the patched pod: %w", err)
	}
	return &out, nil
}

// alike returns an error unless two programs gave a pod the same resources and annotations. The order in
// annotations is not compared: upstream's is random.
func alike(a, b *corev1.Pod) (err error) {
	for c := range a.Spec.Containers {
		if x, y := a.Spec.Containers[c].Resources, b.Spec.Containers[c].Resources; !equality.Semantic.DeepEqual(x, y) {
			err = errors.Join(err, fmt.Errorf("container %s has %v, and %v", a.Spec.Containers[c].Name, x, y))
		}
	}
	if x, y := notes(a.Annotations), notes(b.Annotations); !slices.Equal(x, y) {
		err = errors.Join(err, fmt.Errorf("it has annotations %q, and %q", x, y))
	}
	return err
}

// notes are what annotations say, in small sorted parts. The first chunk of an annotation begins
// with a sentence. What bounds an amount is left out: where several do, celvpa names the one that holds.
func notes(annotations map[string]string) (out []string) {
	for key, text := range annotations {
		for chunk := range strings.SplitSeq(text, "; ") {
			about, items, _ := strings.Cut(chunk, ": ")
			if next, rest, ok := strings.Cut(items, ": "); ok {
				about, items = about+": "+next, rest
			}
			for item := range strings.SplitSeq(items, ", ") {
				if !strings.Contains(item, " capped to ") {
					out = append(out, key+" "+about+": "+item)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
