package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
