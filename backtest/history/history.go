// Package history holds recorded usage for a backtest: sources read it, and a Store keeps it, sorted
// and packed, in bounded memory.
package history

import (
	"context"
	"io"
	"slices"

	"github.com/celvpa/celvpa/simulate/usagefile"
)

// Point is one amount: milli-cores of CPU, bytes of memory, or the bytes in use at an OOM kill.
type Point struct {
	At     int64 // unix nanoseconds
	Amount int64
}

// Source reads recorded usage, such as files or a Prometheus server.
type Source interface {
	// Read gives all of the usage to a sink, in pieces of any size: pieces and points may come in
	// any order, and twice. The error names what could not be read; the sink has the rest, and the
	// caller goes on with that. It returns soon after the context ends.
	Read(ctx context.Context, to Sink) error
}

// Sink takes usage from sources. Calls come from one goroutine at a time.
type Sink interface {
	// Add takes points of one series. It does not keep the slice. An error ends the reading: there
	// is no room.
	Add(of usagefile.Series, points ...Point) error
	// Note takes a remark for the user, such as a row that cannot be used.
	Note(text string)
	// Progress says how much of a source has been read, in units of its own; of is 0 where the total
	// is unknown. It may be called often.
	Progress(done, of int64)
}

// Span is what is known of a series before its points are read.
type Span struct {
	usagefile.Series
	First, Last int64 // unix nanoseconds
	Points      int   // without duplicates after Store.Seal
}

// Between passes on the points from From to To, both included, and drops the others.
type Between struct {
	Sink
	From, To int64 // unix nanoseconds
}

// Add implements Sink.
func (b Between) Add(of usagefile.Series, points ...Point) error {
	outside := func(p Point) bool { return p.At < b.From || p.At > b.To }
	if slices.ContainsFunc(points, outside) {
		points = slices.DeleteFunc(slices.Clone(points), outside)
	}
	if len(points) == 0 {
		return nil
	}
	return b.Sink.Add(of, points...)
}

// Files reads usage from files as package usagefile does, row by row, so that they may be larger
// than memory.
type Files struct {
	Paths []string
	Stdin io.Reader // for usagefile.Stdin
}

// pointsPerProgress is how many points are read from one report of progress to the next.
const pointsPerProgress = 1 << 14

// Read implements Source. Progress counts points.
func (f Files) Read(ctx context.Context, to Sink) error {
	n := int64(0)
	notes, err := usagefile.Each(f.Paths, f.Stdin, func(of usagefile.Series, at, amount int64) error {
		if n++; n%pointsPerProgress == 0 {
			to.Progress(n, 0)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return to.Add(of, Point{At: at, Amount: amount})
	})
	for _, note := range notes {
		to.Note(note)
	}
	return err
}
