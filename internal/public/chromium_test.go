package public_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/webtest"
)

// TestInChromium is what people do with the page in a real browser, whose policies are in force.
func TestInChromium(t *testing.T) {
	t.Parallel()
	if os.Getenv("CARILLON_TEST_DB") == "postgres" {
		t.Skip("the run on SQLite tests the pages")
	}
	b := webtest.Drive(t, webtest.Chromium(t, "nobody has answered a survey"))
	for name, live := range map[string]func(*testing.T, *webtest.Browser){
		"fill in": fillIn, "second form": secondForm, "errors": errorsInPlace, "without script": withoutScript, "keyboard": byKeyboard,
		"opened": openedByAPerson, "draft": draftIsThereAgain, "axe": axeFindsNothing, "unsubscribe": unsubscribeByHand, "follow": followByHand,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, b)
		})
	}
}

// serve keeps a server of surveys until the test ends.
func serve(t *testing.T) (m *memory, address string) {
	t.Helper()
	m = newMemory(t)
	server := httptest.NewServer(public.Handler(m, public.Options{}))
	t.Cleanup(server.Close)
	return m, server.URL + "/s/"
}

// serveHandler keeps a server until the test ends.
func serveHandler(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// clean fails if the page reported anything but the status of a form that was refused.
func clean(t *testing.T, p *webtest.Page) {
	t.Helper()
	refused := regexp.MustCompile(`^Failed to load resource: the server responded with a status of (404|409|410|422) .* http://127\.0\.0\.1:\d+/s/[a-z_]+$`)
	for _, one := range p.Problems() {
		if !refused.MatchString(one) {
			t.Errorf("the page reports: %s", one)
		}
	}
}

const asked = `[...document.querySelectorAll("[data-question]")].map((e) => e.dataset.question).join(" ")`

func choose(question string, value any) string {
	return fmt.Sprintf(`label:has(> [name=%s][value="%v"])`, question, value)
}

func sends(p *webtest.Page) { p.Leave(func() { p.Click("button") }) }

// fillIn is a person with a mouse: questions come and go by the answers, what is typed is kept, and the answers arrive.
func fillIn(t *testing.T, b *webtest.Browser) {
	t.Helper()
	m, at := serve(t)
	p := b.Open(t, webtest.View{Width: 390})
	p.Go(at + "d_en")
	m.wait(t, "a person opens the page", "d_en", func(k kept, _ []string) bool { return k.opened == 1 })
	late := b.Open(t, webtest.View{})
	late.Go(at + "d_en")

	p.Click(choose("rate", 9))
	p.Click(choose("complaint", "Yes"))
	p.Wait(asked + ` === "rate complaint what call parts cost waited day"`)
	if said := p.Value(`document.getElementById("status").textContent`); said != "The questions that follow have changed." {
		t.Errorf("the page says %q", said)
	}
	p.Click("#a-what")
	p.Type("A noise")
	p.Click(choose("call", true))
	p.Wait(asked + ` === "rate complaint what call phone parts cost waited day"`)
	m.wait(t, "what is typed is kept", "d_en", func(k kept, _ []string) bool { return k.Draft["what"] == "A noise" && k.Draft["call"] == true })
	p.Click(choose("complaint", "No"))
	p.Wait(asked + ` === "rate complaint parts cost waited day"`)
	p.Click(choose("complaint", "Yes"))
	p.Wait(asked + ` === "rate complaint what call phone parts cost waited day"`)
	if typed := p.Value(`document.getElementById("a-what").value`); typed != "A noise" {
		t.Errorf("what was typed is %q when its question comes back", typed)
	}
	p.Click("#a-phone")
	p.Type("+49 30 1")
	p.Click(choose("parts", "paint"))
	p.Click(choose("parts", "engine"))
	p.Click("#a-cost")
	p.Type("12,5")
	sends(p)
	p.Wait(`document.body.innerText.includes("Thank you")`)
	want := map[string]any{"rate": 9.0, "complaint": "Yes", "what": "A noise", "call": true, "phone": "+49 30 1", "parts": []any{"engine", "paint"}, "cost": 12.5}
	if diff := cmp.Diff(want, m.look("d_en").answers); diff != "" {
		t.Error(diff)
	}
	p.Go(at + "d_en")
	p.Wait(`document.body.innerText.includes("Thank you")`)

	late.Click(choose("rate", 1)) // its draft learns that the survey is answered
	late.Wait(`document.body.innerText.includes("Thank you")`)
	clean(t, p)
}

// secondForm is a form that was open in another window when the survey was answered.
func secondForm(t *testing.T, b *webtest.Browser) {
	t.Helper()
	_, at := serve(t)
	first, second := b.Open(t, webtest.View{}), b.Open(t, webtest.View{NoScript: true})
	for _, p := range []*webtest.Page{first, second} {
		p.Go(at + "d_de")
		p.Click(choose("rate", 5))
		p.Click(choose("complaint", "No"))
	}
	sends(first)
	first.Wait(`document.body.innerText.includes("Vielen Dank")`)
	sends(second)
	second.Wait(`document.body.innerText.includes("Schon beantwortet")`)
	closed := b.Open(t, webtest.View{})
	closed.Go(at + "d_de_closed")
	closed.Wait(`document.body.innerText.includes("Diese Umfrage ist geschlossen")`)
	for _, p := range []*webtest.Page{first, second, closed} {
		clean(t, p)
	}
}

// errorsInPlace: the list of errors has the focus, its links lead into the fields, and what was typed is there. With script and
// without.
func errorsInPlace(t *testing.T, b *webtest.Browser) {
	t.Helper()
	for _, noScript := range []bool{false, true} {
		m, at := serve(t)
		p := b.Open(t, webtest.View{Width: 390, NoScript: noScript})
		p.Go(at + "d_en")
		p.Click("#a-cost")
		p.Type("much")
		sends(p)
		p.Wait(`document.activeElement.id === "above"`) // the browser gives the focus after it has shown the page
		if title := p.Value(`document.title`); !strings.HasPrefix(title, "Error: ") {
			t.Errorf("the title is %q", title)
		}
		p.Click(`a[href="#a-cost"]`)
		p.Wait(`document.activeElement.id === "a-cost"`)
		if typed := p.Value(`document.activeElement.value`); typed != "much" {
			t.Errorf("what was typed is %q", typed)
		}
		p.Run(`document.activeElement.value = ""`)
		p.Type("20")
		p.Click(choose("rate", 3))
		p.Click(choose("complaint", "No"))
		sends(p)
		p.Wait(`document.body.innerText.includes("Thank you")`)
		if diff := cmp.Diff(map[string]any{"rate": 3.0, "complaint": "No", "cost": 20.0}, m.look("d_en").answers); diff != "" {
			t.Error(diff)
		}
		clean(t, p)
	}
}

// withoutScript: the further questions are on the next page, and the first form opens the survey.
func withoutScript(t *testing.T, b *webtest.Browser) {
	t.Helper()
	m, at := serve(t)
	p := b.Open(t, webtest.View{Width: 390, NoScript: true})
	p.Go(at + "d_ar")
	p.Click(choose("rate", 2))
	p.Click(choose("complaint", "Yes"))
	sends(p)
	if calls := m.look("d_ar"); calls.opened != 1 {
		t.Error("the survey is not open")
	}
	if got := p.Value(asked); got != "rate complaint what call parts cost waited day" || p.Value(`document.activeElement.id`) != "above" {
		t.Errorf("asked: %s", got)
	}
	p.Click("#a-what")
	p.Type("صوت غريب")
	p.Click("#a-cost")
	p.Type("٢٠٫٥")
	sends(p)
	p.Wait(`document.body.innerText.includes("شكرًا لك")`)
	if diff := cmp.Diff(map[string]any{"rate": 2.0, "complaint": "Yes", "what": "صوت غريب", "cost": 20.5}, m.look("d_ar").answers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"open", "draft", "submit"}, m.calls); diff != "" {
		t.Error(diff)
	}
	clean(t, p)
}

