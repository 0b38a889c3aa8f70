package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// AuditTail reads a lab's audit log while the API server writes it.
type AuditTail struct {
	path string
	file *os.File // nil before there is a log
	rest []byte   // of a line that is half written
}

// TailAudit reads the audit log beside a lab's kubeconfig, from its beginning.
func TailAudit(kubeconfig string) *AuditTail {
	return &AuditTail{path: filepath.Join(filepath.Dir(kubeconfig), "audit.log")}
}

// Read calls each for all requests that were logged since the last call. The API server moves a log that is full aside and
// begins another one; both are read.
func (t *AuditTail) Read(each func(AuditEvent)) error {
	if t.file == nil {
		file, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		t.file = file
	}
	moved, err := t.moved()
	if err != nil {
		return err
	}
	if err := t.readToEnd(each); err != nil || !moved {
		return err
	}
	err = t.file.Close()
	t.file = nil
	return errors.Join(err, t.Read(each))
}

// moved reports whether the log was moved aside. It is asked before the log is read to its end.
func (t *AuditTail) moved() (bool, error) {
	open, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) { // moved, and the next one has not started
		return false, nil
	}
	return err == nil && !os.SameFile(open, now), err
}

func (t *AuditTail) readToEnd(each func(AuditEvent)) error {
	text, err := io.ReadAll(t.file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", t.path, err)
	}
	t.rest = append(t.rest, text...)
	for {
		line, rest, whole := bytes.Cut(t.rest, []byte("\n"))
		if !whole {
			return nil
		}
		t.rest = rest
		var event AuditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("reading a line of %s: %w", t.path, err)
		}
		each(event)
	}
}

// Close closes the log.
func (t *AuditTail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
