package page

import (
	"math"
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
	sum, n := 0.0, 0
	for _, value := range of {
		if !math.IsNaN(value) {
			sum, n = sum+value, n+1
		}
	}
	return sum / float64(n) // unknown without any
}

func largest(of []float64) float64 {
	out := math.NaN()
	for _, value := range of {
		if !(value <= out) && !math.IsNaN(value) {
			out = value
		}
	}
	return out
}

func last(of []float64) float64 { return of[len(of)-1] }
