package faults

import (
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials forwards requests with a token as they are, and all others with the proxy's own credentials.
type credentials struct{ own, anonymous http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return c.anonymous.RoundTrip(r)
	}
	return c.own.RoundTrip(r)
}

// Config is that of a client behind the proxy, with a bearer token; empty = with the credentials of the proxy.
func (p *Proxy) Config(token string) *rest.Config {
	return &rest.Config{Host: p.url(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: p.authority}}
}

// WriteKubeconfig writes the same config for a program.
func (p *Proxy) WriteKubeconfig(file, token string) error {
	config := clientcmdapi.NewConfig()
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: p.url(), CertificateAuthorityData: p.authority}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "user"}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, file)
}

func (p *Proxy) url() string { return "https://" + p.address }
