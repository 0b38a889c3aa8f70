package recommender

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// resume restores what the checkpoint of a container holds besides its histograms. What cannot be
// used is logged, and the histograms count alone.
func (s *State) resume(w *Workload, c *vpav1.VerticalPodAutoscalerCheckpoint, now time.Time) {
	container := c.Spec.ContainerName
	window := s.windowOf(w, container)
	log := s.log(w).WithValues("checkpoint", c.Name)
	if was := w.model.LimitReference(container, model.LatestWindow(window, now)); !was.IsZero() {
		log.Info("status.memoryHistogram.referenceTimestamp of a checkpoint is later than any memory window; its memory counts as that of the latest one",
			"container", container, "referenceTimestamp", was.UTC().Format(time.RFC3339))
	}
	until, err := w.model.Resume(container, &c.Status, window, now)
	if err != nil {
		log.Error(err, resumeIgnored, "container", container)
		return
	}
	w.stores(container, stored{revision: w.stored[container].revision, until: until})
	if err := w.resumePast(container, &c.Status, now); err != nil {
		log.Error(err, "field of a checkpoint ignored; what was recommended in the last day is not known", "container", container)
	}
}

// windowOf is the window of a container.
func (s *State) windowOf(w *Workload, container string) facts.Window {
	window := s.cluster.Window()
	if w.Chosen.Plan != nil {
		s.contained(w, "reading its memory windows", func() {
			e := s.effective(w, container)
			window, _ = facts.WindowFor(e.plan, container, e.record, nil) // Govern reports what fails
		})
	}
	return window
}

const resumeIgnored = "field of a checkpoint ignored; its histograms count, and open memory windows begin anew"

// Continue gives pods the state that checkpoints hold of them. Call it once pods are known.
func (s *State) Continue(now time.Time) { s.cluster.Continue(now) }

// decodeCheckpoint reads a checkpoint. faulty is why status.resume is left out.
func decodeCheckpoint(listed listedCheckpoint) (c *vpav1.VerticalPodAutoscalerCheckpoint, faulty, err error) {
	if listed.text == nil {
		return nil, nil, fmt.Errorf("it takes %d bytes as JSON, and a valid checkpoint at most %d", listed.size, maxCheckpoint)
	}
	var read struct {
		Status struct {
			vpav1.VerticalPodAutoscalerCheckpointStatus
			Resume json.RawMessage `json:"resume"` // instead of the field of the status
		} `json:"status"`
	}
	if err := json.Unmarshal(listed.text, &read); err != nil {
		return nil, nil, fmt.Errorf("decoding it: %w", err)
	}
	c = &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: listed.namespace, Name: listed.name},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: listed.vpa, ContainerName: listed.container},
		Status:     read.Status.VerticalPodAutoscalerCheckpointStatus,
	}
	if err := json.Unmarshal(read.Status.Resume, &c.Status.Resume); len(read.Status.Resume) > 0 && err != nil {
		c.Status.Resume = nil
		return c, fmt.Errorf("status.resume: decoding it: %w", err), nil
	}
	return c, nil, nil
}
