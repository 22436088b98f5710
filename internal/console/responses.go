package console

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

const (
	// downloadPage is how many responses a download reads at once.
	downloadPage = 500
	// downloadPageTime is how long reading and sending them may take, so that a browser that takes nothing does not keep its request.
	downloadPageTime = time.Minute
)

// Responses is what the pages about answers to surveys read.
type Responses interface {
	Responses(ctx context.Context, ws subject.WorkspaceID, f store.ResponseFilter, p store.Page) ([]delivery.Response, error)
	ResponseTo(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Response, error)
}

// said is the answer to one question.
type said struct{ question, answer string }

// answersOf are the answers of one response to some questions, in their order.
func answersOf(r delivery.Response, questions []string) []said {
	var list []said
	for _, id := range questions {
		if one, answered := r.Answers[id]; answered {
			list = append(list, said{id, survey.AnswerText(one)})
		}
	}
	return list
}

// answered returns the questions that somebody answered, in the order of their surveys.
func (c *console) answered(ctx context.Context, v visit, all iter.Seq2[survey.Response, error]) ([]string, error) {
	return survey.AnsweredQuestions(all, func(name string, definitions int64) (ids []string, err error) {
		set, err := c.Definitions.DefinitionsAt(ctx, v.workspace.ID, definitions)
		if err != nil {
			return nil, err
		}
		if s := set.Survey(name); s != nil {
			for _, q := range s.Form.Questions {
				ids = append(ids, q.ID)
			}
		}
		return ids, nil
	})
}

// answeredIn is answered for responses that were read.
func (c *console) answeredIn(ctx context.Context, v visit, rows ...delivery.Response) ([]string, error) {
	return c.answered(ctx, v, func(yield func(survey.Response, error) bool) {
		for _, r := range rows {
			if !yield(v.responseInFile(r), nil) {
				return
			}
		}
	})
}

type responseLine struct {
	id       string
	at       time.Time
	to       string
	ref      string // of the person
	href     string // of the delivery
	workflow string
	survey   string
	answers  []said
	agent    string // empty: the person
}

type responseList struct {
	scale
	filter
	rows        []responseLine
	csv, ndjson string // addresses of what the filter shows, as files
	newest      string
	older       string
}

// responseFilter reads the filter of responses from the address. What cannot be read is said in shown; ok is false where nothing fits.
func (v visit) responseFilter(shown *filter) (f store.ResponseFilter, ok bool) {
	f = store.ResponseFilter{Workflow: v.query.Get("workflow"), Survey: v.query.Get("survey"), Made: v.made(shown)}
	if text := v.query.Get("delivery"); text != "" {
		kind, ws, id, known := v.ids.Decode(text)
		if !known || kind != key.KindDelivery || ws != int64(v.workspace.ID) {
			return f, false
		}
		f.Delivery = delivery.ID(id)
	}
	return f, shown.refusal == ""
}

func (c *console) responses(ctx context.Context, v visit) (view, error) {
	list := responseList{
		scale: v.scale, newest: v.newest("/responses"), csv: v.address("/responses.csv", nil, "before"), ndjson: v.address("/responses.ndjson", nil, "before"),
		filter: v.filterOf([]string{"workflow", "survey"}, []string{"delivery", "since", "until"}, nil),
	}
	var rows []delivery.Response
	f, ok := v.responseFilter(&list.filter)
	if ok {
		var err error
		if rows, err = c.Store.Responses(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1}); err != nil {
			return view{}, err
		}
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/responses", rows[len(rows)-1].ID)
	}
	questions, err := c.answeredIn(ctx, v, rows...)
	if err != nil {
		return view{}, err
	}
	for _, r := range rows {
		l := responseLine{
			id: v.public(key.KindResponse, r.ID), at: r.CreatedAt, to: cmp.Or(r.Address, r.CustomerRef, v.public(key.KindDelivery, int64(r.Delivery))), href: v.delivery(r.Delivery),
			workflow: r.Workflow, survey: r.Survey, answers: answersOf(r, questions), agent: r.AgentID,
		}
		if r.Address != "" {
			l.ref = r.CustomerRef
		}
		list.rows = append(list.rows, l)
	}
	return view{title: "Responses", section: "/responses", body: responsesPage(list), live: v.before() == 0}, nil
}

