package public

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/carillonhq/carillon/internal/survey"
)

const (
	// maxBody bounds the body of a form in bytes, without what its own text fields may hold.
	maxBody = 64 << 10
	// mostBody bounds it whatever the form is.
	mostBody = 1 << 20
	// bytesOfRune is how long one character becomes in a form: four bytes, each as %XX.
	bytesOfRune = 12
	// fieldShown names the field of a form that lists the questions it shows. No question has a colon in its id.
	fieldShown = "carillon:shown"
)

// visit is one request for a survey that there is.
type visit struct {
	Survey
	id     string
	action string // the address of the page
	accept string // the languages of the browser
}

// only answers requests of some methods.
func (s *site) only(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	allow := ""
	for i, m := range methods {
		if i > 0 {
			allow += ", "
		}
		allow += m
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", allow)
			s.say(w, r, http.StatusMethodNotAllowed, "", pageMethod)
			return
		}
		next(w, r)
	}
}

// visit counts the request and finds its survey.
func (s *site) visit(show, change func(http.ResponseWriter, *http.Request, visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if wait := s.limits.take(r, id, s.clock.Now()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			s.say(w, r, http.StatusTooManyRequests, "", pageTooMany)
			return
		}
		found, err := s.surveys.Find(r.Context(), id)
		if err != nil {
			s.refuse(w, r, "", err)
			return
		}
		v := visit{Survey: found, id: id, action: "/s/" + url.PathEscape(id), accept: r.Header.Get("Accept-Language")}
		if r.Method == http.MethodPost {
			change(w, r, v)
			return
		}
		show(w, r, v)
	}
}

// show answers the page as the survey stands.
func (s *site) show(w http.ResponseWriter, r *http.Request, v visit) {
	switch v.State {
	case Answered:
		s.say(w, r, http.StatusOK, v.Locale, pageThanks)
	case Closed:
		s.say(w, r, http.StatusGone, v.Locale, pageClosed)
	case Asking:
		page := s.form(v, v.Form.Check(v.Draft, v.Input).Asked, v.fieldsOf(v.Draft))
		s.write(w, r, http.StatusOK, page.whole())
	default:
		s.refuse(w, r, v.Locale, errors.New("a survey in the state "+strconv.Quote(string(v.State))))
	}
}

// submit takes a form. A form that cannot be taken is shown again as it was typed, and its answers are kept as a draft.
func (s *site) submit(w http.ResponseWriter, r *http.Request, v visit) {
	fields, ok := s.read(w, r, v)
	if !ok {
		return
	}
	given := v.Form.ReadFields(readNumbers(v.Form, fields, v.Locale))
	answers := v.Form.Unasked(given, v.Input)
	checked := v.Form.Check(answers, v.Input)
	page := s.form(v, checked.Asked, fields)
	page.more = unseen(checked.Asked, fields, given)
	if len(page.more) == 0 {
		problems, err := s.surveys.Submit(r.Context(), v.id, answers)
		switch {
		case err == nil && len(problems) == 0:
			w.Header().Set("Location", v.action)
			w.WriteHeader(http.StatusSeeOther)
			return
		case err == nil:
			page.refused(problems)
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrAnswered), errors.Is(err, ErrClosed):
			s.refuse(w, r, v.Locale, err)
			return
		default:
			s.failed(r, err)
			page.failed = true
			s.write(w, r, http.StatusInternalServerError, page.whole())
			return
		}
	} else {
		page.refused(slices.DeleteFunc(checked.Problems, func(p survey.Problem) bool { return slices.Contains(page.more, p.Question) }))
	}
	if err := errors.Join(s.surveys.Open(r.Context(), v.id), s.surveys.SaveDraft(r.Context(), v.id, storable(given))); err != nil {
		if errors.Is(err, ErrAnswered) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotFound) {
			s.refuse(w, r, v.Locale, err)
			return
		}
		s.failed(r, err) // the person has the form again all the same
	}
	s.write(w, r, http.StatusUnprocessableEntity, page.whole())
}

// unseen returns the questions that are asked, were not on the page, and are not answered. A form that lists no questions was not made by
// the page, and has seen all.
func unseen(asked []string, fields url.Values, given map[string]any) []string {
	if !fields.Has(fieldShown) {
		return nil
	}
	var more []string
	for _, id := range asked {
		if _, answered := given[id]; !answered && !slices.Contains(fields[fieldShown], id) {
			more = append(more, id)
		}
	}
	return more
}

