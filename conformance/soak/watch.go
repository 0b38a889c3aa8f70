package main

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/conformance/soak/watcher"
)

// watch has the watcher judge what the audit log says that celvpa did.
type watch struct {
	judge  *watcher.Judge
	audit  *harness.AuditTail
	faults *faultLog

	mu                 sync.Mutex
	waiting            []watcher.Act // acts that are not judged yet
	evictions, resizes int
	refused            int
	forbidden          []string // requests that the shipped roles do not allow
	wrong              []string
}

func newWatch(history *watcher.History, faults *faultLog, audit *harness.AuditTail) *watch {
	known := func(at time.Time) time.Time { return faults.known(updater, at) }
	return &watch{judge: &watcher.Judge{History: history, Rules: watcher.Rules{MinReplicas: 2, Tolerance: 0.5}, Known: known},
		audit: audit, faults: faults}
}

// settled is how long after an act the watches have shown what it led to.
const settled = 5 * time.Second

// look judges what celvpa did until some seconds before now.
func (w *watch) look(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.audit.Read(w.note); err != nil {
		return err
	}
	slices.SortFunc(w.waiting, func(a, b watcher.Act) int { return a.At.Compare(b.At) }) // the log has them as they were answered
	until := now.Add(-settled)
	for len(w.waiting) > 0 && w.waiting[0].At.Before(until) {
		w.record(w.judge.Judge(w.waiting[0]))
		w.waiting = w.waiting[1:]
	}
	return nil
}

func (w *watch) record(wrong []string) {
	for _, text := range wrong {
		say("WRONG: %s", text)
	}
	w.wrong = append(w.wrong, wrong...)
}

// note takes note of a request of celvpa.
func (w *watch) note(event harness.AuditEvent) {
	const account = "system:serviceaccount:" + system + ":celvpa-"
	o := event.ObjectRef
	if o == nil || !strings.HasPrefix(event.User.Username, account) {
		return
	}
	if event.Forbidden() && !w.faults.during([]kind{serverRestart}, "", event.StageTimestamp, retries) {
		w.forbidden = append(w.forbidden, strings.TrimPrefix(event.User.Username, account)+": "+event.Verb+" "+event.RequestURI)
	}
	act := watcher.Act{At: event.RequestReceivedTimestamp, Resize: o.Subresource == "resize", Pod: types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}
	if event.ResponseStatus == nil { // nobody was notified that it was carried out; the watcher sees what it did
		return
	}
	if o.Resource != "pods" || o.Subresource != "eviction" && !act.Resize || strings.Contains(event.RequestURI, "dryRun=") {
		return
	}
	switch code := event.ResponseStatus.Code; {
	case code >= 300:
		w.refused++
		return
	case act.Resize:
		w.resizes++
	default:
		w.evictions++
	}
	w.waiting = append(w.waiting, act)
}
