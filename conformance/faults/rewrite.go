package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// rewrite is a change of answers in force.
type rewrite struct {
	on     Match
	change func(*http.Request, []byte) []byte
}

// Rewrite changes the bodies of the answers to requests, which are JSON, until end is called. Watches are left alone. Answers
// that refuse are changed as well. Such a request is carried out to its end, although its client no longer waits: see Client.
func (p *Proxy) Rewrite(on Match, change func(*http.Request, []byte) []byte) (end func()) {
	one := &rewrite{on: on, change: change}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrites = append(p.rewrites, one)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rewrites = slices.DeleteFunc(p.rewrites, func(r *rewrite) bool { return r == one })
	})
}

// Client is the context of the client that waits for the answer to a request, for changes of answers.
func Client(r *http.Request) context.Context { return r.Context().Value(waiting{}).(context.Context) }

func (p *Proxy) rewritesOf(request Request) (out []*rewrite) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rewrite := range p.rewrites {
		if request.Verb != "watch" && rewrite.on.selects(request) {
			out = append(out, rewrite)
		}
	}
	return out
}

// rewrite changes an answer. One that is not JSON, because it was asked for before the change was in force, stays as it is.
func (p *Proxy) rewrite(request Request, answer *http.Response) error {
	changes := p.rewritesOf(request)
	if len(changes) == 0 || answer.Header.Get("Content-Type") != "application/json" {
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("reading the answer to %s: %w", request, err)
	}
	if err := answer.Body.Close(); err != nil {
		return fmt.Errorf("reading the answer to %s: %w", request, err)
	}
	for _, change := range changes {
		p.count("rewritten")
		body = change.change(answer.Request, body)
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
