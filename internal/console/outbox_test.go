package console_test

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// toSinks routes answers to three sinks; a fourth gets nothing.
const toSinks = `
workflow: routed
type: survey
triggers: {id: t, event: routed}
timing: {expire_after: 30d}
audience: {to: event.recipient}
channel: inbox
message: {survey: garage}
sinks: [{sink: crm}, {sink: lake}, {sink: slow}]
---
sink: crm
provider: test
settings: {name: crm}
retry: {attempts: 1}
---
sink: lake
provider: test
settings: {name: lake}
---
sink: slow
provider: test
settings: {name: slow}
retry: {backoff: [1h]}
---
sink: unused
provider: test
settings: {name: unused}
---
`

func ref(b *bundle, name string) store.SinkRef { return store.SinkRef{Workspace: b.ws.ID, Name: name} }

// toSome adds answers that go to sinks: at crm the first is dead, lake gets nothing because it is paused, and slow fails for now.
func (b *bundle) toSome(t *testing.T, n int) {
	t.Helper()
	b.apply(t, toSinks+asking)
	if _, _, err := b.engine.Sinks().Pause(t.Context(), ref(b, "lake"), "ada", b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.sinks.Answer("crm", sink.Refused(errors.New(`409 <script>alert(1)</script>`)))
	b.sinks.Answer("slow", sink.Failed(errors.New("503 Service Unavailable")))
	for i := range n {
		b.answer(t, b.ask(t, "routed", fmt.Sprintf("+964 770 200 00%02d", i)), "", map[string]any{"rate": 7.0, "why": hostile})
		b.clock.Set(b.clock.Now().Add(-time.Hour)) // the answer has set it on
		b.tick(t)
	}
}

var outboxLinks = regexp.MustCompile(`href="(/outbox/o_[^"]*)"`)

// content is what a page says, without its frame.
func content(body string) string {
	_, body, _ = strings.Cut(body, "<main")
	return plain("<main" + body)
}

func says(t *testing.T, where, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", where, w, text)
		}
	}
}

