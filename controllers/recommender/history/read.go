package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
)

// maxRetryAfter is the longest wait that a server may ask for.
const maxRetryAfter = 2 * time.Minute

// maxInARow is how many parts of a reading may be missing, or queries take too long, one after another.
const maxInARow = 3

var (
	// startPatience is how long a load waits in all for a Prometheus that never answered: 1, 2, 4, 8 and
	// 16 seconds.
	startPatience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}
	// patience is how long a load waits after a complete answer: 1, 2, 4 … 64 seconds, about two minutes.
	patience = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 7}
)

// load is one run of Load or of Pieces.
type load struct {
	*Source
	patience wait.Backoff // what is left of it
	found    bool         // usage
	ended    bool         // Prometheus cannot be reached, or the context has ended: ask no more
	lost     faults       // of usage and of labels
	notes    faults       // of what nothing else depends on
	waiting  func(d time.Duration, cause string)
}

func (s *Source) load() *load {
	return &load{Source: s, patience: startPatience, waiting: func(d time.Duration, cause string) {
		s.log.Info("Prometheus is not ready; retrying history", "in", d.String(), "error", cause)
	}}
}

// reading is a time that is read in parts, one after another, the first of one step. Their size follows
// from what the last ones held. A part that is too large or too slow for the server is asked for in halves;
// one that never comes leaves a gap, and three in a row end the reading.
type reading struct {
	*load
	name     string // in messages
	from, to time.Time
	step     time.Duration
	query    func(from, to time.Time) query
	take     func(value prommodel.Value, from, to time.Time) error // an error ends the reading
	faults   *faults                                               // for what cannot be read

	sizes
	missed int  // parts in a row
	slow   int  // queries in a row
	gaps   bool // something is missing
	done   bool // the rest is not read
}

// run returns an error of take, or that of a context that has ended.
func (r *reading) run(ctx context.Context) error {
	r.sizes = sizes{steps: 1, limit: maxSteps, after: raiseAfter}
	for from := r.from; !from.After(r.to) && !r.ended && !r.done; {
		steps := min(r.steps, int64(r.to.Sub(from)/r.step)+1)
		to := from.Add(time.Duration(steps-1) * r.step)
		value, err := r.ask(ctx, r.query(from, to))
		if err == nil {
			err = r.take(value, from, to)
		}
		var failed *failure
		switch {
		case err == nil:
			r.missed, r.slow = 0, 0
			r.came(samplesOfStep(value, steps))
		case !errors.As(err, &failed) || ctx.Err() != nil:
			return err
		case r.less(failed, steps):
			continue
		default:
			r.miss(failed, from, to)
		}
		from = to.Add(r.step)
	}
	return nil
}

// less reports whether to ask again, for less if it may be.
func (r *reading) less(err *failure, steps int64) bool {
	if err.class == slow {
		r.slow++
	}
	if steps > 1 && (err.class == large || err.class == slow && r.slow < maxInARow) {
		r.tooLarge(steps)
		return true
	}
	return err.class == slow && r.slow < maxInARow // the server may have read it by now
}

// miss leaves a gap.
func (r *reading) miss(err *failure, from, to time.Time) {
	r.missed++
	r.gaps = true
	r.done = r.ended || err.class == refused || r.slow >= maxInARow || r.missed >= maxInARow
	begin := from.UTC().Format(time.RFC3339)
	f := r.faults.add("queries for "+r.name+" failed"+err.hint, fmt.Sprintf("from %s to %s: %s", begin, to.UTC().Format(time.RFC3339), err.text), err)
	switch {
	case r.ended:
		f.rest = "; Prometheus is unreachable, so the remaining queries are skipped"
	case r.done && r.from.Before(r.to):
		f.rest = "; nothing from " + begin + " on was read"
	}
}

