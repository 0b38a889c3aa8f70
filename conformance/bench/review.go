package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// review is an AdmissionReview of a new pod, as an API server sends it.
type review []byte

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
func reviewOf(owner *appsv1.ReplicaSet) (review, error) {
	var text bytes.Buffer
	err := reviewTemplate.Execute(&text, map[string]any{
		"Namespace": owner.Namespace, "ReplicaSet": owner.Name, "OwnerUID": owner.UID, "Hash": owner.Labels["pod-template-hash"],
		"Deployment": metav1.GetControllerOf(owner).Name, "UID": uuid.NewUUID(),
	})
	if err != nil {
		return nil, err
	}
	var asked admissionv1.AdmissionReview
	if err := yaml.UnmarshalStrict(text.Bytes(), &asked); err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(asked.Request.Object.Raw, &pod); err != nil {
		return nil, err
	}
	if asked.Request.Object.Raw, err = json.Marshal(&pod); err != nil {
		return nil, err
	}
	return json.Marshal(&asked)
}

func meanSize(reviews []review) (mean int) {
	for _, r := range reviews {
		mean += len(r)
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