// TestOutboxPages: an event shows its state as a whole and at each sink, leads to what it is about, and the filter narrows the list.
// Shows: C35.
func TestOutboxPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.apply(t, asking)
		b.answer(t, b.ask(t, "call-done", "+964 770 000 0003"), "", map[string]any{"helped": false})
		b.toSome(t, 2)
		h := b.handler(t, console.Deps{Guest: "default"})
		list := get(t, h, "/outbox")
		wellFormed(t, "/outbox", list.body)
		text := content(list.body)
		says(t, "/outbox", text,
			"pending response.completed +964 770 200 0001 routed", "dispatched crm pending lake sink paused pending slow",
			"pending response.completed +964 770 200 0000 routed", "dead crm pending lake sink paused pending slow")
		if first, last := strings.Index(text, "200 0001"), strings.Index(text, "200 0000"); first > last {
			t.Error("the oldest is the first")
		}
		links := outboxLinks.FindAllStringSubmatch(list.body, -1)
		if len(links) != 3 {
			t.Fatalf("links to events: %v", links)
		}
		says(t, "without a route", text, "dispatched response.completed +964 770 000 0003 call", "no sink")
		says(t, "one without a route", content(get(t, h, links[2][1]).body), "No route of its workflow led to a sink when it was made.")
		oldest := links[1][1]
		detail := get(t, h, oldest)
		wellFormed(t, oldest, detail.body)
		text = content(detail.body)
		_, id, _ := strings.Cut(oldest, "/outbox/")
		says(t, oldest, text,
			"response.completed pending", "dead crm 1", "The provider refused it permanently.",
			"pending lake 0 of 8", "The sink is paused: it waits until somebody enables it.",
			"pending slow 1 of 8", "permanent crm", "409 <script>alert(1)</script>", "temporary slow", "503 Service Unavailable",
			"carillon sinks enable lake", "carillon outbox redrive "+id+" has it tried again, with all its tries, where it is dead: crm",
			`"specversion": "1.0"`, `\n<script>alert(1)</script>\u202etxt.exe`)
		if strings.Contains(detail.body, "<script>alert") || strings.Contains(detail.body, "\u202e") {
			t.Error("what somebody wrote became a part of the page")
		}
		if newest := content(get(t, h, links[0][1]).body); strings.Contains(newest, "outbox redrive") || !strings.Contains(newest, "dispatched crm 1") {
			t.Errorf("one that is dead nowhere:\n%s", newest)
		}
		about := regexp.MustCompile(`href="(/deliveries/d_[^"]*)"`).FindStringSubmatch(detail.body)
		if about == nil {
			t.Fatal("no link leads to the delivery")
		}
		of := get(t, h, about[1])
		wellFormed(t, about[1], of.body)
		says(t, "its delivery", content(of.body), "Outbox events", "pending response.completed", "dead crm")
		if got := outboxLinks.FindStringSubmatch(of.body); got == nil || got[1] != oldest {
			t.Errorf("the delivery leads to %v", got)
		}

		_, d, _ := strings.Cut(about[1], "/deliveries/")
		for query, n := range map[string]int{
			"": 3, "type=response.completed": 3, "type=delivery.sent": 0, "workflow=routed": 2, "workflow=call": 1, "sink=crm": 2, "sink=unused": 0,
			"status=dead": 1, "status=dead&sink=crm": 1, "status=dead&sink=slow": 0, "status=pending&sink=crm": 0, "status=dispatched": 1, "status=nonsense": 0,
			"delivery=" + d: 1, "delivery=d_0": 0, "delivery=" + id: 0, "since=1m": 2, "until=1m": 1, "until=nonsense": 0, "type=nonsense": 0,
		} {
			body := get(t, h, "/outbox?"+query).body
			if got := len(outboxLinks.FindAllString(body, -1)); got != n {
				t.Errorf("%q shows %d events, want %d", query, got, n)
			}
			if said := content(body); n == 0 && !strings.Contains(said, "No outbox event fits. Show all outbox events") {
				t.Errorf("%q says\n%s", query, said)
			}
		}
		says(t, "a type that is none", content(get(t, h, "/outbox?type=nonsense").body), `"nonsense" is no type of outcome: give one of response.completed, delivery.sent`)

		if _, err := b.engine.Sinks().Redrive(t.Context(), b.ws.ID, 0, "", "ada", b.clock.Now()); err == nil {
			t.Error("an event that there is not was redriven")
		}
		if n, err := b.engine.Sinks().RedriveAll(t.Context(), ref(b, "crm"), "ada", b.clock.Now()); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		says(t, "after a redrive", content(get(t, h, oldest).body), "pending crm 0 of 1", "A person asked for another attempt.")
		b.tick(t)
		says(t, "when it has arrived", content(get(t, h, oldest).body), "dispatched crm 1", "The provider accepted the message.", "accepted crm")
	})
}

// TestASinkThatRests: an event that waits for a sink that rests shows when the sink is tried again, and so does the page of sinks.
func TestASinkThatRests(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.apply(t, toSinks+asking)
	first, second := b.ask(t, "routed", "+964 770 400 0001"), b.ask(t, "routed", "+964 770 400 0002")
	b.answer(t, first, "", map[string]any{"rate": 7.0})
	b.sinks.Answer("lake", sink.Failed(errors.New("503 Service Unavailable")))
	b.answer(t, second, "", map[string]any{"rate": 7.0})
	b.tick(t)
	h := b.handler(t, console.Deps{Guest: "default"})
	list := get(t, h, "/outbox").body
	const at = "10:12:35" // in the zone of the workspace
	says(t, "/outbox", content(list), "pending lake sink rests until "+at)
	event := outboxLinks.FindStringSubmatch(list)[1]
	says(t, event, content(get(t, h, event).body), "pending lake 0 of 8 "+at, "The sink fails and rests: one event at a time finds out whether it is back.")
	says(t, "/sinks", content(get(t, h, "/sinks").body), "next try", at)

	b.clock.Set(b.clock.Now().Add(time.Second))
	if text := content(get(t, h, "/outbox").body); strings.Contains(text, "rests until") {
		t.Errorf("its rest is over:\n%s", text)
	}
}

