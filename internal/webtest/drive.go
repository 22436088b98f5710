package webtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a page may take for anything, on a machine that has other things to do.
	patience = 30 * time.Second
	// between is the time between two looks at a page that is waited for.
	between = 20 * time.Millisecond
)

// Browser is a browser that a test drives as a person does: by clicks and keys, through the DevTools protocol on a pipe. The policies of
// pages are in force.
type Browser struct {
	to io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	pages   map[string]*Page // by session
	ended   bool
}

type reply struct {
	ID     int
	Result json.RawMessage
	Error  *struct{ Message string }

	Method    string
	Params    json.RawMessage
	SessionID string `json:"sessionId"`
}

// Drive starts a browser, until the test ends. It asks nothing of any other address than this machine's.
func Drive(t *testing.T, chromium string) *Browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "carillon-browser-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe", "--user-data-dir="+profile)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.ExtraFiles = []*os.File{in, out} // the browser reads its file 3, and writes its file 4
	if err := c.Start(); err != nil {
		t.Fatalf("start %s: %v", chromium, err)
	}
	_, _ = in.Close(), out.Close() // the browser has them
	b := &Browser{to: to, waiting: map[int]chan reply{}, pages: map[string]*Page{}}
	read := make(chan struct{})
	go func() { defer close(read); b.read(from) }()
	t.Cleanup(func() {
		_ = c.Wait() // t.Context has ended by now, and the browser with it
		_ = to.Close()
		<-read
		_ = from.Close()
		_ = os.RemoveAll(profile) // a helper that still writes leaves a file in the folder for temporary ones
	})
	return b
}

// read takes what the browser says until it ends: JSON, each ended by a zero byte.
func (b *Browser) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes(0)
		b.mu.Lock()
		if err != nil {
			b.ended = true
			for _, waiting := range b.waiting {
				close(waiting)
			}
			b.mu.Unlock()
			return
		}
		var said reply
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &said) == nil {
			if waiting, ok := b.waiting[said.ID]; ok {
				delete(b.waiting, said.ID)
				waiting <- said
			} else if page := b.pages[said.SessionID]; page != nil {
				page.heard(said)
			}
		}
		b.mu.Unlock()
	}
}

// call has the browser do something, and reads its result into result unless it is nil.
func (b *Browser) call(ctx context.Context, session, method string, params map[string]any, result any) error {
	done := make(chan reply, 1)
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return fmt.Errorf("%s: the browser has ended", method)
	}
	b.last++
	b.waiting[b.last] = done
	asked := map[string]any{"id": b.last, "method": method, "params": params}
	if session != "" {
		asked["sessionId"] = session
	}
	text, err := json.Marshal(asked)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer of the browser: %w", method, ctx.Err())
	case said, ok := <-done:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case said.Error != nil:
			return fmt.Errorf("%s: %s", method, said.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(said.Result, result)
	}
}

// View is how a page is seen.
type View struct {
	Width, Height int // in CSS pixels; 0: 1280 by 900
	Dark          bool
	NoScript      bool
	Before        string // a script that runs in each page before its own; empty: none
}

// Page is a page of a browser, with cookies and a store of its own.
type Page struct {
	t       *testing.T
	b       *Browser
	session string

	mu       sync.Mutex
	problems []string
}

