package answers

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// What bounds the memory of a log, whatever the number and size of VPAs.
const (
	total      = 5000 // decisions about all VPAs together
	maxChanges = 50   // of one decision
	maxText    = 1024 // bytes of each of its texts
)

// DefaultKept is how many decisions about one VPA are kept.
const DefaultKept = 20

// LogOptions configure a Log.
type LogOptions struct {
	Component string // that decides
	Kept      int    // decisions about one VPA; 0 = none
	Logged    bool   // each is written to Log
	Log       logr.Logger
}

// Log keeps the last decisions of a component about each VerticalPodAutoscaler, so that "what happened at 03:12?" has an answer, and
// writes them to the log where that is asked for. It is safe for concurrent use; a nil one keeps
// nothing.
type Log struct {
	LogOptions
	prefix string // of ids; differs between processes

	mu    sync.Mutex
	made  uint64
	order *list.List // of *kept, oldest first
	vpas  map[types.NamespacedName][]*list.Element
}

// kept is a decision with the VPA that it is about.
type kept struct {
	vpa    types.NamespacedName
	number uint64 // for its ID, which few decisions are asked for
	Decision
}

// NewLog returns an empty log.
func NewLog(o LogOptions) *Log {
	prefix := make([]byte, 4)
	_, _ = rand.Read(prefix) // it never fails
	return &Log{LogOptions: o, prefix: hex.EncodeToString(prefix), order: list.New(), vpas: map[types.NamespacedName][]*list.Element{}}
}

// Enabled reports whether Add has an effect, for callers to whom a decision is work to describe.
func (l *Log) Enabled() bool { return l != nil && (l.Kept > 0 || l.Logged) }

// Add keeps a decision about a VPA, and writes it to the log where asked. It sets the decision's ID
// and Component, and cuts what is too long. The oldest decisions make room. A decision that is made
// again in each cycle belongs here only once: it would displace all others.
func (l *Log) Add(vpa types.NamespacedName, d Decision) {
	if !l.Enabled() {
		return
	}
	d.Component, d.Pod, d.Reason, d.Changes = l.Component, cut(d.Pod), cut(d.Reason), cutChanges(d.Changes)
	l.mu.Lock()
	l.made++
	number := l.made
	l.keep(kept{vpa, number, d})
	l.mu.Unlock()
	if l.Logged {
		l.LogOptions.Log.Info("decision", "id", l.id(number), "namespace", vpa.Namespace, "vpa", vpa.Name, "component", d.Component, "pod", d.Pod,
			"action", d.Action, "rule", d.Rule, "reason", d.Reason, "changes", d.Changes, "inputs", d.Inputs, "rules", d.Rules, "at", d.Time.UTC().Format(time.RFC3339))
	}
}

func (l *Log) id(number uint64) string { return fmt.Sprintf("%s%08x", l.prefix, number) }

// keep puts a decision into the place of the one that makes room, so that a full log allocates
// nothing.
func (l *Log) keep(k kept) {
	if l.Kept <= 0 {
		return
	}
	of := l.vpas[k.vpa]
	if len(of) > 0 {
		k.share(of[len(of)-1].Value.(*kept))
	}
	var e *list.Element
	switch {
	case len(of) >= l.Kept:
		e = of[0]
	case l.order.Len() >= total:
		e = l.order.Front()
	default:
		e = l.order.PushBack(&kept{})
	}
	if before := e.Value.(*kept); before.number > 0 { // the oldest about its VPA
		if rest := slices.Delete(l.vpas[before.vpa], 0, 1); len(rest) > 0 || before.vpa == k.vpa {
			l.vpas[before.vpa] = rest
		} else {
			delete(l.vpas, before.vpa)
		}
		l.order.MoveToBack(e)
	}
	*e.Value.(*kept) = k
	l.vpas[k.vpa] = append(l.vpas[k.vpa], e)
}

// share takes over texts of the decision before, which are usually the same and most of the memory:
// the pods of a workload get the same resources for the same reason.
func (k *kept) share(before *kept) {
	if k.Reason == before.Reason {
		k.Reason = before.Reason
	}
	if k.Pod == before.Pod {
		k.Pod = before.Pod
	}
	if k.Inputs == before.Inputs {
		k.Inputs = before.Inputs
	}
}

// Of lists the decisions about a VPA that are kept, newest last.
func (l *Log) Of(vpa types.NamespacedName) []Decision {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Decision
	for _, e := range l.vpas[vpa] {
		k := e.Value.(*kept)
		d := k.Decision
		d.ID = l.id(k.number)
		out = append(out, d)
	}
	return out
}

// Keep forgets the decisions about VPAs for which known returns false.
func (l *Log) Keep(known func(vpa types.NamespacedName) bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for vpa, all := range l.vpas {
		if known(vpa) {
			continue
		}
		for _, e := range all {
			l.order.Remove(e)
		}
		delete(l.vpas, vpa)
	}
}

// Digest identifies what a decision was made from: 12 hexadecimal digits that are the same for
// parts with the same JSON.
func Digest(parts ...any) string {
	hash := sha256.New()
	encoder := json.NewEncoder(hash) // it orders the keys of maps
	for _, part := range parts {
		if err := encoder.Encode(part); err != nil {
			fmt.Fprintf(hash, "%#v\n", part) // no JSON, such as NaN
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// cut shortens a text to maxText bytes.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// cutChanges shortens a list of changes, and says so.
func cutChanges(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, 0, min(len(list), maxChanges+1))
	for i, text := range list {
		if i == maxChanges {
			return append(out, fmt.Sprintf("and %d more", len(list)-i))
		}
		out = append(out, cut(text))
	}
	return out
}
