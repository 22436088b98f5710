package public_test

import (
	"bytes"
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/public"
)

// links keeps what links end, without a database.
type links struct {
	mu   sync.Mutex
	of   map[string]public.Leaving
	left int   // how often something was ended
	err  error // of every call
}

func (l *links) Following(_ context.Context, token string) (public.Leaving, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.of[token]
	switch {
	case l.err != nil:
		return public.Leaving{}, l.err
	case token == "old":
		return public.Leaving{}, public.ErrExpired
	case !ok:
		return public.Leaving{}, public.ErrNotFound
	}
	return of, nil
}

func (l *links) Leave(ctx context.Context, token string) (public.Leaving, error) {
	of, err := l.Following(ctx, token)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && len(of.Titles) > 0 {
		l.left++
		l.of[token] = public.Leaving{Locale: of.Locale}
	}
	return of, err
}

// A page shows what its link ends and changes nothing; its button ends it; a mail program ends it by one request, which may come again.
//
// Shows: E15.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	l := &links{of: map[string]public.Leaving{
		"a": {Titles: []string{"Tax & money", "Visas"}}, "b": {Locale: "de", Titles: []string{"Steuern"}}, "c": {Titles: []string{"Pets"}}, "d": {},
	}}
	h := public.Handler(newMemory(t), public.Options{Subscriptions: l})
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	if err := errors.Join(parts.WriteField("List-Unsubscribe", "One-Click"), parts.Close()); err != nil {
		t.Fatal(err)
	}
	confirm, oneClick := url.Values{"confirm": {"yes"}}.Encode(), "List-Unsubscribe=One-Click"
	for _, step := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		has                      string
		left                     int
	}{
		{"it shows what it ends", http.MethodGet, "/u/a", "", nil, 200, "Tax &amp; money", 0},
		{"a program that scans mail", http.MethodHead, "/u/a", "", nil, 200, "", 0},
		{"in the person's language", http.MethodGet, "/u/b", "", nil, 200, "Sie erhalten dann keine Nachrichten mehr zu", 0},
		{"in the browser's language", http.MethodGet, "/u/a", "", []string{"Accept-Language", "ar"}, 200, `dir="rtl"`, 0},
		{"an empty form ends nothing", http.MethodPost, "/u/a", "", nil, 400, "could not be read", 0},
		{"another word ends nothing", http.MethodPost, "/u/a", "List-Unsubscribe=Two-Click", nil, 400, "could not be read", 0},
		{"a form of another site ends nothing", http.MethodPost, "/u/a", confirm, []string{"Sec-Fetch-Site", "cross-site"}, 403, "another site", 0},
		{"a body without an end", http.MethodPost, "/u/a", "confirm=" + strings.Repeat("x", 20<<10), nil, 400, "could not be read", 0},
		{"the button", http.MethodPost, "/u/a", confirm, nil, 303, "", 1},
		{"it is done", http.MethodGet, "/u/a", "", nil, 200, "You are unsubscribed", 1},
		{"the button again", http.MethodPost, "/u/a", confirm, nil, 303, "", 1},
		{"a mail program", http.MethodPost, "/u/b", oneClick, []string{"Sec-Fetch-Site", ""}, 200, "Abbestellt", 2},
		{"the same again", http.MethodPost, "/u/b", oneClick, []string{"Sec-Fetch-Site", ""}, 200, "Abbestellt", 2},
		{"another form of the same", http.MethodPost, "/u/c", form.String(), []string{"Sec-Fetch-Site", "", "Content-Type", parts.FormDataContentType()}, 200, "You are unsubscribed", 3},
		{"nothing is left to end", http.MethodPost, "/u/d", oneClick, nil, 200, "You are unsubscribed", 3},
		{"another method", http.MethodPut, "/u/a", "", nil, 405, "not possible", 3},
		{"no such link", http.MethodGet, "/u/zzz", "", nil, 404, "This link does not work", 3},
		{"no such link by one click", http.MethodPost, "/u/zzz", oneClick, nil, 404, "This link does not work", 3},
		{"an old link", http.MethodPost, "/u/old", oneClick, nil, 410, "This link has expired", 3},
	} {
		a := ask(t, h, step.method, step.path, step.body, step.header...)
		if a.status != step.status || !strings.Contains(a.body, step.has) || l.left != step.left {
			t.Errorf("%s: %d, %d ended: %s", step.name, a.status, l.left, a.body)
		}
		if loc := a.header.Get("Location"); (step.status == 303) != (loc == step.path) {
			t.Errorf("%s: location %q", step.name, loc)
		}
		if a.header.Get("Set-Cookie") != "" || a.header.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", step.name, a.header)
		}
	}
	l.err = errors.New("the database is away")
	if a := ask(t, h, http.MethodPost, "/u/a", oneClick); a.status != http.StatusInternalServerError || strings.Contains(a.body, "database") {
		t.Errorf("%d %s", a.status, a.body)
	}
	l.err = nil
	many := 0
	for range 100 {
		if ask(t, h, http.MethodGet, "/u/a", "").status == http.StatusTooManyRequests {
			many++
		}
	}
	if many == 0 {
		t.Error("one link may be asked for without end")
	}
	if a := ask(t, public.Handler(newMemory(t), public.Options{}), http.MethodGet, "/u/a", ""); a.status != http.StatusNotFound {
		t.Errorf("without subscriptions: %d", a.status)
	}
}
