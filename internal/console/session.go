package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/allowance"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// SessionFor is how long a person stays signed in: a working day.
	SessionFor = 12 * time.Hour
	cookieName = "carillon_session"
	// tokenBytes is the size of a session's token: it cannot be guessed.
	tokenBytes = 32
	// maxForm bounds the sign-in form.
	maxForm = 4 << 10
)

// A session is a random token in the browser and its hash on the server, so that signing out ends it everywhere and a copy of
// the database holds none. It names the secret of the API key that signed in, and ends with it: revoked, expired or rotated.
// (alexedwards/scs keeps tokens as hashes too, but counts by the machine's clock instead of ours, and keeps what a session
// says in one opaque value: whose key it is could not be asked of the database.)

// newToken draws a token: 256 bits by chance.
func newToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // it never fails: without chance the process ends
	return base64.RawURLEncoding.EncodeToString(b)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// reader is who may read which workspace.
type reader struct {
	workspace store.Workspace
	name      string // of the API key; empty for a guest
}

// reader finds out who asks; ok is false for a stranger.
func (c *console) reader(r *http.Request) (who reader, ok bool, err error) {
	cookie, _ := r.Cookie(cookieName)
	if cookie == nil {
		return c.guest(r)
	}
	session, ok, err := c.Store.SignInByHash(r.Context(), hashOf(cookie.Value))
	if err != nil {
		return reader{}, false, err
	}
	now := c.Clock.Now()
	if !ok || !now.Before(session.ExpiresAt) {
		return c.guest(r)
	}
	k, ok, err := c.Store.KeyByHash(r.Context(), session.KeyHash)
	if err != nil {
		return reader{}, false, err
	}
	if !ok || k.Ended(session.KeyHash, now) != "" || k.Workspace != session.Workspace || !mayRead(k) {
		return c.guest(r)
	}
	ws, ok, err := c.workspace(r.Context(), func(ws store.Workspace) bool { return ws.ID == session.Workspace })
	if err != nil || !ok {
		return reader{}, false, err
	}
	return reader{ws, k.Name}, true, nil
}

func (c *console) guest(r *http.Request) (reader, bool, error) {
	if c.Guest == "" || !local(r.Host) {
		return reader{}, false, nil
	}
	ws, ok, err := c.workspace(r.Context(), func(ws store.Workspace) bool { return ws.Name == c.Guest })
	return reader{workspace: ws}, ok, err
}

func (c *console) workspace(ctx context.Context, is func(store.Workspace) bool) (store.Workspace, bool, error) {
	all, err := c.Store.Workspaces(ctx)
	if err != nil {
		return store.Workspace{}, false, err
	}
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return store.Workspace{}, false, nil
	}
	return all[i], true, nil
}

func mayRead(k store.APIKey) bool {
	return slices.Contains(k.Scopes, "read") || slices.Contains(k.Scopes, "admin")
}

// local reports whether the request names this machine or a bare address. Any other name could have been pointed
// here by a page elsewhere (DNS rebinding), whose scripts would then read what a guest may.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return name == "localhost" || net.ParseIP(name) != nil
}

// signInPage shows the form; who is signed in already goes on.
func (c *console) signInPage(w http.ResponseWriter, r *http.Request) {
	switch _, ok, err := c.reader(r); {
	case err != nil:
		c.fail(w, r, err)
	case ok:
		http.Redirect(w, r, next(r.URL.Query().Get("next")), http.StatusSeeOther)
	default:
		c.write(w, r, http.StatusOK, signInForm(c.frame("Sign in"), next(r.URL.Query().Get("next")), ""))
	}
}

func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	form := func(status int, to, refusal string) {
		c.write(w, r, status, signInForm(c.frame("Sign in"), to, refusal))
	}
	now, from := c.Clock.Now(), allowance.Address(r.RemoteAddr)
	if wait := c.signIns.try(from, now); wait > 0 {
		c.Log.WarnContext(r.Context(), "sign-in refused: too many have failed", "from", from.String())
		wait = max(wait, time.Second).Round(time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		form(http.StatusTooManyRequests, "/", fmt.Sprintf("Too many sign-ins have failed. Try again in %s.", wait))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		status, refusal := http.StatusBadRequest, "The form could not be read. Send it again."
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			status, refusal = http.StatusRequestTimeout, "The form did not arrive in time. Send it again."
		}
		form(status, "/", refusal)
		return
	}
	to := next(r.PostForm.Get("next"))
	hash := hashOf(strings.TrimSpace(r.PostForm.Get("key")))
	k, known, err := c.Store.KeyByHash(r.Context(), hash)
	if err != nil {
		c.signIns.back(from)
		c.fail(w, r, err)
		return
	}
	if refusal, why := refusalOf(k, known, hash, now); refusal != "" {
		c.Log.WarnContext(r.Context(), "sign-in failed", "from", from.String(), "why", why, "key", k.Name)
		form(http.StatusUnauthorized, to, refusal)
		return
	}
	c.signIns.back(from)
	token := newToken()
	err = c.Store.CreateSignIn(r.Context(), store.SignIn{Workspace: k.Workspace, Hash: hashOf(token), KeyHash: hash, CreatedAt: now, ExpiresAt: now.Add(SessionFor)})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.Log.InfoContext(r.Context(), "signed in", "from", from.String(), "key", k.Name)
	c.setCookie(w, r, token, int(SessionFor/time.Second))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// refusalOf says why nobody signs in with a key, to them and to the log; empty: they may.
func refusalOf(k store.APIKey, known bool, hash string, now time.Time) (refusal, why string) {
	if !known {
		return "No key in force reads like that. Keys begin with car_ and are shown once, when they are made.", "unknown key"
	}
	switch ended := k.Ended(hash, now); {
	case ended == store.KeyExpired:
		return "This key has expired.", string(ended)
	case ended != "":
		return "No key in force reads like that. Keys begin with car_ and are shown once, when they are made.", string(ended)
	case !mayRead(k):
		return "This key may not read. A key for the console has the scope read or admin.", "scope"
	}
	return "", ""
}

func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, _ := r.Cookie(cookieName); cookie != nil {
		if err := c.Store.EndSignIn(r.Context(), hashOf(cookie.Value)); err != nil {
			c.fail(w, r, err)
			return
		}
	}
	c.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

func (c *console) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Secure || r.TLS != nil || r.URL.Scheme == "https", // the scheme is what a trusted proxy says
	})
}

// next is where to go after signing in: a path of this server, else the overview.
func next(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") || strings.HasPrefix(path, "/signin") {
		return "/"
	}
	return path
}
