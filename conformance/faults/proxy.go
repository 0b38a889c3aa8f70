// Package faults puts a proxy between programs and an API server that misbehaves on demand: it refuses, loses and delays
// requests, is gone for a while, cuts and repeats watches, and changes answers. It makes no assertions.
package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// Proxy is an HTTPS server on loopback that forwards all requests to an API server until it is set to do something else. It
// speaks HTTP/2, and is safe for concurrent use.
type Proxy struct {
	address     string // host:port, the same before and after an outage
	certificate tls.Certificate
	authority   []byte // PEM
	forward     *httputil.ReverseProxy

	mu       sync.Mutex
	server   *http.Server // nil during an outage
	random   *rand.Rand
	faults   []*injected
	rewrites []*rewrite
	watches  map[*watch]bool // that are open
	holds    []*hold
	counts   map[string]int // of what it did, by name
	requests map[string]int // that arrived, by verb and resource
}

// Start starts a proxy in front of the API server of a config. Requests with a bearer token are forwarded as they are, all others
// with the credentials of the config. The seed decides which requests a Fault meets.
func Start(config *rest.Config, seed uint64) (*Proxy, error) {
	own, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the credentials of %s: %w", config.Host, err)
	}
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", config.Host, err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	p := &Proxy{random: rand.New(rand.NewPCG(seed, seed)), watches: map[*watch]bool{}, counts: map[string]int{}, requests: map[string]int{}}
	pem, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	if p.certificate, err = tls.X509KeyPair(pem, key); err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	p.authority = pem
	p.forward = &httputil.ReverseProxy{
		Transport:      credentials{own: own, anonymous: anonymous},
		FlushInterval:  -1, // events of watches are not kept back
		ErrorLog:       silent(),
		Rewrite:        func(r *httputil.ProxyRequest) { p.prepare(r, server) },
		ModifyResponse: p.receive,
		ErrorHandler:   func(_ http.ResponseWriter, r *http.Request, _ error) { unanswered(r) },
	}
	p.address, err = p.listen("127.0.0.1:0")
	return p, err
}

// silent drops what servers and proxies log about connections and watches that end.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// Close stops the proxy and drops its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// Outage closes the port and drops all connections, as if the API server had crashed. end opens the same port again.
func (p *Proxy) Outage() (end func() error, err error) {
	p.count("outage")
	return sync.OnceValue(func() error {
		_, err := p.listen(p.address)
		return err
	}), p.Close()
}

// portTaken is how long something else may use the port after an outage.
const portTaken = 5 * time.Minute

// listen starts to serve, and returns the address with its port.
func (p *Proxy) listen(address string) (string, error) {
	var listener net.Listener
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, portTaken, true, func(context.Context) (bool, error) {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", address, err)
	}
	server := &http.Server{
		Handler:     http.HandlerFunc(p.serve),
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{p.certificate}},
		ErrorLog:    silent(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return listener.Addr().String(), nil
}

// serve answers one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	request := requestOf(r)
	ctx := context.WithValue(r.Context(), classified{}, request)
	if len(p.rewritesOf(request)) > 0 {
		var cancel context.CancelFunc // a context that can be cancelled: without one, the ReverseProxy looks for the end of the client itself
		ctx, cancel = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), waiting{}, r.Context()))
		defer cancel()
	}
	r = r.WithContext(ctx)
	p.mu.Lock()
	p.requests[request.String()]++
	p.mu.Unlock()
	if !p.misbehaves(w, r, request) {
		p.forward.ServeHTTP(w, r)
	}
}

// prepare addresses a request to the API server.
func (p *Proxy) prepare(r *httputil.ProxyRequest, server *url.URL) {
	r.SetURL(server)
	r.Out.Header.Del("Accept-Encoding") // so that answers arrive as they are
	if len(p.rewritesOf(requestIn(r.Out))) > 0 {
		r.Out.Header.Set("Accept", "application/json")
	}
}

// receive passes an answer of the API server on.
func (p *Proxy) receive(answer *http.Response) error {
	request := requestIn(answer.Request)
	if request.Verb == "watch" {
		return p.follow(request, answer)
	}
	return p.rewrite(request, answer)
}

// Counts are how often the proxy did something, by the names of effects and of what it does to watches.
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Requests are how many requests arrived, by verb and resource: "create pods/eviction".
func (p *Proxy) Requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.requests)
}

func (p *Proxy) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
}

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

// WriteKubeconfig writes such a config for a program that is a user.
func (p *Proxy) WriteKubeconfig(file string, as clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.AuthInfos["user"] = &as
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: p.url(), CertificateAuthorityData: p.authority}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "user"}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, file)
}

func (p *Proxy) url() string { return "https://" + p.address }
