package inspect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// allowedFor and refusedFor are how long an answer is remembered. The first is also how long a
	// permission or a token that is revoked still works.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	// maxAnswers bounds the answers yes, and the answers no, that are remembered: anybody can send any number of tokens. Who was
	// allowed is known for knownFor, so that strangers who ask at the same time do not keep them out.
	maxAnswers = 1000
	knownFor   = time.Hour
	// maxReviews bounds the readers about whom the API server is asked at the same time: those who were allowed before, and others.
	maxReviews = 5
	// logEvery is how often a failure is logged, whatever it says.
	logEvery = time.Minute
	// askTimeout bounds the time of the two requests together.
	askTimeout = 10 * time.Second
)

// Guard lets only those read what a process serves whom the API server knows and allows: it asks with a TokenReview who the bearer of
// a token is, and with a SubjectAccessReview whether that user may, as Kubernetes' own components do. It is safe for concurrent use.
type Guard struct {
	// Access is what a request needs. It reads what the handler's route has found, such as path values.
	Access func(*http.Request) Access
	// Audiences are those that a token must have one of; empty = those of the API server.
	Audiences []string
	// Headers are those that may hold "Bearer TOKEN", the first that is set; empty = Authorization.
	Headers []string
	// TokenHint says how to get a token.
	TokenHint string
	// Refuse writes the answer to those who may not; nil = as text.
	Refuse func(w http.ResponseWriter, code int, reason string)

	Client client.Writer // must be allowed to create both reviews
	Clock  clock.PassiveClock
	Log    logr.Logger

	known    *cache.LRUExpireCache // by question, until when the answer is yes
	refused  *cache.LRUExpireCache // by question, the answer
	mu       sync.Mutex
	asking   map[bool]int // reviews under way, of readers who were allowed before and of others
	logged   time.Time    // the last failure that was
	unlogged int          // failures since
}

// Access is what a reader must be allowed to do: the attributes of a resource, or those of a path.
type Access struct {
	Resource authorizationv1.ResourceAttributes // zero = a path
	Path     authorizationv1.NonResourceAttributes
	Grant    string // says what to grant to those who may not
}

// ToPath is access to the path of a request.
func ToPath(r *http.Request) Access {
	return Access{Path: authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}, Grant: "grant it by a ClusterRole with nonResourceURLs"}
}

// String is what is asked for, such as get /metrics.
func (a Access) String() string {
	if r := a.Resource; r.Verb != "" {
		what := r.Resource
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		return fmt.Sprintf("%s %s.%s %s in namespace %s", r.Verb, what, r.Group, r.Name, r.Namespace)
	}
	return a.Path.Verb + " " + a.Path.Path
}

// question is who asks for what.
type question struct {
	token  [sha256.Size]byte
	access Access
}

// answer is an HTTP status, with a reason unless it is 200.
type answer struct {
	code   int
	reason string
}

// Wrap is a handler for those who may read it.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	refuse := g.Refuse
	if refuse == nil {
		refuse = func(w http.ResponseWriter, code int, reason string) { http.Error(w, reason, code) }
	}
	if g.known == nil {
		g.known, g.refused = cache.NewLRUExpireCacheWithClock(maxAnswers, g.Clock), cache.NewLRUExpireCacheWithClock(maxAnswers, g.Clock)
		g.asking = map[bool]int{}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.ask(r)
		if a.code == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if a.code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Connection", "close") // a stranger keeps none
		}
		refuse(w, a.code, a.reason)
	})
}

