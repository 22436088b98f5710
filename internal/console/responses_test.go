package console_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/delivery"
	answers "github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

const asking = `
workflow: service
type: survey
triggers: {id: done, event: service-done}
timing: {expire_after: 30d}
audience: {to: event.recipient}
channel: inbox
message: {survey: garage}
---
workflow: call
type: survey
triggers: {id: done, event: call-done}
timing: {expire_after: 30d}
audience: {to: event.recipient}
channel: inbox
message: {survey: phone}
---
survey: garage
title: Your visit
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: rate, type: rating, min: -10, max: 10, required: true, text: How was it?}
  - {id: why, type: text, max_length: 4000, text: Why?}
  - {id: parts, type: multiple, text: Which?, options: [{value: engine, text: Engine}, {value: paint, text: Paint}]}
  - {id: again, type: yes_no, text: Again?}
---
survey: phone
title: Your call
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: helped, type: yes_no, required: true, text: Were you helped?}
`

// ask sends a survey to an address, and returns its delivery.
func (b *bundle) ask(t *testing.T, event, address string) delivery.ID {
	t.Helper()
	r := b.post(t, fmt.Sprintf(`{"kind": %q, "recipient": {"address": %q, "locale": "ar"}}`, event, address))
	if len(r.Instances) != 1 || len(r.Instances[0].Deliveries) != 1 {
		t.Fatalf("%+v", r)
	}
	return r.Instances[0].Deliveries[0].ID
}

func (b *bundle) answer(t *testing.T, id delivery.ID, agent string, given map[string]any) delivery.Response {
	t.Helper()
	r, err := b.engine.Answers().Submit(t.Context(), answers.Link{Workspace: b.ws.ID, Delivery: id}, answers.Submission{Answers: given, AgentID: agent}, b.clock.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.clock.Set(b.clock.Now().Add(time.Hour))
	return r
}

// hostile is what somebody writes who wants to harm the one who reads it.
const hostile = `=HYPERLINK("http://192.0.2.1","x")` + "\n<script>alert(1)</script>\u202Etxt.exe"

// answered is a workspace with three answers: two to one survey, of which somebody gave one on behalf of the person, and one to another.
func answered(t *testing.T, s *store.Store) *bundle {
	t.Helper()
	b := setup(t, s)
	b.apply(t, asking)
	b.answer(t, b.ask(t, "service-done", "+964 770 000 0001"), "", map[string]any{"rate": 7.0, "parts": []any{"paint", "engine"}, "again": true, "why": "كل شيء جيد"})
	b.answer(t, b.ask(t, "service-done", "+964 770 000 0002"), "anna<b>", map[string]any{"rate": -10.0, "why": hostile})
	b.answer(t, b.ask(t, "call-done", "+964 770 000 0003"), "", map[string]any{"helped": false})
	return b
}

var rowLinks = regexp.MustCompile(`href="(/deliveries/d_[^"]*)"`)

// TestResponses: the answers are read with who gave them, each leads to its delivery, and the filter narrows them.
func TestResponses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := answered(t, s)
		h := b.handler(t, console.Deps{Guest: "default"})
		page := get(t, h, "/responses")
		wellFormed(t, "/responses", page.body)
		text := plain(page.body)
		for _, want := range []string{
			"+964 770 000 0001 service garage rate 7 why كل شيء جيد parts engine; paint again yes the person",
			"anna<b> on their behalf", "rate -10", "call phone helped no the person",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q:\n%s", want, text)
			}
		}
		if first, last := strings.Index(text, "000 0003"), strings.Index(text, "000 0001"); first > last {
			t.Error("the oldest is the first")
		}
		if strings.Contains(page.body, "<script>alert") || strings.Contains(page.body, "anna<b>") {
			t.Error("what somebody wrote became a part of the page")
		}
		if n := strings.Count(page.body, `<dd dir="auto">`); n != 7 {
			t.Errorf("%d answers keep their direction to themselves", n)
		}
		links := rowLinks.FindAllStringSubmatch(page.body, -1)
		if len(links) != 3 {
			t.Fatalf("links to deliveries: %v", links)
		}
		if detail := get(t, h, links[1][1]); !strings.Contains(plain(detail.body), "on their behalf anna<b>") || !strings.Contains(detail.body, `dir="auto">=HYPERLINK`) {
			t.Errorf("the delivery does not have the answer:\n%s", plain(detail.body))
		}
		_, id, _ := strings.Cut(links[1][1], "/deliveries/")
		for query, want := range map[string][]string{
			"workflow=service":             {"000 0001", "000 0002"},
			"survey=phone":                 {"000 0003"},
			"delivery=" + id:               {"000 0002"},
			"delivery=d_nonsense":          {"No response fits."},
			"delivery=" + "i_" + id[2:]:    {"No response fits."},
			"survey=garage&workflow=call":  {"No response fits. Show all responses"},
			"since=90m":                    {"000 0003"},
			"until=90m&survey=garage":      {"000 0001", "000 0002"},
			"since=nonsense":               {`"nonsense" is neither an instant nor a duration`},
			"since=2026-05-14T00:00:00Z":   {"000 0001", "000 0002", "000 0003"},
			"workflow=%3Cb%3E&delivery=%0": {"No response fits."},
		} {
			body := get(t, h, "/responses?"+query).body
			_, body, _ = strings.Cut(body, "<main")
			said := plain("<main" + body)
			for _, w := range want {
				if !strings.Contains(said, w) {
					t.Errorf("%s does not say %q:\n%s", query, w, said)
				}
			}
			if got, named := len(rowLinks.FindAllString(body, -1)), len(want); strings.Contains(want[0], "000 000") && got != named || !strings.Contains(want[0], "000 000") && got > 0 {
				t.Errorf("%s shows %d rows", query, got)
			}
		}
	})
}

