package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// SessionFor is how long a person stays signed in: a working day.
	SessionFor = 12 * time.Hour
	cookieName = "carillon_session"
	// maxForm bounds the sign-in form.
	maxForm = 4 << 10
)

// session says which key somebody signed in with. It is signed with the workspace's secret, and whether the key is
// still in force is asked at every request: revoking a key ends its sessions.
type session struct {
	Workspace subject.WorkspaceID `json:"w"`
	Key       string              `json:"k"` // hash of the API key
	Until     int64               `json:"u"` // seconds since 1970
}

func (s session) encode(secret []byte) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode a session: %w", err)
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + sign(secret, payload), nil
}

func sign(secret []byte, payload string) string {
	return key.NewKeyed(secret, key.PurposeSession).Hash("console", payload)
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
	payload, mac, _ := strings.Cut(cookie.Value, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var s session
	if err != nil || json.Unmarshal(text, &s) != nil {
		return c.guest(r)
	}
	ws, ok, err := c.workspace(r.Context(), func(ws store.Workspace) bool { return ws.ID == s.Workspace })
	if err != nil {
		return reader{}, false, err
	}
	signed := ok && subtle.ConstantTimeCompare([]byte(mac), []byte(sign(ws.Secret, payload))) == 1
	if !signed || !c.Clock.Now().Before(time.Unix(s.Until, 0)) {
		return c.guest(r)
	}
	k, ok, err := c.Store.KeyByHash(r.Context(), s.Key)
	if err != nil {
		return reader{}, false, err
	}
	if !ok || k.Workspace != ws.ID || !mayRead(k) {
		return c.guest(r)
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
	return k.RevokedAt.IsZero() && (slices.Contains(k.Scopes, "read") || slices.Contains(k.Scopes, "admin"))
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
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.write(w, r, http.StatusBadRequest, signInForm(c.frame("Sign in"), "/", "The form could not be read. Send it again."))
		return
	}
	given, to := strings.TrimSpace(r.PostForm.Get("key")), next(r.PostForm.Get("next"))
	sum := sha256.Sum256([]byte(given))
	k, ok, err := c.Store.KeyByHash(r.Context(), hex.EncodeToString(sum[:]))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	refusal := ""
	switch {
	case !ok || !k.RevokedAt.IsZero():
		refusal = "No key in force reads like that. Keys begin with car_ and are shown once, when they are made."
	case !mayRead(k):
		refusal = "This key may not read. A key for the console has the scope read or admin."
	}
	if refusal != "" {
		c.write(w, r, http.StatusUnauthorized, signInForm(c.frame("Sign in"), to, refusal))
		return
	}
	ws, ok, err := c.workspace(r.Context(), func(ws store.Workspace) bool { return ws.ID == k.Workspace })
	if err != nil || !ok {
		c.fail(w, r, fmt.Errorf("workspace of a key: %w", cmp.Or(err, store.ErrNotFound)))
		return
	}
	value, err := session{ws.ID, k.Hash, c.Clock.Now().Add(SessionFor).Unix()}.encode(ws.Secret)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.setCookie(w, r, value, int(SessionFor/time.Second))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	c.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

func (c *console) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Secure || r.TLS != nil,
	})
}

// next is where to go after signing in: a path of this server, else the overview.
func next(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") || strings.HasPrefix(path, "/signin") {
		return "/"
	}
	return path
}