// ask answers a request from memory, or asks the API server.
func (g *Guard) ask(r *http.Request) answer {
	token := g.token(r)
	if token == "" {
		return answer{code: http.StatusUnauthorized, reason: "send a bearer token, " + g.tokenHint()}
	}
	q := question{token: sha256.Sum256([]byte(token)), access: g.Access(r)}
	known, done := g.recall(q)
	if done == nil {
		return known
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	a, err := g.review(ctx, token, q.access)
	if err != nil {
		if r.Context().Err() == nil { // who asked is still there
			g.failed(err)
		}
		return answer{code: http.StatusInternalServerError, reason: "cannot find out whether you may read this; the log says why"}
	}
	g.remember(q, a)
	return a
}

// recall returns an answer from memory, or that too many ask. Otherwise done is not nil, and must be called when the API server has
// been asked.
func (g *Guard) recall(q question) (a answer, done func()) {
	until, known := g.known.Get(q)
	if known && g.Clock.Now().Before(until.(time.Time)) {
		return answer{code: http.StatusOK}, nil
	}
	if no, refused := g.refused.Get(q); refused {
		return no.(answer), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asking[known] >= maxReviews {
		return answer{code: http.StatusServiceUnavailable, reason: "too many unknown clients ask at once; try again"}, nil
	}
	g.asking[known]++
	return answer{}, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.asking[known]--
	}
}

func (g *Guard) remember(q question, a answer) {
	if a.code == http.StatusOK {
		g.known.Add(q, g.Clock.Now().Add(allowedFor), knownFor)
		return
	}
	g.known.Remove(q)
	g.refused.Add(q, a, refusedFor)
}

// failed logs that the API server cannot be asked, but not for each reader.
func (g *Guard) failed(err error) {
	now := g.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.logged.IsZero() && now.Sub(g.logged) < logEvery {
		g.unlogged++
		return
	}
	g.Log.Error(err, "cannot check who may read; access is denied until this works", "failuresNotLogged", g.unlogged)
	g.logged, g.unlogged = now, 0
}

// token is the one that a request brings, empty without one.
func (g *Guard) token(r *http.Request) string {
	headers := g.Headers
	if len(headers) == 0 {
		headers = []string{"Authorization"}
	}
	for _, header := range headers {
		if scheme, token, _ := strings.Cut(r.Header.Get(header), " "); strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
	}
	return ""
}

func (g *Guard) tokenHint() string {
	return cmp.Or(g.TokenHint, "such as that of a service account")
}

// review asks the API server.
func (g *Guard) review(ctx context.Context, token string, access Access) (answer, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: g.Audiences}}
	if err := g.Client.Create(ctx, who); err != nil {
		return answer{}, wayOut("asking who sent a token", "tokenreviews.authentication.k8s.io", err)
	}
	switch {
	case len(g.Audiences) == 0 && !who.Status.Authenticated:
		return answer{code: http.StatusUnauthorized, reason: "the API server does not know this token"}, nil
	// An authenticator that knows no audiences answers without any.
	case len(g.Audiences) > 0 && !(who.Status.Authenticated && slices.ContainsFunc(who.Status.Audiences, func(a string) bool { return slices.Contains(g.Audiences, a) })):
		return answer{code: http.StatusUnauthorized, reason: fmt.Sprintf("the API server does not know this token, or it is not for audience %s: send one, %s", strings.Join(g.Audiences, " or "), g.tokenHint())}, nil
	}
	user := who.Status.User
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: map[string]authorizationv1.ExtraValue{},
	}}
	if access.Resource.Verb != "" {
		may.Spec.ResourceAttributes = &access.Resource
	} else {
		may.Spec.NonResourceAttributes = &access.Path
	}
	for key, values := range user.Extra {
		may.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := g.Client.Create(ctx, may); err != nil {
		return answer{}, wayOut("asking what "+user.Username+" may read", "subjectaccessreviews.authorization.k8s.io", err)
	}
	if !may.Status.Allowed {
		return answer{code: http.StatusForbidden, reason: fmt.Sprintf("%s may not %s: %s", user.Username, access, access.Grant)}, nil
	}
	return answer{code: http.StatusOK}, nil
}

func wayOut(doing, resource string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %w; allow this process to create %s", doing, err, resource)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
