// Package usagefile reads container usage from files: CSV or Prometheus range query responses,
// plain or gzipped. It reports what it cannot read and returns the rest.
package usagefile

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/engine/faults"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Kind says what an amount measures, and so its unit.
type Kind uint8

// Kinds of amounts.
const (
	CPU    Kind = iota // milli-cores
	Memory             // bytes
	OOM                // bytes used at an OOM kill; 0 = unknown
)

// kinds are the names in files.
var kinds = map[string]Kind{"cpu": CPU, "memory": Memory, "oom": OOM}

// Series identifies amounts of one kind and container.
type Series struct {
	Pod       model.PodID
	Container string
	Kind      Kind
}

// Clone copies the texts, which may be parts of a long one.
func (s Series) Clone() Series {
	s.Pod.Namespace, s.Pod.Name, s.Container = strings.Clone(s.Pod.Namespace), strings.Clone(s.Pod.Name), strings.Clone(s.Container)
	return s
}

// Row is one amount of a series at one time, in the unit of the series' kind.
type Row struct {
	At     int64 // unix nanoseconds
	Amount int64
	Series int32 // index into Usage.Series
}

// Time returns the time of measurement.
func (r Row) Time() time.Time { return time.Unix(0, r.At).UTC() }

// Usage is the content of all files.
type Usage struct {
	Series []Series // by namespace, pod, container and kind
	Rows   []Row    // by time, then series; duplicates with the largest first

	index map[Series]int32
}

// End is the time of the last row; zero without rows.
func (u *Usage) End() time.Time {
	if len(u.Rows) == 0 {
		return time.Time{}
	}
	return u.Rows[len(u.Rows)-1].Time()
}

// Until drops rows after end.
func (u *Usage) Until(end time.Time) *Usage {
	n := sort.Search(len(u.Rows), func(i int) bool { return u.Rows[i].Time().After(end) })
	return &Usage{Series: u.Series, Rows: u.Rows[:n], index: u.index}
}

// Read reads paths: files, and Stdin. notes list unusable rows by file; the error names files that
// could not be read to the end. The usage has the rest.
func Read(paths []string, stdin io.Reader) (u *Usage, notes []string, err error) {
	return readWithin(shippedLimits, paths, stdin)
}

func readWithin(limits limits, paths []string, stdin io.Reader) (u *Usage, notes []string, err error) {
	u = &Usage{index: map[Series]int32{}}
	all := newReading(limits, nil)
	all.take = func(of Series, at, amount int64) error { return all.keep(u.add(of, at, amount)) }
	notes, err = all.each(paths, stdin)
	u.sort()
	return u, notes, err
}

// Each is Read for usage that may not fit into memory: it calls add with each amount, in the order
// of the files, and the time in unix nanoseconds. An error of add ends the reading.
func Each(paths []string, stdin io.Reader, add func(of Series, at, amount int64) error) (notes []string, err error) {
	return newReading(shippedLimits, add).each(paths, stdin)
}

func (r *reading) each(paths []string, stdin io.Reader) (notes []string, err error) {
	var errs []error
	fromStdin := false
	for _, path := range paths {
		f := &file{name: path, all: r}
		if path == Stdin {
			f.name = "standard input"
		}
		r.file = f.name
		switch {
		case path != Stdin:
			errs = append(errs, f.open(path))
		case fromStdin:
			errs = append(errs, errors.New("usage: standard input is named twice; it can be read once"))
		default:
			fromStdin = true
			errs = append(errs, f.read(stdin))
		}
		notes = append(notes, f.notes()...)
		if f.full != nil {
			break
		}
	}
	notes = append(notes, r.notes()...)
	for i := range notes {
		notes[i] = short(notes[i])
	}
	return notes, faults.Join(errs...)
}

// reading is what the files of one run have in common.
type reading struct {
	take           func(of Series, at, amount int64) error
	limits         limits
	file           string // that is read
	kept           int64  // bytes, by estimate
	keptByHeld     int64  // of these
	names          names
	held           held
	contradictions contradictions
}

func newReading(limits limits, take func(of Series, at, amount int64) error) *reading {
	return &reading{
		take: take, limits: limits, names: names{of: map[Series]string{}, lost: map[[2]string]*lostName{}}, held: held{},
		contradictions: contradictions{sources: map[Series]map[string]*source{}, labels: map[string]string{}, clusters: map[string]map[string]*span{}},
	}
}

func (r *reading) notes() []string { return append(r.names.notes(), r.contradictions.notes()...) }

