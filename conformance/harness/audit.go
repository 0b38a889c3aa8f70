package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AuditEvent is a request of a service account, as a lab's audit log has it.
type AuditEvent struct {
	Verb, RequestURI         string
	User                     struct{ Username string }
	ObjectRef                *struct{ APIGroup, Resource, Subresource, Namespace, Name string } // nil for requests without an object
	ResponseStatus           *struct{ Code int }                                                // nil for requests that were not answered
	Annotations              map[string]string
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time // when it was answered
}

// Forbidden reports whether the API server refused the request for want of permission.
func (e *AuditEvent) Forbidden() bool {
	return e.Annotations["authorization.k8s.io/decision"] == "forbid"
}

// AuditEvents calls each for all requests in the audit logs beside a lab's kubeconfig whose user has a name that starts with a
// prefix. It is an error if there is no log.
func AuditEvents(kubeconfig, user string, each func(AuditEvent)) error {
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(kubeconfig), "audit*.log"))
	if err != nil {
		return err
	}
	if len(logs) == 0 {
		return errors.New("the lab has no audit log: stop one that an older version has started")
	}
	for _, log := range logs {
		if err := readAudit(log, user, each); err != nil {
			return fmt.Errorf("reading %s: %w", log, err)
		}
	}
	return nil
}

func readAudit(log, user string, each func(AuditEvent)) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event AuditEvent
		if json.Unmarshal(lines.Bytes(), &event) != nil { // the last line may be half written
			continue
		}
		if strings.HasPrefix(event.User.Username, user) {
			each(event)
		}
	}
	return lines.Err()
}

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
