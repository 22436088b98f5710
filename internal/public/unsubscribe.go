package public

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
)

// The page /u/{token} ends subscriptions by the link in a mail, without a sign-in: the token is the key to it, and it can do nothing else.
//
//	GET, HEAD /u/{token}  what would end, and a button (200); or that nothing is left to end (200)
//	POST      /u/{token}  by the button: 303 back to the page. By a mail program (RFC 8058): 200, never a redirect, whatever the subscriptions are.
//
// A token that is not valid gets the same page (404) whatever is wrong with it; one that has expired, another one (410).

// ErrExpired: the link was valid once.
var ErrExpired = errors.New("the link has expired")

// Subscriptions is what the page needs of the engine. A token is given as it stands in the address, decoded and otherwise untested.
type Subscriptions interface {
	// Following returns what a token would end. The error is ErrNotFound or ErrExpired if it is not valid. It changes nothing.
	Following(ctx context.Context, token string) (Leaving, error)
	// Leave ends it. To do it again changes nothing, and is no error.
	Leave(ctx context.Context, token string) (Leaving, error)
}

// Leaving is what an unsubscribe link ends.
type Leaving struct {
	Locale string   // of the person; empty: not known
	Titles []string // of the topics; none: nothing is left to end
}

const (
	fieldConfirm  = "confirm" // the button of the page
	confirmYes    = "yes"
	fieldOneClick = "List-Unsubscribe" // RFC 8058
	oneClick      = "One-Click"
	// mostConfirm bounds the body of a request to end subscriptions, in bytes.
	mostConfirm = 16 << 10
)

// leavePage is what would end, as it is shown.
type leavePage struct {
	frame
	action string
	titles []string
}

// unsubscribe answers /u/{token}.
func (s *site) unsubscribe(w http.ResponseWriter, r *http.Request) {
	token := r.PathValue("token")
	if !s.admit(w, r, token) {
		return
	}
	if r.Method != http.MethodPost {
		left, err := s.subscriptions.Following(r.Context(), token)
		switch {
		case err != nil:
			s.refuseLink(w, r, err)
		case len(left.Titles) == 0:
			s.say(w, r, http.StatusOK, left.Locale, pageLeft)
		default:
			f := s.frame(left.Locale, r.Header.Get("Accept-Language"))
			f.speakOwn()
			f.title = f.words.Leave.Title
			page := &leavePage{frame: f, action: "/u/" + url.PathEscape(token), titles: left.Titles}
			s.write(w, r, http.StatusOK, whole(f, leaveBody(page)))
		}
		return
	}
	byMail, ok := s.confirmed(w, r)
	if !ok {
		return
	}
	left, err := s.subscriptions.Leave(r.Context(), token)
	switch {
	case err != nil:
		s.refuseLink(w, r, err)
	case byMail:
		s.say(w, r, http.StatusOK, left.Locale, pageLeft)
	default:
		w.Header().Set("Location", "/u/"+url.PathEscape(token))
		w.WriteHeader(http.StatusSeeOther)
	}
}

// confirmed reports whether a form says what it is for, and whether a mail program sent it. It has answered if ok is false.
func (s *site) confirmed(w http.ResponseWriter, r *http.Request) (byMail, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, mostConfirm)
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
	case kind == "multipart/form-data":
		err = r.ParseMultipartForm(mostConfirm)
	default:
		err = r.ParseForm()
	}
	byMail = err == nil && r.PostForm.Get(fieldOneClick) == oneClick
	if err != nil || !byMail && r.PostForm.Get(fieldConfirm) != confirmYes {
		s.say(w, r, http.StatusBadRequest, "", pageUnreadable)
		return false, false
	}
	return byMail, true
}

// refuseLink answers with the page of an error.
func (s *site) refuseLink(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		s.say(w, r, http.StatusNotFound, "", pageNoLink)
	case errors.Is(err, ErrNothing):
		s.say(w, r, http.StatusGone, "", pageGone)
	case errors.Is(err, ErrExpired), errors.Is(err, ErrRenewable):
		s.say(w, r, http.StatusGone, "", pageExpired)
	default:
		s.failed(r, err)
		s.say(w, r, http.StatusInternalServerError, "", pageFailed)
	}
}
