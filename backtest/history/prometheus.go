package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Prometheus reads usage from a Prometheus, or from what answers as one: Thanos, Mimir, Cortex,
// VictoriaMetrics.
type Prometheus struct {
	History  history.Config
	From, To time.Time   // From zero = History.Length before To
	Clock    clock.Clock // waits for a server that is away
	// Waiting receives at once why the server is asked again, and after how long; nil = the sink has a
	// note of it.
	Waiting func(text string)
}

// kinds are the kinds of usage by resource.
var kinds = map[model.Resource]usagefile.Kind{model.CPU: usagefile.CPU, model.Memory: usagefile.Memory}

// errStore is an error of the sink, which ends the reading, unlike one of the server.
type errStore struct{ error }

// Unwrap returns the sink's own error.
func (e errStore) Unwrap() error { return e.error }

// Read implements Source. Progress counts seconds of the history.
func (p *Prometheus) Read(ctx context.Context, to Sink) error {
	source, err := history.New(p.History, p.Clock, logr.Discard())
	if err != nil {
		return err
	}
	begin := p.From
	if begin.IsZero() {
		begin = p.To.Add(-time.Duration(p.History.Length))
	}
	total := int64(p.To.Sub(begin) / time.Second)
	watch := history.Watcher{
		Waiting: func(d time.Duration, cause string) {
			if p.Waiting != nil {
				p.Waiting(fmt.Sprintf("Prometheus did not answer, and is asked again in %s: %s", d, cause))
				return
			}
			to.Note(fmt.Sprintf("Prometheus did not answer, and was asked again after %s: %s", d, cause))
		},
		Note: to.Note,
	}
	var points []Point
	err = source.Pieces(ctx, begin, p.To, watch, func(piece *history.Piece) error {
		for _, u := range piece.Usage {
			points = points[:0]
			for _, point := range u.Points {
				points = append(points, Point{At: point.At * int64(time.Millisecond), Amount: point.Amount})
			}
			if err := to.Add(usagefile.Series{Pod: u.Pod, Container: u.Container, Kind: kinds[piece.Resource]}, points...); err != nil {
				return errStore{err}
			}
		}
		done := min(total, int64(piece.To.Sub(begin)/time.Second))
		if piece.Resource == model.Memory { // the second
			done += total
		}
		to.Progress(done/2, total)
		return nil
	})
	var full errStore
	if err == nil || errors.As(err, &full) {
		return err
	}
	return fmt.Errorf("reading usage from %s: %w", p.History.Redacted(), err)
}
