package ask

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/answers"
)

// merger makes one result of all replies.
type merger struct {
	result  *Result
	failed  bool     // some Service leads to nobody who answers
	waiting []string // components of which a replica answers that does not lead
	rules   []ruled  // of the processes that decide
}

// ruled is a process with the digest of its rules.
type ruled struct{ process, digest string }

func (m *merger) unknown(format string, args ...any) {
	m.result.Unknown = append(m.result.Unknown, fmt.Sprintf(format, args...))
	m.failed = true
}

func (m *merger) differ(format string, args ...any) {
	m.result.Differences = append(m.result.Differences, fmt.Sprintf(format, args...))
}

// service takes the replies of the processes behind a Service. A replica that stands by need not answer if another one leads.
func (m *merger) service(name string, replies []reply) {
	leads, all := false, false
	for _, r := range replies {
		leads = leads || r.answer.Recommender != nil && r.answer.Recommender.Leads || r.answer.Updater != nil && r.answer.Updater.Leads
		all = all || r.answer.Admission != nil
	}
	problems := map[string][]string{}
	var order []string
	for _, r := range replies {
		if r.problem == "" {
			m.answer(r.answer)
			continue
		}
		if leads && !all {
			continue
		}
		if !slices.Contains(order, r.problem) {
			order = append(order, r.problem)
		}
		if r.from != "" {
			problems[r.problem] = append(problems[r.problem], r.from)
		}
	}
	for _, problem := range order {
		from := strings.Join(append([]string{"Service " + name}, problems[problem]...), ", ")
		m.unknown("%s: %s", from, problem)
	}
}

func (m *merger) answer(a answers.Answer) {
	for _, u := range a.Unknown {
		m.unknown("%s: %s", instance(a), u)
	}
	if r := a.Recommender; r != nil {
		switch had := m.result.Recommender; {
		case !r.Leads:
			m.waiting = append(m.waiting, r.Component)
		case had == nil || r.Known && !had.Known:
			m.result.Recommender = r
		case r.Known:
			m.differ("two recommenders serve this VPA, and overwrite each other: %s and %s: stop one of them, or give it another --recommender-name", instanceOf(had.Process), instanceOf(r.Process))
		}
	}
	if u := a.Updater; u != nil {
		switch had := m.result.Updater; {
		case !u.Leads:
			m.waiting = append(m.waiting, u.Component)
		case had == nil:
			m.result.Updater = u
		default:
			m.differ("two updaters lead: %s and %s: stop one of them, or give both the same --leader-elect-resource-name and namespace", instanceOf(had.Process), instanceOf(u.Process))
		}
	}
	if a.Admission != nil {
		m.result.Admission = append(m.result.Admission, *a.Admission)
	}
}

// instance names the process of an answer.
func instance(a answers.Answer) string {
	switch {
	case a.Recommender != nil:
		return instanceOf(a.Recommender.Process)
	case a.Updater != nil:
		return instanceOf(a.Updater.Process)
	case a.Admission != nil:
		return instanceOf(a.Admission.Process)
	}
	return "a process"
}

func instanceOf(p answers.Process) string { return p.Component + " " + p.Instance }

// finish says which components nobody speaks for, and which run different rules.
func (m *merger) finish(installed bool) {
	r := m.result
	slices.SortStableFunc(r.Admission, func(a, b answers.Admission) int { return strings.Compare(a.Instance, b.Instance) })
	missing := func(component string) {
		switch {
		case slices.Contains(m.waiting, component):
			m.unknown("%s: none of its replicas leads; ask again once one does", component)
		case installed && !m.failed:
			r.Unknown = append(r.Unknown, fmt.Sprintf("%s: no Service with label %s leads to one: install it with explain.enabled=true, or run it with --explain-address behind such a Service", component, label))
		}
	}
	if r.Recommender != nil {
		m.ruled(r.Recommender.Process)
	} else {
		missing("recommender")
	}
	if r.Updater != nil {
		m.ruled(r.Updater.Process)
	} else {
		missing("updater")
	}
	for _, a := range r.Admission {
		m.ruled(a.Process)
	}
	if len(r.Admission) == 0 {
		missing("admission-controller")
	}
	if slices.ContainsFunc(m.rules, func(one ruled) bool { return one.digest != m.rules[0].digest }) {
		var each []string
		for _, rule := range m.rules {
			each = append(each, rule.digest+" in "+rule.process)
		}
		r.Rules = strings.Join(each, ", ")
	}
}

func (m *merger) ruled(p answers.Process) {
	if p.Rules.Digest != "" {
		m.rules = append(m.rules, ruled{instanceOf(p), p.Rules.Digest})
	}
}
