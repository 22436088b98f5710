package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// pageSize is how many rows a list shows: about three screens.
	pageSize = 50
	// every is how often a page that lives asks for its part again.
	every = 2 * time.Second
)

// visit is one request of somebody who may read.
type visit struct {
	reader
	scale
	ids   key.PublicIDs
	id    string // of the address
	kind  string // of record, in the address
	query url.Values
}

// view is what a handler made of a visit.
type view struct {
	title   string
	section string // of the navigation
	body    templ.Component
	live    bool // it is fetched again while it is shown
	// redirect is another page to go to instead; empty: this one is shown.
	redirect string
}

// frame is the part around a page.
type frame struct {
	title, section, notice string
	q                      string // the text that was searched for
	workspace, who, zone   string // empty workspace: nobody is signed in
	every                  int    // milliseconds between two fetches; 0 = the page is not live
	asset                  func(name string) string
}

// tab is the title in the browser. It names the workspace, so that pages of several workspaces can be distinguished.
func (f frame) tab() string {
	parts := []string{f.title, f.workspace, "Carillon"}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

func (c *console) frame(title string) frame {
	f := frame{title: title, asset: c.asset}
	if c.Notice != nil {
		f.notice = c.Notice()
	}
	return f
}

// visit is the request of somebody who may read. Not ok: it has been answered.
func (c *console) visit(w http.ResponseWriter, r *http.Request) (v visit, ok bool) {
	who, known, err := c.reader(r)
	if err != nil {
		c.fail(w, r, err)
		return visit{}, false
	}
	if !known {
		c.refuse(w, r)
		return visit{}, false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		c.write(w, r, http.StatusMethodNotAllowed, message(c.frame("Not possible"), "Pages can only be read."))
		return visit{}, false
	}
	if !findable(r.URL) {
		c.write(w, r, http.StatusNotFound, message(c.frame("Not found"), "There is nothing at this address."))
		return visit{}, false
	}
	zone, err := c.zone(r.Context(), who.workspace.ID)
	if err != nil {
		c.fail(w, r, err)
		return visit{}, false
	}
	return visit{
		reader: who, scale: scale{now: c.Clock.Now(), zone: zone}, ids: key.NewPublicIDs(who.workspace.Secret),
		id: r.PathValue("id"), kind: r.PathValue("type"), query: r.URL.Query(),
	}, true
}

// findable reports whether the database can hold the texts that an address has, and so find them.
func findable(at *url.URL) bool {
	texts := []string{at.Path}
	for _, values := range at.Query() {
		texts = append(texts, values...)
	}
	return !slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsRune(text, 0) || !utf8.ValidString(text) })
}

// page turns what show makes into an answer, for those who may read.
func (c *console) page(show func(context.Context, visit) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.visit(w, r)
		if !ok {
			return
		}
		made, err := show(r.Context(), v)
		f := c.frame(made.title)
		f.section, f.workspace, f.who, f.zone = made.section, v.workspace.Name, v.name, v.zone.String()
		if made.section == "/find" {
			f.q = v.query.Get("q")
		}
		switch {
		case errors.Is(err, store.ErrNotFound):
			f.title = "Not found"
			c.write(w, r, http.StatusNotFound, message(f, "There is nothing at this address. It may belong to another workspace."))
			return
		case err != nil:
			c.fail(w, r, err)
			return
		}
		if made.redirect != "" {
			http.Redirect(w, r, made.redirect, http.StatusSeeOther)
			return
		}
		if made.live {
			f.every = int(every / time.Millisecond)
		}
		if r.Header.Get(partHeader) != "" {
			c.write(w, r, http.StatusOK, made.body)
			return
		}
		c.write(w, r, http.StatusOK, whole(f, made.body))
	}
}

// refuse sends a stranger to the form; a script that asks for a part learns that the session is over.
func (c *console) refuse(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.Header.Get(partHeader) != "" {
		c.write(w, r, http.StatusUnauthorized, message(c.frame("Sign in"), "The session is over. Sign in again."))
		return
	}
	to := "/signin"
	if r.URL.Path != "/" {
		to += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fail logs what went wrong and says only that it did.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the reader has left
	}
	c.Log.Error("console page failed", "path", r.URL.Path, "error", err)
	c.write(w, r, http.StatusInternalServerError, message(c.frame("Something went wrong"), "The page could not be made. The log says why; nothing was changed."))
}

// write renders the whole answer before it sends the first byte, so that an error never leaves half a page. An
// answer that the browser has already costs only its head.
func (c *console) write(w http.ResponseWriter, r *http.Request, status int, body templ.Component) {
	var page bytes.Buffer
	// A reader who sends slowly has ended the request's context, and is answered all the same.
	if err := body.Render(context.WithoutCancel(r.Context()), &page); err != nil {
		c.Log.Error("console page was not rendered", "path", r.URL.Path, "error", err)
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(page.Bytes())
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Cookie, "+partHeader)
	if status == http.StatusOK {
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the reader has left: nobody would see the error
}

// zone is the workspace's, in which every time of a page is written.
func (c *console) zone(ctx context.Context, ws subject.WorkspaceID) (*time.Location, error) {
	set, err := c.Definitions.Definitions(ctx, ws)
	if err != nil {
		return nil, err
	}
	if set.Workspace.Timezone == "" {
		return time.UTC, nil
	}
	return civil.LoadZone(set.Workspace.Timezone)
}

func (c *console) count(ctx context.Context, v visit) (store.Counts, error) {
	return c.counts.of(v, func() (store.Counts, error) { return c.Store.Counts(ctx, v.workspace.ID) })
}

// before reads the cursor of a list.
func (v visit) before() int64 {
	n, err := strconv.ParseInt(v.query.Get("before"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// older is the address of the page of a list that begins below the row last. Lists ask for one row more than they
// show, and so know whether there is one.
func (v visit) older(path string, last int64) string {
	return v.address(path, url.Values{"before": {strconv.FormatInt(last, 10)}})
}

// newest is the address of a list's first page; empty when this is it.
func (v visit) newest(path string) string {
	if v.before() == 0 {
		return ""
	}
	return v.address(path, nil, "before")
}

// address is a path with the query of this visit, with some parameters replaced and some removed.
func (v visit) address(path string, give url.Values, without ...string) string {
	q := url.Values{}
	for name, values := range v.query {
		q[name] = values
	}
	for _, name := range without {
		q.Del(name)
	}
	for name, values := range give {
		q[name] = values
	}
	return strings.TrimSuffix(path+"?"+q.Encode(), "?")
}

// row reads the id of the address.
func (v visit) row(kind key.Kind) (int64, error) {
	k, ws, id, ok := v.ids.Decode(v.id)
	if !ok || k != kind || ws != int64(v.workspace.ID) {
		return 0, store.ErrNotFound
	}
	return id, nil
}

func (v visit) public(kind key.Kind, id int64) string {
	return v.ids.Encode(kind, int64(v.workspace.ID), id)
}
