package usagefile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
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

var (
	topLine    = regexp.MustCompile(`^(.*CPU\(cores\)|\S+([ \t]+\S+){0,2}[ \t]+\d+m[ \t]+\d+[KMGT]i\b)`)
	scrapeLine = regexp.MustCompile(`^(# (HELP|TYPE|UNIT|EOF)\b|[a-zA-Z_:][a-zA-Z0-9_:]*(\{|[ \t]+[-+]?([0-9][0-9.eE+-]*|NaN|Inf)([ \t]+\d+)?\s*$))`)
)

// otherFormat is the error of a file that holds something else than usage over time, by its beginning;
// nil = it may be usage.
func otherFormat(beginning []byte) error {
	line, _, _ := bytes.Cut(bytes.TrimLeft(beginning, " \t\r\n"), []byte("\n"))
	const tarMark, tarMarkAt = "ustar", 257
	begins := func(text string) bool { return bytes.HasPrefix(line, []byte(text)) }
	switch {
	case bytes.HasPrefix(beginning[min(tarMarkAt, len(beginning)):], []byte(tarMark)):
		return errors.New("it is a tar archive: unpack it, and name the files of usage in it; manifests go to -f")
	case begins("<"):
		return errors.New("it is an HTML page, such as that of a login, and not usage: log in with what the server wants, " +
			"such as curl -H 'Authorization: Bearer TOKEN', and ask for /api/v1/query_range")
	case begins("\xff\xfe"), begins("\xfe\xff"), bytes.IndexByte(line[:min(4, len(line))], 0) >= 0:
		return errors.New("it is UTF-16, as PowerShell writes it: write UTF-8, with Out-File -Encoding utf8")
	case topLine.Match(line):
		return errors.New("it is the output of kubectl top, which is usage of one moment: ask a Prometheus for /api/v1/query_range, " +
			"or write CSV with the columns timestamp,namespace,pod,container,resource,value")
	case scrapeLine.Match(line):
		return errors.New("it is the text of one scrape (Prometheus exposition format), which has no history: ask the Prometheus that scrapes it for /api/v1/query_range")
	case begins("["):
		return errors.New("it is a JSON list: give the whole answer to /api/v1/query_range, with its status and data")
	case begins("apiVersion:"), begins("kind:"), begins("---"):
		return errors.New("it is a manifest: give it with -f")
	}
	return nil
}
