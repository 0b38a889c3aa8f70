package history

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/celvpa/celvpa/simulate/usagefile"
)

// DefaultMemory is how much packed history is held in memory: that of 1,000 containers over 30 days
// at a sample a minute. What is more goes to a temporary file.
const DefaultMemory = 384 << 20

// mostSeries are 300,000 containers for a month, half of which are replaced each day. They take 4 GiB.
const mostSeries = 10_000_000

// Store keeps usage, packed. It takes usage until Seal, and gives it afterwards; then it is safe for
// concurrent use. Close it to remove its temporary file.
type Store struct {
	memory int    // bytes that may be held
	folder string // of the temporary file; empty = the system's

	series []*series
	index  map[usagefile.Series]*series
	held   int // bytes

	mu    sync.Mutex
	spill *os.File // nil = none is needed
	size  int64    // of it

	notes []string
	noted map[string]bool
	watch func(done, of int64)
}

// series is one series of a store.
type series struct {
	Span
	packer
	packed   []byte // since the last spilled piece
	pieces   []piece
	ordered  bool // no point came before an earlier one, nor at its time
	lastSeen int64
}

// piece is a spilled part of a series.
type piece struct {
	at     int64
	length int
}

// NewStore returns an empty store that holds so many bytes in memory, and the rest in a temporary
// file in a folder; empty = the system's. watch, if set, receives the progress.
func NewStore(memory int, folder string, watch func(done, of int64)) *Store {
	return &Store{memory: memory, folder: folder, index: map[usagefile.Series]*series{}, noted: map[string]bool{}, watch: watch}
}

// Add implements Sink.
func (s *Store) Add(of usagefile.Series, points ...Point) error {
	known := s.index[of]
	if known == nil {
		of = of.Clone()
		if len(s.series) >= mostSeries {
			return fmt.Errorf("the history has more than %d series: read fewer pods, or a shorter time", mostSeries)
		}
		known = &series{Span: Span{Series: of}, ordered: true}
		s.index[of] = known
		s.series = append(s.series, known)
	}
	before := len(known.packed)
	for _, p := range points {
		if known.Points == 0 || p.At < known.First {
			known.First = p.At
		}
		if known.Points == 0 || p.At > known.Last {
			known.Last = p.At
		}
		if known.Points > 0 && p.At <= known.lastSeen {
			known.ordered = false
		}
		known.lastSeen = p.At
		known.packed = known.pack(known.packed, p)
		known.Points++
	}
	s.held += len(known.packed) - before
	if s.held > s.memory {
		return s.spillAll()
	}
	return nil
}

// Note implements Sink. A note that exists is not repeated.
func (s *Store) Note(text string) {
	if !s.noted[text] {
		s.noted[text] = true
		s.notes = append(s.notes, text)
	}
}

// Progress implements Sink.
func (s *Store) Progress(done, of int64) {
	if s.watch != nil {
		s.watch(done, of)
	}
}

// Notes are the remarks of sources, in order.
func (s *Store) Notes() []string { return s.notes }

// spillAll writes what is held to the temporary file.
func (s *Store) spillAll() error {
	if s.spill == nil {
		file, err := os.CreateTemp(s.folder, "celvpa-history-*")
		if err != nil {
			return fmt.Errorf("making a temporary file for a history that exceeds memory: %w; set TMPDIR to a folder with room", err)
		}
		s.spill = file
		_ = os.Remove(file.Name()) // the open file stays until Close, and does not outlive the process
	}
	for _, series := range s.series {
		if len(series.packed) == 0 {
			continue
		}
		n, err := s.spill.WriteAt(series.packed, s.size)
		if err != nil {
			return fmt.Errorf("writing a temporary file for a history that exceeds memory: %w; set TMPDIR to a folder with room", err)
		}
		series.pieces = append(series.pieces, piece{s.size, n})
		s.size += int64(n)
		series.packed, series.packer = series.packed[:0:0], packer{}
	}
	s.held = 0
	return nil
}

// Seal sorts the series by namespace, pod, container and kind, and drops what is there twice: of
// several points at one time the largest counts. Notes say how many.
func (s *Store) Seal() error {
	slices.SortFunc(s.series, func(a, b *series) int {
		return cmp.Or(strings.Compare(a.Pod.Namespace, b.Pod.Namespace), strings.Compare(a.Pod.Name, b.Pod.Name),
			strings.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	twice, of := 0, 0
	var points []Point
	for i, series := range s.series {
		if series.ordered {
			continue
		}
		var err error
		before := series.Points
		if points, err = s.Read(i, points[:0]); err != nil {
			return err
		}
		if series.Points = len(points); series.Points < before {
			twice, of = twice+before-series.Points, of+1
		}
	}
	if twice > 0 {
		s.Note(fmt.Sprintf("points ignored, because their series has a larger one at the same time: %d, in %d series", twice, of))
	}
	return nil
}

// Spans lists the series.
func (s *Store) Spans() []Span {
	out := make([]Span, len(s.series))
	for i, series := range s.series {
		out[i] = series.Span
	}
	return out
}

// Read appends the points of a series, an index of Spans, in order of time.
func (s *Store) Read(i int, to []Point) ([]Point, error) {
	series := s.series[i]
	begin := len(to)
	to = slices.Grow(to, series.Points)
	var err error
	for _, p := range series.pieces {
		packed := make([]byte, p.length)
		if _, err = s.spill.ReadAt(packed, p.at); err != nil {
			return to, fmt.Errorf("reading the temporary file of the history: %w", err)
		}
		if to, err = unpack(to, packed); err != nil {
			return to, err
		}
	}
	if to, err = unpack(to, series.packed); err != nil || series.ordered {
		return to, err
	}
	return append(to[:begin], sorted(to[begin:])...), nil
}

// sorted orders points by time, without those that are there twice.
func sorted(points []Point) []Point {
	slices.SortFunc(points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Amount, a.Amount)) })
	return slices.CompactFunc(points, func(a, b Point) bool { return a.At == b.At })
}

// Close removes the temporary file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spill == nil {
		return nil
	}
	err := s.spill.Close()
	s.spill = nil
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
