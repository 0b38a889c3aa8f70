package main

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func setupLogging(format string) error {
	switch format {
	case "text":
		ctrl.SetLogger(inLines(klog.NewKlogr()))
	case "json":
		logger := zap.New(zap.JSONEncoder(), zap.Level(zapcore.Level(-verbosity())), zap.StacktraceLevel(zapcore.PanicLevel))
		ctrl.SetLogger(jsonLines(logger))
		klog.SetLogger(logger)
	default:
		return fmt.Errorf("--logging-format is %q; use text or json", format)
	}
	return nil
}

// verbosity is the number given with -v.
func verbosity() int {
	n := 0
	for klog.V(klog.Level(n + 1)).Enabled() {
		n++
	}
	return n
}

// detailedFrom is the verbosity from which on libraries log details, too: a line for each watch, above those of celvpa at the
// default verbosity.
const detailedFrom = defaultVerbosity + 1

// jsonLines is a logger of JSON without the details of libraries.
func jsonLines(log logr.Logger) logr.Logger {
	return log.WithSink(lineSink{LogSink: log.GetSink(), json: true}.WithCallDepth(1))
}

// inLines is a logger that writes one line a message. klog writes texts with line breaks as they are, control characters included:
// messages of nodes, API servers and events, of which tenants write some.
func inLines(log logr.Logger) logr.Logger {
	return log.WithSink(lineSink{LogSink: log.GetSink()}.WithCallDepth(1))
}

type lineSink struct {
	logr.LogSink
	json    bool // which keeps lines itself
	library bool
}

// Enabled implements logr.LogSink.
func (s lineSink) Enabled(level int) bool {
	return (!s.library || level == 0 || klog.V(detailedFrom).Enabled()) && s.LogSink.Enabled(level)
}

// Info implements logr.LogSink.
func (s lineSink) Info(level int, text string, values ...any) {
	s.LogSink.Info(level, text, s.lines(values)...)
}

// Error implements logr.LogSink.
func (s lineSink) Error(err error, text string, values ...any) {
	if err != nil && !s.json && broken(err.Error()) {
		values, err = append([]any{"err", err}, values...), nil
	}
	s.LogSink.Error(err, text, s.lines(values)...)
}

// WithValues implements logr.LogSink.
func (s lineSink) WithValues(values ...any) logr.LogSink {
	s.LogSink = s.LogSink.WithValues(s.lines(values)...)
	return s
}

// WithName implements logr.LogSink.
func (s lineSink) WithName(name string) logr.LogSink {
	s.LogSink, s.library = s.LogSink.WithName(name), s.library || name == "controller-runtime"
	return s
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s lineSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		s.LogSink = deep.WithCallDepth(depth)
	}
	return s
}

// escaped is a text that klog writes as JSON.
type escaped string

// stackKey names the one value that keeps its lines: only celvpa writes it.
const stackKey = "stack"

// lines is a list of keys and values in turns in which texts with line breaks are to be escaped.
func (s lineSink) lines(values []any) []any {
	if s.json {
		return values
	}
	out := values
	for i := 1; i < len(values); i += 2 {
		text := ""
		switch v := values[i].(type) {
		case string:
			text = v
		case error:
			text = fmt.Sprint(v)
		case fmt.Stringer:
			text = fmt.Sprint(v)
		}
		if !broken(text) || values[i-1] == stackKey {
			continue
		}
		if &out[0] == &values[0] {
			out = append([]any(nil), values...)
		}
		out[i] = escaped(text)
	}
	return out
}

func broken(text string) bool { return strings.ContainsAny(text, "\n\r") }
