package recommender

import (
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// outlook is what the rules will recommend for one of several containers if the usage of each pod
// stays as it was last.
type outlook struct {
	*effective
	vpa        *vpav1.VerticalPodAutoscaler
	usage      model.Usage
	forecast   *model.Forecast
	containers int
	seen       map[int]prediction // by step
}

// prediction is the recommendation at a time.
type prediction struct {
	scaled
	milli, bytes int64 // of the target; -1 = unset
}

// predict adds the falls of the targets of a container that is scaled, one of several, for as long as
// its usage is remembered without new samples.
func (x *snapshot) predict(out *answers.Container, containers int, now time.Time, step time.Duration) {
	usage, _ := x.usage(out.Name)
	o := &outlook{effective: x.effective[out.Name], vpa: x.vpa, usage: usage, containers: containers, seen: map[int]prediction{},
		forecast: model.NewForecast(usage.Aggregate, x.live[out.Name], now, step)}
	window, _ := facts.WindowFor(o.plan, out.Name, o.record, nil) // Govern reports what fails
	steps := int(window.Length() / step)
	if o.forecast.HasCPU() {
		out.CPU.Falls = o.falls(steps, corev1.ResourceCPU, func(p prediction) int64 { return p.milli })
	}
	if o.forecast.HasMemory() {
		out.Memory.Falls = o.falls(steps, corev1.ResourceMemory, func(p prediction) int64 { return p.bytes })
	}
}

// falls are the next drop of a target within a number of steps, and the last one. Usage that stays
// as it is draws a percentile in one direction, so a search by halves finds both.
func (o *outlook) falls(steps int, resource corev1.ResourceName, amount func(prediction) int64) []answers.Fall {
	now, end := amount(o.at(0)), amount(o.at(steps))
	if end < 0 || end >= now {
		return nil
	}
	below := func(limit int64) int {
		return sort.Search(steps, func(n int) bool {
			then := amount(o.at(n))
			return then >= 0 && then < limit
		})
	}
	var out []answers.Fall
	for _, n := range []int{below(now), below(end + 1)} {
		if len(out) > 0 && !o.forecast.At(n).After(out[0].At) {
			break
		}
		p := o.at(n)
		target := p.render().Target[resource]
		out = append(out, answers.Fall{At: o.forecast.At(n), Target: target.String()})
	}
	return out
}

// at is the recommendation after a number of steps.
func (o *outlook) at(step int) prediction {
	if p, ok := o.seen[step]; ok {
		return p
	}
	usage := o.usage
	usage.Aggregate = o.forecast.After(step)
	p := prediction{scaled: scaled{effective: o.effective, usage: usage, bounds: facts.NewBounds()}, milli: -1, bytes: -1}
	p.run(o.vpa, o.containers)
	if n, ok := p.bounds[0].Int("cpu"); ok {
		p.milli = n
	}
	if n, ok := p.bounds[0].Int("memory"); ok {
		p.bytes = n
	}
	o.seen[step] = p
	return p
}
