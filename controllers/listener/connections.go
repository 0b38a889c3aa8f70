package listener

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connections makes room for new connections. When the most are open, it closes one that has no request: the oldest that has never
// sent one, which is where it stays if its client sends nothing or cannot complete the handshake, else the one that has been idle
// for longest. A request in flight is interrupted only where that is asked for: that of the connection which is busy for longest.
type connections struct {
	most       int
	interrupts bool

	mu   sync.Mutex
	last uint64 // number of the last change
	open map[net.Conn]connection
}

type connection struct {
	state   http.ConnState
	changed uint64 // number of the change to that state
}

// changed is the hook http.Server.ConnState. The server does not accept another connection before it returns.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.track(conn, state); surplus != nil {
		_ = surplus.Close()
	}
}

// track records a change and returns the connection to close, if any. It is never the one that changed, which may be about to send a
// request.
func (c *connections) track(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, known := c.open[conn]; {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.open, conn)
		return nil
	case !known && state != http.StateNew:
		return nil // it is being closed
	}
	c.last++
	c.open[conn] = connection{state, c.last}
	if len(c.open) < c.most {
		return nil
	}
	var surplus net.Conn
	for other, is := range c.open {
		if other == conn || is.state == http.StateActive && !c.interrupts {
			continue
		}
		if surplus == nil || is.before(c.open[surplus]) {
			surplus = other
		}
	}
	delete(c.open, surplus)
	return beneath(surplus)
}

// before orders connections by what is lost when they are closed.
func (c connection) before(other connection) bool {
	rank := func(of connection) int {
		return slices.Index([]http.ConnState{http.StateNew, http.StateIdle, http.StateActive}, of.state)
	}
	return cmp.Or(cmp.Compare(rank(c), rank(other)), cmp.Compare(c.changed, other.changed)) < 0
}

// beneath returns the connection below TLS. To close it waits for nobody, and says nothing to a client that does not listen.
func beneath(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}
