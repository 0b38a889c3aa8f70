package freshness

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Lead follows the renewals of the lease by which a process leads. A process that stood still for a while has lost its lease
// before it finds out: client-go goes on for as long as a renewal may take. It is safe for concurrent use.
type Lead struct {
	Clock clock.PassiveClock
	Lease types.NamespacedName // an empty namespace is that of the process, and not looked at
	// Valid is how long a renewal counts: shorter than the lease, so that what is sent last arrives before another leads.
	Valid time.Duration

	mu      sync.Mutex
	renewed time.Time // when the last renewal that succeeded was asked for
}

// Wrap returns a transport that follows the renewals which go through it.
func (l *Lead) Wrap(next http.RoundTripper) http.RoundTripper { return renewals{next, l} }

// Lost says why the process may lead no more; empty = it leads.
func (l *Lead) Lost() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		return fmt.Sprintf("lease %s has not been renewed yet", l.Lease)
	}
	if idle := l.Clock.Since(l.renewed); idle > l.Valid {
		return fmt.Sprintf("lease %s has not been renewed for %s", l.Lease, idle.Round(time.Second))
	}
	return ""
}

// is reports whether a path is that of the lease.
func (l *Lead) is(path string) bool {
	namespace, name, found := strings.Cut(path[strings.LastIndex(path, "/namespaces/")+1:], "/leases/")
	return found && name == l.Lease.Name && (l.Lease.Namespace == "" || namespace == "namespaces/"+l.Lease.Namespace)
}

type renewals struct {
	http.RoundTripper
	lead *Lead
}

// RoundTrip implements http.RoundTripper.
func (r renewals) RoundTrip(request *http.Request) (*http.Response, error) {
	l := r.lead
	asked := l.Clock.Now()
	answer, err := r.RoundTripper.RoundTrip(request)
	if err == nil && answer.StatusCode == http.StatusOK && request.Method == http.MethodPut && l.is(request.URL.Path) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = asked
	}
	return answer, err
}