// TestWhoAnswered: the list and the files have the id of the person beside the address.
func TestWhoAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.apply(t, asking)
	r := b.post(t, `{"kind": "call-done", "recipient": {"address": "+964 770 500 0001", "customer_ref": "c-<5>"}}`)
	b.answer(t, r.Instances[0].Deliveries[0].ID, "", map[string]any{"helped": true})
	h := b.handler(t, console.Deps{Guest: "default"})
	page := get(t, h, "/responses")
	wellFormed(t, "/responses", page.body)
	says(t, "/responses", plain(page.body), "+964 770 500 0001 c-<5> call phone helped yes the person")
	says(t, "CSV", get(t, h, "/responses.csv").body, ",'+964 770 500 0001,c-<5>,call,phone,")
	says(t, "NDJSON", get(t, h, "/responses.ndjson").body, `"address":"+964 770 500 0001","customer_ref":"c-<5>","workflow":"call"`)
}

// TestResponsesInPages: fifty answers are a page, and a link leads to the older ones with the filter.
func TestResponsesInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.apply(t, asking)
	h := b.handler(t, console.Deps{Guest: "default"})
	empty := plain(get(t, h, "/responses").body)
	if !strings.Contains(empty, "There are no responses yet. A workflow whose message is a survey sends people a link") || strings.Contains(empty, "NDJSON") {
		t.Errorf("without responses:\n%s", empty)
	}
	for i := range 51 {
		b.answer(t, b.ask(t, "call-done", fmt.Sprintf("+964 770 100 00%02d", i)), "", map[string]any{"helped": true})
	}
	first := get(t, h, "/responses?survey=phone").body
	if n := len(rowLinks.FindAllString(first, -1)); n != 50 || strings.Contains(first, "100 0000") {
		t.Errorf("the first page has %d rows", n)
	}
	if !strings.Contains(first, `href="/responses.csv?survey=phone"`) {
		t.Error("the file has another filter than the page")
	}
	older := regexp.MustCompile(`href="(/responses\?[^"]*before=[^"]*)"`).FindStringSubmatch(first)
	if older == nil {
		t.Fatal("no link leads to the older ones")
	}
	second := get(t, h, strings.ReplaceAll(older[1], "&amp;", "&")).body
	if n := len(rowLinks.FindAllString(second, -1)); n != 1 || !strings.Contains(second, "100 0000") || !strings.Contains(second, `href="/responses.csv?survey=phone"`) {
		t.Errorf("the second page has %d rows:\n%s", n, plain(second))
	}
	file := get(t, h, "/responses.csv?survey=phone")
	if n := strings.Count(file.body, "\n"); n != 52 {
		t.Errorf("the file has %d lines", n)
	}
}

