package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

func (b *bundle) key(t *testing.T, ws subject.WorkspaceID, name, secret string, scopes ...string) {
	t.Helper()
	sum := sha256.Sum256([]byte(secret))
	err := b.store.CreateKey(t.Context(), store.APIKey{
		Workspace: ws, Name: name, Hash: hex.EncodeToString(sum[:]), Scopes: scopes, CreatedAt: b.clock.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func submit(t *testing.T, h http.Handler, path string, form url.Values, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Host = "carillon.example.org"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return serve(t, h, r)
}

// cookie is what an answer leaves in the browser.
func cookie(t *testing.T, a answer) *http.Cookie {
	t.Helper()
	response := http.Response{Header: a.header}
	if got := len(response.Cookies()); got != 1 {
		t.Fatalf("%d cookies instead of one", got)
	}
	return response.Cookies()[0]
}

func TestSigningIn(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	b.key(t, b.ws.ID, "reader", "car_reader", "read")
	b.key(t, b.ws.ID, "poster", "car_poster", "ingest")
	h := b.handler(t, console.Deps{Secure: true})

	if a := get(t, h, "/deliveries?status=sent"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/signin?next=%2Fdeliveries%3Fstatus%3Dsent" {
		t.Errorf("a stranger got %d, sent to %q", a.status, a.header.Get("Location"))
	}
	if a := get(t, h, "/", "Carillon-Part", "main"); a.status != http.StatusUnauthorized {
		t.Errorf("a stranger's script got %d", a.status)
	}
	for _, wrong := range []string{"", "car_none", "car_poster"} {
		a := submit(t, h, "/signin", url.Values{"key": {wrong}})
		if a.status != http.StatusUnauthorized || a.header.Get("Set-Cookie") != "" || !strings.Contains(a.body, `role="alert"`) {
			t.Errorf("key %q: status %d, cookie %q", wrong, a.status, a.header.Get("Set-Cookie"))
		}
		if wrong != "" && strings.Contains(a.body, wrong) {
			t.Errorf("key %q is repeated in the answer", wrong)
		}
	}

	a := submit(t, h, "/signin", url.Values{"key": {" car_reader "}, "next": {"/deliveries"}})
	session := cookie(t, a)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/deliveries" {
		t.Errorf("signing in answered %d, to %q", a.status, a.header.Get("Location"))
	}
	if !session.HttpOnly || !session.Secure || session.SameSite != http.SameSiteLaxMode || session.Path != "/" {
		t.Errorf("the cookie is %q", a.header.Get("Set-Cookie"))
	}
	signed := "carillon_session=" + session.Value
	if a := get(t, h, "/", "Cookie", signed); a.status != http.StatusOK || !strings.Contains(a.body, "Sign out") {
		t.Errorf("signed in: status %d", a.status)
	}
	if a := get(t, h, "/signin?next=//evil.example", "Cookie", signed); a.header.Get("Location") != "/" {
		t.Errorf("signing in again leads to %q", a.header.Get("Location"))
	}
	sum := sha256.Sum256([]byte(session.Value))
	for name, forged := range map[string]string{
		"another end": session.Value[:len(session.Value)-1] + "!", "a part": session.Value[1:], "nonsense": "x.y", "empty": ".", "what is stored": hex.EncodeToString(sum[:]),
	} {
		if a := get(t, h, "/", "Cookie", "carillon_session="+forged); a.status != http.StatusSeeOther {
			t.Errorf("%s: status %d", name, a.status)
		}
	}

	for is, stored := range map[string]bool{session.Value: false, hex.EncodeToString(sum[:]): true} { // a copy of the database holds no token
		if row, found, err := b.store.SignInByHash(t.Context(), is); err != nil || found != stored {
			t.Errorf("the database knows the session by %q: %v (%+v), %v", is, found, row, err)
		}
	}
	if a := submit(t, h, "/signout", nil, "Cookie", signed); a.status != http.StatusSeeOther || cookie(t, a).MaxAge >= 0 {
		t.Errorf("signing out: status %d, cookie %q", a.status, a.header.Get("Set-Cookie"))
	}
	if a := get(t, h, "/", "Cookie", signed); a.status != http.StatusSeeOther { // who kept the cookie has nothing by it
		t.Errorf("signed out, and the session got %d", a.status)
	}
	signed = "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {"car_reader"}})).Value
	if ended, err := b.store.RevokeKey(t.Context(), b.ws.ID, "reader", b.clock.Now()); err != nil || !ended {
		t.Fatal(ended, err)
	}
	if a := get(t, h, "/", "Cookie", signed); a.status != http.StatusSeeOther {
		t.Errorf("the key is revoked and its session got %d", a.status)
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	b.key(t, b.ws.ID, "admin", "car_admin", "admin")
	h := b.handler(t, console.Deps{})
	signedIn := b.clock.Now()
	signed := "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {"car_admin"}})).Value
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{console.SessionFor - time.Second, http.StatusOK}, {console.SessionFor, http.StatusSeeOther}} {
		b.clock.Set(signedIn.Add(tc.after))
		if a := get(t, h, "/", "Cookie", signed); a.status != tc.want {
			t.Errorf("after %s: status %d, want %d", tc.after, a.status, tc.want)
		}
	}
}

// TestOtherWorkspace: ids of one workspace mean nothing in another.
func TestOtherWorkspace(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	other, err := b.store.EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), start)
	if err != nil {
		t.Fatal(err)
	}
	b.key(t, other.ID, "other", "car_other", "read")
	h := b.handler(t, console.Deps{Guest: "default"})
	signed := "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {"car_other"}})).Value
	page := get(t, h, "/inbox")
	_, id, _ := strings.Cut(page.body, `href="/deliveries/d_`)
	id, _, _ = strings.Cut("/deliveries/d_"+id, `"`)
	if a := get(t, h, id); a.status != http.StatusOK {
		t.Errorf("%s as a guest of its workspace: status %d", id, a.status)
	}
	if a := get(t, h, id, "Cookie", signed); a.status != http.StatusNotFound {
		t.Errorf("%s in another workspace: status %d", id, a.status)
	}
	for who, want := range map[string]string{"": "default", signed: "other"} {
		a := get(t, h, "/deliveries", "Cookie", who)
		if !strings.Contains(a.body, "<title>Deliveries · "+want+" · Carillon</title>") || !strings.Contains(a.body, `title="The workspace of this page">`+want+"</span>") {
			t.Errorf("the page does not say that it is of the workspace %s", want)
		}
	}
	if a := get(t, h, "/inbox", "Cookie", signed); a.status != http.StatusOK || strings.Contains(a.body, "40956") {
		t.Errorf("the other workspace's inbox: status %d, or it shows what is not its own", a.status)
	}
}

