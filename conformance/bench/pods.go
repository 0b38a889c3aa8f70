package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/template"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var podsBenchmark = benchmark{
	name: "pods", component: "admission-controller",
	about:  "the admission controller under load over TLS: reviews per second, p99, CPU, memory (5 minutes)",
	trials: []string{"load"},
	vpas:   500, rounds: 3,
	prepare: preparePods,
}

const (
	parallel = 32 // reviews in flight

	warmUp = 3 * time.Second  // under load before anything is measured
	window = 10 * time.Second // that is measured
)

type pods struct {
	*lab
	cores     cores
	reviews   []review
	cert, key string // files
	trusted   *tls.Config
}

func preparePods(ctx context.Context, l *lab) (measurer, error) {
	if err := l.populate(ctx); err != nil {
		return nil, err
	}
	for _, namespace := range l.namespaces() {
		if err := l.create(ctx, limitRange(namespace)); err != nil {
			return nil, err
		}
	}
	if err := l.renewVPAs(ctx, recommendedVPA); err != nil {
		return nil, err
	}
	p := &pods{lab: l, cert: filepath.Join(l.folder, "tls.crt"), key: filepath.Join(l.folder, "tls.key")}
	if err := p.writeCertificate(); err != nil {
		return nil, err
	}
	var err error
	if p.reviews, err = l.reviews(ctx); err != nil {
		return nil, err
	}
	p.cores = divideCores()
	return p, nil
}

func (p *pods) title(trial string) string {
	return fmt.Sprintf("pods/%s, default flags: %d VPAs in %d namespaces, reviews of %d bytes, %d in flight; medians of %d rounds of %s; the server has %s, its clients %s",
		trial, p.vpas, len(p.namespaces()), meanSize(p.reviews), parallel, p.rounds, window, p.cores.server, p.cores.clients)
}

// measure starts a program, waits until it patches all pods, and loads it.
func (p *pods) measure(ctx context.Context, program program, trial string) ([]value, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	running, err := p.start(program, trial, p.cores.pin, []string{"--port=" + port, "--register-webhook=false",
		"--client-ca-file=" + p.cert, "--tls-cert-file=" + p.cert, "--tls-private-key=" + p.key})
	if err != nil {
		return nil, err
	}
	defer running.end()
	if err := p.waitForPatches(ctx, running, address); err != nil {
		return nil, err
	}
	from := time.Now().Add(warmUp)
	to := from.Add(window)
	ctx, cancel := context.WithDeadline(ctx, to.Add(time.Minute))
	defer cancel()
	stopServer, stopClients := watch(running.Pid()), watch(os.Getpid())
	client := newClient(parallel, p.trusted)
	took, err := load(ctx, parallel, from, to, func(worker, n int, into *bytes.Buffer) error {
		r := p.reviews[(worker*len(p.reviews)/parallel+n)%len(p.reviews)]
		return ask(ctx, client, address, r, into)
	})
	server, own := stopServer(), stopClients()
	client.CloseIdleConnections()
	if err != nil {
		return nil, errors.Join(err, running.Alive())
	}
	out := podValues(took, server.between(from, to), own.between(from, to))
	for _, v := range out {
		progress("  %-24s %s", v.name, v.unit(v.amount))
	}
	return out, nil
}

func podValues(took []time.Duration, server, clients samples) []value {
	return append(latencies(took, window),
		value{"CPU for 1000 requests", seconds, server.cores() * window.Seconds() / float64(len(took)) * 1000},
		value{"server's core", percent, server.cores()},
		value{"clients' cores", percent, clients.cores()},
		value{"RSS under load, median", mebibytes, server.rss()},
		value{"RSS, peak", mebibytes, float64(server.last().Peak)},
	)
}

// waitForPatches waits until the process answers and knows the VPA of each pod.
func (p *pods) waitForPatches(ctx context.Context, running *process, address string) error {
	client := newClient(1, p.trusted)
	defer client.CloseIdleConnections()
	last := errors.New("no answer yet")
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := running.Alive(); err != nil {
			return false, err
		}
		var body bytes.Buffer
		for i := range p.reviews {
			if last = ask(ctx, client, address, p.reviews[i], &body); last != nil {
				return false, nil
			}
			if last = patched(body.Bytes()); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until it patches pods: %w (%w); see %s", err, last, running.LogFile)
	}
	return nil
}

// patched returns an error unless an answer has the patch of a webhook that knows the pod's VPA.
func patched(body []byte) error {
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if got.Response == nil || !got.Response.Allowed || !bytes.Contains(got.Response.Patch, []byte("vpaUpdates")) {
		return fmt.Errorf("the pod does not get the resources of its VPA: %s", body)
	}
	return nil
}

// writeCertificate makes the certificate that all programs serve with.
func (p *pods) writeCertificate() error {
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	p.trusted = &tls.Config{RootCAs: roots}
	return errors.Join(os.MkdirAll(p.folder, 0o755), os.WriteFile(p.cert, cert, 0o644), os.WriteFile(p.key, key, 0o600))
}

// limitRange bounds containers and pods, which some recommendations exceed.
func limitRange(namespace string) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bounds"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: amounts("10m", "16Mi"), Max: amounts("2", "4Gi"), Default: amounts("1", "1Gi"), DefaultRequest: amounts("100m", "128Mi")},
			{Type: corev1.LimitTypePod, Min: amounts("20m", "32Mi"), Max: amounts("3", "5Gi")},
		}},
	}
}

