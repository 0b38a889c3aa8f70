package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	certutil "k8s.io/client-go/util/cert"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var podsBenchmark = benchmark{
	name: "pods", component: "admission-controller", baseline: upstream,
	about:  "the admission controller under load over TLS: reviews per second, p99, CPU, memory (5 minutes)",
	trials: []string{underLoad},
	defaults: options{programs: list{upstream, celvpa}, trials: list{underLoad}, vpas: 500, containers: 2,
		rounds: 3, parallel: 32},
	prepare: preparePods,
}

const (
	underLoad = "load"

	warmUp = 3 * time.Second  // under load before anything is measured
	window = 10 * time.Second // that is measured
)

type pods struct {
	*lab
	cores     cores
	reviews   []review
	cert, key string // files
	trusted   *tls.Config
	answers   map[string][]*corev1.Pod // patched pods, by program
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
	if err := l.renewVPAs(ctx, func(i int) *vpav1.VerticalPodAutoscaler { return recommendedVPA(i) }); err != nil {
		return nil, err
	}
	p := &pods{lab: l, cert: filepath.Join(l.folder, "tls.crt"), key: filepath.Join(l.folder, "tls.key"), answers: map[string][]*corev1.Pod{}}
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
		trial, p.vpas, len(p.namespaces()), meanSize(p.reviews), p.parallel, p.rounds, window, p.cores.server, p.cores.clients)
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
	one, err := p.start(program, trial, p.cores.pin, []string{"--port=" + port, "--register-webhook=false",
		"--client-ca-file=" + p.cert, "--tls-cert-file=" + p.cert, "--tls-private-key=" + p.key})
	if err != nil {
		return nil, err
	}
	defer one.end()
	if err := p.askAll(ctx, one, address); err != nil {
		return nil, err
	}
	from := time.Now().Add(warmUp)
	to := from.Add(window)
	ctx, cancel := context.WithDeadline(ctx, to.Add(time.Minute))
	defer cancel()
	stopServer, stopClients := watch(one.Pid()), watch(os.Getpid())
	client := newClient(p.parallel, p.trusted)
	took, err := load(ctx, p.parallel, from, to, func(worker, n int, into *bytes.Buffer) error {
		r := &p.reviews[(worker*len(p.reviews)/p.parallel+n)%len(p.reviews)]
		return ask(ctx, client, address, r, into)
	})
	server, own := stopServer(), stopClients()
	client.CloseIdleConnections()
	if err != nil {
		return nil, errors.Join(err, one.Alive())
	}
	out := podValues(took, server.between(from, to), own.between(from, to))
	for _, v := range out {
		progress("  %-24s %s", v.name, v.unit(v.amount))
	}
	return out, one.saveHeap(ctx)
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

// askAll asks everything once, as soon as the process answers and knows the VPA of each pod. All
// programs must answer alike.
func (p *pods) askAll(ctx context.Context, one *process, address string) error {
	client := newClient(1, p.trusted)
	defer client.CloseIdleConnections()
	last := errors.New("no answer yet")
	var answers []*corev1.Pod
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := one.Alive(); err != nil {
			return false, err
		}
		answers = nil
		var body bytes.Buffer
		for i := range p.reviews {
			if last = ask(ctx, client, address, &p.reviews[i], &body); last != nil {
				return false, nil
			}
			var pod *corev1.Pod
			if pod, last = p.reviews[i].patched(body.Bytes()); last != nil {
				return false, nil
			}
			answers = append(answers, pod)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until it patches pods: %w (%w); see %s", err, last, one.LogFile)
	}
	for other, theirs := range p.answers {
		for i := range answers {
			if err := alike(answers[i], theirs[i]); err != nil {
				return fmt.Errorf("a pod of %s differs from that of %s: %w", key(i), other, err)
			}
		}
	}
	p.answers[one.name] = answers
	return nil
}

// patched is the pod of a review with the patch of an answer, which must be that of a webhook that
// knows its VPA.
func (r *review) patched(body []byte) (*corev1.Pod, error) {
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if got.Response == nil || !got.Response.Allowed {
		return nil, fmt.Errorf("the pod is refused: %s", body)
	}
	pod, err := applyPatch(r.pod, got.Response.Patch)
	if err == nil && pod.Annotations["vpaUpdates"] == "" {
		err = errors.New("the pod has no resources of a VPA")
	}
	return pod, err
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

// recommendedVPA has a recommendation that no other has: most fit, some are below or above what
// policies and LimitRanges allow.
func recommendedVPA(i int) *vpav1.VerticalPodAutoscaler {
	one := func(container string, cpu, memory int64) vpav1.RecommendedContainerResources {
		of := func(part int64) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu*part/4, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(memory*part/4, resource.BinarySI)}
		}
		return vpav1.RecommendedContainerResources{ContainerName: container, Target: of(4), LowerBound: of(2), UpperBound: of(12), UncappedTarget: of(4)}
	}
	n := int64(i)
	v := policyVPA(i, vpav1.UpdateModeRecreate)
	// Upstream lowers requests for limits that RequestsOnly leaves as they are; the answers are to be alike.
	v.Spec.ResourcePolicy.ContainerPolicies[1].ControlledValues = nil
	return recommended(v,
		one("app", 25+n*37%1400, (40+n*53%2500)<<20), one("proxy", 15+n*11%600, (30+n*7%700)<<20))
}
