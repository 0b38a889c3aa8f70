package backtest

import (
	"math"
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// maxEvents and maxCauses bound what is kept of a container, so that a page can show it.
const (
	maxEvents = 1000
	maxCauses = 1000
)

// recorder records the series of the containers of one name. A nil recorder records nothing.
type recorder struct {
	out      *Series
	from, to int64
	step     int64
	closed   int // steps
	bins     [resourceKinds]bin
	pods     map[int]inForce           // by slot
	latest   [3][resourceKinds]float64 // target, lower and upper bound; NaN = none
}

// bin is the usage in the step at hand.
type bin struct {
	sum, max float64
	count    int
}

type inForce struct{ request, limit [resourceKinds]int64 }

func newRecorder(s *setting) *recorder {
	step := max((s.to-s.from+int64(s.points)-1)/int64(s.points), 1)
	step = (step + s.interval - 1) / s.interval * s.interval // so that steps end with cycles
	r := &recorder{
		from: s.from, to: s.to, step: step, pods: map[int]inForce{},
		out: &Series{StepSeconds: step / int64(time.Second), Events: []Event{}, Causes: []Cause{}},
	}
	for i := range r.latest {
		r.latest[i] = [resourceKinds]float64{math.NaN(), math.NaN()}
	}
	return r
}

// usage adds a sample to the step at hand.
func (r *recorder) usage(of resourceKind, amount int64) {
	if r == nil {
		return
	}
	b := &r.bins[of]
	value := *shown(amount, of)
	b.sum, b.count, b.max = b.sum+value, b.count+1, max(b.max, value)
}

// force notes what is in force for a container in a slot; end notes that it is gone.
func (r *recorder) force(slot int, c *liveContainer) {
	if r == nil {
		return
	}
	var f inForce
	for k := range resourceKinds {
		f.request[k], f.limit[k] = c.meters[k].request, c.meters[k].limit
	}
	r.pods[slot] = f
}

func (r *recorder) end(slot int) {
	if r != nil {
		delete(r.pods, slot)
	}
}

// recommend notes a recommendation.
func (r *recorder) recommend(c *vpav1.RecommendedContainerResources) {
	for k := range resourceKinds {
		r.latest[0][k], r.latest[1][k], r.latest[2][k] = orNaN(amountIn(c.Target, k)), orNaN(amountIn(c.LowerBound, k)), orNaN(amountIn(c.UpperBound, k))
	}
}

func (r *recorder) event(e Event) {
	switch {
	case r == nil:
	case len(r.out.Events) >= maxEvents:
		r.out.Cut++
	default:
		r.out.Events = append(r.out.Events, e)
	}
}

func (r *recorder) cause(c Cause) {
	if len(r.out.Causes) >= maxCauses {
		r.out.CausesCut++
		return
	}
	r.out.Causes = append(r.out.Causes, c)
}

// close ends the steps that end before or at a time. A step holds its end.
func (r *recorder) close(now int64) {
	for end := r.from + int64(r.closed+1)*r.step; end <= now; end += r.step {
		r.closeStep()
	}
}

func (r *recorder) closeStep() {
	r.closed++
	r.out.Pods = append(r.out.Pods, len(r.pods))
	for k := range resourceKinds {
		lines, b := &r.out.CPU, &r.bins[k]
		if k == memory {
			lines = &r.out.Memory
		}
		usage, most := math.NaN(), math.NaN()
		if b.count > 0 {
			usage, most = b.sum/float64(b.count), b.max
		}
		*b = bin{}
		request, limit := r.now(k)
		lines.Usage, lines.UsageMax = append(lines.Usage, usage), append(lines.UsageMax, most)
		lines.Request, lines.Limit = append(lines.Request, request), append(lines.Limit, limit)
		lines.Target, lines.Lower, lines.Upper = append(lines.Target, r.latest[0][k]), append(lines.Lower, r.latest[1][k]), append(lines.Upper, r.latest[2][k])
	}
}

// now is the mean request and the lowest limit of the pods.
func (r *recorder) now(of resourceKind) (request, limit float64) {
	if len(r.pods) == 0 {
		return math.NaN(), math.NaN()
	}
	var sum, lowest int64
	for _, f := range r.pods {
		sum += f.request[of]
		if l := f.limit[of]; l > 0 && (lowest == 0 || l < lowest) {
			lowest = l
		}
	}
	request, limit = *shown(sum, of)/float64(len(r.pods)), math.NaN()
	if lowest > 0 {
		limit = *shown(lowest, of)
	}
	return request, limit
}

func orNaN(value *float64) float64 {
	if value == nil {
		return math.NaN()
	}
	return *value
}

// closeSeries ends the steps of all recorders that end by a time.
func (r *replay) closeSeries(now int64) {
	if r.points == 0 {
		return
	}
	for _, of := range r.series {
		for _, c := range of {
			c.close(now)
		}
	}
}

// finish ends the last step, which may be shorter.
func (r *recorder) finish() *Series {
	if r == nil {
		return nil
	}
	r.close(r.to)
	if r.from+int64(r.closed)*r.step < r.to || r.closed == 0 {
		r.closeStep()
	}
	r.out.Steps = r.closed
	return r.out
}
