package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress tells on standard error how far a long command is: in one line that changes on a
// terminal, else in a line now and then. It is safe for concurrent use.
type progress struct {
	to       io.Writer
	terminal bool
	quiet    bool

	mu    sync.Mutex
	next  time.Time // no earlier is anything told again
	shown bool      // a line that end erases
}

// How often progress is told. A command that ends sooner tells nothing in files.
const (
	terminalEvery = 100 * time.Millisecond
	linesEvery    = 5 * time.Second
)

// newProgress returns one for standard error. machine: standard output is for a program, so that
// only terminals are told.
func newProgress(to io.Writer, machine bool) *progress {
	p := &progress{to: to}
	if file, ok := to.(*os.File); ok {
		p.terminal = term.IsTerminal(int(file.Fd()))
	}
	p.quiet = machine && !p.terminal
	p.next = time.Now().Add(p.every())
	return p
}

func (p *progress) every() time.Duration {
	if p.terminal {
		return terminalEvery
	}
	return linesEvery
}

// tell says what is done, and how much of it; of is 0 where that is unknown.
func (p *progress) tell(what string, done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.quiet || now.Before(p.next) {
		return
	} else {
		p.next = now.Add(p.every())
	}
	text := fmt.Sprintf("celvpa: %s: %d", what, done)
	if of > 0 {
		text += fmt.Sprintf(" of %d", of)
	}
	if p.terminal {
		p.shown = true
		fmt.Fprintf(p.to, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.to, text)
}

// end erases the line of a terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}
