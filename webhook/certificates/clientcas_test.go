package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// clientPair is a CA in PEM and a client certificate of it.
func clientPair(t *testing.T) (ca []byte, pair tls.Certificate) {
	t.Helper()
	now := time.Now()
	by, err := newAuthority(now, time.Hour, "")
	require.NoError(t, err)
	client, err := sign(&x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, by)
	require.NoError(t, err)
	return encodeCAs([]*x509.Certificate{by.cert}), tls.Certificate{Certificate: [][]byte{client.cert.Raw}, PrivateKey: client.key}
}

// TestOnlyClientsOfTheGivenCAsAreServed, over the same protocol as without, and a CA file that changes is followed.
func TestOnlyClientsOfTheGivenCAsAreServed(t *testing.T) {
	ca, pair := clientPair(t)
	otherCA, otherPair := clientPair(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, ca, 0o600))
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	serving, err := NewSelfSigned(SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(serving.Bundle().PEM()))
	server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}, GetCertificate: serving.GetCertificate}
	require.NoError(t, RequireClientCertificates(server.TLS, file, logr.Discard()))
	server.StartTLS()
	defer server.Close()
	get := func(pairs ...tls.Certificate) error {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, Certificates: pairs, NextProtos: []string{"http/1.1"}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			return err
		}
		require.Equal(t, "http/1.1", resp.TLS.NegotiatedProtocol)
		return resp.Body.Close()
	}
	require.NoError(t, get(pair))
	require.Error(t, get(), "without a certificate")
	require.Error(t, get(otherPair))
	require.NoError(t, os.WriteFile(file, []byte("half a file"), 0o600))
	require.NoError(t, get(pair), "the last good CAs stay")
	require.NoError(t, os.WriteFile(file, otherCA, 0o600))
	require.NoError(t, get(otherPair))
	require.Error(t, get(pair))

	require.ErrorContains(t, RequireClientCertificates(&tls.Config{}, filepath.Join(t.TempDir(), "none"), logr.Discard()), "--api-server-client-ca-file: open")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.ErrorContains(t, RequireClientCertificates(&tls.Config{}, file, logr.Discard()), "--api-server-client-ca-file: error loading CA bundle")
}
