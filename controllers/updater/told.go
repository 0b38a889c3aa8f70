package updater

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/notice"
)

// told remembers of which faults of a VPA there was an event, so that each is told once until it changes or is over, not in
// every cycle. Its zero value is ready for use, and it is safe for concurrent use.
type told struct {
	mu sync.Mutex
	of map[types.UID]map[string]string // by VPA and what it is about
}

// maxMatters of one VPA are remembered; owners come and go, as the Jobs of a CronJob do. Beyond that all are told again.
const maxMatters = 64

// news reports whether a text is another than that told last of the same matter, but for numbers in it, and remembers it.
func (t *told) news(vpa types.UID, about, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, before := t.of[vpa][about]
	if before && notice.SameButNumbers(last, text) {
		return false
	}
	if t.of == nil {
		t.of = map[types.UID]map[string]string{}
	}
	if t.of[vpa] == nil || len(t.of[vpa]) >= maxMatters {
		t.of[vpa] = map[string]string{}
	}
	t.of[vpa][about] = text
	return true
}

// over forgets a matter: should it come again, it is told again.
func (t *told) over(vpa types.UID, about string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of[vpa], about)
	if len(t.of[vpa]) == 0 {
		delete(t.of, vpa)
	}
}

// keep forgets VPAs that are gone.
func (t *told) keep(live map[types.UID]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for vpa := range t.of {
		if !live[vpa] {
			delete(t.of, vpa)
		}
	}
}
