package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress shows on standard error how far a long command is: in one line that changes on a
// terminal, else in a line now and then. It is safe for concurrent use.
type progress struct {
	to       io.Writer // which takes controls
	terminal bool
	quiet    bool

	mu    sync.Mutex
	next  time.Time // no earlier is anything shown again
	shown bool      // a line that end erases
}

// How often progress is shown. A command that ends sooner writes nothing to files.
const (
	terminalEvery = 100 * time.Millisecond
	linesEvery    = 5 * time.Second
)

// newProgress returns one for standard error. machine: standard output is for a program, so that
// only terminals show progress.
func newProgress(to io.Writer, machine bool) *progress {
	p := &progress{to: behind(to)}
	if file, ok := p.to.(*os.File); ok {
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

// count says what is done, and how much of it; of is 0 where that is unknown.
func (p *progress) count(what string, done, of int) {
	p.say(func(time.Time) string {
		if of > 0 {
			return fmt.Sprintf("%s: %d of %d", what, done, of)
		}
		return fmt.Sprintf("%s: %d", what, done)
	})
}

// barWidth is that of a full bar, in characters.
const barWidth = 30

// bar says which part is done of something that began at a time, and how long the rest may take.
func (p *progress) bar(what string, begin time.Time, done, of int64) {
	p.say(func(now time.Time) string {
		part := float64(done) / float64(max(of, 1))
		text := fmt.Sprintf("%s: %d%%", what, int(100*part))
		if p.terminal {
			full := int(barWidth * part)
			text = fmt.Sprintf("%s [%s%s] %d%%", what, strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), int(100*part))
		}
		if done > 0 && done < of {
			left := time.Duration(float64(now.Sub(begin)) * (1 - part) / part)
			text += ", " + left.Round(time.Second).String() + " left"
		}
		return text
	})
}

// say shows a text, unless one was shown a moment ago.
func (p *progress) say(what func(now time.Time) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.quiet || now.Before(p.next) {
		return
	}
	p.next = now.Add(p.every())
	text := "celvpa: " + visible(what(now))
	if p.terminal {
		p.shown = true
		fmt.Fprintf(p.to, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.to, text)
}

// note prints something at once, in a line of its own.
func (p *progress) note(text string) {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.to, "celvpa: "+visible(text))
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
