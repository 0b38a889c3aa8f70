package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/webhook/certificates"
)

func TestWebhookLabelsAreReadWithoutTheirQuotes(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                   {},
		" , ":                                {},
		"a:b":                                {"a": "b"},
		"a:b,c:d":                            {"a": "b", "c": "d"},
		` "a:b , c: d" `:                     {"a": "b", "c": "d"},
		`'a':"b"`:                            {"a": "b"},
		"app.kubernetes.io/part-of:celvpa,":  {"app.kubernetes.io/part-of": "celvpa"},
		"admissions.enforcer/disabled: true": {"admissions.enforcer/disabled": "true"},
		"empty:":                             {"empty": ""},
	} {
		got, err := parseLabels(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"a":     `--webhook-labels: "a" is not of the form key:value`,
		"a:b,c": `--webhook-labels: "c" is not of the form key:value`,
		"a=b":   `--webhook-labels: "a=b" is not of the form key:value`,
		":b":    `--webhook-labels: ":b": name part must be non-empty`,
		"a:b:c": `--webhook-labels: "a:b:c": a valid label must be`,
		"a b:c": `--webhook-labels: "a b:c": name part must consist of`,
	} {
		_, err := parseLabels(text)
		require.ErrorContains(t, err, want, text)
	}
}

// admissionFlags are the webhook's options as a command line gives them.
func admissionFlags(t *testing.T, args ...string) webhookOptions {
	t.Helper()
	o, f := &options{}, pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.SetNormalizeFunc(normalize)
	o.addAdmission(f)
	require.NoError(t, f.Parse(args))
	return o.webhook
}

// TestCertificatesComeFromFilesWhereThereAreAny, and are celvpa's own otherwise.
func TestCertificatesComeFromFilesWhereThereAreAny(t *testing.T) {
	if _, err := os.Stat(certificates.DefaultCertFile); err == nil {
		t.Skip("this machine has certificates at the default place")
	}
	certs, err := admissionFlags(t).certificates("127.0.0.1", logr.Discard())
	require.NoError(t, err)
	require.True(t, certs.Bundle().Private, "of its own")

	missing := filepath.Join(t.TempDir(), "none")
	for _, flag := range []string{"--tls-cert-file", "--tls_private_key", "--client-ca-file"} {
		_, err := admissionFlags(t, flag+"="+missing).certificates("127.0.0.1", logr.Discard())
		require.ErrorContains(t, err, "reading the webhook's certificates", "whoever names a file means it")
	}
	// As if the files were at their default places.
	w := admissionFlags(t)
	w.cert, w.key = filepath.Join(t.TempDir(), "serverCert.pem"), filepath.Join(t.TempDir(), "serverKey.pem")
	require.NoError(t, os.WriteFile(w.cert, []byte("x"), 0o600))
	certs, err = w.certificates("127.0.0.1", logr.Discard())
	require.NoError(t, err, "one alone does not count")
	require.True(t, certs.Bundle().Private, "of its own")
	require.NoError(t, os.WriteFile(w.key, []byte("x"), 0o600))
	_, err = w.certificates("127.0.0.1", logr.Discard())
	require.ErrorContains(t, err, "--client-ca-file: reading the webhook's certificates")
	w.register = false
	_, err = w.certificates("127.0.0.1", logr.Discard())
	require.ErrorContains(t, err, "--tls-private-key "+w.key+": tls: failed to find any PEM data", "the CA is not read where nothing is registered")
}

func TestFlagsOfTheWebhookThatMakeNoSenseAreNamed(t *testing.T) {
	for arg, want := range map[string]string{
		"--webhook-timeout-seconds=31":  "--webhook-timeout-seconds is 31",
		"--max-concurrent-reviews=-1":   "--max-concurrent-reviews is -1",
		"--register-by-url":             "--register-by-url needs --webhook-address",
		"--webhook-labels=x":            "--webhook-labels",
		"--webhook-timeout-seconds=0":   "--webhook-timeout-seconds is 0",
		"--max-concurrent-reviews=-100": "must be greater than 0",
	} {
		_, _, err := admissionFlags(t, arg).registration((&options{}).namespaces())
		require.ErrorContains(t, err, want, arg)
	}
	for text, want := range map[string]int64{"64Mi": 64 << 20, "1Gi": 1 << 30, "32Mi": 32 << 20} {
		got, err := admissionFlags(t, "--max-review-memory="+text).memory()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "lots", "31Mi", "-1"} {
		_, err := admissionFlags(t, "--max-review-memory="+text).memory()
		require.EqualError(t, err, `--max-review-memory is "`+text+`"; give at least 32Mi, such as 64Mi`)
	}
	o, f := &options{}, pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.addAdmission(f)
	require.NoError(t, f.Parse([]string{"--webhook-ca-lifetime=0s"}))
	require.EqualError(t, o.checkDurations(), "--webhook-ca-lifetime is 0s; it must be greater than 0")
}

// TestAnAddressThatNoAPIServerCouldCallIsRefusedAtTheStart: https://host/ was registered as https://host/:8000, which API servers
// accept and never reach, so that pods stayed as they were; a port that is none was tried again and again.
func TestAnAddressThatNoAPIServerCouldCallIsRefusedAtTheStart(t *testing.T) {
	for address, want := range map[string]struct{ url, host string }{
		"vpa.example.com":         {"https://vpa.example.com:8000", "vpa.example.com"},
		"https://vpa.example.com": {"https://vpa.example.com:8000", "vpa.example.com"},
		"10.0.0.1":                {"https://10.0.0.1:8000", "10.0.0.1"},
		"::1":                     {"https://[::1]:8000", "::1"},
		"https://[::1]":           {"https://[::1]:8000", "::1"},
	} {
		r, host, err := admissionFlags(t, "--register-by-url", "--webhook-address="+address).registration((&options{}).namespaces())
		require.NoError(t, err, address)
		require.Equal(t, want.url, r.URL)
		require.Equal(t, want.host, host)
	}
	for _, address := range []string{"https://host/", "host/path", "host:9000", "10.0.0.1:9000", "http://host", "user@host"} {
		_, _, err := admissionFlags(t, "--register-by-url", "--webhook-address="+address).registration((&options{}).namespaces())
		require.ErrorContains(t, err, `--webhook-address is "`+address+`"; give a host name or an IP address, and the port by --webhook-port`)
	}
	for arg, want := range map[string]string{"--webhook-port=abc": `--webhook-port is "abc"`, "--webhook-port=70000": `--webhook-port is "70000"`, "--port=0": `--port is "0"`} {
		_, _, err := admissionFlags(t, "--register-by-url", "--webhook-address=host", arg).registration((&options{}).namespaces())
		require.ErrorContains(t, err, want)
	}
}

// With failure policy Fail the registration leaves out pods of this namespace.
func TestTheRegistrationKnowsItsOwnNamespace(t *testing.T) {
	for variable, want := range map[string]string{"celvpa-system": "celvpa-system", "": "kube-system"} {
		t.Setenv("NAMESPACE", variable)
		r, _, err := admissionFlags(t, "--webhook-failure-policy-fail").registration((&options{}).namespaces())
		require.NoError(t, err)
		require.EqualValues(t, "Fail", r.FailurePolicy)
		require.Equal(t, want, r.OwnNamespace)
	}
}
