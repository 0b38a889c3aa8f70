package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// topUp is after how many bytes a server may send as many again.
const topUp = 1 << 20

// http2Conn is a connection over which several ask at a time: what API servers use for webhooks that have a URL.
type http2Conn struct {
	*tls.Conn

	mu      sync.Mutex // of all that follows, and of writing
	out     *bufio.Writer
	framer  *http2.Framer // reads without mu
	next    uint32        // number of a stream
	room    *sync.Cond    // there is some
	send    int           // bytes that the server takes now
	waiting map[uint32]*stream
	ended   error
}

// stream is one that asks over a connection, one review after the other. It implements asker.
type stream struct {
	*http2Conn
	status string
	body   []byte
	done   chan error
}

// headersOf are the headers of a review in a form that stands for itself: nothing in it is what was said before.
func headersOf(r *review) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	encoder.SetMaxDynamicTableSize(0)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "127.0.0.1"}, {":path", path},
		{"accept", "application/json, */*"}, {"content-type", "application/json"}, {"content-length", strconv.Itoa(len(r.body))},
		{"user-agent", "kube-apiserver-admission"}, {"accept-encoding", "gzip"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // into memory
	}
	return out.Bytes()
}

func (b *bench) dialHTTP2(address string) (*http2Conn, error) {
	conn, err := b.dial(address, "h2")
	if err != nil {
		return nil, err
	}
	c := &http2Conn{Conn: conn, out: bufio.NewWriterSize(conn, 64<<10), next: 1, send: 65535, waiting: map[uint32]*stream{}}
	c.room = sync.NewCond(&c.mu)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 64<<10))
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = io.WriteString(c.out, http2.ClientPreface)
	err = errors.Join(err, c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 * topUp}),
		c.framer.WriteWindowUpdate(0, 4*topUp), c.out.Flush())
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("beginning HTTP/2: %w", err)
	}
	go c.read()
	return c, nil
}

func (c *http2Conn) stream() asker { return &stream{http2Conn: c, done: make(chan error, 1)} }

// ask implements asker.
func (s *stream) ask(r *review) ([]byte, error) {
	s.body, s.status = s.body[:0], ""
	if err := s.write(r); err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	if err := <-s.done; err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if s.status != "200" {
		return nil, fmt.Errorf("it answers %s: %s", s.status, s.body)
	}
	return s.body, nil
}

func (s *stream) write(r *review) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.send < len(r.body) && s.ended == nil {
		s.room.Wait()
	}
	if s.ended != nil {
		return s.ended
	}
	s.send -= len(r.body)
	id := s.next
	s.next += 2
	s.waiting[id] = s
	return errors.Join(s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.headers, EndHeaders: true}),
		s.framer.WriteData(id, true, r.body), s.out.Flush())
}

// read hands out what the server says until the connection ends.
func (c *http2Conn) read() {
	var err error
	received := 0
	for err == nil {
		var frame http2.Frame
		if frame, err = c.framer.ReadFrame(); err == nil {
			err = c.take(frame, &received)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err
	c.room.Broadcast()
	for _, s := range c.waiting {
		s.done <- err
	}
	c.waiting = map[uint32]*stream{}
}

func (c *http2Conn) take(frame http2.Frame, received *int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := frame.Header().StreamID
	s := c.waiting[id]
	end := false
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		end = f.StreamEnded()
		if s != nil {
			s.status = f.PseudoValue("status")
		}
	case *http2.DataFrame:
		end = f.StreamEnded()
		if s != nil {
			s.body = append(s.body, f.Data()...)
		}
		if *received += int(f.Length); *received >= topUp {
			*received -= topUp
			if err := errors.Join(c.framer.WriteWindowUpdate(0, topUp), c.out.Flush()); err != nil {
				return err
			}
		}
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.send += int(f.Increment)
			c.room.Broadcast()
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return errors.Join(c.framer.WriteSettingsAck(), c.out.Flush())
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return errors.Join(c.framer.WritePing(true, f.Data), c.out.Flush())
		}
	case *http2.RSTStreamFrame:
		return fmt.Errorf("it gives up a review: %s", f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Errorf("it ends the connection: %s", f.ErrCode)
	}
	if end && s != nil {
		delete(c.waiting, id)
		s.done <- nil
	}
	return nil
}
