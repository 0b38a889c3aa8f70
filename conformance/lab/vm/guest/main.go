// Command guest runs inside of the virtual machine: as its agent, and as the pause container of each pod.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	// Here the machine's forwarded ports end.
	plainAddress = "10.0.2.15:8470"
	tlsAddress   = "10.0.2.15:8471"
	// serviceAddress is that of the kubernetes Service, through which pods reach the API server.
	serviceAddress = "10.0.0.1:443"
	// apiServerFile names the API server's address as the machine sees it.
	apiServerFile = "/etc/lab/apiserver"
	certificate   = "/etc/lab/tls.crt"
	key           = "/etc/lab/tls.key"
)

// serve is the machine's way in and out:
//
//	CONNECT host:port   a tunnel to a kubelet's, pod's or service's address
//	POST /images        imports an image archive into containerd
//	GET /log/NAME.log   the log of containerd, kubelet or agent
func serve() error {
	target, err := os.ReadFile(apiServerFile)
	if err != nil {
		return err
	}
	service, err := net.Listen("tcp", serviceAddress)
	if err != nil {
		return err
	}
	go forward(service, strings.TrimSpace(string(target)))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /images", importImage)
	mux.Handle("GET /log/", http.StripPrefix("/log/", http.FileServer(http.Dir("/var/log"))))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect { // its target is not a path, which the mux needs
			tunnel(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	failed := make(chan error)
	go func() { failed <- server(plainAddress, handler).ListenAndServe() }()
	go func() { failed <- server(tlsAddress, handler).ListenAndServeTLS(certificate, key) }()
	return <-failed
}

// server speaks HTTP/1.1 only, whose connections can be taken over for tunnels.
func server(address string, handler http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{Addr: address, Handler: handler, Protocols: &protocols, ReadHeaderTimeout: 30 * time.Second}
}

// forward passes connections on to a target.
func forward(from net.Listener, target string) {
	for {
		client, err := from.Accept()
		if err != nil {
			log.Fatalf("accepting connections to %s: %v", from.Addr(), err)
		}
		go func() {
			server, err := net.DialTimeout("tcp", target, 10*time.Second)
			if err != nil {
				log.Printf("the API server at %s: %v", target, err)
				client.Close()
				return
			}
			join(client, server)
		}()
	}
}

func tunnel(w http.ResponseWriter, r *http.Request) {
	server, err := net.DialTimeout("tcp", r.Host, 10*time.Second)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		server.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	if early := buffered.Reader.Buffered(); early > 0 {
		_, _ = io.CopyN(server, buffered, int64(early))
	}
	join(client, server)
}

// join copies both ways until both ends are done, then closes both.
func join(a, b net.Conn) {
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	a.Close()
	b.Close()
}

func importImage(w http.ResponseWriter, r *http.Request) {
	cmd := exec.CommandContext(r.Context(), "/usr/bin/ctr", "-n", "k8s.io", "images", "import", "--local", "-")
	cmd.Stdin = r.Body
	text, err := cmd.CombinedOutput()
	if err != nil {
		http.Error(w, fmt.Sprintf("%v: %s", err, text), http.StatusUnprocessableEntity)
		return
	}
	_, _ = w.Write(text)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "guest: say agent or pause")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "agent":
		log.Fatal(serve())
	case "pause":
		pause()
	default:
		fmt.Fprintf(os.Stderr, "guest: no command %q: say agent or pause\n", os.Args[1])
		os.Exit(2)
	}
}

// pause holds a pod's namespaces until it gets a signal to end, and reaps what the pod's processes leave behind.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for signal := range signals {
		if signal != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
	}
}
