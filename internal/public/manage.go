package public

import (
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
)

// The pages for those who follow topics, without a sign-in. Each takes tokens of its own purpose: an unsubscribe link opens no other page.
//
//	GET, HEAD /m/{token}        what the holder follows, and their choices (200)
//	POST      /m/{token}        the choices: 303 back to the page. With an expired token: a new link is sent to its holder (200)
//	GET, HEAD /m/-/{workspace}  asks for the address of somebody who has lost the link (200; 404 where no workflow sends links)
//	POST      /m/-/{workspace}  sends a link to that address if it follows a topic. The answer is the same whether it does or not
//	GET, HEAD /c/{token}        what the holder is to confirm, and a button (200); or that they have (200)
//	POST      /c/{token}        confirms it: 303 back to the page

// ErrRenewable: the link has expired, and its holder can have a new one sent to them.
var ErrRenewable = errors.New("the link has expired and can be replaced")

// Followers is what these pages need of the engine. A token is given as it stands in the address, decoded and otherwise untested. The errors are ErrNotFound,
// ErrExpired and ErrRenewable for a token that is not valid.
type Followers interface {
	// Managed returns what the holder of a token follows. It changes nothing.
	Managed(ctx context.Context, token string) (Managed, error)
	// Choose has the holder follow topics with the frequencies that they have chosen; empty: they leave the topic. refused: one of them is not on offer.
	Choose(ctx context.Context, token string, chosen map[string]string) (refused bool, err error)
	// LeaveAll ends all that the holder follows.
	LeaveAll(ctx context.Context, token string) error
	// Renew sends the holder of an expired token a new one.
	Renew(ctx context.Context, token string) error
	// OffersLinks reports whether a workspace sends links to those who ask for one. It is ErrNotFound if it does not, or if there is no such workspace.
	OffersLinks(ctx context.Context, workspace string) error
	// SendLink sends a link to an address of a workspace, if it follows a topic. ErrInvalid: it is no address.
	SendLink(ctx context.Context, workspace, address string) error
	// Requested returns what the holder of a token is to confirm. It changes nothing. ErrNothing: there is nothing any more.
	Requested(ctx context.Context, token string) (Requested, error)
	// Confirm confirms it. To do it again changes nothing.
	Confirm(ctx context.Context, token string) error
}

var (
	// ErrInvalid: it is no address.
	ErrInvalid = errors.New("that is no address")
	// ErrNothing: there is nothing to confirm any more.
	ErrNothing = errors.New("there is nothing to confirm")
)

// Managed is what the holder of a link follows.
type Managed struct {
	Locale string // of the person; empty: not known
	Topics []ManagedTopic
}

// ManagedTopic is a topic that somebody follows, or has left lately.
type ManagedTopic struct {
	Name, Title, Description string
	Frequency                string // empty: they have left it
	Frequencies              []string
}

// Requested is what the holder of a link is to confirm.
type Requested struct {
	Locale    string
	Title     string // of the topic
	Frequency string
	Confirmed bool // they have
}

// Names of fields. A topic has no colon in its name.
const (
	fieldChosen  = "to:"  // before the name of a topic: the chosen frequency
	fieldWas     = "was:" // what the page showed
	fieldAll     = "all"
	fieldAddress = "address"
	querySaved   = "saved"
	queryRefused = "refused"
)

// managePage is the choices of somebody as they are shown.
type managePage struct {
	frame
	action         string
	topics         []ManagedTopic
	saved, refused bool
}

// follows reports whether the holder follows any topic.
func (p *managePage) follows() bool {
	return slices.ContainsFunc(p.topics, func(t ManagedTopic) bool { return t.Frequency != "" })
}

// admit counts a request for a link. It has answered if it returns false.
func (s *site) admit(w http.ResponseWriter, r *http.Request, token string) bool {
	sum := sha256.Sum256([]byte(token)) // tokens begin alike
	wait := s.limits.take(r, hex.EncodeToString(sum[:]), s.clock.Now())
	if wait > 0 {
		s.tooMany(w, r, wait)
	}
	return wait == 0
}

func (s *site) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	s.say(w, r, http.StatusTooManyRequests, "", pageTooMany)
}

// manage answers /m/{token}.
func (s *site) manage(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if !s.admit(w, r, token) {
		return
	}
	page := "/m/" + url.PathEscape(token)
	if r.Method == http.MethodPost {
		s.choose(w, r, token, page)
		return
	}
	m, err := s.followers.Managed(r.Context(), token)
	switch {
	case errors.Is(err, ErrRenewable):
		f := s.frame("", r.Header.Get("Accept-Language"))
		f.title = f.words.Expired.Title
		s.write(w, r, http.StatusGone, whole(f, renewBody(f, page)))
	case err != nil:
		s.refuseLink(w, r, err)
	case len(m.Topics) == 0:
		s.say(w, r, http.StatusOK, m.Locale, pageNothing)
	default:
		f := s.frame(m.Locale, r.Header.Get("Accept-Language"))
		f.speakOwn()
		f.title = f.words.Follow.Manage.Title
		query := r.URL.Query()
		s.write(w, r, http.StatusOK, whole(f, manageBody(&managePage{
			frame: f, action: page, topics: m.Topics, saved: query.Has(querySaved) && !query.Has(queryRefused), refused: query.Has(queryRefused),
		})))
	}
}