// draft keeps what is in a form, and answers the questions that are asked of somebody who gives these answers.
func (s *site) draft(w http.ResponseWriter, r *http.Request, v visit) {
	fields, ok := s.read(w, r, v)
	if !ok {
		return
	}
	given := v.Form.ReadFields(readNumbers(v.Form, fields, v.Locale))
	if err := s.surveys.SaveDraft(r.Context(), v.id, storable(given)); err != nil {
		s.refuse(w, r, v.Locale, err)
		return
	}
	s.write(w, r, http.StatusOK, questions(s.form(v, v.Form.Check(given, v.Input).Asked, fields)))
}

// opened notes that a person sees the page.
func (s *site) opened(w http.ResponseWriter, r *http.Request, v visit) {
	if v.State == Closed {
		s.refuse(w, r, v.Locale, ErrClosed)
		return
	}
	if err := s.surveys.Open(r.Context(), v.id); err != nil && !errors.Is(err, ErrAnswered) {
		s.refuse(w, r, v.Locale, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// read reads the fields of a form for a survey that takes answers. If it answers false, it has answered the request.
func (s *site) read(w http.ResponseWriter, r *http.Request, v visit) (url.Values, bool) {
	switch v.State {
	case Answered:
		s.refuse(w, r, v.Locale, ErrAnswered)
		return nil, false
	case Closed:
		s.refuse(w, r, v.Locale, ErrClosed)
		return nil, false
	case Asking:
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		s.say(w, r, http.StatusUnsupportedMediaType, v.Locale, pageUnreadable)
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, longestBody(v.Form))
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		s.say(w, r, http.StatusRequestEntityTooLarge, v.Locale, pageTooLarge)
		return nil, false
	case err != nil:
		s.say(w, r, http.StatusBadRequest, v.Locale, pageUnreadable)
		return nil, false
	}
	readDates(v.Form, r.PostForm, v.Locale)
	return r.PostForm, true
}

// longestBody is how many bytes the form of a survey may have: enough for every text that its fields accept.
func longestBody(f *survey.Form) int64 {
	n := int64(maxBody)
	for i := range f.Questions {
		if f.Questions[i].Type == survey.FreeText {
			n += int64(min(f.Questions[i].Longest(), mostBody)) * bytesOfRune
		}
	}
	return min(n, mostBody)
}

// refuse answers with the page of an error.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, locale string, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		s.notFound(w, r)
	case errors.Is(err, ErrAnswered):
		s.say(w, r, http.StatusConflict, locale, pageAgain)
	case errors.Is(err, ErrClosed):
		s.say(w, r, http.StatusGone, locale, pageClosed)
	default:
		s.failed(r, err)
		s.say(w, r, http.StatusInternalServerError, locale, pageFailed)
	}
}

// failed logs an error of the server, without the address: it holds a key.
func (s *site) failed(r *http.Request, err error) {
	if r.Context().Err() == nil { // else the reader has left
		s.log.Error("survey page failed", "method", r.Method, "error", err)
	}
}

// notFound is the answer to every id that leads nowhere. It depends on nothing but the languages of the browser.
func (s *site) notFound(w http.ResponseWriter, r *http.Request) {
	page := pageNoLink
	if strings.HasPrefix(r.URL.Path, "/s/") {
		page = pageNotFound
	}
	s.say(w, r, http.StatusNotFound, "", page)
}

// say answers with a page of one message. locale is the person's, empty if it is not known.
func (s *site) say(w http.ResponseWriter, r *http.Request, status int, locale string, m messageOf) {
	f := s.frame(locale, r.Header.Get("Accept-Language"))
	f.speakOwn()
	text := m(f.words)
	f.title = text.Title
	s.write(w, r, status, whole(f, messageBody(text, status == http.StatusOK)))
}

// write renders the whole answer before it sends the first byte.
func (s *site) write(w http.ResponseWriter, r *http.Request, status int, body templ.Component) {
	var page bytes.Buffer
	if err := body.Render(context.WithoutCancel(r.Context()), &page); err != nil {
		s.log.Error("survey page was not rendered", "error", err)
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(page.Len()))
	h.Add("Vary", "Accept-Language")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // an error means that the reader has left
}