// byKeyboard is a person without a mouse.
func byKeyboard(t *testing.T, b *webtest.Browser) {
	t.Helper()
	m, at := serve(t)
	p := b.Open(t, webtest.View{})
	p.Go(at + "d_en")
	p.Press("Tab")
	p.Press("Space") // 1
	p.Press("ArrowRight")
	p.Press("ArrowRight")
	p.Press("Tab")
	p.Press("Space")
	p.Wait(asked + ` === "rate complaint what call parts cost waited day"`)
	if ring := p.Value(`(({ outlineStyle, outlineWidth }) => outlineStyle + " " + outlineWidth)(getComputedStyle(document.activeElement.closest("label")))`); ring != "solid 3px" {
		t.Errorf("the focus is shown by %q", ring)
	}
	p.Press("Tab")
	p.Type("Noise")
	for range 2 { // to "call", and past it to the boxes of "parts"
		p.Press("Tab")
	}
	p.Press("Space")
	for range 3 {
		p.Press("Tab")
	}
	p.Type("12")
	p.Leave(func() { p.Press("Enter") }) // as browsers do in a field of one line
	p.Wait(`document.body.innerText.includes("Thank you")`)
	if diff := cmp.Diff(map[string]any{"rate": 3.0, "complaint": "Yes", "what": "Noise", "parts": []any{"engine"}, "cost": 12.0}, m.look("d_en").answers); diff != "" {
		t.Error(diff)
	}
	clean(t, p)
}