// Open opens an empty page, until the test ends.
func (b *Browser) Open(t *testing.T, v View) *Page {
	t.Helper()
	if v.Width == 0 {
		v.Width = 1280
	}
	if v.Height == 0 {
		v.Height = 900
	}
	p := &Page{t: t, b: b}
	var own struct{ BrowserContextID, TargetID, SessionID string }
	do := func(session, method string, params map[string]any) {
		t.Helper()
		if err := b.call(t.Context(), session, method, params, &own); err != nil {
			t.Fatal(err)
		}
	}
	do("", "Target.createBrowserContext", nil)
	do("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.BrowserContextID})
	do("", "Target.attachToTarget", map[string]any{"targetId": own.TargetID, "flatten": true})
	p.session = own.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		do(p.session, domain+".enable", nil)
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	do(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false})
	do(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	do(p.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": v.NoScript})
	do(p.session, "Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}) // several pages at once
	if v.Before != "" {
		do(p.session, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": v.Before})
	}
	return p
}

// heard notes what a page reports: errors of its scripts, and what its policy refused.
func (p *Page) heard(said reply) {
	var what struct {
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(said.Params, &what) != nil {
		return
	}
	text := ""
	switch said.Method {
	case "Log.entryAdded":
		if what.Entry.Level == "error" {
			text = what.Entry.Text + " " + what.Entry.URL
		}
	case "Runtime.exceptionThrown":
		text = what.ExceptionDetails.Text + " " + what.ExceptionDetails.Exception.Description
	}
	if text != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problems = append(p.problems, text)
	}
}

// Problems are the errors that the page has reported, such as those of its scripts, of its policy, and of answers with the status of an
// error.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

func (p *Page) do(method string, params map[string]any, result any) {
	p.t.Helper()
	if err := p.b.call(p.t.Context(), p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

// Go loads an address and waits until it is there.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.Leave(func() { p.do("Page.navigate", map[string]any{"url": url}, nil) })
}

// Leave does something that loads another page, and waits until that page is there.
func (p *Page) Leave(do func()) {
	p.t.Helper()
	p.eval(`globalThis.carillonLeft = true`, nil)
	do()
	p.Wait(`globalThis.carillonLeft === undefined && document.readyState === "complete"`)
}

// eval evaluates an expression in the page, and waits for a promise. It works in pages whose scripts are off, too.
func (p *Page) eval(expression string, result any) {
	p.t.Helper()
	if err := p.try(expression, result); err != nil {
		p.t.Fatalf("%s: %v", clip(expression), err)
	}
}

func (p *Page) try(expression string, result any) error {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}
	if err := p.b.call(p.t.Context(), p.session, "Runtime.evaluate", params, &out); err != nil {
		return err
	}
	if out.ExceptionDetails != nil {
		return fmt.Errorf("%s %s", out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	if result == nil || len(out.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(out.Result.Value, result)
}

// Value evaluates an expression in the page: a text, a number, or a truth value as JSON writes it.
func (p *Page) Value(expression string) string {
	p.t.Helper()
	var value any
	p.eval(expression, &value)
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// Run evaluates a script in the page for its effect.
func (p *Page) Run(script string) { p.t.Helper(); p.eval(script+"\n;undefined", nil) }

// Wait waits until an expression is true in the page.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	var met bool
	var err error
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(between) {
		if err = p.try("!!("+expression+")", &met); err == nil && met { // between two pages there is nothing to ask
			return
		}
	}
	p.t.Fatalf("the page never came to %s (%v): %s", clip(expression), err, p.Text())
}

// Text is what the page says.
func (p *Page) Text() string {
	p.t.Helper()
	return p.Value(`document.body ? document.body.innerText : ""`)
}

// Click clicks into the middle of an element, as a person does: what covers it gets the click.
func (p *Page) Click(selector string) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e) throw new Error("there is no such element");
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect();
		return { X: r.left + r.width / 2, Y: r.top + r.height / 2 };
	})()`, selector), &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
}

// Type writes into the element that has the focus.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.do("Input.insertText", map[string]any{"text": text}, nil)
}

// Press presses a key: Tab, Enter, Space, ArrowRight and so on.
func (p *Page) Press(key string) {
	p.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, "Space": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
	if code == 0 {
		p.t.Fatalf("no key %q is known here", key)
	}
	params := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	switch key {
	case "Enter":
		params["text"] = "\r"
	case "Space":
		params["key"], params["text"] = " ", " "
	}
	p.do("Input.dispatchKeyEvent", params, nil)
	params["type"] = "keyUp"
	delete(params, "text")
	p.do("Input.dispatchKeyEvent", params, nil)
}

// Axe has axe-core look at the page, whose text is given, and returns the rules that it violates, each with its place.
func (p *Page) Axe(core string) []string {
	p.t.Helper()
	p.eval(core+"\n;undefined", nil)
	var found []string
	p.eval(`axe.run({ resultTypes: ["violations"], iframes: false }).then(({ violations }) =>
		violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary)))`, &found)
	return found
}

// Screenshot writes a picture of the whole page, a PNG, into a file.
func (p *Page) Screenshot(file string) {
	p.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	p.do("Page.getLayoutMetrics", nil, &size)
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{
		"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": size.CSSContentSize.Height, "scale": 1,
	}}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, picture, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// clip shortens a script for a message.
func clip(script string) string {
	if line, _, long := strings.Cut(script, "\n"); long || len(line) > 200 {
		return line[:min(len(line), 200)] + " …"
	}
	return script
}
