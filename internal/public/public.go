// Package public has the pages for people without a sign-in: the survey page, /s/{public id}, which an invitation leads to, the page that ends
// subscriptions, /u/{token} (unsubscribe.go), and those of people who follow topics, /m/ and /c/ (manage.go).
//
// # What it is
//
// The page has no session. The id in the address is the key to it (docs/decisions/0001-public-ids.md): who has the link may answer,
// once, until the survey is closed. The package shows questions and takes forms. It does not decide which answers are taken, who may
// answer, or when: Surveys does.
//
//	GET, HEAD /s/{id}         the form (200), the thanks if it is answered (200), or that it is closed (410)
//	POST      /s/{id}         the answers: 303 back to the page, which then says thanks; 422 and the form with its errors;
//	                          409 if it is answered already; 410 if it is closed
//	POST      /s/{id}/draft   keeps what is in the form, and answers the questions that are asked of it (200, a part of the page)
//	POST      /s/{id}/opened  a person sees the page (204)
//	GET, HEAD /s/-/{hash}/…   the style sheet and the script
//
// # What holds
//
//   - GET and HEAD change nothing: programs that scan mail fetch every link. What a person does is a POST. The script posts `opened`
//     when the page is visible to somebody, so neither when it is prefetched nor while it is prerendered. Without script the first
//     form that is sent says the same.
//   - The page works without script. A question whose condition (show_when) does not hold is not on the page. Each form lists the
//     questions that it shows; if the answers lead to further ones, the form comes back with them and nothing is taken yet.
//     The script asks the server on every change instead, and inserts or removes questions. Conditions are never evaluated in
//     the browser.
//   - A form that was refused comes back as it was typed, each error at its question, and a list of links to them has the focus.
//   - The answer to a submit that was taken is a redirect (303) to the page. To reload it, or to go back to it, shows the thanks and
//     sends nothing a second time. An error of the server shows the form again too, so that nothing typed is lost.
//   - Every id that leads nowhere gets the same page: malformed, unknown, of another kind. Limits of requests count before the
//     survey is looked up, so that they do not tell either.
//   - An answer is rendered whole before its first byte is sent. Ids, answers and addresses are not logged: an id is a key.
//   - Nothing is loaded from elsewhere, and nothing is inline: the policy of the content allows this server's own style sheet and
//     script only.
//
// # Languages
//
// The texts of a survey are the workspace's, in the person's locale. The page's own texts are in one table (words). They follow
// the person's locale, then the browser's languages, then English. Where the two differ, each element names its own language and
// direction. Numbers are written in the digits of the person's locale and read in those of any script.
package public

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/survey"
)

// The errors of Surveys that the page has an answer for. Every other error is a failure of the server.
var (
	// ErrNotFound: the id leads nowhere. It does not say why.
	ErrNotFound = errors.New("there is no survey at this address")
	// ErrAnswered: the survey has been answered, and is answered once.
	ErrAnswered = errors.New("the survey has been answered")
	// ErrClosed: the survey has expired or was cancelled, and takes no answers.
	ErrClosed = errors.New("the survey is closed")
)

// Surveys is what the page needs of the engine. An id is given as it stands in the address, decoded and otherwise untested.
type Surveys interface {
	// Find returns the survey that an id leads to, or ErrNotFound. It changes nothing.
	Find(ctx context.Context, id string) (Survey, error)
	// Open notes that a person has opened the page. Nothing happens if this is known, or if the survey is answered.
	Open(ctx context.Context, id string) error
	// SaveDraft keeps answers that are not submitted yet, instead of those kept before: JSON values by question, not checked.
	SaveDraft(ctx context.Context, id string, answers map[string]any) error
	// Submit takes the answers, or returns the problems that they have. It returns ErrAnswered, ErrClosed or ErrNotFound if
	// the survey takes none. An answer that was taken opens the survey too.
	Submit(ctx context.Context, id string, answers map[string]any) ([]survey.Problem, error)
}

// State is how far a survey has come.
type State string

// The states of a survey.
const (
	Asking   State = "asking"   // it takes answers
	Answered State = "answered" // it has taken them
	Closed   State = "closed"   // it has expired or was cancelled
)