// openedByAPerson: a page that is fetched ahead, or waits in another tab, is not open.
func openedByAPerson(t *testing.T, b *webtest.Browser) {
	t.Helper()
	for _, c := range []struct{ name, before, show string }{
		{
			"in another tab", `Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });`,
			`Object.defineProperty(document, "visibilityState", { get: () => "visible" }); document.dispatchEvent(new Event("visibilitychange"))`,
		},
		{
			"prerendered", `Object.defineProperty(document, "prerendering", { configurable: true, get: () => true });`,
			`Object.defineProperty(document, "prerendering", { get: () => false }); document.dispatchEvent(new Event("prerenderingchange"))`,
		},
	} {
		m, at := serve(t)
		p := b.Open(t, webtest.View{Before: c.before})
		p.Go(at + "d_en")
		p.Click(choose("rate", 4)) // the draft is the first that it says, long after the page is there
		m.wait(t, c.name, "d_en", func(k kept, _ []string) bool { return k.Draft["rate"] == 4.0 })
		if m.look("d_en").opened != 0 {
			t.Errorf("%s: the survey is open", c.name)
		}
		p.Run(c.show)
		m.wait(t, c.name, "d_en", func(k kept, _ []string) bool { return k.opened == 1 })
		clean(t, p)
	}
}

// draftIsThereAgain: also what was typed a moment before the page was left.
func draftIsThereAgain(t *testing.T, b *webtest.Browser) {
	t.Helper()
	m, at := serve(t)
	p := b.Open(t, webtest.View{})
	p.Go(at + "d_en")
	p.Click(choose("complaint", "Yes"))
	p.Wait(asked + ` === "rate complaint what call parts cost waited day"`)
	p.Click("#a-what")
	p.Type("A noise, ")
	p.Type("and smoke")
	p.Go(at + "d_de")
	m.wait(t, "the draft", "d_en", func(k kept, _ []string) bool { return k.Draft["what"] == "A noise, and smoke" })
	p.Go(at + "d_en")
	if got := p.Value(asked + ` + " " + document.getElementById("a-what").value`); got != "rate complaint what call parts cost waited day A noise, and smoke" {
		t.Errorf("it says %q", got)
	}
	m.mu.Lock()
	m.err = fmt.Errorf("the database is away")
	m.mu.Unlock()
	p.Click(choose("rate", 4))
	p.Wait(`document.getElementById("status").textContent.startsWith("There is no connection")`)
	if m.look("d_en").State != public.Asking {
		t.Error("it was sent")
	}
}

