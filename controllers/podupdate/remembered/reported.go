package remembered

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/notice"
)

// Reported remembers the faults of each VPA that had an event, so that each has one until it
// changes or ends, not one in every cycle. Faults are texts by what they are about.
type Reported struct {
	Memory[types.UID, map[string]string]
}

// maxMatters are remembered of a VPA: owners come and go, as the Jobs of a CronJob do. Beyond
// that, all are reported again.
const maxMatters = 64

// News reports whether a fault differs, but for numbers in it, from the last one about the same,
// and remembers it.
func (r *Reported) News(vpa types.UID, about, fault string) (news bool) {
	r.change(vpa, func(faults map[string]string, _ bool) (map[string]string, bool) {
		last, before := faults[about]
		if before && notice.SameButNumbers(last, fault) {
			return faults, true
		}
		if news = true; faults == nil || len(faults) >= maxMatters {
			faults = map[string]string{}
		}
		faults[about] = fault
		return faults, true
	})
	return news
}

// Over forgets a fault that has ended: if it comes back, it is reported again.
func (r *Reported) Over(vpa types.UID, about string) {
	r.change(vpa, func(faults map[string]string, _ bool) (map[string]string, bool) {
		delete(faults, about)
		return faults, len(faults) > 0
	})
}
