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
	// longestValue is how many bytes of a value the log shows. Clients choose names, headers and the text of errors.
	longestValue = 200
	// stackKey names the one value that is shown whole: no client writes it.
	stackKey = "stack"
)

// shed counts a review that the handler had no part in. The log shows one line of each text every so often, with the number of
// those suppressed.
func (s *Server) shed(reason, text string, values ...any) {
	shedTotal.WithLabelValues(reason).Inc()
	if suppressed, tell := s.seldom.tell(text); tell {
		s.log.Error(nil, text, append(values, "suppressed", suppressed)...)
	}
}

// seldom lets a line of the log through every so often, so that what goes wrong a thousand times a second does not fill a disk.
type seldom struct {
	clock clock.PassiveClock
	every time.Duration

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	shown      time.Time
	suppressed int
}

// tell reports whether it is time to show a line again, and how often it was suppressed since it was shown.
func (s *seldom) tell(what string) (suppressed int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.lines == nil {
		s.lines = map[string]*line{}
	}
	l := s.lines[what]
	if l != nil && now.Before(l.shown.Add(s.every)) {
		l.suppressed++
		return 0, false
	}
	if l != nil {
		suppressed = l.suppressed
	}
	s.lines[what] = &line{shown: now}
	return suppressed, true
}

// ShortValues is a logger that cuts the texts among its values to 200 bytes: clients choose many of them.
func ShortValues(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if sink == nil {
		return log
	}
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1) // shortSink is a caller more
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
		if all := err.Error(); len(all) > longestValue {
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

// shortValues is a list of keys and values in turns in which no value is a long text.
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
	if len(text) <= longestValue {
		return value, false
	}
	return shorten(text), true
}

// shorten cuts a text to longestValue bytes and says how long it was.
func shorten(text string) string {
	if len(text) <= longestValue {
		return text
	}
	end := longestValue
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:end], len(text))
}
