package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpatarget "github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// exampleStatus is what the recommender says of a workload with half a day of usage: a recommendation
// for each container, and the conditions of a young workload.
func exampleStatus(now time.Time) (*vpav1.VerticalPodAutoscalerStatus, error) {
	book, err := policy.Load(policy.Options{})
	if err != nil {
		return nil, err
	}
	state := recommender.NewState(model.DefaultSettings(), logr.Discard(), nil)
	state.UseRules(book)
	v := policyVPA(0, vpav1.UpdateModeInPlaceOrRecreate)
	w := state.SetVPA(v, vpatarget.Answer{Selector: labels.Everything()})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for c := range containersWritten {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: containerName(c)})
	}
	state.SetPod(pod, false, now)
	state.Govern()
	id := model.PodID{Namespace: pod.Namespace, Name: pod.Name}
	for at := now.Add(-12 * time.Hour); at.Before(now); at = at.Add(time.Minute) {
		var samples []model.Sample
		for c := range containersWritten {
			use := used(pod.Name, c, at.Unix())
			samples = append(samples,
				model.Sample{Pod: id, Container: containerName(c), Resource: model.CPU, Amount: use.Cpu().MilliValue(), At: at},
				model.Sample{Pod: id, Container: containerName(c), Resource: model.Memory, Amount: use.Memory().Value(), At: at})
		}
		state.Add(samples, at)
	}
	status := state.Status(w, now)
	if status.Recommendation == nil || len(status.Recommendation.ContainerRecommendations) != containersWritten {
		return nil, errors.New("the shipped rules recommend nothing for the example; conditions: " + fmt.Sprint(status.Conditions))
	}
	return status, nil
}

// drifted is a status with other bounds for each object and round.
func drifted(status *vpav1.VerticalPodAutoscalerStatus, i, round int) *vpav1.VerticalPodAutoscalerStatus {
	out := status.DeepCopy()
	for c := range out.Recommendation.ContainerRecommendations {
		bound := out.Recommendation.ContainerRecommendations[c].UpperBound
		milli, bytes := bound.Cpu().MilliValue(), bound.Memory().Value()
		bound[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli+int64(i%100), resource.DecimalSI)
		bound[corev1.ResourceMemory] = *resource.NewQuantity(bytes+int64(round)<<10, resource.BinarySI)
	}
	return out
}