// ask runs one query within its time-out. One that finds no Prometheus, or one that is not ready, busy
// or failing, is asked again as long as patience lasts, or later if the server says when. An answer
// that lacks something is taken once patience ends: what it has is right. Patience comes back with a
// complete answer, so that a store that is away for good is waited for once.
func (r *reading) ask(ctx context.Context, q query) (prommodel.Value, error) {
	for {
		if err := r.sleep(ctx, r.untilNextQuery()); err != nil {
			return nil, r.stopped(err)
		}
		attempt, cancel := context.WithTimeout(ctx, time.Duration(r.config.QueryTimeout))
		value, warnings, err := r.client.query(attempt, q)
		expired := attempt.Err() != nil
		cancel()
		lacks := Partial(warnings)
		if r.client.last.partial {
			lacks = append(lacks, "isPartial is true")
		}
		if err == nil && (len(lacks) == 0 || r.patience.Steps <= 0) {
			r.accept(warnings, lacks)
			return value, nil
		}
		if ctx.Err() != nil {
			return nil, r.stopped(ctx.Err())
		}
		failed := &failure{class: away}
		if err != nil {
			failed = r.config.failureOf(err, r.client.last.status, expired)
		} else {
			failed.text = "the answer is partial: " + lacks[0]
		}
		if failed.class != away || r.patience.Steps <= 0 {
			r.ended = failed.unreachable
			return nil, failed
		}
		delay := max(r.patience.Step(), min(r.client.last.after, maxRetryAfter))
		r.waiting(delay, shorten(failed.text))
		if err := r.sleep(ctx, delay); err != nil {
			return nil, r.stopped(fmt.Errorf("%w; Prometheus last said %w", err, failed))
		}
	}
}

func (r *reading) stopped(cause error) error {
	r.ended = true
	return fmt.Errorf("reading history was stopped: %w", cause)
}

// accept notes what is said about an answer.
func (r *reading) accept(warnings promapi.Warnings, lacks []string) {
	for _, w := range warnings {
		if !slices.Contains(lacks, w) {
			r.notes.add("warnings of Prometheus about "+r.name, w, nil)
		}
	}
	if len(lacks) == 0 {
		r.patience = patience
		return
	}
	r.gaps = true
	r.faults.add("answers about "+r.name+" that lack what failed stores hold", lacks[0], nil)
}

// untilNextQuery is how long --prometheus-qps lets the next query wait.
func (s *Source) untilNextQuery() time.Duration {
	if s.limit == nil {
		return 0
	}
	now := s.clock.Now()
	return s.limit.ReserveN(now, 1).DelayFrom(now)
}

func (s *Source) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.clock.After(d):
		return nil
	}
}

// Bounds of what one answer holds. 250,000 samples are 7 MB of text.
const (
	partSamples = 250_000
	maxSteps    = 10_000 // Prometheus allows 11,000 samples of a series
	blindSteps  = 64     // as long as nobody knows how many samples a step has
)

// raiseAfter is how many parts have to come of a size that is smaller than was wanted, before a larger
// one is tried again. It doubles each time.
const raiseAfter = 16

// sizes says how many steps the next part has.
type sizes struct {
	steps   int64
	samples int64 // of a step, in the last part that had any; 0 = none had
	limit   int64 // steps that the server can do
	held    int   // parts that limit kept small
	after   int   // so many raise it
}

// came follows a part that was read. A time without samples does not say how much comes after it.
func (z *sizes) came(samples int64) {
	if samples > 0 {
		z.samples = samples
	}
	most := int64(blindSteps)
	if z.samples > 0 {
		most = max(partSamples/z.samples, 1)
	}
	z.steps = min(4*z.steps, most, maxSteps)
	if z.steps <= z.limit {
		return
	}
	if z.held++; z.held >= z.after {
		z.limit, z.held, z.after = 4*z.limit, 0, 2*z.after
	}
	z.steps = min(z.steps, z.limit)
}

// tooLarge follows a part of so many steps that was too large, or too slow.
func (z *sizes) tooLarge(steps int64) {
	z.limit, z.held = max(steps/2, 1), 0
	z.steps = z.limit
}

// samplesOfStep is how many samples one of so many steps has at most, roughly: where each is a sample of
// each series, or several.
func samplesOfStep(value prommodel.Value, steps int64) int64 {
	matrix, _ := value.(prommodel.Matrix)
	total := 0
	for _, stream := range matrix {
		if stream != nil {
			total += len(stream.Values) + len(stream.Histograms)
		}
	}
	if total == 0 {
		return 0
	}
	return max(int64(len(matrix)), int64(total)/steps)
}
