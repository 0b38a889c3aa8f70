package history

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
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
		return value, warnings, err
	}
}

// at asks for one time.
func (s *Source) at(query string, at time.Time) asked {
	return func(ctx context.Context) (prommodel.Value, promapi.Warnings, error) {
		value, warnings, _, err := s.api.Query(ctx, query, at)
		return value, warnings, err
	}
}

// load is one run of Load, or of Pieces. Its queries are asked one after another.
type load struct {
	*Source
	faults   faults
	patience wait.Backoff                        // what is left of it
	answered bool                                // a query had an answer
	found    bool                                // usage
	gone     bool                                // Prometheus cannot be reached, or the context has ended: ask no more
	waiting  func(d time.Duration, cause string) // before a query is sent again
}

func (s *Source) load(patience wait.Backoff) *load {
	l := &load{Source: s, faults: faults{address: s.config.addressFlag()}, patience: patience}
	l.waiting = func(d time.Duration, cause string) {
		l.log.Info("Prometheus is not ready; retrying history", "in", d.String(), "error", cause)
	}
	return l
}

// ask runs one query within its time-out. One that finds no Prometheus, or one that is not ready or
// busy, is asked again as long as patience lasts, or later if the server says when; after that nothing
// more is asked of a Prometheus that cannot be reached.
func (l *load) ask(ctx context.Context, query asked, of string) (prommodel.Value, error) {
	for {
		if err := l.turn(ctx); err != nil {
			l.gone = true
			return nil, fmt.Errorf("reading history was stopped: %w", err)
		}
		var after time.Duration
		attempt, cancel := context.WithTimeout(withRetryAfter(ctx, &after), time.Duration(l.config.QueryTimeout))
		value, warnings, err := query(attempt)
		cancel()
		for _, w := range warnings {
			l.faults.add(&fault{one: "warning", many: "warnings", text: "of Prometheus about " + of, example: w})
		}
		switch {
		case err == nil:
			l.answered = true
			return value, nil
		case ctx.Err() != nil:
			l.gone = true
			return nil, fmt.Errorf("reading history was stopped: %w", ctx.Err())
		case !mayPass(err) || l.patience.Steps <= 0:
			if l.gone = unreachable(err); l.gone {
				err = fmt.Errorf("%w; Prometheus is unreachable, so the remaining queries are skipped", err)
			}
			return nil, err
		}
		delay := max(l.patience.Step(), min(after, longestWait))
		l.waiting(delay, shorten(err.Error()))
		if ended := l.sleep(ctx, delay); ended != nil {
			l.gone = true
			return nil, fmt.Errorf("waiting for Prometheus was stopped (%w); it last said %w", ended, err)
		}
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

// unreachable: no answer came at all, and neither because of a query's own time-out nor of missing
// credentials.
func unreachable(err error) bool {
	var transport *url.Error
	var here unsigned
	return errors.As(err, &transport) && !errors.As(err, &here) && !errors.Is(err, context.DeadlineExceeded)
}

// mayPass: another try may succeed, as there is no Prometheus yet, one that is still starting, one
// that ended in the middle of an answer, or one that has too many queries at once, or as the file of
// the credentials is being written.
func mayPass(err error) bool {
	var here unsigned
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) || errors.Is(err, errLongAnswer) {
		return false
	}
	kind, _ := reason(err)
	return unreachable(err) || errors.As(err, &here) || kind == promapi.ErrServer || busy(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// busy: the server, or who stands before it, limits the rate of queries.
func busy(err error) bool {
	kind, text := reason(err)
	return kind == promapi.ErrClient && strings.Contains(text, strconv.Itoa(http.StatusTooManyRequests))
}

// tooMuch: half of the time may succeed.
func tooMuch(err error) bool {
	if busy(err) {
		return false
	}
	kind, text := reason(err)
	switch kind {
	case promapi.ErrExec:
		return true
	case promapi.ErrBadData, promapi.ErrClient: // Prometheus, Thanos and Mimir have a limit each, under these types
		return strings.Contains(text, "exceed") || strings.Contains(text, "too many") || strings.Contains(text, "limit")
	}
	return tooSlow(err) || errors.Is(err, errLongAnswer)
}

// tooSlow: a time-out, ours or the server's. Each takes minutes, so few are allowed.
func tooSlow(err error) bool {
	kind, _ := reason(err)
	return kind == promapi.ErrTimeout || kind == promapi.ErrCanceled || errors.Is(err, context.DeadlineExceeded)
}

// errShape is an answer of a type that was not asked for.
var errShape = errors.New("no matrix")

// hopeless: the rest of the same metric would fail as well, or as slowly.
func hopeless(err error) bool {
	kind, _ := reason(err)
	return kind == promapi.ErrBadData || kind == promapi.ErrClient || tooSlow(err) || errors.Is(err, errShape)
}