// TestSinkPages: a sink is seen before it gets its first event and after it was deleted, with its state in words and what a person can do.
func TestSinkPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		h := b.handler(t, console.Deps{Guest: "default"})
		says(t, "without sinks", content(get(t, h, "/sinks").body), "No sink is defined.", "sinks: of a workflow routes them there")
		says(t, "without events", content(get(t, h, "/outbox").body), "There are no outbox events yet.", "sinks: of its workflow routes it to a sink")
		b.toSome(t, 2)
		page := get(t, h, "/sinks")
		wellFormed(t, "/sinks", page.body)
		says(t, "/sinks", content(page.body),
			"active crm test 0 1", "carillon sinks redrive crm", "carillon sinks pause crm",
			"paused lake test 2 0", "Somebody paused it. Its events wait until somebody enables it.", "carillon sinks enable lake",
			"active, failing slow test 2 0", "The provider refused it for now; it is tried again.", "active unused test 0 0 ")
		for _, not := range []string{"redrive lake", "pause lake", "enable slow", "redrive slow"} {
			if strings.Contains(page.body, "carillon sinks "+not) {
				t.Errorf("it names %s", not)
			}
		}
		for _, link := range []string{"/outbox?sink=lake&amp;status=pending", "/outbox?sink=crm&amp;status=dead", "/outbox?sink=unused"} {
			if !strings.Contains(page.body, `href="`+link+`"`) {
				t.Errorf("no link leads to %s", link)
			}
		}

		over := get(t, h, "/")
		wellFormed(t, "/", over.body)
		says(t, "/", content(over.body), "dead at sink crm 1 carillon sinks redrive crm", "sink lake paused carillon sinks enable lake", "sink slow failing since 0")
		for _, link := range []string{"/sinks", "/outbox?sink=crm&amp;status=dead"} {
			if !strings.Contains(over.body, `href="`+link+`"`) {
				t.Errorf("the overview does not lead to %s", link)
			}
		}
		for _, not := range []string{"sink crm active", "sink unused"} {
			if strings.Contains(content(over.body), not) {
				t.Errorf("the overview names a sink that is as it should be: %s", not)
			}
		}

		// One that fails for days, and one that wants nothing any more, are disabled.
		gone := sink.NotWanted(errors.New("410 Gone"))
		b.sinks.Answer("crm", gone)
		b.answer(t, b.ask(t, "routed", "+964 770 200 0009"), "", map[string]any{"rate": 1.0})
		failed := sink.Failed(errors.New("503 Service Unavailable"))
		b.sinks.Answer("slow", failed, failed, failed, failed, failed, failed, failed, failed, failed, failed, failed, failed)
		for range 6 {
			b.tick(t)
			b.clock.Set(b.clock.Now().Add(26 * time.Hour))
		}
		b.tick(t)
		says(t, "disabled", content(get(t, h, "/sinks").body),
			"disabled crm test 1 1", "It has said that it wants no events any more. They wait until somebody enables it.", "carillon sinks enable crm",
			"disabled slow test", "It failed for days without a success between. Its events wait until somebody enables it.", "carillon sinks enable slow")

		files := []definition.File{{Name: "rules.yaml", Text: []byte(rules)}} // without the sinks
		if _, err := b.engine.EditDefinitions(t.Context(), b.ws, engine.Edit{Files: files, Prune: true}, engine.Applier{Name: "ada"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.engine.Sinks().Enable(t.Context(), ref(b, "crm"), "ada", b.clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.tick(t)
		says(t, "deleted", content(get(t, h, "/sinks").body), "defined no more crm 0 2", "No sink of this name is defined: its events are given up. Define it, then redrive them.",
			"paused lake", "No sink of this name is defined. Its events wait until somebody enables it.")
		if strings.Contains(get(t, h, "/sinks").body, "unused") {
			t.Error("a sink without definition and events is listed")
		}
	})
}

