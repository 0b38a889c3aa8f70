package page

import (
	"math"
	"slices"
	"strconv"

	"github.com/celvpa/celvpa/backtest"
)

// thinned is a chart of a series with at most as many points as one shows.
func thinned(policy, container int, s *backtest.Series) chart {
	every := max(1, (s.Steps+Points-1)/Points)
	lines := func(of *backtest.Lines) map[string]backtest.Line {
		return map[string]backtest.Line{
			"usage": thin(of.Usage, every, mean), "usageMax": thin(of.UsageMax, every, largest), "request": thin(of.Request, every, last), "limit": thin(of.Limit, every, last),
			"target": thin(of.Target, every, last), "lower": thin(of.Lower, every, last), "upper": thin(of.Upper, every, last),
		}
	}
	out := *s
	out.Steps, out.StepSeconds, out.Pods = (s.Steps+every-1)/every, s.StepSeconds*int64(every), nil
	return chart{policy, container, &out, lines(&s.CPU), lines(&s.Memory)}
}

// thin is a line with a point for so many: values of five digits, and for how many points each holds, in turn.
func thin(line backtest.Line, every int, of func([]float64) float64) (out backtest.Line) {
	for from := 0; from < len(line); from += every {
		value, err := strconv.ParseFloat(strconv.FormatFloat(of(line[from:min(from+every, len(line))]), 'g', 5, 64), 64)
		if err != nil || math.IsInf(value, 0) {
			value = math.NaN() // unknown
		}
		if n := len(out); n > 0 && (out[n-2] == value || math.IsNaN(out[n-2]) && math.IsNaN(value)) {
			out[n-1]++
		} else {
			out = append(out, value, 1)
		}
	}
	return out
}

func mean(of []float64) float64 {
	list, sum := known(of), 0.0
	for _, value := range list {
		sum += value
	}
	return sum / float64(len(list)) // unknown without any
}

func largest(of []float64) float64 {
	if list := known(of); len(list) > 0 {
		return slices.Max(list)
	}
	return math.NaN()
}

func known(of []float64) []float64 { return slices.DeleteFunc(slices.Clone(of), math.IsNaN) }

func last(of []float64) float64 { return of[len(of)-1] }
