package explain

import (
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/podupdate"
)

// addHistory gives each amount the times at which its target, or what a pod requests, changed by the
// decisions of the processes, up to now. Without any there is no history.
func (r *Report) addHistory() {
	for i := range r.Resources {
		a := &r.Resources[i]
		var at Point
		for _, d := range r.Decisions {
			before := at
			for _, text := range d.Changes {
				c, ok := answers.ParseChange(text)
				if !ok || c.Container != a.Container {
					continue
				}
				switch c.Field {
				case "target." + a.Resource:
					at.Target = c.To
				case "requests." + a.Resource:
					if podupdate.Acts(d.Action) {
						at.Request = c.To
					}
				}
			}
			if at.Target != before.Target || at.Request != before.Request {
				at.Time = d.Time
				a.History = append(a.History, at)
			}
		}
		if len(a.History) > 0 {
			a.History = append(a.History, r.pointNow(a, r.Now))
		}
	}
}

// pointNow is what is known of an amount now.
func (r *Report) pointNow(a *Amounts, now time.Time) Point {
	out := Point{Time: now, Usage: a.LastUsage, Target: a.Target, LowerBound: a.LowerBound, UpperBound: a.UpperBound}
	for i := range r.Pods {
		for _, c := range r.Pods[i].Containers {
			if c.Container == a.Container && c.Field == "requests."+a.Resource && out.Request == "" {
				out.Request = c.Now
			}
		}
	}
	return out
}
