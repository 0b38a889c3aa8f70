package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Explainer says what the webhook did with the pods of a VPA, and whether API servers reach it. All fields but Registered and
// Prober are required.
type Explainer struct {
	Handler     *Handler
	Registered  func() error // nil = something else registers the webhook
	Prober      *Prober      // nil = nobody looks whether API servers reach it
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// Explain answers for one VPA, which it reads from the cache; a VPA that is not there is an error.
func (e *Explainer) Explain(ctx context.Context, namespace, name string) (answers.Admission, error) {
	var out answers.Admission
	var v vpav1.VerticalPodAutoscaler
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if err := e.Handler.Client.Get(ctx, key, &v); err != nil {
		return out, fmt.Errorf("reading VerticalPodAutoscaler %s: %w", key, err)
	}
	out.Rules = policy.DescribeRules(policy.For(e.Handler.Rules(), &v))
	if e.Registered != nil {
		if err := e.Registered(); err != nil {
			out.Registered = err.Error()
		}
	}
	if e.Prober != nil {
		out.Reachable = e.Prober.last.Load()
	}
	out.Expires = e.expires()
	out.Decisions = e.Handler.Decisions.Of(key)
	out.Admissions = admitted(out.Decisions)
	return out, nil
}

// expires is the end of the serving certificate; nil without one.
func (e *Explainer) expires() *time.Time {
	certificate, err := e.Certificate(&tls.ClientHelloInfo{})
	if err != nil || certificate == nil || len(certificate.Certificate) == 0 {
		return nil
	}
	leaf := certificate.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
			return nil
		}
	}
	end := leaf.NotAfter.UTC()
	return &end
}