// unsubscribeByHand is a person who follows the link of a mail, with and without script: axe-core looks at the page before and after.
func unsubscribeByHand(t *testing.T, b *webtest.Browser) {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(webtest.Packages(t, filepath.Join("..", "console", "testdata", "axe"), "axe-core tested no page of a link"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	for i, locale := range []string{"en", "ar", "de", "ar"} {
		l := &links{of: map[string]public.Leaving{"a": {Locale: locale, Titles: []string{"Tax & customs", "تأشيرات"}}}}
		server := httptest.NewServer(public.Handler(newMemory(t), public.Options{Subscriptions: l}))
		t.Cleanup(server.Close)
		view := webtest.View{Width: []int{390, 1280, 390, 1280}[i], Dark: i > 1, NoScript: i == 2}
		p := b.Open(t, view)
		look := func(what string) {
			name := fmt.Sprintf("unsubscribe-%s-%s-%d-%v", what, locale, view.Width, view.Dark)
			if folder := os.Getenv("CARILLON_TEST_PICTURES"); folder != "" {
				p.Screenshot(filepath.Join(folder, name+".png"))
			}
			if view.NoScript {
				return
			}
			for _, v := range append(p.Axe(string(axe)), tooSmall(t, p)...) {
				t.Errorf("%s: %s", name, v)
			}
		}
		p.Go(server.URL + "/u/a")
		look("before")
		if l.left != 0 {
			t.Error("the page has ended something by itself")
		}
		p.Leave(func() { p.Click("button") })
		look("after")
		if l.left != 1 {
			t.Errorf("the button has ended %d", l.left)
		}
	}
}

// looked is a page in one state, to be looked at.
type looked struct {
	name, id string
	prepare  func(p *webtest.Page) // nil: as it is loaded
}

func states() []looked {
	return []looked{
		{"form", "", nil},
		{"errors", "", func(p *webtest.Page) {
			p.Click("#a-cost")
			p.Type("x")
			p.Click(choose("complaint", "Yes"))
			p.Wait(`document.getElementById("a-what")`)
			sends(p)
		}},
		{"filled", "", func(p *webtest.Page) {
			p.Click(choose("rate", 7))
			p.Click(choose("complaint", "Yes"))
			p.Wait(`document.getElementById("a-what")`)
			p.Click(choose("parts", "tyres"))
			p.Click("#a-cost")
			p.Type("12.5")
			p.Wait(`document.getElementById("status").textContent !== ""`)
		}},
		{"thanks", "_answered", nil},
		{"closed", "_closed", nil},
	}
}

// axeFindsNothing has axe-core look at each state of the page, as wide as a telephone and as a desk, in both colour schemes, in English and in
// Arabic: at all of them with "make pages", at two of the eight otherwise. Nothing scrolls sideways, and what can be touched is large
// enough for a finger. CARILLON_TEST_PICTURES names a folder for pictures.
func axeFindsNothing(t *testing.T, b *webtest.Browser) {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(webtest.Packages(t, filepath.Join("..", "console", "testdata", "axe"), "axe-core tested no page of a survey"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dark := range []bool{false, true} {
		for _, width := range []int{390, 1280} {
			for _, locale := range []string{"en", "ar"} {
				few := !dark && width == 390 && locale == "en" || dark && width == 1280 && locale == "ar"
				if !few && os.Getenv("CARILLON_TEST_PAGES") != "all" {
					continue
				}
				for _, state := range states() {
					_, at := serve(t)
					name := fmt.Sprintf("%s-%s-%d-%s", state.name, locale, width, map[bool]string{false: "light", true: "dark"}[dark])
					p := b.Open(t, webtest.View{Width: width, Dark: dark})
					p.Go(at + "d_" + locale + state.id)
					if state.prepare != nil {
						state.prepare(p)
					}
					if folder := os.Getenv("CARILLON_TEST_PICTURES"); folder != "" {
						p.Screenshot(filepath.Join(folder, name+".png"))
					}
					for _, v := range append(p.Axe(string(axe)), tooSmall(t, p)...) {
						t.Errorf("%s: %s", name, v)
					}
					clean(t, p)
				}
			}
		}
	}
}

// tooSmall names what can be touched and is less than 44 px high or wide, and whether the page scrolls sideways.
func tooSmall(t *testing.T, p *webtest.Page) (found []string) {
	t.Helper()
	const small = `(() => {
		const found = [...document.querySelectorAll("label.choice, [id^=a-]:not(label input), button, a")].filter((e) => {
			const box = e.getBoundingClientRect();
			return box.height < 44 || box.width < 44;
		}).map((e) => "too small: " + e.outerHTML.slice(0, 120));
		const root = document.documentElement;
		if (root.scrollWidth > root.clientWidth) found.push("it scrolls sideways: " + root.scrollWidth);
		return JSON.stringify(found);
	})()`
	if err := json.Unmarshal([]byte(p.Value(small)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}
