package ask

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/inspect"
)

// cluster is an API server that knows some Services and pods, and passes requests on to processes.
type cluster struct {
	services  []corev1.Service
	pods      []corev1.Pod
	processes map[string]any    // what is said, by the name that is proxied to: an answer, or a refusal
	webhook   string            // the namespace that its registration names; empty = it is not registered
	forbidden func(string) bool // paths

	mu   sync.Mutex
	seen []string
}

// refusal is an error of a process or of the API server.
type refusal struct {
	code    int
	kind    string
	message string
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.URL.Path)
	c.mu.Unlock()
	send := func(code int, what any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(what)
	}
	refuse := func(r refusal, reason metav1.StatusReason) {
		send(r.code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(r.code), Reason: reason,
			Message: r.message, Details: &metav1.StatusDetails{Kind: r.kind}})
	}
	parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NS/RESOURCE/NAME/SUB
	in := func(namespace string) bool { return parts[3] != "namespaces" || parts[4] == namespace }
	switch {
	case c.forbidden != nil && c.forbidden(r.URL.Path):
		refuse(refusal{code: 403, message: "RBAC"}, metav1.StatusReasonForbidden)
	case strings.HasSuffix(r.URL.Path, "/vpa-webhook-config") && c.webhook != "":
		config := admissionregistrationv1.MutatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{Kind: "MutatingWebhookConfiguration", APIVersion: "admissionregistration.k8s.io/v1"}}
		for _, name := range []string{"mesh.example", "vpa.k8s.io"} {
			service := &admissionregistrationv1.ServiceReference{Namespace: c.webhook, Name: "vpa-webhook"}
			if name != "vpa.k8s.io" {
				service.Namespace = "mesh"
			}
			config.Webhooks = append(config.Webhooks, admissionregistrationv1.MutatingWebhook{Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: service}})
		}
		send(200, config)
	case strings.HasSuffix(r.URL.Path, "/services"):
		list := corev1.ServiceList{TypeMeta: metav1.TypeMeta{Kind: "ServiceList", APIVersion: "v1"}}
		for _, s := range c.services {
			if in(s.Namespace) {
				list.Items = append(list.Items, s)
			}
		}
		send(200, list)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		for _, p := range c.pods {
			if in(p.Namespace) && r.URL.Query().Get("labelSelector") == "app="+p.Labels["app"] {
				list.Items = append(list.Items, p)
			}
		}
		send(200, list)
	case strings.HasSuffix(r.URL.Path, "/token"):
		request := authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}}
		request.Status.Token = "of " + parts[4] + "/" + parts[6]
		send(201, request)
	case strings.Contains(r.URL.Path, "/proxy"+inspect.Path("shop", "web")):
		say, known := c.processes[parts[4]+" "+parts[6]+" "+r.Header.Get(inspect.TokenHeader)]
		if refused, no := say.(refusal); no {
			refuse(refused, metav1.StatusReason(http.StatusText(refused.code)))
		} else if text, ok := say.(string); ok {
			fmt.Fprint(w, text)
		} else if known {
			send(200, say)
		} else {
			refuse(refusal{code: 503, message: "error trying to reach service: connection refused"}, metav1.StatusReasonServiceUnavailable)
		}
	default:
		refuse(refusal{code: 404, message: "the server could not find " + r.URL.Path}, metav1.StatusReasonNotFound)
	}
}

// asks asks about shop/web.
func (c *cluster) asks(t *testing.T, o Options) *Result {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	o.Config = &rest.Config{Host: server.URL}
	result, err := VPA(t.Context(), o, "shop", "web")
	require.NoError(t, err)
	return result
}

// service is one of a component, by its pods.
func service(namespace, app string) corev1.Service {
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{inspect.ServiceLabel: "true"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "explain", Port: 8950, TargetPort: intstr.FromString("explain")}}}}
}

func pod(namespace, app, name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "explain", ContainerPort: 9950}}}}}}
}

// at is where a process is found, by a pod and a token.
func at(namespace, pod string) string {
	return fmt.Sprintf("%[1]s https:%[2]s:9950 Bearer of %[1]s/celvpa-explain", namespace, pod)
}

func process(component, instance string, leads bool, digest string) answers.Process {
	return answers.Process{Component: component, Instance: instance, Leads: leads, Rules: answers.Rules{Digest: digest}}
}

func recommender(instance string, leads, known bool, digest string) answers.Answer {
	return answers.Answer{Recommender: &answers.Recommender{Process: process("recommender", instance, leads, digest), Known: known}}
}

