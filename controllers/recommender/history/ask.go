package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
)

// longestWait is the longest wait that a server may ask for.
const longestWait = 2 * time.Minute

// asked is a query on its way. of is what it asks for, in words.
type asked func(ctx context.Context) (prommodel.Value, promapi.Warnings, error)

// over asks for a range.
func (s *Source) over(query string, span promapi.Range) asked {
	return func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
		value, warnings, _, err := s.api.QueryRange(ctx, query, span)
		return replyOf(ctx).value(value), warnings, err
	}
}

// at asks for one time.
func (s *Source) at(query string, at time.Time) asked {
	return func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
		value, warnings, _, err := s.api.Query(ctx, query, at)
		return replyOf(ctx).value(value), warnings, err
	}
}

// load is one run of Load, or of Pieces. Its queries are asked one after another.
type load struct {
	*Source
	faults     faults
	patience   wait.Backoff                        // what is left of it
	answered   bool                                // a query had an answer
	found      bool                                // usage
	unlabelled bool                                // labels of pods did not come, or not all
	lacking    map[string]int                      // answers in a row that lack what failed stores hold, by what they are about
	checking   bool                                // what answers lack is of no matter
	gone       bool                                // Prometheus cannot be reached, or the context has ended: ask no more
	waiting    func(d time.Duration, cause string) // before a query is sent again
}

func (s *Source) load(patience wait.Backoff) *load {
	l := &load{Source: s, faults: faults{address: s.config.addressFlag()}, patience: patience, lacking: map[string]int{}}
	l.waiting = func(d time.Duration, cause string) {
		l.log.Info("Prometheus is not ready; retrying history", "in", d.String(), "error", cause)
	}
	return l
}

// ask runs one query within its time-out. One that finds no Prometheus, or one that is not ready, busy
// or failing, is asked again as long as patience lasts, or later if the server says when; after that
// nothing more is asked of a Prometheus that cannot be reached.
func (l *load) ask(ctx context.Context, query asked, of string) (prommodel.Value, error) {
	for {
		if err := l.turn(ctx); err != nil {
			l.gone = true
			return nil, fmt.Errorf("reading history was stopped: %w", err)
		}
		var got reply
		attempt, cancel := context.WithTimeout(withReply(ctx, &got), time.Duration(l.config.QueryTimeout))
		value, warnings, err := query(attempt)
		expired := attempt.Err() != nil
		cancel()
		lacks := Partial(warnings)
		if got.partial {
			lacks = append(lacks, "isPartial is true")
		}
		if err == nil && (len(lacks) == 0 || l.patience.Steps <= 0 || l.lacking[of] >= inARow || l.checking) {
			l.accept(of, warnings, lacks)
			return value, nil
		}
		if ctx.Err() != nil {
			l.gone = true
			return nil, fmt.Errorf("reading history was stopped: %w", ctx.Err())
		}
		failed := &failure{class: away}
		if err != nil {
			failed = failureOf(err, got.status, expired)
		} else {
			failed.text = "the answer is partial: " + lacks[0]
		}
		if again := failed.class == away || failed.class == busy; !again || l.patience.Steps <= 0 {
			if l.gone = failed.unreached; l.gone {
				failed.text += "; Prometheus is unreachable, so the remaining queries are skipped"
			}
			return nil, failed
		}
		delay := max(l.patience.Step(), min(got.after, longestWait))
		l.waiting(delay, shorten(failed.text))
		if ended := l.sleep(ctx, delay); ended != nil {
			l.gone = true
			return nil, fmt.Errorf("waiting for Prometheus was stopped (%w); it last said %w", ended, failed)
		}
	}
}

// accept notes what is odd about an answer. One that lacks something is taken once patience ends:
// what it has is right. After three in a row the store is taken to be away for good, and not waited
// for again until an answer is whole.
func (l *load) accept(of string, warnings promapi.Warnings, lacks []string) {
	l.answered = true
	for _, w := range warnings {
		if l.checking || !slices.Contains(lacks, w) {
			l.faults.add(&fault{one: "warning", many: "warnings", text: "of Prometheus about " + of, example: w})
		}
	}
	switch {
	case l.checking:
	case len(lacks) == 0:
		l.lacking[of] = 0
	default:
		l.lacking[of]++
		l.faults.add(&fault{one: "answer", many: "answers", text: "about " + of + " without what stores hold that failed", example: lacks[0], lost: true})
	}
}

// turn waits until --prometheus-qps allows another query.
func (l *load) turn(ctx context.Context) error {
	if l.limit == nil {
		return nil
	}
	now := l.clock.Now()
	return l.sleep(ctx, l.limit.ReserveN(now, 1).DelayFrom(now))
}

func (l *load) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.clock.After(d):
		return nil
	}
}
