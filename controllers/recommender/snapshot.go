package recommender

import (
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// snapshot is what the recommendation for a VPA is made from, as it was at a time: later cycles do
// not change it.
type snapshot struct {
	vpa       *vpav1.VerticalPodAutoscaler
	chosen    compile.Selection
	problem   string // with its target
	frozen    string // why its recommendation stays as it is; empty = it does not
	view      model.View
	live      map[string][]model.Live
	ooms      map[string][]answers.OOM
	effective map[string]*effective
}

// snapshot copies what may change of a workload.
func (s *State) snapshot(w *Workload, now time.Time) *snapshot {
	out := &snapshot{vpa: w.VPA, chosen: w.Chosen, frozen: w.frozen(), ooms: map[string][]answers.OOM{}, effective: map[string]*effective{}}
	if w.Found.Problem != nil {
		out.problem = w.Found.Problem.Message
	}
	for container, log := range w.ooms {
		out.ooms[container] = log.last()
	}
	if w.Chosen.Plan == nil || w.selector() == nil {
		return out
	}
	out.view, out.live = s.view(w, now).Clone(), w.model.Live()
	for _, usage := range out.view.Containers {
		e := *s.effective(w, usage.Container) // the cycle may give it another policy that says the same
		out.effective[usage.Container] = &e
	}
	return out
}

// frozen says why the recommendation of a VPA stays as it is whatever its usage; empty = it does
// not.
func (w *Workload) frozen() string {
	switch {
	case w.panicked != "":
		return w.panicked
	case w.Chosen.Err != nil:
		return w.Chosen.Err.Error()
	case w.VPA.SpecUnreadable != "":
		return w.VPA.SpecUnreadable
	case w.Found.Problem != nil && w.Found.Unknown && hasRecommendation(w.VPA.Status.Recommendation):
		return w.Found.Problem.Message
	}
	return ""
}

// recommend is Recommend with traces.
func (x *snapshot) recommend() Result {
	return recommend(x.vpa, x.view, true, x.chosen.Plan, x.of)
}

func (x *snapshot) of(container string) *effective { return x.effective[container] }

// usage is that of a container; known is false without any.
func (x *snapshot) usage(container string) (u model.Usage, known bool) {
	i := slices.IndexFunc(x.view.Containers, func(u model.Usage) bool { return u.Container == container })
	if i < 0 {
		return u, false
	}
	return x.view.Containers[i], true
}
