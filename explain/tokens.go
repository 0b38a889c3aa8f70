package explain

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
	{"rules-failed", Misconfigured, "a rule failed, and its values are as before"},
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
