package webhook

import (
	"fmt"
	"reflect"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// maxValue bounds a value in the log, in bytes. Clients choose names, headers and parts of error messages.
	maxValue = 200
	// stackKey is the key of the one value that is logged in full, because no client controls it.
	stackKey = "stack"
)

// shed counts a review that was answered without the handler. It logs each message at most once per interval, with the number of
// messages suppressed since.
func (s *Server) shed(reason, text string, values ...any) {
	shedTotal.WithLabelValues(reason).Inc()
	if suppressed, ok := s.limited.allow(text); ok {
		s.log.Error(nil, text, append(values, "suppressed", suppressed)...)
	}
}

// limited limits how often each message is logged, so that a failure that recurs a thousand times a second does not fill a disk.
type limited struct {
	clock clock.PassiveClock
	every time.Duration

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	shown      time.Time
	suppressed int
}

// allow reports whether a message may be logged now, and how often it was suppressed since the last time.
func (s *limited) allow(text string) (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.lines == nil {
		s.lines = map[string]*line{}
	}
	l := s.lines[text]
	if l != nil && now.Before(l.shown.Add(s.every)) {
		l.suppressed++
		return 0, false
	}
	if l != nil {
		suppressed = l.suppressed
	}
	s.lines[text] = &line{shown: now}
	return suppressed, true
}

// ShortValues returns a logger that truncates values to 200 bytes, because clients choose many of them.
func ShortValues(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if sink == nil {
		return log
	}
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1) // for shortSink's own frame
	}
	return log.WithSink(shortSink{sink})
}

type shortSink struct{ logr.LogSink }

// Info implements logr.LogSink.
func (s shortSink) Info(level int, text string, values ...any) {
	s.LogSink.Info(level, text, shortValues(values)...)
}

// Error implements logr.LogSink.
func (s shortSink) Error(err error, text string, values ...any) {
	if err != nil {
		if all := err.Error(); len(all) > maxValue {
			err = fmt.Errorf("%s", shorten(all))
		}
	}
	s.LogSink.Error(err, text, shortValues(values)...)
}

// WithValues implements logr.LogSink.
func (s shortSink) WithValues(values ...any) logr.LogSink {
	return shortSink{s.LogSink.WithValues(shortValues(values)...)}
}

// WithName implements logr.LogSink.
func (s shortSink) WithName(name string) logr.LogSink {
	return shortSink{s.LogSink.WithName(name)}
}

// shortValues truncates the values of alternating keys and values.
func shortValues(values []any) []any {
	out := values
	for i := 1; i < len(values); i += 2 {
		if values[i-1] == stackKey {
			continue
		}
		short, cut := shortValue(values[i])
		if !cut {
			continue
		}
		if &out[0] == &values[0] {
			out = append([]any(nil), values...)
		}
		out[i] = short
	}
	return out
}

func shortValue(value any) (short any, cut bool) {
	var text string
	switch v := value.(type) {
	case error:
		text = v.Error()
	case fmt.Stringer:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			return value, false
		}
		text = v.String()
	default:
		switch r := reflect.ValueOf(value); r.Kind() {
		case reflect.String:
			text = r.String()
		case reflect.Slice, reflect.Map, reflect.Struct:
			text = fmt.Sprint(value)
		}
	}
	if len(text) <= maxValue {
		return value, false
	}
	return shorten(text), true
}

// shorten truncates a text to maxValue bytes and says how long it was.
func shorten(text string) string {
	if len(text) <= maxValue {
		return text
	}
	end := maxValue
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:end], len(text))
}
