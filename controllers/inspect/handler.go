package inspect

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/metric"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

var requests = metric.Counter("celvpa_explain_requests_total", "Requests to --explain-address, by the HTTP status of the answer.", "code")

// The resource that a client must be allowed to get.
const (
	vpas        = "verticalpodautoscalers"
	subresource = "explain"
)

// Handler serves the answers. Errors are a metav1.Status, as those of API servers.
func (s *Server) Handler() http.Handler {
	guard := &Guard{
		Access: func(r *http.Request) Access {
			return Access{
				Resource: authorizationv1.ResourceAttributes{Verb: "get", Group: vpav1.GroupVersion.Group, Resource: vpas, Subresource: subresource,
					Namespace: r.PathValue("namespace"), Name: r.PathValue("name")},
				Grant: "grant it to this user by a Role in that namespace, or by a ClusterRole",
			}
		},
		Audiences: []string{Audience}, Headers: []string{TokenHeader, "Authorization"},
		TokenHint: fmt.Sprintf("such as that of `kubectl create token %s --audience=%s` in celvpa's namespace", ServiceAccount, Audience),
		Refuse:    fail, Client: s.Client, Clock: s.Clock, Log: s.Log,
	}
	slots := make(chan struct{}, maxConcurrent)
	answer := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			fail(w, http.StatusServiceUnavailable, fmt.Sprintf("%d explanations are being made already, and none of them ended within %s; try again", maxConcurrent, timeLimit))
			return
		}
		var busy sync.WaitGroup
		busy.Add(1)
		go func() { // a source that is too slow keeps its slot
			busy.Wait()
			<-slots
		}()
		defer busy.Done()
		s.answer(w, r, &busy)
	}))
	mux := http.NewServeMux()
	mux.HandleFunc(Path("{namespace}", "{name}"), func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			fail(w, http.StatusMethodNotAllowed, "explanations can only be read, by GET")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
		defer cancel()
		answer.ServeHTTP(w, r.WithContext(ctx))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "nothing is served here; get "+Path("NAMESPACE", "NAME"))
	})
	return promhttp.InstrumentHandlerCounter(requests, mux)
}

// part is what one source says: it sets it in an answer, unless there is an error.
type part struct {
	component string
	set       func(*answers.Answer)
	err       error
}

// answer asks all sources. Those that fail are named in the answer, which is an error only if all fail.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, busy *sync.WaitGroup) {
	ctx, key := r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if !s.Namespaces.Serve(key.Namespace) {
		fail(w, http.StatusNotFound, fmt.Sprintf("this process does not serve namespace %s: see --vpa-object-namespace and --ignored-vpa-object-namespaces", key.Namespace))
		return
	}
	switch err := s.Client.Get(ctx, key, &vpav1.VerticalPodAutoscaler{}); {
	case apierrors.IsNotFound(err):
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no VerticalPodAutoscaler %s; `kubectl get vpa -n %s` lists those that are there", key, key.Namespace))
		return
	case err != nil:
		fail(w, http.StatusInternalServerError, fmt.Sprintf("reading VerticalPodAutoscaler %s: %v", key, err))
		return
	}
	asked, parts := s.ask(ctx, key, busy)
	var out answers.Answer
	code := http.StatusInternalServerError
	for waiting := slices.Clone(asked); len(waiting) > 0; {
		var p part
		select {
		case p = <-parts:
		case <-ctx.Done():
			p, code = part{component: waiting[0], err: fmt.Errorf("it has not answered within %s", timeLimit)}, http.StatusGatewayTimeout
		}
		waiting = slices.DeleteFunc(waiting, func(c string) bool { return c == p.component })
		if p.err != nil {
			out.Unknown = append(out.Unknown, fmt.Sprintf("%s: %v", p.component, p.err))
			continue
		}
		p.set(&out)
	}
	slices.Sort(out.Unknown)
	if len(out.Unknown) > 0 && len(out.Unknown) == len(asked) {
		fail(w, code, strings.Join(out.Unknown, "; "))
		return
	}
	text, err := encode(&out, maxAnswer)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	send(w, r, text)
}