func updater(instance string, leads bool, digest string) answers.Answer {
	return answers.Answer{Updater: &answers.Updater{Process: process("updater", instance, leads, digest)}}
}

func admission(instance, digest string) answers.Answer {
	return answers.Answer{Admission: &answers.Admission{Process: process("admission-controller", instance, true, digest)}}
}

// installed is a cluster with all components, with two replicas each.
func installed() *cluster {
	return &cluster{
		webhook:  "sys",
		services: []corev1.Service{service("sys", "rec"), service("sys", "upd"), service("sys", "adm")},
		pods: []corev1.Pod{pod("sys", "rec", "rec-1"), pod("sys", "rec", "rec-2"), pod("sys", "upd", "upd-1"), pod("sys", "upd", "upd-2"),
			pod("sys", "adm", "adm-2"), pod("sys", "adm", "adm-1")},
		processes: map[string]any{
			at("sys", "rec-1"): recommender("rec-1", false, false, ""), at("sys", "rec-2"): recommender("rec-2", true, true, "d1"),
			at("sys", "upd-1"): updater("upd-1", true, "d1"), at("sys", "upd-2"): updater("upd-2", false, ""),
			at("sys", "adm-1"): admission("adm-1", "d1"), at("sys", "adm-2"): admission("adm-2", "d1"),
		},
	}
}

func TestThoseThatLeadAndAllOfAdmissionAnswer(t *testing.T) {
	c := installed()
	got := c.asks(t, Options{})
	require.Equal(t, "rec-2", got.Recommender.Instance)
	require.Equal(t, "upd-1", got.Updater.Instance)
	require.Len(t, got.Admission, 2)
	require.Equal(t, "adm-1", got.Admission[0].Instance)
	require.Empty(t, got.Unknown)
	require.Empty(t, got.Differences)
	require.Len(t, c.seen, 1+3+1+3+6, "the registration of the webhook, Services there, in kube-system and elsewhere, a token, the pods of each, and each process")
}

const install = "install the chart with explain.enabled=true, or run the components with --explain-address behind such a Service; if celvpa is in another namespace, give it by --celvpa-namespace"

func TestWhatCannotBeAsked(t *testing.T) {
	const where = "this user may not list Services in namespaces kube-system, sys, celvpa-system"
	for _, tt := range []struct {
		name    string
		change  func(*cluster)
		unknown []string
	}{
		{"nothing is installed", func(c *cluster) { c.services = nil },
			[]string{"celvpa's processes: no Service with label celvpa.dev/explain=true in namespaces kube-system, sys, celvpa-system leads to one: " + install}},
		{"no permission for Services", func(c *cluster) { c.forbidden = func(path string) bool { return strings.HasSuffix(path, "/services") } },
			[]string{"celvpa's processes: " + where + ": give celvpa's namespace by --celvpa-namespace, and have Role celvpa-explainer bound to this user there"}},
		{"no permission for tokens", func(c *cluster) { c.forbidden = func(path string) bool { return strings.HasSuffix(path, "/token") } },
			[]string{"the processes of namespace sys: this user may not create tokens of ServiceAccount sys/celvpa-explain: have Role celvpa-explainer bound to this user in that namespace, or give another account by --service-account"}},
		{"one component is not there", func(c *cluster) { c.services = c.services[:2] },
			[]string{"admission-controller: no Service with label celvpa.dev/explain=true leads to one: install it with explain.enabled=true, or run it with --explain-address behind such a Service"}},
		{"no permission for the proxy", func(c *cluster) {
			c.services, c.forbidden = c.services[:1], func(path string) bool { return strings.Contains(path, "/proxy/") }
		}, []string{"Service sys/rec, pod rec-1, pod rec-2: this user may not get pods/proxy in namespace sys: have Role celvpa-explainer bound to this user there"}},
		{"the account has no role", func(c *cluster) {
			c.services, c.pods = c.services[:1], c.pods[:1]
			c.processes[at("sys", "rec-1")] = refusal{code: 403, kind: "verticalpodautoscalers/explain", message: "x may not: grant it"}
		}, []string{"Service sys/rec, pod rec-1: x may not: grant it"}},
		{"a replica of admission is gone", func(c *cluster) { delete(c.processes, at("sys", "adm-1")) },
			[]string{"Service sys/adm, pod adm-1: the API server does not reach it: error trying to reach service: connection refused: find out whether it runs with --explain-address, and whether a NetworkPolicy keeps API servers from that port"}},
		{"a replica that stands by is gone", func(c *cluster) { delete(c.processes, at("sys", "rec-1")) }, nil},
		{"nobody leads", func(c *cluster) { c.processes[at("sys", "upd-1")] = updater("upd-1", false, "") },
			[]string{"updater: none of its replicas leads; ask again once one does"}},
		{"no pod runs", func(c *cluster) { c.pods = c.pods[2:] },
			[]string{"Service sys/rec: none of its pods runs: see `kubectl -n sys get pods`"}},
		{"something else answers", func(c *cluster) { c.processes[at("sys", "rec-2")] = "hello" },
			[]string{"Service sys/rec, pod rec-2: it does not answer as celvpa does: invalid character 'h' looking for beginning of value", "recommender: none of its replicas leads; ask again once one does"}},
		{"a port of another name", func(c *cluster) { c.services[0].Spec.Ports[0].Name = "web" },
			[]string{"Service sys/rec: it has no port called explain"}},
		{"a Service without pods", func(c *cluster) { c.services[0].Spec.Selector = nil },
			[]string{"Service sys/rec: it selects no pods, and API servers proxy to pods only: give it a selector"}},
		{"a process that could not say everything", func(c *cluster) {
			c.processes[at("sys", "adm-1")] = answers.Answer{Admission: admission("adm-1", "d1").Admission, Unknown: []string{"too large"}}
		}, []string{"admission-controller adm-1: too large"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := installed()
			tt.change(c)
			require.Equal(t, tt.unknown, c.asks(t, Options{}).Unknown)
		})
	}
}

