package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/listener"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// listen runs a server over TLS until the test ends, and returns its URL, a client that trusts it and its end.
func listen(t *testing.T, handler http.Handler, config *tls.Config) (url string, c *http.Client, stop func() error) {
	t.Helper()
	return start(t, &listener.Server{TLS: config, Handler: handler, Log: logr.Discard()})
}

// start gives a listener a certificate and an address, and is listen otherwise.
func start(t *testing.T, l *listener.Server) (url string, c *http.Client, stop func() error) {
	t.Helper()
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
	require.NoError(t, err)
	l.Name, l.MaxConnections, l.TLS.GetCertificate, l.ReadTimeout = "webhook", MaxConnections, certs.GetCertificate, hang.Limit
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.Address = free.Addr().String()
	require.NoError(t, free.Close())
	require.Error(t, l.Started())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Start(ctx) }()
	hang.Until(t, func() bool { return l.Started() == nil })
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certs.Bundle().PEM()))
	c = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	t.Cleanup(cancel)
	return "https://" + l.Address, c, func() error {
		cancel()
		err := <-done
		return errors.Join(err, notServing(l))
	}
}

func notServing(l *listener.Server) error {
	if l.Started() == nil {
		return errors.New("it says that it serves")
	}
	return nil
}

func TestMalformedReviewsOverTLSAreAllowed(t *testing.T) {
	s, _ := testServer(t, func(context.Context, admission.Request) admission.Response { return admission.Denied("asked") }, nil)
	config, err := TLSConfig("", "", logr.Discard())
	require.NoError(t, err)
	url, c, stop := listen(t, s, config)
	for body, allowed := range map[string]bool{"": true, "{": true, reviewHead + "null}": true, podReview: false, strings.Repeat("[", 1<<20): true} {
		resp, err := c.Post(url, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		var answer admissionv1.AdmissionReview
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, allowed, answer.Response.Allowed)
	}
	resp, err := c.Post(url, "application/json", io.MultiReader(bytes.NewReader(make([]byte, maxBody+1))))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	require.NoError(t, stop())
}

// TestHTTP2IsNotSpoken: clients that have a choice, as API servers do, use HTTP/1.1. Others get no further than the handshake.
func TestHTTP2IsNotSpoken(t *testing.T) {
	config, err := TLSConfig("", "", logr.Discard())
	require.NoError(t, err)
	url, c, stop := listen(t, http.NotFoundHandler(), config)
	resp, err := c.Get(url) // it offers both
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, resp.ProtoMajor)
	_, err = tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.ErrorContains(t, err, "no application protocol")
	require.NoError(t, stop())
}

func TestAnOldTLSIsRefused(t *testing.T) {
	for flag, most := range map[string]uint16{"tls1_2": tls.VersionTLS11, "tls1_3": tls.VersionTLS12} {
		config, err := TLSConfig(flag, "", logr.Discard())
		require.NoError(t, err)
		url, c, stop := listen(t, http.NotFoundHandler(), config)
		resp, err := c.Get(url)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: most})
		require.ErrorContains(t, err, "protocol version")
		require.NoError(t, stop())
	}
}

// TestAStopWaitsForReviewsInFlight: its context goes on, and its answer arrives.
func TestAStopWaitsForReviewsInFlight(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, _ := testServer(t, func(ctx context.Context, _ admission.Request) admission.Response {
		close(started)
		<-release
		return admission.ValidationResponse(ctx.Err() != nil, "asked")
	}, nil)
	config, err := TLSConfig("", "", logr.Discard())
	require.NoError(t, err)
	url, c, stop := listen(t, s, config)
	answered := make(chan bool, 1)
	go func() {
		var answer admissionv1.AdmissionReview
		resp, err := c.Post(url, "application/json", strings.NewReader(podReview))
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&answer)
		}
		answered <- err == nil && !answer.Response.Allowed
	}()
	<-started
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	hang.Until(t, func() bool {
		_, err := net.Dial("tcp", strings.TrimPrefix(url, "https://"))
		return errors.Is(err, syscall.ECONNREFUSED)
	}, "it does not listen any more")
	close(release)
	require.True(t, <-answered)
	require.NoError(t, <-ended)
}

// TestOwnCertificatesRenewThemselves while nobody asks for them.
func TestOwnCertificatesRenewThemselves(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- certs.Start(ctx) }()
	hang.Until(t, clk.HasWaiters)
	clk.Step(certificates.DefaultCALifetime / 2)
	<-certs.Changed()
	require.Len(t, certs.Bundle().Needed, 2)
	cancel()
	require.NoError(t, <-done)
}

func TestTLSFlagsSayWhatIsSpoken(t *testing.T) {
	const gcm, cbc = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"
	for name, tt := range map[string]struct {
		version, ciphers string
		min              uint16
		suites           []uint16
		logged           int
	}{
		"nothing":           {min: tls.VersionTLS12},
		"1.2":               {version: "tls1_2", min: tls.VersionTLS12},
		"1.3":               {version: "tls1_3", min: tls.VersionTLS13},
		"commas":            {ciphers: gcm + "," + cbc, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
		"colons and blanks": {ciphers: " " + cbc + " : " + gcm, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}},
		"an unknown one":    {ciphers: "ROT13," + gcm, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, logged: 1},
		"an insecure one":   {ciphers: "TLS_RSA_WITH_RC4_128_SHA", min: tls.VersionTLS12, logged: 1},
	} {
		t.Run(name, func(t *testing.T) {
			log := newMemo()
			config, err := TLSConfig(tt.version, tt.ciphers, log.log())
			require.NoError(t, err)
			require.Equal(t, tt.min, config.MinVersion)
			require.Equal(t, tt.suites, config.CipherSuites)
			require.Len(t, log.written(), tt.logged)
		})
	}
	_, err := TLSConfig("tls1_1", "", logr.Discard())
	require.EqualError(t, err, `--min-tls-version is "tls1_1"; use tls1_2 or tls1_3`)
}
