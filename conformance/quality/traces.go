package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is the usage of a VM at one time.
type sample struct {
	at     int64 // unix nanoseconds
	cpu    int64 // milli-cores
	memory int64 // bytes
}

// vm is a virtual machine of a trace.
type vm struct {
	id          string
	cpu, memory int64    // the most that is provisioned on its first day: balloons are still filling in its first minutes
	samples     []sample // by time, without those while it is switched off
}

const (
	day         = 24 * time.Hour
	mhzPerCore  = 2600
	leastKnown  = 3 * day
	longestStep = 15 * time.Minute // a sample holds until the next one, and for this long at most
	most        = 9e12             // of any number; as a timestamp it is in the year 2255
	firstMillis = 9e9              // timestamps from here on are milliseconds, those below seconds
)

// columns of the two layouts: GWA-T-12's own, whose files are called after their VM, and the cut one.
var (
	archiveColumns = []string{"Timestamp [ms]", "CPU usage [MHZ]", "CPU capacity provisioned [MHZ]", "Memory usage [KB]", "Memory capacity provisioned [KB]"}
	cutColumns     = []string{"timestamp", "cpu_mhz_used", "cpu_mhz_provisioned", "memory_kb_used", "memory_kb_provisioned", "vm"}
)

// halfOf assigns a VM to one half of the traces, by its id alone.
func halfOf(id string) string {
	if sum := sha256.Sum256([]byte(id)); sum[0]%2 == 0 {
		return "tune"
	}
	return "decide"
}

// reader collects VMs from files.
type reader struct {
	keep func(id string) bool
	vms  map[string]*vm
}

// readTraces reads a file or all *.csv and *.csv.gz below a folder. leftOut says why VMs do not count.
func readTraces(path string, keep func(id string) bool) (vms []vm, leftOut []string, err error) {
	r := &reader{keep: keep, vms: map[string]*vm{}}
	files := 0
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".csv") {
			return err
		}
		files++
		return r.file(name)
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("%s holds no *.csv and no *.csv.gz", path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading traces: %w", err)
	}
	vms, leftOut = r.finish()
	return vms, leftOut, nil
}

func (r *reader) file(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	id, _, _ := strings.Cut(filepath.Base(name), ".csv")
	return r.rows(name, id, from)
}

// rows reads one file, whose VM is id unless it has a column vm.
func (r *reader) rows(name, id string, from io.Reader) error {
	lines := bufio.NewScanner(from)
	if !lines.Scan() {
		return fmt.Errorf("%s:1: there is no header: %w", name, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	columns, separator := archiveColumns, ";"
	if !strings.Contains(lines.Text(), separator) {
		columns, separator = cutColumns, ","
	}
	var header []string
	for _, title := range strings.Split(strings.TrimPrefix(lines.Text(), "\ufeff"), separator) {
		header = append(header, strings.ToLower(strings.TrimSpace(title)))
	}
	at := make([]int, len(columns))
	for i, title := range columns {
		if at[i] = slices.Index(header, strings.ToLower(title)); at[i] < 0 {
			return fmt.Errorf("%s:1: column %q is missing", name, title)
		}
	}
	for line := 2; lines.Scan(); line++ {
		cells := strings.Split(lines.Text(), separator)
		if len(cells) < len(header) {
			return fmt.Errorf("%s:%d: column %q is missing", name, line, header[len(cells)])
		}
		if separator == "," {
			id = strings.TrimSpace(cells[at[len(at)-1]])
		}
		if !r.keep(id) {
			continue
		}
		var values [5]float64
		for i := range values {
			text := strings.TrimSpace(cells[at[i]])
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(v) || v < 0 || v > most {
				return fmt.Errorf("%s:%d: column %q is %q; want a number from 0 to %g", name, line, columns[i], text, float64(most))
			}
			values[i] = v
		}
		r.add(id, values)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// add takes a row, but for one of a VM that is switched off. The first row of a VM is its oldest.
func (r *reader) add(id string, row [5]float64) {
	v := r.vms[id]
	if v == nil {
		v = &vm{id: id}
		r.vms[id] = v
	}
	if row[2] == 0 || row[4] == 0 {
		return
	}
	unit := time.Second
	if row[0] >= firstMillis {
		unit = time.Millisecond
	}
	at := int64(row[0]) * int64(unit)
	milli := func(mhz float64) int64 { return int64(math.Round(mhz / mhzPerCore * 1000)) }
	v.samples = append(v.samples, sample{at, milli(row[1]), int64(row[3] * 1024)})
	if at-v.samples[0].at < int64(day) {
		v.cpu, v.memory = max(v.cpu, milli(row[2])), max(v.memory, int64(row[4]*1024))
	}
}

// finish sorts out the VMs, by id.
func (r *reader) finish() (vms []vm, leftOut []string) {
	var short, idle []string
	for _, id := range slices.Sorted(maps.Keys(r.vms)) {
		v := r.vms[id]
		slices.SortStableFunc(v.samples, func(x, y sample) int { return cmp.Compare(x.at, y.at) })
		known, works := time.Duration(0), false
		for i, s := range v.samples {
			works = works || s.cpu > 0
			if i > 0 {
				known += min(time.Duration(s.at-v.samples[i-1].at), longestStep)
			}
		}
		switch {
		case known < leastKnown:
			short = append(short, id)
		case !works:
			idle = append(idle, id)
		default:
			vms = append(vms, *v)
		}
	}
	for _, reason := range []struct {
		ids []string
		why string
	}{{short, "under 3 days of samples"}, {idle, "no CPU at all"}} {
		if len(reason.ids) > 0 {
			leftOut = append(leftOut, fmt.Sprintf("left out, %s: %d (%s)", reason.why, len(reason.ids), strings.Join(reason.ids, ", ")))
		}
	}
	return vms, leftOut
}
