package markup

import (
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Tick is a round amount of an axis, and where it stands on it, from 0 to 1.
type Tick struct {
	At    float64
	Label string
}

// Ticks are up to 4 round amounts above zero of an axis that ends at top: bytes if binary, otherwise
// cores.
func Ticks(top float64, binary bool) []Tick {
	if !binary {
		top *= 1000
	}
	if top < 1 || top > math.MaxInt64/2 {
		return nil
	}
	step := int64(1)
	for i := 0; top/float64(step) > 4; i++ {
		if binary {
			step *= 2
		} else {
			step = step / []int64{1, 2, 5}[i%3] * []int64{2, 5, 10}[i%3]
		}
	}
	var out []Tick
	for n := step; float64(n) <= top; n += step {
		q := resource.NewMilliQuantity(n, resource.DecimalSI)
		if binary {
			q = resource.NewQuantity(n, resource.BinarySI)
		}
		out = append(out, Tick{float64(n) / top, q.String()})
	}
	return out
}

// Percent is a position as a length in SVG.
func Percent(position float64) string {
	text := strconv.FormatFloat(100*position, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// Pixel is a length in SVG.
func Pixel(y float64) string { return strconv.FormatFloat(y, 'f', 1, 64) }

const day = 24 * time.Hour

// rounds are the distances between round times.
var rounds = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 4 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day,
}

// Times draws up to 5 round times under an axis, y pixels from the top.
func (w *Writer) Times(from, to time.Time, y int) {
	step := rounds[len(rounds)-1]
	for _, d := range rounds {
		if to.Sub(from) <= 4*d {
			step = d
			break
		}
	}
	layout := "2 Jan"
	if step > 30*day {
		layout = "2006-01"
	}
	for at, n := from.UTC().Truncate(step).Add(step), 0; !at.After(to) && n < 5; at, n = at.Add(step), n+1 {
		x, anchor, label := float64(at.Sub(from))/float64(to.Sub(from)), "middle", at.Format(layout)
		if step < day && at.Truncate(day) != at {
			label = at.Format("15:04")
		}
		switch {
		case x < 0.1:
			anchor = "start"
		case x > 0.9:
			anchor = "end"
		}
		w.Put("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", Percent(x), strconv.Itoa(y), anchor, label)
	}
}

// Period is the time that an axis covers.
func Period(from, to time.Time) string {
	return from.UTC().Format("2006-01-02 15:04") + " to " + to.UTC().Format("2006-01-02 15:04 UTC")
}