// TestGuest: only requests that name this machine or an address are a guest's, so that a page elsewhere whose name
// was pointed here learns nothing.
func TestGuest(t *testing.T) {
	t.Parallel()
	h := lived(t, inMemory(t)).handler(t, console.Deps{Guest: "default"})
	for host, want := range map[string]int{
		"localhost:8080": http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:8080": http.StatusOK, "[::1]": http.StatusOK, "192.0.2.7:80": http.StatusOK,
		"evil.example": http.StatusSeeOther, "localhost.evil.example:8080": http.StatusSeeOther, "": http.StatusSeeOther,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		if a := serve(t, h, r); a.status != want {
			t.Errorf("host %q: status %d, want %d", host, a.status, want)
		}
	}
}

func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	h := lived(t, inMemory(t)).handler(t, console.Deps{Guest: "default"})
	for _, path := range []string{"/signin", "/signout", "/deliveries"} {
		if a := submit(t, h, path, nil, "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
			t.Errorf("%s from another site: status %d", path, a.status)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/deliveries", nil)
	r.Host = "localhost"
	if a := serve(t, h, r); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("posting to a page: status %d", a.status)
	}
	if a := submit(t, h, "/signin", url.Values{"key": {strings.Repeat("x", 1<<16)}}); a.status != http.StatusBadRequest {
		t.Errorf("a form of 64 KiB: status %d", a.status)
	}
}

// Signing out ends the session on the server: a kept cookie gives no access.
func TestSigningOutEndsTheSession(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	b.key(t, b.ws.ID, "admin", "car_admin", "admin")
	h := b.handler(t, console.Deps{})
	signIn := func() string {
		return "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {"car_admin"}})).Value
	}
	one, other := signIn(), signIn()
	submit(t, h, "/signout", nil, "Cookie", one)
	if a := get(t, h, "/", "Cookie", one); a.status != http.StatusSeeOther {
		t.Errorf("the session that signed out: status %d", a.status)
	}
	if a := get(t, h, "/", "Cookie", other); a.status != http.StatusOK {
		t.Errorf("another session of the same key: status %d", a.status)
	}
	if a := submit(t, h, "/signout", nil, "Cookie", one); a.status != http.StatusSeeOther {
		t.Errorf("signing out again: status %d", a.status)
	}
}

// A session ends with the secret that signed in: when the key expires, and when a rotation's grace is over.
func TestSessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	signedIn := b.clock.Now()
	for name, change := range map[string]func(*store.APIKey) error{
		"expires": func(k *store.APIKey) error { k.ExpiresAt = signedIn.Add(time.Hour); return nil },
		"rotated": func(k *store.APIKey) error {
			k.OldHash, k.OldUntil, k.Hash = k.Hash, signedIn.Add(time.Hour), "another"
			return nil
		},
		"expires within the grace": func(k *store.APIKey) error {
			k.OldHash, k.OldUntil, k.Hash, k.ExpiresAt = k.Hash, signedIn.Add(2*time.Hour), "a third", signedIn.Add(time.Hour)
			return nil
		},
	} {
		b.clock.Set(signedIn)
		h := b.handler(t, console.Deps{})
		b.key(t, b.ws.ID, name, "car_"+name, "read")
		signed := "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {"car_" + name}})).Value
		if err := b.store.RotateKey(t.Context(), b.ws.ID, name, change); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			after         time.Duration
			session, sign int
		}{{time.Hour - time.Second, http.StatusOK, http.StatusSeeOther}, {time.Hour, http.StatusSeeOther, http.StatusUnauthorized}} {
			b.clock.Set(signedIn.Add(tc.after))
			if a := get(t, h, "/", "Cookie", signed); a.status != tc.session {
				t.Errorf("%s, after %s: status %d, want %d", name, tc.after, a.status, tc.session)
			}
			if a := submit(t, h, "/signin", url.Values{"key": {"car_" + name}}); a.status != tc.sign {
				t.Errorf("%s, signing in after %s: status %d, want %d", name, tc.after, a.status, tc.sign)
			}
		}
	}
}
