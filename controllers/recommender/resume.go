package recommender

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// resume restores what the checkpoint of a container holds besides its histograms. What cannot be
// used is logged, and the histograms count alone.
func (s *State) resume(w *Workload, c *vpav1.VerticalPodAutoscalerCheckpoint, now time.Time) {
	container, window := c.Spec.ContainerName, facts.DefaultWindow()
	if w.Chosen.Plan != nil {
		s.contained(w, "reading its memory windows", func() {
			e := s.effective(w, container)
			window, _ = facts.WindowFor(e.plan, container, e.record, nil) // Govern reports what fails
		})
	}
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
}

const resumeIgnored = "field of a checkpoint ignored; its histograms count, and open memory windows begin anew"

// Continue gives pods the state that checkpoints hold of them. Call it once pods are known.
func (s *State) Continue(now time.Time) { s.cluster.Continue(now) }

// decodeCheckpoint reads a checkpoint. faulty is why status.resume is left out.
func decodeCheckpoint(object *unstructured.Unstructured) (c *vpav1.VerticalPodAutoscalerCheckpoint, faulty, err error) {
	resume, found, _ := unstructured.NestedFieldNoCopy(object.Object, "status", "resume")
	unstructured.RemoveNestedField(object.Object, "status", "resume")
	c = &vpav1.VerticalPodAutoscalerCheckpoint{}
	if err := recode(object.Object, c); err != nil || !found || resume == nil {
		return c, nil, err
	}
	r := &vpav1.CheckpointResume{}
	if err := recode(resume, r); err != nil {
		return c, fmt.Errorf("status.resume: %w", err), nil
	}
	c.Status.Resume = r
	return c, nil, nil
}

// recode reads a decoded JSON value as a Go type.
func recode(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("decoding it: %w", err)
	}
	return nil
}
