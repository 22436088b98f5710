package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
)

const aSurvey = `
workflow: visit
type: survey
triggers: {id: t, event: visited}
audience: {to: event.recipient}
channel: inbox
message: {survey: form}
---
survey: form
title: {en: Your visit, ar: زيارتك}
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: rate, type: rating, min: 1, max: 10, required: true, text: {en: "How was {{ event.place }}?", ar: "كيف كانت {{ event.place }}؟"}}
  - {id: why, type: text, text: Why?, show_when: answers.rate < 5}
---
channel: inbox
provider: inbox
`

// The link of an invitation leads to its survey, which is opened by a person, answered once, and the same for the API.
// Shows: C31, C33.
func TestSurveyPage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "carillon.db")
	settings := server(file)
	settings.Work = false // the tick alone sends
	a := start(t, app.Config{Server: settings})
	c := admin(t, a)
	if _, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: aSurvey}}); err != nil {
		t.Fatal(err)
	}
	taken, err := c.PostEvents(t.Context(), client.Event{
		ID: "1", Kind: "visited", Payload: map[string]any{"place": "Basra"}, Recipient: &client.Recipient{Address: "+9647700", Locale: "ar", CustomerRef: "c-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := taken.Items[0].Instances[0].Deliveries[0].ID
	if _, err := c.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	detail, err := c.Delivery(t.Context(), id)
	if err != nil || len(detail.Contents) != 1 {
		t.Fatalf("%+v, %v", detail, err)
	}
	link := detail.Contents[0].Text
	if link != a.URL()+"/s/"+id {
		t.Fatalf("the invitation says %s", link)
	}
	status := func() string {
		t.Helper()
		d, err := c.Delivery(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return d.Status
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, address string, form url.Values) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if form != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	_, wrong := ask(http.MethodGet, a.URL()+"/s/d_nothing", nil)
	before := everyRow(t, file)
	for range 10 {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, path := range []string{link, a.URL() + "/healthz", a.URL() + "/readyz", a.URL() + "/s/d_nothing"} {
				if got, _ := ask(method, path, nil); path == link && got != http.StatusOK {
					t.Fatalf("%s: %d", method, got)
				}
			}
		}
	}
	if diff := cmp.Diff(before, everyRow(t, file)); diff != "" {
		t.Errorf("a program that reads every page changes rows: %s", diff)
	}
	for i := range id { // one character of the id is another one
		other := []byte(id)
		if other[i] = 'a'; other[i] == id[i] {
			other[i] = 'b'
		}
		if got, body := ask(http.MethodGet, a.URL()+"/s/"+string(other), nil); got != http.StatusNotFound || body != wrong {
			t.Errorf("%s: %d", other, got)
		}
	}
	if got := status(); got != "sent" {
		t.Errorf("%s after a program has read the page", got)
	}
	_, page := ask(http.MethodGet, link, nil)
	if !strings.Contains(page, "زيارتك") || !strings.Contains(page, "كيف كانت Basra؟") || !strings.Contains(page, `dir="rtl"`) || strings.Contains(page, "Why?") {
		t.Errorf("the page:\n%s", page)
	}
	if got, _ := ask(http.MethodPost, link+"/opened", url.Values{}); got != http.StatusNoContent || status() != "opened" {
		t.Errorf("opened: %d, %s", got, status())
	}
	// Hidden fields name what the form showed.
	shown := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		shown.Add(m[1], m[2])
	}
	fill := func(rate string) url.Values {
		form := url.Values{"rate": {rate}}
		for name, values := range shown {
			form[name] = values
		}
		return form
	}
	if got, _ := ask(http.MethodPost, link, fill("99")); got != http.StatusUnprocessableEntity || status() != "opened" {
		t.Errorf("a bad answer: %d, %s", got, status())
	}
	for name, bad := range map[string]map[string]any{
		"a megabyte": {"rate": 3, "why": strings.Repeat("x", 1<<20)}, "an unknown question": {"rate": 3, "nope": 1}, "a wrong type": {"rate": map[string]any{"a": 1}},
	} {
		_, err := c.Respond(t.Context(), id, client.ResponseInput{Answers: bad})
		if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Status < 400 || p.Status >= 500 || len(p.Error()) > 1000 || status() != "opened" {
			t.Errorf("%s: %.200v, %s", name, err, status())
		}
	}
	if got, text := ask(http.MethodPost, link, fill("7")); got != http.StatusSeeOther || status() != "responded" {
		t.Errorf("an answer: %d, %s\n%s", got, status(), text)
	}
	if got, _ := ask(http.MethodPost, link, fill("7")); got != http.StatusConflict {
		t.Errorf("a second answer: %d", got)
	}
	if got, _ := ask(http.MethodGet, link, nil); got != http.StatusOK {
		t.Errorf("thanks: %d", got)
	}
	all, err := c.Responses(t.Context(), client.ResponseQuery{Delivery: id})
	if err != nil || len(all.Items) != 1 || all.Items[0].Answers["rate"] != 7.0 || all.Items[0].Locale != "ar" || all.Items[0].Address == "" || all.Items[0].CustomerRef == "" {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = c.Respond(t.Context(), id, client.ResponseInput{Answers: map[string]any{"rate": 7}})
	if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Code != client.CodeAnswered {
		t.Errorf("by the API: %v", err)
	}
}

// everyRow returns the rows of every table of a SQLite file, as text.
func everyRow(t *testing.T, file string) map[string][]string {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	read := func(query string) (list []string) {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, targets := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				targets[i] = &values[i]
			}
			if err := rows.Scan(targets...); err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprint(values...))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return list
	}
	tables := map[string][]string{}
	for _, table := range read("SELECT name FROM sqlite_master WHERE type = 'table'") {
		tables[table] = read("SELECT * FROM " + table)
	}
	if len(tables["dispatch"]) > 0 || len(tables["delivery"]) != 1 {
		t.Fatalf("%d dispatches, %d deliveries", len(tables["dispatch"]), len(tables["delivery"]))
	}
	return tables
}