// ask calls the sources concurrently; busy waits for them.
func (s *Server) ask(ctx context.Context, key client.ObjectKey, busy *sync.WaitGroup) (asked []string, parts chan part) {
	parts = make(chan part, 3)
	leads := false
	select {
	case <-s.Elected:
		leads = true
	default:
	}
	run := func(component string, call func() (func(*answers.Answer), error)) {
		asked = append(asked, component)
		busy.Go(func() {
			p := part{component: component}
			defer func() {
				if reason := recover(); reason != nil {
					s.Log.Error(nil, "panic in an explanation", "component", component, "vpa", key.String(), "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
					p.err = fmt.Errorf("a bug in celvpa, please report it: panic: %v; the log says where", reason)
				}
				parts <- p
			}()
			p.set, p.err = call()
		})
	}
	if s.Recommender != nil {
		run("recommender", func() (func(*answers.Answer), error) {
			say, err := whenLeading(ctx, leads, s.Recommender, key)
			say.Process = s.process("recommender", leads, say.Rules)
			return func(a *answers.Answer) { a.Recommender = &say }, err
		})
	}
	if s.Updater != nil {
		run("updater", func() (func(*answers.Answer), error) {
			say, err := whenLeading(ctx, leads, s.Updater, key)
			say.Process = s.process("updater", leads, say.Rules)
			return func(a *answers.Answer) { a.Updater = &say }, err
		})
	}
	if s.Admission != nil {
		run("admission-controller", func() (func(*answers.Answer), error) {
			say, err := s.Admission(ctx, key.Namespace, key.Name)
			say.Process = s.process("admission-controller", true, say.Rules)
			return func(a *answers.Answer) { a.Admission = &say }, err
		})
	}
	return asked, parts
}

// whenLeading asks a source of which only the leader knows something.
func whenLeading[T any](ctx context.Context, leads bool, ask Source[T], key client.ObjectKey) (say T, err error) {
	if !leads {
		return say, nil
	}
	return ask(ctx, key.Namespace, key.Name)
}

func (s *Server) process(component string, leads bool, rules answers.Rules) answers.Process {
	return answers.Process{Component: component, Instance: s.Instance, Version: s.Version, Leads: leads, Now: s.Clock.Now().UTC(), Rules: rules}
}

// send writes JSON, compressed if the client takes that.
func send(w http.ResponseWriter, r *http.Request, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var packed bytes.Buffer
		packer := gzip.NewWriter(&packed)
		_, _ = packer.Write(text) // to memory
		_ = packer.Close()
		w.Header().Set("Content-Encoding", "gzip")
		text = packed.Bytes()
	}
	_, _ = w.Write(text) // fails if the client is gone
}

// fail writes an error as API servers do.
func fail(w http.ResponseWriter, code int, message string) {
	reason := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}[code]
	text, _ := json.Marshal(metav1.Status{ // of texts and numbers only
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Group: vpav1.GroupVersion.Group, Kind: vpas + "/" + subresource},
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// encode is an answer in JSON of at most so many bytes. In a larger one the steps of the rules are
// left out for as many containers and pods as necessary, the last ones first, and it says so.
func encode(a *answers.Answer, limit int) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil || len(text) <= limit {
		return text, err
	}
	all := traces(a)
	over, left := len(text)-limit+1024, 0 // for the sentence below
	for i := len(all) - 1; i >= 0 && over > 0; i-- {
		if len(*all[i]) == 0 {
			continue
		}
		steps, err := json.Marshal(*all[i])
		if err != nil {
			return nil, err
		}
		*all[i] = nil
		over -= len(steps)
		left++
	}
	a.Unknown = append(a.Unknown, fmt.Sprintf("%d lists of rule steps are left out: with them the answer has %d bytes, and %d is the most", left, len(text), limit))
	if text, err = json.Marshal(a); err == nil && len(text) > limit {
		return nil, fmt.Errorf("the answer has %d bytes even without the steps of the rules, and %d is the most", len(text), limit)
	}
	return text, err
}

// traces are the places of an answer that take most of it.
func traces(a *answers.Answer) (out []*[]engine.Step) {
	if r := a.Recommender; r != nil {
		out = append(out, &r.PodSteps)
		for i := range r.Containers {
			c := &r.Containers[i]
			out = append(out, &c.Steps)
			for j := range c.OOMs {
				out = append(out, &c.OOMs[j].Steps)
			}
		}
	}
	if u := a.Updater; u != nil {
		for i := range u.Pods {
			out = append(out, &u.Pods[i].Steps)
		}
	}
	return out
}