// TestResponsesAsFiles: a file has what the filter shows, nothing that a spreadsheet would run, and a name that is none of anybody's words.
func TestResponsesAsFiles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := answered(t, s)
		h := b.handler(t, console.Deps{Guest: "default"})
		a := get(t, h, "/responses.csv")
		for name, want := range map[string]string{
			"Content-Type": "text/csv; charset=utf-8; header=present", "Content-Disposition": `attachment; filename="responses-2026-05-14.csv"`,
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		} {
			if got := a.header.Get(name); a.status != http.StatusOK || got != want {
				t.Errorf("%s: %q, status %d", name, got, a.status)
			}
		}
		text, marked := strings.CutPrefix(a.body, "\uFEFF")
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || !marked {
			t.Fatal(err, marked)
		}
		for i := range rows[1:] {
			if len(rows[i+1][1]) < 10 || !strings.HasPrefix(rows[i+1][1], "d_") {
				t.Errorf("a delivery is %q", rows[i+1][1])
			}
			rows[i+1][1] = "d"
		}
		want := [][]string{
			{"created_at", "delivery", "address", "customer_ref", "workflow", "survey", "locale", "agent_id", "rate", "why", "parts", "again", "helped"},
			{"2026-05-14T07:12:34Z", "d", "'+964 770 000 0003", "", "call", "phone", "ar", "", "", "", "", "", "no"},
			{"2026-05-14T06:12:34Z", "d", "'+964 770 000 0002", "", "service", "garage", "ar", "anna<b>", "-10", "'" + hostile, "", "", ""},
			{"2026-05-14T05:12:34Z", "d", "'+964 770 000 0001", "", "service", "garage", "ar", "", "7", "كل شيء جيد", "engine; paint", "yes", ""},
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Error(diff)
		}

		a = get(t, h, "/responses.ndjson?survey=garage")
		if got := a.header.Get("Content-Type") + a.header.Get("Content-Disposition"); got != `application/x-ndjsonattachment; filename="responses-2026-05-14.ndjson"` {
			t.Error(got)
		}
		var read []survey.Response
		for lines := bufio.NewScanner(strings.NewReader(a.body)); lines.Scan(); {
			var r survey.Response
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			read = append(read, r)
		}
		if len(read) != 2 || read[0].Answers["why"] != hostile || read[0].AgentID != "anna<b>" || !strings.HasPrefix(read[0].ID, "s_") || read[1].Answers["rate"] != 7.0 {
			t.Errorf("%+v", read)
		}
		for path, want := range map[string]string{
			"/responses.csv?survey=none":                "\uFEFFcreated_at,delivery,address,customer_ref,workflow,survey,locale,agent_id\n",
			"/responses.ndjson?since=2099-01-01T00:00Z": "",
		} {
			if a := get(t, h, path); a.status != http.StatusOK && a.status != http.StatusSeeOther || a.status == http.StatusOK && a.body != want {
				t.Errorf("%s: %d %q", path, a.status, a.body)
			}
		}
		if a := get(t, h, "/responses.ndjson?survey=none"); a.status != http.StatusOK || a.body != "" || a.header.Get("Content-Disposition") == "" {
			t.Errorf("an empty file: %d %q", a.status, a.body)
		}
		if a := get(t, h, "/responses.csv?since=nonsense&survey=x"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/responses?since=nonsense&survey=x" {
			t.Errorf("a filter that cannot be read: %d, %s", a.status, a.header.Get("Location"))
		}
	})
}

// TestResponsesOfOtherWorkspaces: neither strangers nor keys of another workspace, or without the scope, read what people said.
func TestResponsesOfOtherWorkspaces(t *testing.T) {
	t.Parallel()
	b := answered(t, inMemory(t))
	other, err := b.store.EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), start)
	if err != nil {
		t.Fatal(err)
	}
	b.key(t, other.ID, "other", "car_other", "admin")
	b.key(t, b.ws.ID, "own", "car_own", "read")
	b.key(t, b.ws.ID, "poster", "car_poster", "ingest")
	h := b.handler(t, console.Deps{})
	signedIn := func(key string) string {
		return "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {key}})).Value
	}
	if a := submit(t, h, "/signin", url.Values{"key": {"car_poster"}}); a.status != http.StatusUnauthorized {
		t.Errorf("a key that may not read: status %d", a.status)
	}
	own, others := signedIn("car_own"), signedIn("car_other")
	link := rowLinks.FindStringSubmatch(get(t, h, "/responses", "Cookie", own).body)
	if link == nil {
		t.Fatal("the own workspace has no response")
	}
	_, id, _ := strings.Cut(link[1], "/deliveries/")
	for _, path := range []string{"/responses", "/responses.csv", "/responses.ndjson", "/responses?survey=phone", "/responses.csv?delivery=" + id, "/responses?delivery=" + id} {
		if a := get(t, h, path, "Cookie", others); strings.Contains(a.body, "770") || strings.Contains(a.body, "garage") || strings.Contains(a.body, "helped") {
			t.Errorf("%s shows another workspace what is not its own:\n%s", path, plain(a.body))
		}
		if a := get(t, h, path); a.status != http.StatusSeeOther || a.header.Get("Location") != "/signin?"+(url.Values{"next": {path}}).Encode() {
			t.Errorf("%s answers a stranger with %d %s", path, a.status, a.header.Get("Location"))
		}
		if a := get(t, h, path, "Cookie", own); a.status != http.StatusOK || !strings.Contains(a.body, "phone") {
			t.Errorf("%s in its own workspace: %d", path, a.status)
		}
	}
	if a := submit(t, h, "/responses.csv", nil, "Cookie", own); a.status != http.StatusMethodNotAllowed {
		t.Errorf("posting to a file: status %d", a.status)
	}
}

