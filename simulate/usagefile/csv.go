package usagefile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Columns in default order, for files without a header.
const (
	timestamp = iota
	namespace
	pod
	container
	resource
	value
	columnCount
)

var columnNames = [columnCount]string{"timestamp", "namespace", "pod", "container", "resource", "value"}

const defaultNamespace = "default"

// columns is the position of each column.
type columns [columnCount]int

// csv reads line by line, so a fault costs one row. It skips empty lines and # comments.
func (f *file) csv(in *bufio.Reader) error {
	at := columns{0, 1, 2, 3, 4, 5}
	first := true
	for line := 1; ; line++ {
		row, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("line %d is longer than %s, which no row is", line, size(int64(in.Size())))
		}
		if text := strings.TrimSpace(string(row)); text != "" && text[0] != '#' {
			fields, broken := fieldsOf(text)
			switch {
			case broken != nil:
				f.skip(strconv.Itoa(line), broken)
			case first && isHeader(fields):
				if at, broken = header(fields); broken != nil {
					return broken
				}
			default:
				if broken := f.row(fields, at); broken != nil {
					f.skip(strconv.Itoa(line), broken)
				}
			}
			first = false
		}
		if errors.Is(err, io.EOF) || f.full != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func fieldsOf(line string) ([]string, error) {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ","), nil
	}
	reader := csv.NewReader(strings.NewReader(line))
	reader.TrimLeadingSpace = true
	fields, err := reader.Read()
	if err != nil {
		return nil, errors.New("its quotes do not match")
	}
	return fields, nil
}

func isHeader(fields []string) bool {
	return slices.ContainsFunc(fields, func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(name), columnNames[timestamp])
	})
}

// header finds the known columns and ignores others.
func header(fields []string) (columns, error) {
	var at columns
	var missing []string
	for column, name := range columnNames {
		at[column] = -1
		for i, field := range fields {
			if strings.EqualFold(strings.TrimSpace(field), name) {
				at[column] = i
			}
		}
		if at[column] < 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return at, fmt.Errorf("its first line names no column %s; the columns are %s", strings.Join(missing, ", "), strings.Join(columnNames[:], ","))
	}
	return at, nil
}

func (f *file) row(fields []string, at columns) error {
	var cells [columnCount]string
	for column, i := range at {
		if i >= len(fields) {
			return fmt.Errorf("it has %d columns and not %d: %s", len(fields), columnCount, strings.Join(columnNames[:], ","))
		}
		cells[column] = strings.TrimSpace(fields[i])
	}
	when, err := nanoseconds(cells[timestamp])
	if err != nil {
		return err
	}
	kind, known := kinds[cells[resource]]
	if !known {
		return fmt.Errorf("resource %q is not known; it is cpu, memory or oom", cells[resource])
	}
	of := Series{Pod: model.PodID{Namespace: cells[namespace], Name: cells[pod]}, Container: cells[container], Kind: kind}
	if of.Pod.Name == "" || of.Container == "" {
		return errors.New("it names no pod, or no container")
	}
	if of.Pod.Namespace == "" {
		of.Pod.Namespace = defaultNamespace
	}
	n, err := amount(kind, scaleOf(kind), cells[value])
	if err != nil {
		return err
	}
	f.add(of, when, n)
	return nil
}
