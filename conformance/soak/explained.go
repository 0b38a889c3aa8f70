package main

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/celvpa/celvpa/conformance/harness"
)

// explanation says which errors in a log are no more than what a fault leads to.
type explanation struct {
	message string // regular expression of the whole message
	err     string // of a part of the error; empty = any
	by      []kind
}

func (e explanation) matches(message, err string) bool {
	return regexp.MustCompile(`^(`+e.message+`)$`).MatchString(message) && regexp.MustCompile(e.err).MatchString(err)
}

// messageExit is what the soak itself says of a component that ends by itself.
const messageExit = "the component ended by itself"

// retries is how long after a fault its errors may still come: reflectors wait for a minute at most.
const retries = time.Minute

// What API servers, and those who are in between, say of a request that a fault meets.
const (
	noAnswer = `(read|dial|write) tcp|connection refused|connection reset|ClientConn|context (deadline exceeded|canceled)|[Tt]imeout|timed out|EOF|server is currently unable|` +
		`refused by a fault|reported a conflict|unable to return a response|INTERNAL_ERROR|no route to host|too many requests|the API server (restarts|shuts down)|apiserver is shutting down|etcdserver`
	// While an API server starts, it does not know all roles yet.
	noRoles = `is forbidden: User "system:serviceaccount:celvpa-system`
	unknown = `does not exist or cannot be scaled|has no scale subresource|not found`
)

// explanations are all errors that the soak accepts, each with the faults that explain it. All others fail it.
var explanations = []explanation{
	// client-go cannot list or watch, and tries again.
	{message: `Failed to watch|Unexpected error when reading response body`, by: append([]kind{watchesCut, watchesGone, watchesReplay}, unavailable...)},
	// Nor can it renew or take the lead. A lead that was not renewed in time is given up, and the process ends, as it must.
	{message: `[Ee]rror retrieving (lease|resource) lock|[Ff]ailed to (update|renew|release) lease.*|[Ee]rror initially creating lease lock`, by: unavailable},
	{message: `.*`, err: `leader election lost`, by: unavailable},
	// It cannot start either while the API server is away, or with rules that cannot be used.
	{message: messageExit, by: append([]kind{rulesBroken}, unavailable...)},
	// celvpa's requests get no answer.
	{message: `cannot (renew|register|find out|remove|write|list|end|look up|delete|warn) .*|(usage|history) incomplete.*|` +
		`startup boost continues; retrying|pods of this VPA skipped; .*`,
		err: noAnswer, by: unavailable},
	{message: `.*`, err: noRoles, by: []kind{serverRestart}},
	{message: `usage incomplete`, err: noAnswer, by: []kind{metricsGone}},
	// The webhook is asked about a pod before the watches deliver its ReplicaSet; the pod is admitted as it is.
	{message: `cannot determine whether a VPA controls the pod; it is admitted unchanged`, err: unknown, by: keepNews},
	// What is wrong with the rules on purpose.
	{message: `RuleOverlay rejected`, by: []kind{overlayInvalid}},
	{message: `the changed rules cannot be used; the last good ones stay in force`, err: `marginFraction`, by: []kind{rulesBroken}},
}

// finding is an error that nothing explains, with how often it came.
type finding struct {
	component, message, err string
	count                   int
	first                   string // time of day, or the log
}

// String is the finding in the report.
func (f finding) String() string {
	return fmt.Sprintf("%s, %d times since %s: %s: %s", f.component, f.count, f.first, f.message, f.err)
}

// logged is an error that a component logged.
type logged struct {
	at                       time.Time
	component, message, text string
}

// errorLog has the errors that components log, and sorts them when it is asked: some faults are known only once they are over.
type errorLog struct {
	faults *faultLog

	mu   sync.Mutex
	list []logged
}

func newErrorLog(faults *faultLog) *errorLog { return &errorLog{faults: faults} }

// heard takes note of a line of a component's log.
func (e *errorLog) heard(c *component, line harness.LogLine) {
	if level := line.Text("level"); level != "error" && level != "dpanic" && level != "panic" && level != "fatal" {
		return
	}
	if c.isEnding() && line.Text("msg") == "error received after stop sequence was engaged" { // of the lead that it gives up
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, logged{time.Now(), c.name, line.Text("msg"), line.Text("error")})
}

// result are the errors that nothing explains, and how many were explained.
func (e *errorLog) result() (unexplained []finding, explained int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, item := range e.list {
		if e.explain(item) {
			explained++
		} else {
			unexplained = add(unexplained, item)
		}
	}
	return unexplained, explained
}

func (e *errorLog) explain(line logged) bool {
	return slices.ContainsFunc(explanations, func(x explanation) bool {
		return e.faults.during(x.by, line.component, line.at, retries) && x.matches(line.message, line.text)
	})
}

// changing is what differs between two errors of one kind: names, numbers, times.
var changing = regexp.MustCompile(`"[^"]*"|[a-z0-9-]*\d[a-z0-9.:-]*`)

// add counts an error with those that differ in names only.
func add(list []finding, line logged) []finding {
	same := func(f finding) bool {
		return f.component == line.component && f.message == line.message &&
			changing.ReplaceAllString(f.err, "…") == changing.ReplaceAllString(line.text, "…")
	}
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i].count++
		return list
	}
	return append(list, finding{line.component, line.message, line.text, 1, line.at.Format(time.TimeOnly)})
}