// responsesFile answers with the responses that the filter of the address shows, as a file for a program or a spreadsheet. An error ends
// the connection once something was sent: a part is not taken for all.
func (c *console) responsesFile(format, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, ok := c.visit(w, r)
		if !ok {
			return
		}
		f, ok := v.responseFilter(&filter{})
		if !ok { // the list says why
			http.Redirect(w, r, v.address("/responses", nil), http.StatusSeeOther)
			return
		}
		to := &file{ResponseWriter: w, kind: kind, name: "responses-" + v.now.In(v.zone).Format(time.DateOnly) + "." + format}
		if r.Method == http.MethodHead {
			to.begin()
			return
		}
		all := c.allResponses(r.Context(), v, f, http.NewResponseController(w))
		var err error
		if format == "csv" {
			err = c.writeCSV(r.Context(), v, to, all)
		} else {
			err = survey.WriteNDJSON(to, all)
		}
		switch {
		case err == nil:
			to.begin() // it may be empty
		case to.begun:
			if r.Context().Err() == nil {
				c.Log.Error("a download of responses ended before its end", "error", err)
			}
			panic(http.ErrAbortHandler)
		default:
			c.fail(w, r, err)
		}
	}
}

// writeCSV writes responses that can be gone through twice: the first time for the columns.
func (c *console) writeCSV(ctx context.Context, v visit, w *file, all iter.Seq2[survey.Response, error]) error {
	questions, err := c.answered(ctx, v, all)
	if err != nil {
		return fmt.Errorf("read the columns: %w", err)
	}
	if _, err := w.Write([]byte("\uFEFF")); err != nil { // by it, spreadsheets read what follows as UTF-8
		return fmt.Errorf("write the head: %w", err)
	}
	return survey.WriteCSV(w, questions, all)
}

// allResponses goes through the responses of a filter, the newest first, each time through the same ones: later ones are left out.
func (c *console) allResponses(ctx context.Context, v visit, f store.ResponseFilter, connection *http.ResponseController) iter.Seq2[survey.Response, error] {
	_ = connection.SetWriteDeadline(time.Time{}) // a page has one instead; where there is no connection, there is nothing to wait for
	var first int64                              // id above the newest one
	return func(yield func(survey.Response, error) bool) {
		for before, more := first, true; more; {
			more = func() bool {
				within, cancel := context.WithTimeout(ctx, downloadPageTime)
				defer cancel()
				defer context.AfterFunc(within, func() { _ = connection.SetWriteDeadline(time.Unix(1, 0)) })() // it has passed
				rows, err := c.Store.Responses(within, v.workspace.ID, f, store.Page{Before: before, Limit: downloadPage})
				if err != nil {
					yield(survey.Response{}, err)
					return false
				}
				if first == 0 {
					first = 1 // below every id: there are none
					if len(rows) > 0 {
						first = rows[0].ID + 1
					}
				}
				for _, r := range rows {
					if before = r.ID; !yield(v.responseInFile(r), nil) {
						return false
					}
				}
				return len(rows) == downloadPage
			}()
		}
	}
}

func (v visit) responseInFile(r delivery.Response) survey.Response {
	return survey.Response{
		ID: v.public(key.KindResponse, r.ID), Delivery: v.public(key.KindDelivery, int64(r.Delivery)), Address: r.Address, CustomerRef: r.CustomerRef,
		Workflow: r.Workflow, Survey: r.Survey, Definitions: r.Definitions, Locale: r.Locale, Answers: r.Answers, AgentID: r.AgentID, CreatedAt: r.CreatedAt,
	}
}

// file is an answer that a browser keeps as a file. Its head is sent with its first byte, so that an error before that has a page.
type file struct {
	http.ResponseWriter
	name, kind string
	begun      bool
}

func (f *file) begin() {
	if f.begun {
		return
	}
	f.begun = true
	h := f.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Cookie")
	f.WriteHeader(http.StatusOK)
}

// Write implements io.Writer.
func (f *file) Write(p []byte) (int, error) {
	f.begin()
	return f.ResponseWriter.Write(p)
}
