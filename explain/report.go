package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
)

// Report is the explanation of one VPA. Scripts depend on its JSON names.
type Report struct {
	Subject   string    `json:"subject"` // what was asked about: kind namespace/name
	VPA       string    `json:"vpa"`     // namespace/name; empty = none controls the subject
	Target    string    `json:"target,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	Now       time.Time `json:"now"`
	Verdict   Verdict   `json:"verdict"`
	Findings  []Finding `json:"findings"` // what blocks first, then what waits, then what is worth knowing
	Resources []Amounts `json:"resources,omitempty"`
	Pods      []Pod     `json:"pods,omitempty"` // in the order in which they are updated
	// Decisions are the last ones that the processes made about the VPA, oldest first.
	Decisions []answers.Decision `json:"decisions,omitempty"`
	Events    []Event            `json:"events,omitempty"`    // the newest of the VPA, oldest of them first
	EventsCut int                `json:"eventsCut,omitempty"` // older events that are left out
	Processes []answers.Process  `json:"processes"`           // that were asked
	Rules     answers.Rules      `json:"rules"`
	Unknown   []string           `json:"unknown,omitempty"` // what could not be found out, and the way out
}

// Verdict is the report in a line.
type Verdict struct {
	Token string `json:"token"` // of the finding or the rule that decides
	// Action is what the updater does next with the first pod in its order: Evict, InPlace, Wait or
	// Skip; empty without pods or recommendation.
	Action string `json:"action,omitempty"`
	Text   string `json:"text"`
}

// Finding is one thing that blocks the VPA, that it waits for, or that explains a number.
type Finding struct {
	Token  string `json:"token"`            // stable: one of Tokens, or the path of a rule
	Class  string `json:"class"`            // Misconfigured, Waiting, Settled or Info
	About  string `json:"about,omitempty"`  // pod, container or object; empty = the VPA
	Text   string `json:"text"`             // with the numbers
	WayOut string `json:"wayOut,omitempty"` // what to do, or what has to happen
}

// Classes of findings, in order of precedence. The first three are also classes of decisions.
const (
	Misconfigured = "Misconfigured" // somebody has to change something
	Waiting       = "Waiting"       // time or the cluster resolves it
	Settled       = "Settled"       // nothing to do
	Info          = "Info"          // explains a number
)

var precedence = []string{Misconfigured, Waiting, Settled, Info}

// sorted orders findings by class, and otherwise as they were found.
func sorted(list []Finding) []Finding {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Compare(slices.Index(precedence, a.Class), slices.Index(precedence, b.Class))
	})
	return list
}

// NextStep is the way out as people read it: what to do, or of a rule's decision what it lasts until.
func (f Finding) NextStep() string {
	if strings.Contains(f.Token, "/") {
		return "until " + lower(f.WayOut)
	}
	return "→ " + f.WayOut
}

// Amounts is one resource of one container: its usage, what is recommended, and the way between.
type Amounts struct {
	Container  string               `json:"container,omitempty"` // empty = the pod as a whole
	Resource   string               `json:"resource"`
	Usage      []answers.Percentile `json:"usage,omitempty"` // percentiles, before any rule
	LastUsage  string               `json:"lastUsage,omitempty"`
	Target     string               `json:"target,omitempty"`
	LowerBound string               `json:"lowerBound,omitempty"`
	UpperBound string               `json:"upperBound,omitempty"`
	Uncapped   string               `json:"uncappedTarget,omitempty"`
	Way        []engine.Step        `json:"way,omitempty"`    // each rule that set the target, in order
	Bounds     []engine.Step        `json:"bounds,omitempty"` // each rule that set the lower or the upper bound, in order
	Falls      []answers.Fall       `json:"falls,omitempty"`  // of the target if usage stays as it is
	// History is how the target and what pods request changed, by the decisions that the processes
	// keep, oldest first; the last one is now.
	History []Point `json:"history,omitempty"`
}

// Point is what one container had at a time, as quantities; empty = not known.
type Point struct {
	Time       time.Time `json:"time"`
	Usage      string    `json:"usage,omitempty"`
	Request    string    `json:"request,omitempty"`
	Target     string    `json:"target,omitempty"`
	LowerBound string    `json:"lowerBound,omitempty"`
	UpperBound string    `json:"upperBound,omitempty"`
}

// Pod is a running pod: what it has, what admission would give a new one, and what happens next.
type Pod struct {
	answers.RunningPod
	Node       string         `json:"node,omitempty"`
	Phase      string         `json:"phase,omitempty"`
	QOS        string         `json:"qosClass,omitempty"`
	Resize     string         `json:"resize,omitempty"` // what the node says of a resize that is not over
	Containers []PodContainer `json:"containers,omitempty"`
}

// PodContainer is what one container of a pod has, and what a new pod would get.
type PodContainer struct {
	Container string `json:"container"`
	Field     string `json:"field"`         // e.g. requests.cpu
	Now       string `json:"now,omitempty"` // empty = unset
	New       string `json:"new,omitempty"` // by admission; empty = unset
}

// Event is a Kubernetes event.
type Event struct {
	Time    time.Time `json:"time"`
	Object  string    `json:"object"` // kind/name
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count,omitempty"`
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// Token is a stable name of a finding that is not a rule's decision.
type Token struct {
	Name  string
	Class string
	About string // what it says, for the documentation
}

// Tokens lists all of them, in the order in which findings of one class stand in a report. Scripts
// depend on the names.
var Tokens = []Token{
	{"vpa-unreadable", Misconfigured, "the VPA cannot be read"},
	{"no-vpa", Misconfigured, "no VPA controls the pod or workload"},
	{"pods-not-taken", Misconfigured, "the updater leaves the pods alone, for instance because another VPA has the same target and comes first"},
	{"other-recommender", Misconfigured, "the VPA names a recommender that no process runs"},
	{"pipeline-gone", Misconfigured, "the VPA pins a pipeline that the rules do not have"},
	{"processes-differ", Misconfigured, "two replicas both act as leader"},
	{"rules-failed", Misconfigured, "a rule failed, and its values stayed as they were"},
	{"target-unusable", Misconfigured, "the target does not exist, or cannot be used"},
	{"no-pods", Misconfigured, "the target selects no pods"},
	{"admission-not-registered", Misconfigured, "no webhook is registered, so new pods keep their own resources"},
	{"admission-skips-namespace", Misconfigured, "the webhook is registered, but not for pods of this namespace"},
	{"admission-untrusted", Misconfigured, "the registered CA does not fit the webhook's certificate"},
	{"admission-unreachable", Misconfigured, "the API server does not reach the webhook"},
	{"admission-lease-expired", Misconfigured, "the admission controller has not renewed its status lease"},
	{"updates-have-no-effect", Misconfigured, "replacement pods keep their old resources, so evictions are paused"},
	{"no-samples", Misconfigured, "no usage has arrived, as when metrics-server does not work"},
	{"samples-stale", Misconfigured, "the last usage is old"},
	{"budget-blocks", Misconfigured, "a PodDisruptionBudget allows no eviction, whatever the pods do"},
	{"hpa-same-resource", Misconfigured, "a HorizontalPodAutoscaler scales by utilization of a resource that the VPA changes"},
	{"quota-exceeded", Misconfigured, "what is recommended does not fit into a ResourceQuota"},
	{"budget-spent", Waiting, "a PodDisruptionBudget allows no eviction now"},
	{"too-few-samples", Waiting, "usage has started to arrive, but the rules know too little of a resource that they would recommend"},
	{"recommendation-pending", Waiting, "the recommender has not written what it computes now"},
	{"target-falls-slowly", Waiting, "usage is lower than the target, which falls as old samples lose weight"},
	{"target-capped", Settled, "pods get more or less than the target, because something bounds it, such as a LimitRange"},
	{"little-history", Info, "bounds are wide because there is little history"},
	{"oom-counted", Info, "a container ran out of memory, which raises its target"},
	{"oom-ignored", Info, "a container ran out of memory, which does not count"},
	{"limit-above-max-allowed", Info, "maxAllowed bounds requests, and the limit that follows from one is above it"},
	{"last-admission", Info, "what the admission controller did with the last new pod"},
	{"rules-differ", Info, "two processes run different rules, or the same with other policy flags"},
	{"overlay-audited", Info, "an overlay that is not enforced would change something"},
}

// classOf is the class of a token. A test sees to it that all that are used are listed.
func classOf(token string) string {
	for _, t := range Tokens {
		if t.Name == token {
			return t.Class
		}
	}
	return Info
}
