package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// newClient returns an HTTP client that keeps a connection for each of so many reviews in flight, as
// API servers do: they ask webhooks over HTTP/1.1.
func newClient(parallel int, config *tls.Config) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config.Clone(), Protocols: &protocols, MaxIdleConnsPerHost: parallel, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10}}
}

// ask sends a review as API servers do, and returns the answer in a buffer.
func ask(ctx context.Context, client *http.Client, address string, r review, into *bytes.Buffer) error {
	// The path is the one of a webhook with the default timeout.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/?timeout=30s", bytes.NewReader(r))
	if err != nil {
		return err
	}
	request.Header = http.Header{"Accept": {"application/json, */*"}, "Content-Type": {"application/json"}, "User-Agent": {"kube-apiserver-admission"}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	into.Reset()
	if _, err := into.ReadFrom(response.Body); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answers %s: %s", response.Status, into)
	}
	return nil
}

// load keeps so many reviews in flight until to, and returns how long those took that ended after
// from.
func load(ctx context.Context, parallel int, from, to time.Time, next func(worker, n int, into *bytes.Buffer) error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, parallel)
	var group sync.WaitGroup
	for w := range parallel {
		group.Go(func() {
			var answer bytes.Buffer
			for n := 0; ctx.Err() == nil; n++ {
				begin := time.Now()
				err := next(w, n, &answer)
				end := time.Now()
				switch {
				case err != nil:
					cancel(err)
					return
				case !bytes.Contains(answer.Bytes(), []byte(`"patch":`)):
					cancel(fmt.Errorf("a pod is not patched: %s", answer.Bytes()))
					return
				case end.After(to):
					return
				case end.After(from):
					took[w] = append(took[w], end.Sub(begin))
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(took...)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no review ended in time")
	}
	return all, nil
}

// latencies are values of requests that were made in a time.
func latencies(took []time.Duration, within time.Duration) []value {
	slices.Sort(took)
	at := func(part float64) float64 { return took[int(part*float64(len(took)-1))].Seconds() }
	return []value{
		{"requests per second", count, float64(len(took)) / within.Seconds()},
		{"p50", milliseconds, at(0.5)}, {"p99", milliseconds, at(0.99)}, {"longest", milliseconds, at(1)},
	}
}
