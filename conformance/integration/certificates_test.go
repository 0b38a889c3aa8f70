package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// rotating stops the shared celvpa and calls registering.
func rotating(t *testing.T, flags ...string) *harness.Log {
	t.Helper()
	withoutCelvpa(t)
	return registering(t, flags...)
}

// registering runs an admission controller with failurePolicy Fail and returns its log.
func registering(t *testing.T, flags ...string) *harness.Log {
	t.Helper()
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	args = append(append([]string{"admission-controller", "--kubeconfig=" + kubeconfig, "--webhook-failure-policy-fail"}, args...), flags...)
	r := &harness.Log{}
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"), args, r.Add)
	require.NoError(t, err)
	t.Cleanup(func() {
		unregister(t)
		require.NoError(t, c.Stop())
	})
	require.NoError(t, c.WaitReady(t.Context()))
	refuseAtOnce(t)
	return r
}

// refuseAtOnce gives the registration failure policy Fail, which a first replica would do half a minute later.
func refuseAtOnce(t *testing.T) {
	t.Helper()
	var config admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: webhook.ConfigName}, &config))
	before := config.DeepCopy()
	config.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	require.NoError(t, cluster.Patch(t.Context(), &config, client.StrategicMergeFrom(before)))
}

// registered is the current webhook configuration.
func registered(t *testing.T) (url string, caBundle []byte) {
	t.Helper()
	var config admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: webhook.ConfigName}, &config))
	return *config.Webhooks[0].ClientConfig.URL, config.Webhooks[0].ClientConfig.CABundle
}

// trusting is a client that trusts the CAs registered at the moment.
func trusting(t *testing.T) (url string, config *tls.Config) {
	t.Helper()
	url, bundle := registered(t)
	config = &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, config.RootCAs.AppendCertsFromPEM(bundle))
	return url, config
}

// handshake opens a connection that trusts the CAs registered at the moment, and returns the
// certificate and its CA.
func handshake(t *testing.T) (leaf, ca string, err error) {
	t.Helper()
	url, config := trusting(t)
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), config)
	if err != nil {
		return "", "", err
	}
	defer connection.Close()
	chain := connection.ConnectionState().VerifiedChains[0]
	return string(chain[0].Raw), string(chain[len(chain)-1].Raw), nil
}

// TestOwnCertificatesRotateUnderLoad: with failurePolicy Fail, no pod is refused while CAs and
// certificates rotate every few seconds. Where a certificate expires before the process has its turn,
// they are given longer lifetimes.
func TestOwnCertificatesRotateUnderLoad(t *testing.T) {
	withoutCelvpa(t)
	for lifetime := 3 * time.Second; ; lifetime *= 5 {
		rotated := false
		t.Run(lifetime.String(), func(t *testing.T) { rotated = rotatesUnderLoad(t, lifetime) })
		if rotated || t.Failed() {
			return
		}
		require.Less(t, lifetime, time.Minute)
	}
}

// rotatesUnderLoad reports whether no certificate expired for want of a turn.
func rotatesUnderLoad(t *testing.T, lifetime time.Duration) (inTime bool) {
	log := registering(t, "--webhook-ca-lifetime="+(lifetime*8/3).String(), "--webhook-certificate-lifetime="+lifetime.String())
	load := createPods(t, namespace(t, "it-rotate-"+lifetime.String()))
	leaves, cas := map[string]bool{}, map[string]bool{}
	for begin := time.Now(); len(cas) < 3 || len(leaves) < 6; time.Sleep(200 * time.Millisecond) {
		require.Less(t, time.Since(begin), hang.Limit+10*lifetime, "%d CAs and %d certificates", len(cas), len(leaves))
		if leaf, ca, err := handshake(t); err == nil {
			leaves[leaf], cas[ca] = true, true
		}
	}
	load.more(t, 50)
	if err := load.end(); err != nil && strings.Contains(err.Error(), "certificate has expired") {
		t.Logf("this machine has no turn for the process in %s: %v", lifetime/3, err)
		return false
	} else {
		require.NoError(t, err, "every creation succeeds")
	}
	require.Equal(t, load.counts().created, load.counts().patched, "and is patched")
	require.GreaterOrEqual(t, log.Count("publishing a new CA"), 2)
	t.Logf("%d pods created and patched over %d CAs and %d certificates", load.counts().created, len(cas), len(leaves))

	// Malformed requests are answered meanwhile.
	for _, body := range []string{"", "{", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1"}}`} {
		hang.Eventually(t, "an answer to "+body, func(context.Context) (bool, error) {
			url, config := trusting(t)
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			defer c.CloseIdleConnections()
			resp, err := c.Post(url+"?timeout=30s", "application/json", strings.NewReader(body))
			if err != nil {
				return false, err // its CA may have gone meanwhile
			}
			defer resp.Body.Close()
			var answer admissionv1.AdmissionReview
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.True(t, answer.Response.Allowed)
			return true, nil
		})
	}
	return true
}

// TestCertificatesFromFilesRotateUnderLoad: the files are swapped atomically for those of another
// CA, as a kubelet does.
func TestCertificatesFromFilesRotateUnderLoad(t *testing.T) {
	dir := t.TempDir()
	put := func(version string) (ca []byte) {
		certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
		require.NoError(t, err)
		pair, err := certs.GetCertificate(nil)
		require.NoError(t, err)
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		require.NoError(t, err)
		ca = certs.Bundle().PEM()
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		for name, text := range map[string][]byte{
			"ca.crt": ca, "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, version, name), text, 0o600))
		}
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
		return ca
	}
	old := put("1")
	file := func(name string) string { return filepath.Join(dir, "data", name) }
	log := rotating(t, "--client-ca-file="+file("ca.crt"), "--tls-cert-file="+file("tls.crt"), "--tls-private-key="+file("tls.key"), "--reload-cert")
	_, bundle := registered(t)
	require.Equal(t, string(old), string(bundle))
	load := createPods(t, namespace(t, "it-files"))
	before, _, err := handshake(t)
	require.NoError(t, err)
	renewed := put("2")
	hang.Eventually(t, "the other certificate", func(context.Context) (bool, error) {
		now, _, err := handshake(t)
		return now != before, err
	})
	load.more(t, 50)
	require.NoError(t, load.end(), "every creation succeeds")
	require.Equal(t, load.counts().created, load.counts().patched, "and is patched")
	_, bundle = registered(t)
	require.True(t, bytes.Contains(bundle, old) && bytes.Contains(bundle, renewed), "the old CA stays for a while")
	for _, text := range []string{"New certificate found, reloading", "New client CA found, reloading and patching webhook", "Successfully patched webhook with new client CA"} {
		require.Equal(t, 1, log.Count(text), text)
	}
	t.Logf("%d pods created and patched while the CA changed", load.counts().created)
}
