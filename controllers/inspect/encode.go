package inspect

import (
	"encoding/json"
	"fmt"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/engine"
)

// encode is an answer in JSON of at most so many bytes. In a larger one the steps of the rules are
// left out for as many containers and pods as necessary, the last ones first, and it says so.
func encode(a *answers.Answer, limit int) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil || len(text) <= limit {
		return text, err
	}
	all := traces(a)
	over, left := len(text)-limit+1024, 0 // for the sentence below
	for i := len(all) - 1; i >= 0 && over > 0; i-- {
		if len(*all[i]) == 0 {
			continue
		}
		steps, err := json.Marshal(*all[i])
		if err != nil {
			return nil, err
		}
		*all[i] = nil
		over -= len(steps)
		left++
	}
	a.Unknown = append(a.Unknown, fmt.Sprintf("%d lists of rule steps are left out: with them the answer has %d bytes, and %d is the most", left, len(text), limit))
	if text, err = json.Marshal(a); err == nil && len(text) > limit {
		return nil, fmt.Errorf("the answer has %d bytes even without the steps of the rules, and %d is the most", len(text), limit)
	}
	return text, err
}

// traces are the places of an answer that take most of it.
func traces(a *answers.Answer) (out []*[]engine.Step) {
	if r := a.Recommender; r != nil {
		out = append(out, &r.PodSteps)
		for i := range r.Containers {
			c := &r.Containers[i]
			out = append(out, &c.Steps)
			for j := range c.OOMs {
				out = append(out, &c.OOMs[j].Steps)
			}
		}
	}
	if u := a.Updater; u != nil {
		for i := range u.Pods {
			out = append(out, &u.Pods[i].Steps)
		}
	}
	return out
}