func TestProcessesThatContradictEachOther(t *testing.T) {
	c := installed()
	c.processes[at("sys", "rec-1")] = recommender("rec-1", true, true, "d2")
	c.processes[at("sys", "upd-2")] = updater("upd-2", true, "d1")
	c.processes[at("sys", "adm-2")] = admission("adm-2", "d3")
	got := c.asks(t, Options{})
	require.Empty(t, got.Unknown)
	require.Equal(t, []string{
		"two recommenders serve this VPA, and overwrite each other: recommender rec-1 and recommender rec-2: stop one of them, or give it another --recommender-name",
		"two updaters lead: updater upd-1 and updater upd-2: stop one of them, or give both the same --leader-elect-resource-name and namespace",
	}, got.Differences)
	require.Equal(t, "d2 in recommender rec-1, d1 in updater upd-1, d1 in admission-controller adm-1, d3 in admission-controller adm-2", got.Rules)

	c = installed()
	c.processes[at("sys", "rec-1")] = recommender("rec-1", true, false, "d2")
	got = c.asks(t, Options{})
	require.Equal(t, "rec-2", got.Recommender.Instance, "the one that serves this VPA")
	require.Empty(t, got.Differences, "the other one is for other VPAs")
}

func TestAProcessOfAllComponents(t *testing.T) {
	all := answers.Answer{Recommender: recommender("host", true, true, "d").Recommender, Updater: updater("host", true, "d").Updater, Admission: admission("host", "d").Admission}
	c := &cluster{webhook: "sys", services: []corev1.Service{service("sys", "all")}, pods: []corev1.Pod{pod("sys", "all", "host")}, processes: map[string]any{at("sys", "host"): all}}
	got := c.asks(t, Options{})
	require.Empty(t, got.Unknown)
	require.NotNil(t, got.Recommender)
	require.NotNil(t, got.Updater)
	require.Len(t, got.Admission, 1)
	require.Len(t, c.seen, 1+3+1+1+1)
}

// TestAnAccountOfOnesOwnIsForItsNamespace: a stranger with a Service of that label must not get its token.
func TestAnAccountOfOnesOwnIsForItsNamespace(t *testing.T) {
	c := installed()
	got := c.asks(t, Options{ServiceAccount: "team/me"})
	require.Contains(t, got.Unknown[0], "in namespace team leads to one")
	for _, seen := range c.seen {
		require.NotContains(t, seen, "/proxy")
	}
	c.processes = map[string]any{"sys https:rec-1:9950 Bearer of team/me": recommender("rec-1", true, true, "d")}
	require.Equal(t, "rec-1", c.asks(t, Options{ServiceAccount: "team/me", Namespaces: []string{"sys"}}).Recommender.Instance)

	_, err := VPA(t.Context(), Options{Config: &rest.Config{}, ServiceAccount: "me"}, "shop", "web")
	require.EqualError(t, err, `--service-account is "me"; give NAMESPACE/NAME`)
}