// recommendedVPA is a VPA as people write them, with bounds for one container and for all others. It has a
// recommendation that no other has: most fit, some are below or above what policies and LimitRanges allow.
func recommendedVPA(i int) *vpav1.VerticalPodAutoscaler {
	recommend := func(container string, cpu, memory int64) vpav1.RecommendedContainerResources {
		share := func(part int64) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu*part/4, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(memory*part/4, resource.BinarySI)}
		}
		return vpav1.RecommendedContainerResources{ContainerName: container, Target: share(4), LowerBound: share(2), UpperBound: share(12), UncappedTarget: share(4)}
	}
	n := int64(i)
	v := vpa(i)
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeRecreate)}
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{
		{ContainerName: "app", MinAllowed: amounts("50m", "64Mi"), MaxAllowed: amounts("4", "8Gi"), ControlledResources: &[]corev1.ResourceName{"cpu", "memory"}},
		{ContainerName: "*", MaxAllowed: amounts("500m", "512Mi")},
	}}
	return recommended(v,
		recommend("app", 25+n*37%1400, (40+n*53%2500)<<20), recommend("proxy", 15+n*11%600, (30+n*7%700)<<20))
}

// newClient returns an HTTP client that keeps a connection for each of so many reviews in flight, as
// API servers do: they ask webhooks over HTTP/1.1.
func newClient(parallel int, config *tls.Config) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config.Clone(), Protocols: &protocols, MaxIdleConnsPerHost: parallel, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10}}
}

// ask sends a review as API servers do, and returns the answer in a buffer.
func ask(ctx context.Context, client *http.Client, address string, r review, into *bytes.Buffer) error {
	// The path is the one of a webhook with the default timeout.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/?timeout=30s", bytes.NewReader(r))
	if err != nil {
		return err
	}
	request.Header = http.Header{"Accept": {"application/json, */*"}, "Content-Type": {"application/json"}, "User-Agent": {"kube-apiserver-admission"}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	into.Reset()
	if _, err := into.ReadFrom(response.Body); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answers %s: %s", response.Status, into)
	}
	return nil
}

// load keeps so many reviews in flight until to, and returns how long those took that ended after
// from.
func load(ctx context.Context, parallel int, from, to time.Time, next func(worker, n int, into *bytes.Buffer) error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, parallel)
	var group sync.WaitGroup
	for w := range parallel {
		group.Go(func() {
			var answer bytes.Buffer
			for n := 0; ctx.Err() == nil; n++ {
				begin := time.Now()
				err := next(w, n, &answer)
				end := time.Now()
				switch {
				case err != nil:
					cancel(err)
					return
				case !bytes.Contains(answer.Bytes(), []byte(`"patch":`)):
					cancel(fmt.Errorf("a pod is not patched: %s", answer.Bytes()))
					return
				case end.After(to):
					return
				case end.After(from):
					took[w] = append(took[w], end.Sub(begin))
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(took...)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no review ended in time")
	}
	return all, nil
}

// latencies are values of requests that were made in a time.
func latencies(took []time.Duration, within time.Duration) []value {
	slices.Sort(took)
	at := func(part float64) float64 { return took[int(part*float64(len(took)-1))].Seconds() }
	return []value{
		{"requests per second", count, float64(len(took)) / within.Seconds()},
		{"p50", milliseconds, at(0.5)}, {"p99", milliseconds, at(0.99)}, {"longest", milliseconds, at(1)},
	}
}

// review is an AdmissionReview of a new pod, as an API server sends it.
type review []byte

//go:embed review.yaml
var reviewFile string

var reviewTemplate = template.Must(template.New("review.yaml").Parse(reviewFile))

// reviews writes one review for each Deployment, of a pod that its ReplicaSet would create.
func (l *lab) reviews(ctx context.Context) ([]review, error) {
	owners, err := l.replicaSets(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]review, l.vpas)
	for i := range out {
		if out[i], err = reviewOf(owners[key(i).Name]); err != nil {
			return nil, fmt.Errorf("writing the review of a pod of %s: %w", key(i), err)
		}
	}
	return out, nil
}

// reviewOf has its fields in the order in which API servers write them.
func reviewOf(owner *appsv1.ReplicaSet) (review, error) {
	var text bytes.Buffer
	err := reviewTemplate.Execute(&text, map[string]any{
		"Namespace": owner.Namespace, "ReplicaSet": owner.Name, "OwnerUID": owner.UID, "Hash": owner.Labels["pod-template-hash"],
		"Deployment": metav1.GetControllerOf(owner).Name, "UID": uuid.NewUUID(),
	})
	if err != nil {
		return nil, err
	}
	var asked admissionv1.AdmissionReview
	if err := yaml.UnmarshalStrict(text.Bytes(), &asked); err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := json.Unmarshal(asked.Request.Object.Raw, &pod); err != nil {
		return nil, err
	}
	if asked.Request.Object.Raw, err = json.Marshal(&pod); err != nil {
		return nil, err
	}
	return json.Marshal(&asked)
}

func meanSize(reviews []review) (mean int) {
	for _, r := range reviews {
		mean += len(r)
	}
	return mean / max(len(reviews), 1)
}

// replicaSets waits until each Deployment has one, and returns them by the name of the Deployment.
func (l *lab) replicaSets(ctx context.Context) (map[string]*appsv1.ReplicaSet, error) {
	out := map[string]*appsv1.ReplicaSet{}
	err := wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		var list appsv1.ReplicaSetList
		if err := l.List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil {
				out[owner.Name] = &list.Items[i]
			}
		}
		return len(out) >= l.vpas, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a ReplicaSet of each Deployment: %w", err)
	}
	return out, nil
}
