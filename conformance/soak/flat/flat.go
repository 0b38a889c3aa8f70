// Package flat says whether what is measured of a process again and again grows without end. It measures nothing itself.
package flat

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is a value at a moment.
type Point struct {
	At    time.Time
	Value float64
}

// Rule says how much a measurement may rise over a run.
//
// The rise is that of the Theil–Sen line: the median of the slopes between all pairs of points, times the length of the run. Up
// to 29% of the points can be anything (a burst of work, a collection of garbage that has just been or is due, a list of all
// objects after an API server restart) without moving it, which a fit by least squares or a difference of two points cannot
// claim. What is bounded, such as a cache that fills or an allocator that keeps what it once needed, flattens; a leak does not.
// So the rise is compared with a share of the level at the start, and no less than a floor, below which it is noise.
type Rule struct {
	Name     string
	Unit     float64 // of values in tables: 1, or 1<<20 for MiB
	Fraction float64 // of the level at the start
	Floor    float64
}

// Verdict is what a rule says about a series.
type Verdict struct {
	Rule
	Points     int
	Start, End float64       // medians of the first and of the last fifth
	Span       time.Duration // from the first point to the last
	Rise       float64       // of the Theil–Sen line over the span
	Allowed    float64       // greatest Rise that is flat
	Judged     bool          // false: there are too few points
}

// enough is how many points a judgement needs.
const enough = 10

// Judge applies a rule to points in the order of time.
func (r Rule) Judge(points []Point) Verdict {
	v := Verdict{Rule: r, Points: len(points)}
	if len(points) < enough {
		return v
	}
	fifth := len(points) / 5
	v.Judged = true
	v.Start, v.End = level(points[:fifth]), level(points[len(points)-fifth:])
	v.Span = points[len(points)-1].At.Sub(points[0].At)
	v.Rise = Slope(points) * v.Span.Seconds()
	v.Allowed = max(r.Floor, r.Fraction*v.Start)
	return v
}

// Flat reports whether the series was judged and does not rise by more than is allowed.
func (v Verdict) Flat() bool { return v.Judged && v.Rise <= v.Allowed }

// PerHour is the slope, in values an hour.
func (v Verdict) PerHour() float64 {
	if v.Span == 0 {
		return 0
	}
	return v.Rise / v.Span.Hours()
}

// String says what was found, in a sentence.
func (v Verdict) String() string {
	if !v.Judged {
		return fmt.Sprintf("%s: %d points are too few to judge; run longer", v.Name, v.Points)
	}
	return fmt.Sprintf("%s: from %.1f to %.1f in %s, a rise of %.1f (allowed: %.1f)",
		v.Name, v.Start/v.Unit, v.End/v.Unit, v.Span.Round(time.Second), v.Rise/v.Unit, v.Allowed/v.Unit)
}

// most is how many points Slope compares with each other; more are thinned out.
const most = 600

// Slope is the median of the slopes between all pairs of points, in values a second (Theil and Sen).
func Slope(points []Point) float64 {
	points = thin(points)
	slopes := make([]float64, 0, len(points)*(len(points)-1)/2)
	for i, a := range points {
		for _, b := range points[i+1:] {
			if seconds := b.At.Sub(a.At).Seconds(); seconds > 0 {
				slopes = append(slopes, (b.Value-a.Value)/seconds)
			}
		}
	}
	return median(slopes)
}

// thin replaces points in a row by their median where there are too many.
func thin(points []Point) []Point {
	if len(points) <= most {
		return points
	}
	var out []Point
	for row := range slices.Chunk(points, int(math.Ceil(float64(len(points))/most))) {
		out = append(out, Point{At: row[len(row)/2].At, Value: level(row)})
	}
	return out
}

func level(points []Point) float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	return median(values)
}

// median is the middle of values, or the mean of the two in the middle; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}