// Survey is what the page shows of a survey to one person.
type Survey struct {
	Form   *survey.Form
	Locale string            // of the person, such as "ar" or "pt-BR"; empty: not known
	Title  string            // in that locale
	Texts  map[string]string // by question: its text; by "question=value": the text of an option. All in that locale, and rendered
	Input  expr.Input        // what show_when and valid_when read in addition to the answers
	Draft  map[string]any    // what SaveDraft kept, by question
	State  State
}

// Options are what a page can be given. The zero value serves.
type Options struct {
	Clock clock.Clock  // of the limits; nil: the system's
	Log   *slog.Logger // of failures; nil: nothing is logged
	// Subscriptions are ended at /u/{token}; nil: there is no such page.
	Subscriptions Subscriptions
	// Followers are the people whose pages are at /m/ and /c/; nil: there are no such pages.
	Followers Followers
}

//go:embed assets
var assets embed.FS

// policy lets the page load its own style sheet and script, send its form to this server, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// asset is an embedded file.
type asset struct {
	path string // changes when the text does
	hash string
	kind string
	text []byte
}

func loadAsset(name, kind string) *asset {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("public: " + err.Error()) // it is embedded
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:8])
	return &asset{path: "/s/-/" + hash + "/" + name, hash: hash, kind: kind, text: text}
}

type site struct {
	surveys       Surveys
	subscriptions Subscriptions
	followers     Followers
	clock         clock.Clock
	log           *slog.Logger
	style, script *asset
	limits        limits
	languages     languages
}

// Handler returns the pages, to be mounted at /s/, /u/, /m/ and /c/. It limits requests by the address of r.RemoteAddr.
func Handler(surveys Surveys, o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = &clock.System{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &site{
		surveys: surveys, subscriptions: o.Subscriptions, followers: o.Followers, clock: o.Clock, log: o.Log, limits: newLimits(), languages: newLanguages(),
		style:  loadAsset("page.css", "text/css; charset=utf-8"),
		script: loadAsset("page.js", "text/javascript; charset=utf-8"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/s/{id}", s.only(s.visit(s.show, s.submit), http.MethodGet, http.MethodHead, http.MethodPost))
	mux.HandleFunc("/s/{id}/draft", s.only(s.visit(nil, s.draft), http.MethodPost))
	mux.HandleFunc("/s/{id}/opened", s.only(s.visit(nil, s.opened), http.MethodPost))
	mux.HandleFunc("/s/-/{hash}/page.css", s.only(s.asset(s.style), http.MethodGet, http.MethodHead))
	mux.HandleFunc("/s/-/{hash}/page.js", s.only(s.asset(s.script), http.MethodGet, http.MethodHead))
	if s.subscriptions != nil {
		mux.HandleFunc("/u/{token}", s.only(s.unsubscribe, http.MethodGet, http.MethodHead, http.MethodPost))
	}
	if s.followers != nil {
		mux.HandleFunc("/m/{token}", s.only(s.manage, http.MethodGet, http.MethodHead, http.MethodPost))
		mux.HandleFunc("/m/-/{workspace}", s.only(s.lost, http.MethodGet, http.MethodHead, http.MethodPost))
		mux.HandleFunc("/c/{token}", s.only(s.confirm, http.MethodGet, http.MethodHead, http.MethodPost))
	}
	mux.HandleFunc("/", s.notFound)
	return guard(s.sameSite(mux))
}

// guard sets the headers that every answer has.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer") // the address is a key
		h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// sameSite refuses forms that other sites send. A browser that says nothing of the site (Sec-Fetch-Site) sends "null" as the origin of
// a form whose page has no referrer, as ours: that is no sign of another site. Who has the id may answer from everywhere anyway; the
// rule keeps other sites from doing it in the name of the people who visit them.
func (s *site) sameSite(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tested := r
		if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "null" {
			tested = r.Clone(r.Context())
			tested.Header.Del("Origin")
		}
		if protection.Check(tested) != nil {
			s.say(w, r, http.StatusForbidden, "", pageElsewhere)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// asset answers an embedded file. Under its own hash it is kept for ever. A page of another version, during an update, gets what this
// version has, and keeps it for no longer than the page.
func (s *site) asset(a *asset) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("hash") == a.hash {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		w.Header().Set("Content-Type", a.kind)
		_, _ = w.Write(a.text) // an error means that the reader has left
	}
}
