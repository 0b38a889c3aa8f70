package upstream

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tracesVariable names the environment variable with a folder of recorded usage: Bitbrains
// (GWA-T-12, columns separated by semicolons) and the Numenta Anomaly Benchmark (timestamp,value in
// percent of a core).
const tracesVariable = "CELVPA_TRACES"

// point is usage at a time.
type point struct {
	at          time.Duration // since the first
	cpu, memory int64         // milli-cores, bytes; memory below 0 is none
}

// traceStory is the usage of one container under a VPA, compared every day.
func traceStory(points []point) story {
	s := story{Events: []happens{
		{Do: doVPA, Name: "v", Selector: "app=a"},
		{Do: doPod, Name: "p", Labels: map[string]string{"app": "a"}, Containers: []string{"app"}},
	}}
	day := time.Duration(0)
	for _, x := range points {
		if x.at >= day+24*time.Hour {
			day = x.at.Truncate(24 * time.Hour)
			s.Events = append(s.Events, happens{At: span(x.at), Do: doCompare}, happens{At: span(x.at), Do: doCollect})
		}
		h := happens{At: span(x.at), Do: doCPU, Name: "p", Container: "app", Amount: x.cpu}
		s.Events = append(s.Events, h)
		if x.memory >= 0 {
			h.Do, h.Amount = doMemory, x.memory
			s.Events = append(s.Events, h)
		}
	}
	return s
}

func replayTrace(t *testing.T, points []point) {
	t.Helper()
	defer newByUpstream(story{}, time.Time{})
	out := replayBoth(t, traceStory(points))
	t.Logf("%d samples: %s", len(points), countsText(out.Counts))
	for _, m := range out.Mismatches {
		t.Errorf("%s: %s", m.Kind, m.Text)
	}
	require.Equal(t, out.Counts["checkpoints"], out.Counts["checkpoints equal to the bit"])
}

// TestTracesThatWereMadeUp have a sample every five minutes for 30 days, in typical shapes of
// workloads.
func TestTracesThatWereMadeUp(t *testing.T) {
	shapes := map[string]func(r *rand.Rand, day, hour float64) (cores, bytes float64){
		"an office's web server": func(r *rand.Rand, day, hour float64) (float64, float64) {
			busy := math.Max(0, math.Sin((hour-7)/24*2*math.Pi))
			if int(day)%7 >= 5 {
				busy *= 0.2
			}
			return 0.05 + 1.5*busy*math.Exp(0.2*r.NormFloat64()), 4e8 + 3e8*busy + 1e7*r.Float64()
		},
		"a job at night": func(r *rand.Rand, day, hour float64) (float64, float64) {
			if hour >= 2 && hour < 3.5 {
				return 7.5 + 0.4*r.NormFloat64(), 1.2e10 * (hour - 1.5)
			}
			return 0, 2e7
		},
		"a leak with restarts": func(r *rand.Rand, day, hour float64) (float64, float64) {
			return math.Abs(0.3 + 0.1*r.NormFloat64()), 1e8 + 2e9*math.Mod(day+hour/24, 3.3)
		},
	}
	for name, shape := range shapes {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			var points []point
			for i := range 30 * 288 {
				cores, bytes := shape(r, float64(i/288), float64(i%288)/12)
				points = append(points, point{time.Duration(i) * 5 * time.Minute, int64(math.Max(0, cores) * 1000), int64(bytes)})
			}
			replayTrace(t, points)
		})
	}
}

// TestTracesThatWereRecorded reads the user's folder.
func TestTracesThatWereRecorded(t *testing.T) {
	folder := os.Getenv(tracesVariable)
	if folder == "" {
		t.Skipf("recorded traces are not part of the repository; set %s to a folder with those of Bitbrains (GWA-T-12) or of the Numenta Anomaly Benchmark", tracesVariable)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "%s=%s has no *.csv", tracesVariable, folder)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			points, err := readTrace(file)
			require.NoError(t, err)
			replayTrace(t, points)
		})
	}
}

func readTrace(file string) ([]point, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading a trace: %w", err)
	}
	defer f.Close()
	var out []point
	var first time.Time
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n == 1 || strings.TrimSpace(lines.Text()) == "" {
			continue // the columns' names
		}
		at, x, err := readPoint(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", filepath.Base(file), n, err)
		}
		if first.IsZero() {
			first = at
		}
		x.at = at.Sub(first)
		out = append(out, x)
	}
	return out, lines.Err()
}

func readPoint(line string) (at time.Time, x point, err error) {
	if columns := strings.Split(line, ";"); len(columns) >= 7 {
		var number [7]float64
		for _, i := range []int{0, 3, 6} {
			if number[i], err = strconv.ParseFloat(strings.TrimSpace(columns[i]), 64); err != nil {
				return at, x, fmt.Errorf("column %d: %w", i+1, err)
			}
		}
		// Seconds, whatever the header says; MHz of cores of about 2.6 GHz; KiB.
		return time.Unix(int64(number[0]), 0).UTC(), point{cpu: int64(number[3] / 2.6), memory: int64(number[6] * 1024)}, nil
	}
	stamp, value, _ := strings.Cut(line, ",")
	if at, err = time.Parse(time.DateTime, stamp); err != nil {
		return at, x, fmt.Errorf("column 1: %w", err)
	}
	percent, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return at, x, fmt.Errorf("column 2: %w", err)
	}
	return at, point{cpu: int64(percent * 10), memory: -1}, nil
}