type file struct {
	name string
	all  *reading
	full error // of take or of the limits, which ended the reading
	rows int   // usable rows
	// empty: it was read to its end, and has no row, which is seldom what its user meant.
	empty bool
	skipped

	lacks, warning string         // the first of answers
	other          map[string]int // series by metric that is not usage
}

func (f *file) open(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return f.unreadable(err)
	}
	defer file.Close()
	return f.read(file)
}

// unreadable names the file exactly once.
func (f *file) unreadable(err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if text := err.Error(); len(text) > longestText {
		err = errors.New(short(text))
	}
	return fmt.Errorf("cannot read usage from %s: %w", f.name, err)
}

// read detects the format from the beginning of a file.
func (f *file) read(from io.Reader) error {
	in := bufio.NewReader(from)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return f.unreadable(err)
		}
		in = bufio.NewReader(unpacked)
	}
	in = bufio.NewReaderSize(in, f.all.limits.line)
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	beginning, err := in.Peek(512)
	if len(beginning) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return f.unreadable(err)
	}
	if err := otherFormat(beginning); err != nil {
		return f.unreadable(err)
	}
	read := f.csv
	if text := bytes.TrimLeft(beginning, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		read = f.prometheus
	}
	if err := read(in); err != nil {
		return f.unreadable(err)
	}
	if f.full != nil {
		return f.full
	}
	var partial error
	if f.lacks != "" {
		partial = fmt.Errorf("usage from %s is incomplete: the server could not read all of it (%s); ask it again", f.name, f.lacks)
	}
	if f.rows == 0 && f.count > 0 {
		return faults.Join(partial, fmt.Errorf("usage from %s: none of its rows can be used", f.name))
	}
	f.empty = f.rows == 0
	return partial
}

func (f *file) add(of Series, at, amount int64) {
	if f.full == nil {
		f.full = f.all.take(of, at, amount)
	}
	f.rows++
}

// add returns how many bytes it takes.
func (u *Usage) add(of Series, at, amount int64) (bytes int) {
	i, known := u.index[of]
	if !known {
		of = of.Clone()
		bytes = bytesPerSeries
		i = int32(len(u.Series))
		u.Series = append(u.Series, of)
		u.index[of] = i
	}
	u.Rows = append(u.Rows, Row{At: at, Amount: amount, Series: i})
	return bytes + bytesPerRow
}

func (u *Usage) sort() {
	before := slices.Clone(u.Series)
	slices.SortFunc(u.Series, compare)
	for i, series := range u.Series {
		u.index[series] = int32(i)
	}
	for i := range u.Rows {
		u.Rows[i].Series = u.index[before[u.Rows[i].Series]]
	}
	slices.SortFunc(u.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Series, b.Series), cmp.Compare(b.Amount, a.Amount))
	})
}

// maxSkipped is how many unusable rows a note lists per file.
const maxSkipped = 10

// skipped are unusable rows of a file.
type skipped struct {
	listed []string
	count  int
}

// skip notes an unusable row, or a group of them.
func (f *file) skip(where string, reason error) {
	f.count++
	if len(f.listed) < maxSkipped {
		f.listed = append(f.listed, short(fmt.Sprintf("%s:%s: %v; this row is left out", f.name, where, reason)))
	}
}

// notUsage notes a series of a metric that does not count.
func (f *file) notUsage(metric string) {
	if f.other == nil {
		f.other = map[string]int{}
	}
	if _, known := f.other[metric]; known || len(f.other) < mostKept {
		f.other[metric]++
	}
	f.count++
}

// mostOther is how many metrics a note names, of those that are kept.
const mostOther, mostKept = 5, 1000

func (f *file) notes() []string {
	if f.empty {
		return []string{f.name + " holds no usage of containers"}
	}
	out := f.listed
	left := f.count - len(f.listed)
	if len(f.other) > 0 {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(f.other)) {
			left -= f.other[name]
			list = append(list, fmt.Sprintf("%s (%d series)", name, f.other[name]))
		}
		if more := len(list) - mostOther; more > 0 {
			list = append(list[:mostOther], fmt.Sprintf("%d more", more))
		}
		out = append(out, fmt.Sprintf("%s: metrics that are not usage are left out: %s; %s", f.name, strings.Join(list, ", "), usageText))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%s: %d more rows are left out", f.name, left))
	}
	if f.warning != "" {
		out = append(out, fmt.Sprintf("%s: Prometheus warns of the query: %s", f.name, f.warning))
	}
	return out
}
