// Package browser opens the pages of `celvpa explain -o html` and `celvpa backtest -o html` in Chromium.
// With -short it prints why it does not.
//
// Where there is no browser, its tests are skipped, and say how to install one. CHROME names another
// browser than the one on the PATH.
package browser

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/page"
)

var screenshots = flag.String("screenshots", "", "folder in which the pages are kept, as pictures and PDF")

// chrome is the shared browser; each test has tabs of its own.
var chrome struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("browser: not run with -short, because it needs Chromium; use make page-test")
		os.Exit(0)
	}
	code := m.Run()
	if chrome.stop != nil {
		chrome.stop()
	}
	os.Exit(code)
}

// program is the browser's, or empty.
func program() string {
	if path := os.Getenv("CHROME"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func browser(t *testing.T) context.Context {
	t.Helper()
	path := program()
	if path == "" {
		t.Skip("no browser: install one, as by `apt-get install chromium`, or set CHROME to the program")
	}
	chrome.once.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
		if os.Geteuid() == 0 {
			options = append(options, chromedp.NoSandbox) // Chromium's does not work for root
		}
		allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stop := chromedp.NewContext(allocator)
		chrome.ctx, chrome.stop = ctx, func() { stop(); stopAllocator() }
		chrome.err = chromedp.Do(ctx)
	})
	require.NoError(t, chrome.err, "starting %s", path)
	return chrome.ctx
}

// countElements is how much a browser has to lay out.
const countElements = "document.getElementsByTagName('*').length"

// A tab shows one page, and notices what the page asks for and complains of.
type tab struct {
	*testing.T
	ctx context.Context

	mu         sync.Mutex
	requests   []string
	complaints []string
	violates   bool // the test has the page do what its policy forbids, so the browser complains
}

// open shows an explanation in a tab of the width.
func open(t *testing.T, report *explain.Report, width int64) *tab {
	t.Helper()
	return openPage(t, func(out io.Writer) error { return page.Write(out, report) }, width)
}

// openPage shows a page in a tab of the width, after some steps. The page may not ask for anything or complain.
func openPage(t *testing.T, write func(io.Writer) error, width int64, steps ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	out, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, write(out))
	require.NoError(t, out.Close())

	ctx, cancel := chromedp.NewContext(browser(t))
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(width, 900), command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}))
	b.ctx, cancel = context.WithTimeout(ctx, hang.Limit)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Listen(b.ctx, b.notice))
	b.do(append(steps, chromedp.Navigate("file://"+file))...)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.True(t, b.violates || len(b.complaints) == 0, "the browser complains about the page: %v", b.complaints)
		require.Equal(t, []string{"file://" + file}, b.requests, "the page is all that is loaded")
	})
	return b
}

func (b *tab) notice(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprint("console.", e.Type))
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, steps...))
}

// command is a command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// media has the page shown on another medium, screen or print, with dark or light preferred.
func (b *tab) media(medium, scheme string) {
	b.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
}

// ask evaluates a script, which the page itself could not run.
func ask[T any](b *tab, script string) T {
	b.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(b, err, script)
	return out
}

// text is what the page shows.
func (b *tab) text() string {
	b.Helper()
	return strings.Join(strings.Fields(ask[string](b, "document.body.innerText")), " ")
}

// keep writes a picture of the whole page if asked for.
func (b *tab) keep(name string) {
	b.Helper()
	if *screenshots == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644))
}
