package webhook

import (
	"hash/crc32"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// Actions of decisions about new pods.
const (
	actionAdmit  = "Admit"
	actionRefuse = "Refuse"
)

// keep records what was answered to the review of a new pod that a VPA controls. The updates of the pod are the reason of an
// admission. Dry runs leave no trace.
func (h *Handler) keep(req *admission.Request, pod string, v *vpav1.VerticalPodAutoscaler, plan *engine.Plan, answer *podreview.Answer) {
	if !h.Decisions.Enabled() || req.DryRun != nil && *req.DryRun {
		return
	}
	d := answers.Decision{Time: h.Clock.Now(), Pod: pod, Action: actionAdmit, Reason: updates(answer), Inputs: inputs(req.Object.Raw, v), Rules: plan.Digest()}
	if !answer.Allowed() {
		d.Action, d.Rule, d.Reason = actionRefuse, answer.Causes[0].Rule, strings.Join(texts(answer.Causes), "; ")
	}
	h.Decisions.Add(types.NamespacedName{Namespace: v.Namespace, Name: v.Name}, d)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// inputs identifies a pod as submitted, and the state of its VPA. A checksum is enough, and takes no time.
func inputs(pod []byte, v *vpav1.VerticalPodAutoscaler) string {
	sum := crc32.Checksum(pod, castagnoli)
	return strconv.FormatUint(uint64(crc32.Update(sum, castagnoli, []byte(v.ResourceVersion))), 16)
}

// admitted are the reviews among decisions.
func admitted(list []answers.Decision) (out []answers.Admitted) {
	for _, d := range list {
		one := answers.Admitted{Time: d.Time, Pod: d.Pod, Allowed: d.Action == actionAdmit}
		if one.Allowed {
			one.Updates = d.Reason
		} else {
			one.Message = d.Reason
		}
		out = append(out, one)
	}
	return out
}
