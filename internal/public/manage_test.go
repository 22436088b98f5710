package public_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/webtest"
)

// readers is a Followers in memory, of one person with one token for each page: m, old (which can be replaced), c.
type readers struct {
	mu        sync.Mutex
	locale    string
	topics    []public.ManagedTopic
	chosen    []map[string]string
	sent      []string // addresses, and tokens
	confirmed bool
}

func newReaders(locale string) *readers {
	return &readers{locale: locale, topics: []public.ManagedTopic{
		{Name: "tax", Title: "Tax & customs", Description: "What tax payers need to know.", Frequency: "daily", Frequencies: []string{"immediate", "daily", "weekly"}},
		{Name: "visas", Title: "تأشيرات", Frequency: "immediate", Frequencies: []string{"immediate"}},
		{Name: "old", Title: "A topic that was left", Frequencies: []string{"daily", "every-full-moon"}},
	}}
}

func (r *readers) Managed(_ context.Context, token string) (public.Managed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch token {
	case "m":
		return public.Managed{Locale: r.locale, Topics: r.topics}, nil
	case "none":
		return public.Managed{Locale: r.locale}, nil
	case "old":
		return public.Managed{}, public.ErrRenewable
	}
	return public.Managed{}, public.ErrNotFound
}

func (r *readers) Choose(_ context.Context, token string, chosen map[string]string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != "m" {
		return false, public.ErrNotFound
	}
	r.chosen = append(r.chosen, maps.Clone(chosen))
	refused := false
	for i := range r.topics {
		if to, ok := chosen[r.topics[i].Name]; ok {
			if refused = refused || to == "hourly"; to != "hourly" {
				r.topics[i].Frequency = to
			}
		}
	}
	return refused, nil
}

func (r *readers) LeaveAll(_ context.Context, token string) error {
	if token != "m" {
		return public.ErrNotFound
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chosen = append(r.chosen, map[string]string{"*": ""})
	for i := range r.topics {
		r.topics[i].Frequency = ""
	}
	return nil
}

func (r *readers) Renew(_ context.Context, token string) error {
	if token != "old" {
		return public.ErrNotFound
	}
	return r.SendLink(context.Background(), "default", token)
}

func (*readers) OffersLinks(_ context.Context, workspace string) error {
	if workspace != "default" {
		return public.ErrNotFound
	}
	return nil
}

func (r *readers) SendLink(_ context.Context, _, address string) error {
	if strings.HasSuffix(address, "@localhost") || address == "" {
		return public.ErrInvalid
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, address)
	return nil
}

func (r *readers) Requested(_ context.Context, token string) (public.Requested, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch token {
	case "c":
		return public.Requested{Locale: r.locale, Title: "Tax & customs", Frequency: "daily", Confirmed: r.confirmed}, nil
	case "gone":
		return public.Requested{}, public.ErrNothing
	}
	return public.Requested{}, public.ErrNotFound
}

func (r *readers) Confirm(ctx context.Context, token string) error {
	_, err := r.Requested(ctx, token)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = r.confirmed || err == nil
	return err
}

// Reading changes nothing; a form changes what differs from what the page showed, and nothing else.
func TestManagePage(t *testing.T) {
	t.Parallel()
	r := newReaders("en")
	h := public.Handler(newMemory(t), public.Options{Followers: r})
	for _, path := range []string{"/m/m", "/m/m?saved", "/m/none", "/m/old", "/m/x", "/m/-/default", "/m/-/x", "/m/", "/c/", "/c/c", "/c/gone", "/c/x"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			want := map[string]int{"/m/old": 410, "/c/gone": 410, "/m/x": 404, "/m/-/x": 404, "/c/x": 404, "/m/": 404, "/c/": 404}[path]
			if a := ask(t, h, method, path, ""); a.status != max(want, http.StatusOK) && a.status != want {
				t.Errorf("%s %s: status %d", method, path, a.status)
			}
		}
	}
	if a := ask(t, h, http.MethodGet, "/c/", ""); !strings.Contains(a.body, "This link does not work") {
		t.Errorf("without a token: %s", a.body)
	}
	if len(r.chosen)+len(r.sent) > 0 || r.confirmed {
		t.Fatalf("a look has changed something: %+v", r)
	}
	page := parse(t, ask(t, h, http.MethodGet, "/m/m", "").body)
	a := send(t, h, "/m/m", fill(page))
	page.check("what is as it was", a.status, http.StatusSeeOther)
	a = send(t, h, "/m/m", fill(page, "to:tax", "weekly", "to:old", "daily"))
	page.check("where to", a.header.Get("Location"), "/m/m?saved")
	a = send(t, h, "/m/m", url.Values{"was:tax": {"weekly"}, "to:tax": {"weekly"}, "was:visas": {"immediate"}, "to:visas": {"immediate"}, "was:old": {"daily"}, "to:old": {"daily"}, "all": {"yes"}})
	page.check("where to", a.header.Get("Location"), "/m/m?saved")
	a = send(t, h, "/m/m", url.Values{"was:tax": {""}, "to:tax": {"hourly"}, "to:visas": {"immediate"}, "was:old": {""}})
	page.check("refused", a.header.Get("Location"), "/m/m?saved&refused")
	want := []map[string]string{{}, {"tax": "weekly", "old": "daily"}, {"*": ""}, {"tax": "hourly"}}
	if diff := cmp.Diff(want, r.chosen); diff != "" {
		t.Error(diff)
	}
	a = send(t, h, "/m/m", url.Values{"all": {"yes"}})
	page.check("all, whatever the page showed", len(r.chosen), 5)
	page.check("where to", a.header.Get("Location"), "/m/m?saved")
	for path, form := range map[string]url.Values{"/m/m": {}, "/c/c": {"confirm": {"no"}}, "/m/-/default": {}} {
		if a := send(t, h, path, form); a.status != http.StatusBadRequest {
			t.Errorf("%s with %v: status %d", path, form, a.status)
		}
	}
	if a := send(t, h, "/m/old", url.Values{"was:tax": {"daily"}, "to:tax": {""}}); a.status != http.StatusNotFound || len(r.chosen) > 5 {
		t.Errorf("choices by an expired link: status %d", a.status)
	}
}

