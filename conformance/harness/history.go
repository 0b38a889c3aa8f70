package harness

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Remembered is the checkpoint of a container with n samples, the last one an hour old.
func Remembered(samples int, every time.Duration, milli, bytes func(i int) int64) vpav1.VerticalPodAutoscalerCheckpointStatus {
	now := time.Now().Add(-time.Hour).Truncate(time.Second)
	c := model.NewCluster(model.UnusedGrace)
	id := model.PodID{Name: "p"}
	w := c.SetWorkload(model.WorkloadID{Name: "w"}, facts.Order{}, "w", labels.Everything())
	c.SetPod(id, model.PodSpec{Containers: []string{"app"}}, now)
	for i := range samples {
		at := now.Add(time.Duration(i+1-samples) * every)
		c.AddSample(model.Sample{Pod: id, Container: "app", Resource: model.CPU, Amount: milli(i), At: at}, now)
		c.AddSample(model.Sample{Pod: id, Container: "app", Resource: model.Memory, Amount: bytes(i), At: at}, now)
	}
	c.KeepPods(nil) // its last window is over with the pod
	status, _, _ := w.Checkpoint("app", now)
	status.Resume = nil // as upstream writes it
	return status
}

// Days of usage that rises and falls, a sample a minute.
func Days(n int, milli, bytes int64) vpav1.VerticalPodAutoscalerCheckpointStatus {
	return Remembered(n*24*60, time.Minute, func(i int) int64 { return milli + int64(i%97)*7 }, func(i int) int64 { return bytes + int64(i%1440)<<17 })
}

// Checkpoint is that of a container of a VPA.
func Checkpoint(ns, vpa, container string, status vpav1.VerticalPodAutoscalerCheckpointStatus) *vpav1.VerticalPodAutoscalerCheckpoint {
	return &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: vpa + "-" + container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: vpa, ContainerName: container},
		Status:     status,
	}
}
