// Package browser opens pages of the lab in a headless Chromium, for tests, and keeps
// what a page should not do: errors in its console, exceptions, and requests.
package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds everything that is done in one tab.
const patience = 20 * time.Second

// names are the programs that are a Chromium, in the order in which they are tried.
func names() []string {
	return []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
}

// Browser is one process.
type Browser struct{ ctx context.Context }

// Start starts a browser that ends with the test. A machine without one fails the
// test: nothing else looks at the pages.
func Start(t *testing.T) *Browser {
	t.Helper()
	program := ""
	for _, name := range names() {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatalf("none of %s is installed: the pages are tested in a real browser (Debian: apt-get install chromium)", strings.Join(names(), ", "))
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.WindowSize(1280, 900),
		chromedp.Env("TMPDIR="+t.TempDir())) // a browser that is ended leaves files
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		end()
		endAllocator() // waits until the process is gone
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start: %v", program, err)
	}
	return &Browser{ctx}
}

// Tab is one page.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	requests []string
}

// Open opens url in a tab of its own and waits until it has loaded.
func (b *Browser) Open(t *testing.T, url string) *Tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(b.ctx)
	t.Cleanup(closeTab)
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.note); err != nil {
		t.Fatal(err)
	}
	command(tab, network.Enable, network.EnableParams{})
	command(tab, log.Enable, cdp.Empty{})
	// Of all the windows of a browser one has the focus, and not always the last.
	command(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	tab.Do(chromedp.Navigate(url))
	return tab
}

// command sends one command of the DevTools protocol.
func command[P, R any](tab *Tab, c cdp.Command[P, R], params P) R {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, c, params)
	if err != nil {
		tab.t.Fatalf("%s: %v", c.Method, err)
	}
	return answer
}

// FileURL is the address of a file on disk.
func FileURL(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.ToSlash(whole)
}

func (tab *Tab) note(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		tab.errors = append(tab.errors, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var said []string
			for _, arg := range e.Args {
				said = append(said, string(arg.Value)+arg.Description)
			}
			tab.errors = append(tab.errors, strings.Join(said, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.errors = append(tab.errors, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.URL)
	}
}

// Errors are what the console got at the level of a warning or above, refused requests
// and scripts among it.
func (tab *Tab) Errors() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.errors)
}

// Requests are the addresses that the page asked for, its own first. Those of data that
// it holds itself are left out.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tab.requests), func(url string) bool { return strings.HasPrefix(url, "data:") })
}

// Do does what a user would, and fails the test if it cannot be done.
func (tab *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		tab.t.Fatal(err)
	}
}

// Eval is the value of a JavaScript expression, which may be a promise.
func Eval[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Press presses keys, as chromedp's kb spells them, on the element that a JavaScript
// expression names.
func (tab *Tab) Press(element, keys string) {
	tab.t.Helper()
	tab.Focus(element)
	tab.Do(chromedp.KeyEvent(keys))
}

// Key is one event of a key: it goes down, has a character, or goes up.
func (tab *Tab) Key(event *input.DispatchKeyEventParams) {
	tab.t.Helper()
	command(tab, input.DispatchKeyEvent, *event)
}

// Focus gives an element the focus, and waits until it has it.
func (tab *Tab) Focus(element string) {
	tab.t.Helper()
	Eval[any](tab, "("+element+").focus()")
	tab.Until("document.hasFocus() && document.activeElement === " + element)
}

// Until asks the page again and again until condition, a JavaScript expression, holds.
// That it cannot be asked counts as not yet: the page may be on its way to another.
func (tab *Tab) Until(condition string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](condition))
		if err == nil && holds {
			return
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			tab.t.Fatalf("after %v still not: %s (%v)", patience, condition, err)
		}
	}
}

// askEvery is the time between two questions of Until.
const askEvery = 20 * time.Millisecond

// Settle waits until the page has drawn what was changed: a browser tells a page of new
// media and sizes as it begins a frame, and the page may need the next one to follow.
func (tab *Tab) Settle() {
	tab.t.Helper()
	Eval[bool](tab, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))`)
}

// Prefer sets the colour scheme that the user has asked for, "light" or "dark".
func (tab *Tab) Prefer(scheme string) {
	tab.t.Helper()
	command(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	tab.Settle()
}

// Print puts the page before a printer, or takes it back.
func (tab *Tab) Print(on bool) {
	tab.t.Helper()
	media := ""
	if on {
		media = "print"
	}
	command(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media})
	tab.Settle()
}

// Resize sets the size of the window, in CSS pixels.
func (tab *Tab) Resize(width, height int64) {
	tab.t.Helper()
	tab.Do(chromedp.EmulateViewport(width, height))
	tab.Settle()
}

// Picture is a part of the page as PNG: height CSS pixels from top on, as wide as the
// window.
func (tab *Tab) Picture(top, height float64) []byte {
	tab.t.Helper()
	width := Eval[float64](tab, "innerWidth")
	return command(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: new(true), Clip: &page.Viewport{Y: top, Width: width, Height: height, Scale: 1}}).Data
}