// TestOutboxInPages: fifty events are a page, and a link leads to the older ones with the filter.
func TestOutboxInPages(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.apply(t, toSinks+asking)
	for i := range 51 {
		b.answer(t, b.ask(t, "routed", fmt.Sprintf("+964 770 300 00%02d", i)), "", map[string]any{"rate": 7.0})
	}
	h := b.handler(t, console.Deps{Guest: "default"})
	first := get(t, h, "/outbox?sink=lake").body
	if n := len(outboxLinks.FindAllString(first, -1)); n != 50 || strings.Contains(first, "300 0000") {
		t.Errorf("the first page has %d rows", n)
	}
	older := regexp.MustCompile(`href="(/outbox\?before=[^"]*)" rel="next"`).FindStringSubmatch(first)
	if older == nil {
		t.Fatal("no link leads to the older ones")
	}
	second := get(t, h, strings.ReplaceAll(older[1], "&amp;", "&")).body
	if n := len(outboxLinks.FindAllString(second, -1)); n != 1 || !strings.Contains(second, "300 0000") || !strings.Contains(second, `href="/outbox?sink=lake"`) {
		t.Errorf("the second page has %d rows:\n%s", n, content(second))
	}
}

// TestOutboxOfOtherWorkspaces: neither strangers nor keys of another workspace see outbox events or sinks.
func TestOutboxOfOtherWorkspaces(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	b.toSome(t, 1)
	other, err := b.store.EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), start)
	if err != nil {
		t.Fatal(err)
	}
	// It has a sink of the same name, and an event there.
	err = b.store.Write(t.Context(), func(tx *store.Tx) error {
		return tx.AddOutboxEvents([]store.NewOutboxEvent{{Sinks: []string{"crm"}, Event: outbox.Event{
			Workspace: other.ID, Type: "delivery.failed", MessageID: "m", Workflow: "theirs", Instance: 1, Body: `{}`, CreatedAt: start,
		}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	b.key(t, other.ID, "other", "car_other", "admin")
	b.key(t, b.ws.ID, "own", "car_own", "read")
	h := b.handler(t, console.Deps{})
	signedIn := func(key string) string {
		return "carillon_session=" + cookie(t, submit(t, h, "/signin", url.Values{"key": {key}})).Value
	}
	own, others := signedIn("car_own"), signedIn("car_other")
	links := outboxLinks.FindAllStringSubmatch(get(t, h, "/outbox", "Cookie", own).body, -1)
	if len(links) != 1 {
		t.Fatalf("the own workspace has %v", links)
	}
	for _, path := range []string{"/outbox", "/outbox?sink=crm", "/outbox?status=pending", "/sinks", links[0][1]} {
		theirs := get(t, h, path, "Cookie", others)
		for _, word := range []string{"770", "routed", "lake", "response.completed", `"rate"`} {
			if strings.Contains(content(theirs.body), word) {
				t.Errorf("%s shows another workspace %q:\n%s", path, word, content(theirs.body))
			}
		}
		if a := get(t, h, path, "Cookie", own); a.status != 200 || strings.Contains(content(a.body), "theirs") || strings.Contains(content(a.body), "delivery.failed") {
			t.Errorf("%s in its own workspace: status %d\n%s", path, a.status, content(a.body))
		}
		if a := get(t, h, path); a.status != 303 || !strings.HasPrefix(a.header.Get("Location"), "/signin?") {
			t.Errorf("%s answers a stranger with %d", path, a.status)
		}
		if a := submit(t, h, path, nil, "Cookie", own); a.status != 405 {
			t.Errorf("posting to %s: status %d", path, a.status)
		}
	}
	if a := get(t, h, links[0][1], "Cookie", others); a.status != 404 {
		t.Errorf("an event of another workspace: status %d", a.status)
	}
	says(t, "their sinks", content(get(t, h, "/sinks", "Cookie", others).body), "crm 1 0")
}
