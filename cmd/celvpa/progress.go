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

// progress shows how far a long command is, in a line of standard error that changes. Only terminals show it. It is safe for
// concurrent use.
type progress struct {
	to       io.Writer // which takes controls
	terminal bool

	mu    sync.Mutex
	next  time.Time // no earlier is anything shown again
	shown bool      // a line that end erases
}

// progressInterval is how often the line changes. A command that ends sooner shows none.
const progressInterval = 100 * time.Millisecond

func newProgress(to io.Writer) *progress {
	p := &progress{to: behind(to), next: time.Now().Add(progressInterval)}
	if file, ok := p.to.(*os.File); ok {
		p.terminal = term.IsTerminal(int(file.Fd()))
	}
	return p
}

// count says what is done, and how much of it; total is 0 where that is unknown.
func (p *progress) count(what string, done, total int) {
	text := fmt.Sprintf("%s: %d", what, done)
	if total > 0 {
		text += fmt.Sprintf(" of %d", total)
	}
	p.say(text)
}

// barWidth is that of a full bar, in characters.
const barWidth = 30

// bar says which part is done of something that began at a time, and how long the rest may take.
func (p *progress) bar(what string, begin time.Time, done, total int64) {
	part := float64(done) / float64(max(total, 1))
	full := int(barWidth * part)
	text := fmt.Sprintf("%s [%s%s] %d%%", what, strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), int(100*part))
	if done > 0 && done < total {
		left := time.Duration(float64(time.Since(begin)) * (1 - part) / part)
		text += ", " + left.Round(time.Second).String() + " left"
	}
	p.say(text)
}

// say shows a text, unless one was shown a moment ago.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.terminal || now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(progressInterval), true
	fmt.Fprintf(p.to, "\r\x1b[Kcelvpa: %s", visible(text))
}

// note prints something at once, in a line of its own.
func (p *progress) note(text string) {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.to, "celvpa: "+visible(text))
}

// end erases the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}
