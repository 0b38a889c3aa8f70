package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/inspect"
)

// usualNamespace is the one that the docs install celvpa into.
const usualNamespace = "celvpa-system"

// role is the Role of the chart with what a user needs in celvpa's namespace.
const role = "celvpa-explainer"

// restClient asks the API server. It knows objects of the core group only.
type restClient struct {
	*rest.RESTClient
	namespaces []string // of celvpa, as the user says; nil = see trusted
	own        account  // whose tokens are sent; zero = that of each namespace
}

func newClient(o Options) (*restClient, error) {
	c := &restClient{namespaces: o.Namespaces}
	if slices.Contains(o.Namespaces, "") {
		return nil, errors.New("--celvpa-namespace has an empty name; give the namespaces of celvpa's processes, separated by commas")
	}
	if o.ServiceAccount != "" {
		var err error
		if c.own, err = parseAccount(o.ServiceAccount); err != nil {
			return nil, err
		}
		if len(c.namespaces) == 0 {
			c.namespaces = []string{c.own.namespace} // no stranger gets its token
		}
	}
	config := rest.CopyConfig(o.Config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "", "" // JSON: that is what celvpa answers
	config.QPS, config.Burst = 50, 100
	var err error
	if c.RESTClient, err = rest.RESTClientFor(config); err != nil {
		return nil, fmt.Errorf("preparing the client that asks celvpa's processes: %w", err)
	}
	return c, nil
}

func (c *restClient) account(namespace string) account {
	if c.own != (account{}) {
		return c.own
	}
	return account{namespace: namespace, name: inspect.ServiceAccount}
}

// list lists objects in one namespace.
func (c *restClient) list(ctx context.Context, resource, namespace, selector string, into runtime.Object) error {
	return c.listPage(ctx, resource, namespace, &metav1.ListOptions{LabelSelector: selector}, into)
}

// listPage lists objects; an empty namespace stands for all.
func (c *restClient) listPage(ctx context.Context, resource, namespace string, page *metav1.ListOptions, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(page, scheme.ParameterCodec).Do(ctx).Into(into)
}

// pods are the running ones that a Service selects, ready ones first, by name.
func (c *restClient) pods(ctx context.Context, s *corev1.Service) ([]corev1.Pod, string) {
	var list corev1.PodList
	switch err := c.list(ctx, "pods", s.Namespace, labels.SelectorFromSet(s.Spec.Selector).String(), &list); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("this user may not list pods in namespace %s: have Role %s bound to this user there", s.Namespace, role)
	case err != nil:
		return nil, fmt.Sprintf("listing its pods: %v", shorter(err))
	}
	running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	if len(running) == 0 {
		return nil, fmt.Sprintf("none of its pods runs: see `kubectl -n %s get pods`", s.Namespace)
	}
	unready := func(p corev1.Pod) int {
		if podutils.IsPodReady(&p) {
			return 0
		}
		return 1
	}
	slices.SortFunc(running, func(a, b corev1.Pod) int {
		if d := unready(a) - unready(b); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return running, ""
}

// token is one of a ServiceAccount, or why there is none.
type token struct{ text, problem string }

// token asks for a token that is of no use elsewhere.
func (c *restClient) token(ctx context.Context, a account) token {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{inspect.Audience}, ExpirationSeconds: ptr.To(int64(600))}}
	err := c.Post().Namespace(a.namespace).Resource("serviceaccounts").Name(a.name).SubResource("token").Body(request).Do(ctx).Into(request)
	whose := fmt.Sprintf("the processes of namespace %s", a.namespace)
	switch {
	case apierrors.IsForbidden(err):
		return token{problem: fmt.Sprintf("%s: this user may not create tokens of ServiceAccount %s/%s: have Role %s bound to this user in that namespace, or give another account by --service-account",
			whose, a.namespace, a.name, role)}
	case apierrors.IsNotFound(err):
		return token{problem: fmt.Sprintf("%s: there is no ServiceAccount %s/%s: install the chart with explain.enabled=true, or give another account by --service-account", whose, a.namespace, a.name)}
	case err != nil:
		return token{problem: fmt.Sprintf("%s: asking for a token of ServiceAccount %s/%s: %v", whose, a.namespace, a.name, shorter(err))}
	}
	return token{text: request.Status.Token}
}

// get asks one process through the API server's proxy.
func (c *restClient) get(ctx context.Context, namespace, pod, port, token, path string) reply {
	r := reply{from: "pod " + pod}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := c.Get().Namespace(namespace).Resource("pods").Name("https:"+pod+":"+port).SubResource("proxy").Suffix(path).
		SetHeader(inspect.TokenHeader, "Bearer "+token).MaxRetries(0).Stream(ctx)
	if err != nil {
		r.problem = why(err, namespace)
		return r
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		r.problem = why(err, namespace)
	case len(text) > maxAnswer:
		r.problem = fmt.Sprintf("its answer has more than %d bytes", maxAnswer)
	default:
		if err := json.Unmarshal(text, &r.answer); err != nil {
			r.problem = fmt.Sprintf("it does not answer as celvpa does: %v", err)
		}
	}
	return r
}

// why says why a process cannot be asked, and what to do. An answer of celvpa says that itself.
func why(err error, namespace string) string {
	var status apierrors.APIStatus
	ours := errors.As(err, &status) && status.Status().Details != nil && strings.HasSuffix(status.Status().Details.Kind, "/explain")
	switch {
	case ours:
		return status.Status().Message
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("this user may not get pods/proxy in namespace %s: have Role %s bound to this user there", namespace, role)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", timeout)
	case status != nil && status.Status().Code == http.StatusServiceUnavailable:
		return fmt.Sprintf("the API server does not reach it: %s: find out whether it runs with --explain-address, and whether a NetworkPolicy keeps API servers from that port", strings.TrimSpace(status.Status().Message))
	}
	return shorter(err)
}

// shorter is an error without what client-go puts before it.
func shorter(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", timeout)
	}
	return err.Error()
}
