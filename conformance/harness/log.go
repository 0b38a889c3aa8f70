package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Log keeps the log of a process; it is safe for concurrent use. Add is for Start.
type Log struct {
	mu    sync.Mutex
	lines []LogLine
}

// Add adds a line.
func (l *Log) Add(line LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// Lines are those that were added until now.
func (l *Log) Lines() []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Count is how many lines have this message.
func (l *Log) Count(message string) (n int) {
	for _, line := range l.Lines() {
		if line.Text("msg") == message {
			n++
		}
	}
	return n
}

// Says reports whether a line has all of these words, in its message or its values.
func (l *Log) Says(words ...string) bool {
	return slices.ContainsFunc(l.Lines(), func(line LogLine) bool {
		text := fmt.Sprint(line)
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// Get reads a page, not compressed, which would cost the process CPU. The error of one that is not 200 OK has its text.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept-Encoding", "identity")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, answer.Status, text)
	}
	return string(text), err
}

// Metric is the value of a series, given with its labels, that a process serves at an address; 0 if there is none.
func Metric(address, series string) float64 {
	text, err := Get(context.Background(), "http://"+address+"/metrics")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v
		}
	}
	return 0
}