// Anybody can write an address there: one sender asks for few links, and every answer is the same.
func TestLostLinks(t *testing.T) {
	t.Parallel()
	r := newReaders("en")
	h := public.Handler(newMemory(t), public.Options{Followers: r})
	var first answer
	status := map[int]int{}
	for i := range 12 {
		a := send(t, h, "/m/-/default", url.Values{"address": {"somebody-" + string(rune('a'+i)) + "@example.org"}})
		if i == 0 {
			first = a
		}
		if status[a.status]++; a.status == http.StatusOK && a.body != first.body {
			t.Error("the answers differ")
		}
	}
	if status[http.StatusOK] != 10 || status[http.StatusTooManyRequests] != 2 || len(r.sent) != 10 {
		t.Errorf("answers %v, links %q", status, r.sent)
	}
}

// followByHand is a person who confirms, chooses, and leaves, with and without script: axe-core looks at each page.
func followByHand(t *testing.T, b *webtest.Browser) {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(webtest.Packages(t, filepath.Join("..", "console", "testdata", "axe"), "axe-core tested no page of a link"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	for i, locale := range []string{"en", "ar", "de", "ar"} {
		r := newReaders(locale)
		h := public.Handler(newMemory(t), public.Options{Followers: r})
		address := serveHandler(t, h)
		view := webtest.View{Width: []int{390, 1280, 390, 1280}[i], Dark: i > 1, NoScript: i == 2}
		p := b.Open(t, view)
		look := func(what string) {
			name := strings.Join([]string{"follow", what, locale, map[bool]string{true: "dark", false: "light"}[view.Dark]}, "-")
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
		p.Go(address + "/c/c")
		look("confirm")
		p.Leave(func() { p.Click("button") })
		look("confirmed")
		p.Go(address + "/m/m")
		look("manage")
		p.Click(`label:has(> [name="to:tax"][value="weekly"])`)
		p.Leave(func() { p.Click("button:not(.quiet)") })
		look("saved")
		p.Leave(func() { p.Click("button.quiet") })
		look("left")
		p.Click(`label:has(> [name="to:visas"][value="immediate"])`)
		p.Leave(func() { p.Click("button") })
		want := []map[string]string{{"tax": "weekly"}, {"*": ""}, {"visas": "immediate"}}
		if diff := cmp.Diff(want, r.chosen); diff != "" || !r.confirmed {
			t.Errorf("confirmed %v, chosen %s", r.confirmed, diff)
		}
		p.Go(address + "/m/old")
		look("expired")
		p.Leave(func() { p.Click("button") })
		p.Go(address + "/m/-/default")
		look("lost")
		p.Click("#a-address")
		p.Type("me@localhost")
		p.Leave(func() { p.Click("button") })
		look("wrong")
		p.Run(`document.getElementById("a-address").value = "ann@example.org"`)
		p.Leave(func() { p.Click("button") })
		look("sent")
		if diff := cmp.Diff([]string{"old", "ann@example.org"}, r.sent); diff != "" {
			t.Error(diff)
		}
	}
}
