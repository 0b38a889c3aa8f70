// Package inspect serves what a process knows about one VerticalPodAutoscaler, over HTTPS and only
// to those whom the API server allows; the guard of that is also the one of /metrics. It reads and never
// changes anything. What is said comes from sources: the recommender, the updater and the admission controller.
package inspect

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/listener"
	"github.com/celvpa/celvpa/controllers/target"
)

// What processes and their clients agree on.
const (
	// Audience is that of the tokens that the endpoint takes. It takes no others, so that what is sent
	// to it is of no use elsewhere.
	Audience = "explain.celvpa.dev"
	// TokenHeader is an alternative to Authorization, which API servers do not pass on when they proxy.
	TokenHeader = "X-Celvpa-Authorization"
	// ServiceLabel is "true" on the Services that lead to the endpoint, by a port called PortName.
	ServiceLabel = "celvpa.dev/explain"
	PortName     = "explain"
	// ServiceAccount is the one whose tokens clients send, in the namespace of the Service.
	ServiceAccount = "celvpa-explain"

	path = "/explain/v1/namespaces/%s/verticalpodautoscalers/%s"
)

// Path is the URL path at which a Server answers about a VPA.
func Path(namespace, name string) string { return fmt.Sprintf(path, namespace, name) }

const (
	// timeLimit bounds an answer. Clients wait for 5 s.
	timeLimit = 4 * time.Second
	// maxConcurrent bounds the answers that are made at the same time. Other requests wait.
	maxConcurrent = 4
	// maxAnswer bounds the bytes of an answer.
	maxAnswer = 8 << 20
	// maxConnections bounds the connected clients. API servers are the usual ones.
	maxConnections = 50
	// answerTimeout bounds a request and its answer.
	answerTimeout = 30 * time.Second
)

// Source says what a component knows about a VPA. It may be called concurrently, and leaves the
// fields of answers.Process to the endpoint, except for the rules.
type Source[T any] func(ctx context.Context, namespace, name string) (T, error)

// Sources answer for the components of one process; nil = the process does not run that component.
type Sources struct {
	Recommender Source[answers.Recommender]
	Updater     Source[answers.Updater]
	Admission   Source[answers.Admission]
}

// Server serves the answers of one process. It implements the manager's Runnable, and every replica
// runs it.
type Server struct {
	Sources
	Address     string // host:port
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Client      client.Client // reads VPAs, and may create the reviews of Guard
	Namespaces  target.Namespaces
	Elected     <-chan struct{} // closed once this replica leads
	Instance    string          // see answers.Process
	Version     string
	Clock       clock.PassiveClock
	Log         logr.Logger
}

// NeedLeaderElection is false: other replicas say that they do not lead.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends. It fails when the address is taken.
func (s *Server) Start(ctx context.Context) error {
	server := &listener.Server{
		Name: "explain endpoint", Address: s.Address, TLS: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate},
		Handler: s.Handler(), Log: s.Log, MaxConnections: maxConnections, AnswerTimeout: answerTimeout,
	}
	return server.Start(ctx)
}
