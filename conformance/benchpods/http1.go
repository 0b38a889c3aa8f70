package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
)

// asker asks a webhook, one review after the other. The answer is good until the next one is asked.
type asker interface {
	ask(*review) ([]byte, error)
	Close() error
}

// http1 is a connection of HTTP/1.1 that is kept: what API servers use for webhooks that have a Service.
type http1 struct {
	*tls.Conn
	in   *bufio.Reader
	body bytes.Buffer
}

func (b *bench) dialHTTP1(address string) (asker, error) {
	c, err := b.dial(address, "http/1.1")
	if err != nil {
		return nil, err
	}
	return &http1{Conn: c, in: bufio.NewReaderSize(c, 16<<10)}, nil
}

// ask implements asker.
func (h *http1) ask(r *review) ([]byte, error) {
	if _, err := h.Write(r.http); err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	response, err := http.ReadResponse(h.in, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	h.body.Reset()
	_, err = h.body.ReadFrom(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers %s: %s", response.Status, h.body.Bytes())
	case response.Close:
		return nil, fmt.Errorf("it closes the connection: %w", io.ErrUnexpectedEOF)
	}
	return h.body.Bytes(), nil
}
