package usagefile

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/controllers/recommender/history"
)

// held are series that count once the whole answer is known: those of single cores, which add up, and
// those of metrics that others go before.
type held map[string]*sum

// sum is what series that only differ in their core add up to.
type sum struct {
	of     Series
	name   string
	second bool
	points []finePoint       // by time
	cores  map[string][]span // that are in points: a part of a core's series may come twice
}

// finePoint is an amount at a time. Those that add up are in nano-cores: of each milli-core a part would be
// cut off.
type finePoint struct{ at, amount int64 }

const finePerMilli = 1_000_000

// coreLabel is the label of the core.
const coreLabel = "cpu"

// ofCore reports whether a series is of one core of its container.
func ofCore(m measure, metric map[string]string) bool {
	return m.kind == CPU && history.OfCore(metric[coreLabel])
}

// without is a text for all labels of a series but one.
func without(label string, metric map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(metric)) {
		if name != label {
			out.WriteString(name + "\x00" + metric[name] + "\x00")
		}
	}
	return out.String()
}

// add adds points, and says how many more bytes are held. Those of a core that are there already, as where exports overlap, do not add up.
func (h held) add(of Series, metric map[string]string, second bool, points []finePoint) (bytes int) {
	slices.SortStableFunc(points, func(a, b finePoint) int { return cmp.Compare(a.at, b.at) })
	points = slices.CompactFunc(points, func(a, b finePoint) bool { return a.at == b.at })
	key := without(coreLabel, metric)
	total := h[key]
	if total == nil {
		total = &sum{of: of, name: nameOf(metric), second: second, cores: map[string][]span{}}
		h[key] = total
		bytes = bytesPerSeries + len(key)
	}
	core := metric[coreLabel]
	points = slices.DeleteFunc(points, func(p finePoint) bool {
		return slices.ContainsFunc(total.cores[core], func(s span) bool { return s.first <= p.at && p.at <= s.last })
	})
	if len(points) > 0 {
		total.cores[core] = append(total.cores[core], span{points[0].at, points[len(points)-1].at})
		before := len(total.points)
		total.points = added(total.points, points)
		bytes += bytesPerRow * (len(total.points) - before)
	}
	return bytes
}

// added adds up the amounts of each time.
func added(a, b []finePoint) []finePoint {
	if slices.EqualFunc(a, b, func(x, y finePoint) bool { return x.at == y.at }) {
		for i := range a {
			a[i].amount = plus(a[i].amount, b[i].amount)
		}
		return a
	}
	out := make([]finePoint, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].at < b[0].at:
			out, a = append(out, a[0]), a[1:]
		case a[0].at > b[0].at:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, finePoint{a[0].at, plus(a[0].amount, b[0].amount)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// release gives what is held to add, the first choices before the second, and forgets it.
func (h held) release(count func(of Series, name string) bool, add func(of Series, at, amount int64)) {
	keys := slices.SortedFunc(maps.Keys(h), func(a, b string) int {
		if h[a].second != h[b].second {
			if h[a].second {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		total := h[key]
		if !count(total.of, total.name) {
			continue
		}
		for _, p := range total.points {
			amount := p.amount
			if total.of.Kind == CPU {
				amount /= finePerMilli
			}
			add(total.of, p.at, amount)
		}
	}
	clear(h)
}
