// Package metricsauth lets only those read metrics whom the API server knows and allows: it asks
// with a TokenReview who the bearer of a token is, and with a SubjectAccessReview whether that user
// may read the path, as Kubernetes' own components do.
package metricsauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/notice"
)

const (
	// allowedFor and refusedFor are how long an answer is remembered. The first is also how long a
	// permission or a token that is revoked still works.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	// maxAnswers bounds the memory. When it is full it is cleared.
	maxAnswers = 1000
	// askTimeout bounds the time of the two requests together.
	askTimeout = 10 * time.Second
)

// Guard asks the API server about each reader. It is safe for concurrent use.
type Guard struct {
	Client client.Writer // must be allowed to create both reviews
	Clock  clock.PassiveClock
	Log    logr.Logger

	mu       sync.Mutex
	answers  map[question]answer
	failures notice.Board
}

// question is who asks for what.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// answer is an HTTP status, with a reason unless it is 200.
type answer struct {
	code   int
	reason string
	until  time.Time
}

// Wrap is a handler for those who may read it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.ask(r)
		if a.code == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if a.code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, a.reason, a.code)
	})
}

// ask answers a request from memory, or asks the API server.
func (g *Guard) ask(r *http.Request) answer {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return answer{code: http.StatusUnauthorized, reason: "send a bearer token, such as that of a service account"}
	}
	q := question{token: sha256.Sum256([]byte(token)), verb: strings.ToLower(r.Method), path: r.URL.Path}
	now := g.Clock.Now()
	g.mu.Lock()
	known, found := g.answers[q]
	g.mu.Unlock()
	if found && now.Before(known.until) {
		return known
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	a, err := g.review(ctx, token, q)
	if err != nil {
		if r.Context().Err() == nil { // who asked is still there
			g.failures.Tell(g.Log, "checking who reads the metrics", err, "cannot check who reads the metrics; nobody may until this works")
		}
		return answer{code: http.StatusInternalServerError, reason: "cannot find out whether you may read this; the log says why"}
	}
	g.failures.Tell(g.Log, "checking who reads the metrics", nil, "")
	a.until = now.Add(refusedFor)
	if a.code == http.StatusOK {
		a.until = now.Add(allowedFor)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answers == nil || len(g.answers) >= maxAnswers {
		g.answers = map[question]answer{}
	}
	g.answers[q] = a
	return a
}

// review asks the API server.
func (g *Guard) review(ctx context.Context, token string, q question) (answer, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.Client.Create(ctx, who); err != nil {
		return answer{}, wayOut("asking who sent a token", "tokenreviews.authentication.k8s.io", err)
	}
	if !who.Status.Authenticated {
		return answer{code: http.StatusUnauthorized, reason: "the API server does not know this token"}, nil
	}
	user := who.Status.User
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.path, Verb: q.verb},
	}}
	for key, values := range user.Extra {
		may.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := g.Client.Create(ctx, may); err != nil {
		return answer{}, wayOut("asking what "+user.Username+" may read", "subjectaccessreviews.authorization.k8s.io", err)
	}
	if !may.Status.Allowed {
		return answer{code: http.StatusForbidden, reason: fmt.Sprintf("%s may not %s %s: grant it by a ClusterRole with nonResourceURLs", user.Username, q.verb, q.path)}, nil
	}
	return answer{code: http.StatusOK}, nil
}

func wayOut(doing, resource string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w; allow this process to create %s", doing, err, resource)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