// choose takes the choices of a form: those that differ from what the page showed.
func (s *site) choose(w http.ResponseWriter, r *http.Request, token, page string) {
	fields, ok := s.fields(w, r)
	if !ok {
		return
	}
	if fields.Get(fieldConfirm) == confirmYes { // the page of an expired link
		if err := s.followers.Renew(r.Context(), token); err != nil {
			s.refuseLink(w, r, err)
			return
		}
		s.say(w, r, http.StatusOK, "", pageSent)
		return
	}
	var refused bool
	var err error
	if fields.Has(fieldAll) {
		err = s.followers.LeaveAll(r.Context(), token)
	} else {
		refused, err = s.followers.Choose(r.Context(), token, changed(fields))
	}
	if err != nil {
		s.refuseLink(w, r, err)
		return
	}
	query := "?" + querySaved
	if refused {
		query += "&" + queryRefused
	}
	w.Header().Set("Location", page+query)
	w.WriteHeader(http.StatusSeeOther)
}

// changed returns the frequencies that a form chooses, by topic, where they differ from what the page showed.
func changed(fields url.Values) map[string]string {
	chosen := map[string]string{}
	for name := range fields {
		of, ok := strings.CutPrefix(name, fieldWas)
		if to := fields.Get(fieldChosen + of); ok && fields.Has(fieldChosen+of) && to != fields.Get(name) {
			chosen[of] = to
		}
	}
	return chosen
}

// fields reads a form. It has answered if ok is false.
func (s *site) fields(w http.ResponseWriter, r *http.Request) (fields url.Values, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	if err := r.ParseForm(); err != nil || len(r.PostForm) == 0 {
		s.say(w, r, http.StatusBadRequest, "", pageUnreadable)
		return nil, false
	}
	return r.PostForm, true
}

// lostPage asks for an address.
type lostPage struct {
	frame
	action, address string
	wrong           bool
}

// lost answers /m/-/{workspace}.
func (s *site) lost(w http.ResponseWriter, r *http.Request) {
	workspace := r.PathValue("workspace")
	if !s.admit(w, r, workspace) {
		return
	}
	if err := s.followers.OffersLinks(r.Context(), workspace); err != nil {
		s.refuseLink(w, r, err)
		return
	}
	show := func(status int, address string) {
		f := s.frame("", r.Header.Get("Accept-Language"))
		f.title = f.words.Follow.Lost.Title
		if status != http.StatusOK {
			f.title = f.words.Error + ": " + f.title
		}
		s.write(w, r, status, whole(f, lostBody(&lostPage{frame: f, action: "/m/-/" + url.PathEscape(workspace), address: address, wrong: status != http.StatusOK})))
	}
	if r.Method != http.MethodPost {
		show(http.StatusOK, "")
		return
	}
	fields, ok := s.fields(w, r)
	if !ok {
		return
	}
	if wait := s.limits.asks(r, s.clock.Now()); wait > 0 {
		s.tooMany(w, r, wait)
		return
	}
	address := strings.TrimSpace(fields.Get(fieldAddress))
	switch err := s.followers.SendLink(r.Context(), workspace, address); {
	case errors.Is(err, ErrInvalid):
		show(http.StatusUnprocessableEntity, address)
	case err != nil:
		s.refuseLink(w, r, err)
	default:
		s.say(w, r, http.StatusOK, "", pageSent)
	}
}

// confirmPage is what somebody is to confirm.
type confirmPage struct {
	frame
	action, title, frequency string
}

// confirm answers /c/{token}.
func (s *site) confirm(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if !s.admit(w, r, token) {
		return
	}
	page := "/c/" + url.PathEscape(token)
	if r.Method == http.MethodPost {
		if fields, ok := s.fields(w, r); !ok {
			return
		} else if fields.Get(fieldConfirm) != confirmYes {
			s.say(w, r, http.StatusBadRequest, "", pageUnreadable)
			return
		}
		if err := s.followers.Confirm(r.Context(), token); err != nil {
			s.refuseLink(w, r, err)
			return
		}
		w.Header().Set("Location", page)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	q, err := s.followers.Requested(r.Context(), token)
	switch {
	case err != nil:
		s.refuseLink(w, r, err)
	case q.Confirmed:
		s.say(w, r, http.StatusOK, q.Locale, pageConfirmed)
	default:
		f := s.frame(q.Locale, r.Header.Get("Accept-Language"))
		f.speakOwn()
		f.title = f.words.Follow.Confirm.Title
		s.write(w, r, http.StatusOK, whole(f, confirmBody(&confirmPage{frame: f, action: page, title: q.Title, frequency: q.Frequency})))
	}
}