// many is a store with that many responses, of which more come while they are read; it fails at the call of that number.
type many struct {
	console.Store
	n, fails, calls int
}

func (m *many) Responses(_ context.Context, ws subject.WorkspaceID, _ store.ResponseFilter, p store.Page) (rows []delivery.Response, err error) {
	if m.calls++; m.calls == m.fails {
		return nil, errors.New("the database is away")
	}
	newest := int64(m.n + m.calls - 1) // one came since the last call
	if p.Before > 0 {
		newest = min(newest, p.Before-1)
	}
	for id := newest; id > 0 && len(rows) < p.Limit; id-- {
		rows = append(rows, delivery.Response{Workspace: ws, ID: id, Delivery: delivery.ID(id), Survey: "s", CreatedAt: start, Answers: map[string]any{fmt.Sprint("q", id/1000): json.Number("1")}})
	}
	return rows, nil
}

// TestLargeFilesOfResponses: a file has every response once, in several reads, and those that came meanwhile are left out; one that cannot be
// finished is no file.
func TestLargeFilesOfResponses(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	download := func(m *many, path string) (a answer, ended any) {
		t.Helper()
		m.Store = b.store
		h, err := console.New(console.Deps{Store: m, Definitions: b.engine, Feed: b.feed, Clock: b.clock, Guest: "default"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { ended = recover() }()
		return get(t, h, path), nil
	}
	for _, n := range []int{0, 1, 499, 500, 501, 1700} {
		for _, format := range []string{"csv", "ndjson"} {
			a, ended := download(&many{n: n}, "/responses."+format)
			lines := n
			if format == "csv" {
				lines++
			}
			if got := strings.Count(a.body, "\n"); a.status != http.StatusOK || ended != nil || got != lines {
				t.Errorf("%d responses as %s: %d lines, status %d, %v", n, format, got, a.status, ended)
			}
			if head, _, _ := strings.Cut(a.body, "\n"); format == "csv" && n == 1700 && !strings.HasSuffix(head, ",agent_id,q1,q0") {
				t.Errorf("the head is %q", head)
			}
		}
	}
	for _, c := range []struct {
		path  string
		fails int
		page  bool
	}{{"/responses.csv", 1, true}, {"/responses.csv", 2, true}, {"/responses.csv", 4, false}, {"/responses.ndjson", 1, true}, {"/responses.ndjson", 2, false}} {
		a, ended := download(&many{n: 700, fails: c.fails}, c.path)
		aborted, _ := ended.(error)
		switch {
		case c.page && (ended != nil || a.status != http.StatusInternalServerError || a.header.Get("Content-Disposition") != ""):
			t.Errorf("%s, before anything is sent: %d, %v", c.path, a.status, ended)
		case !c.page && !errors.Is(aborted, http.ErrAbortHandler):
			t.Errorf("%s ended in the middle with %v, status %d", c.path, ended, a.status)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/responses.csv", nil)
	r.Host = "localhost"
	m := &many{Store: b.store, n: 5}
	h, err := console.New(console.Deps{Store: m, Definitions: b.engine, Feed: b.feed, Clock: b.clock, Guest: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if a := serve(t, h, r); a.status != http.StatusOK || a.body != "" || m.calls != 0 {
		t.Errorf("the head alone: %d, %d bytes, %d reads", a.status, len(a.body), m.calls)
	}
}
