package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// routed is askingForms with routes and the sinks a and b.
func routed(routes string) string {
	text := strings.Replace(strings.Replace(askingForms, "{}", "", 1), "message: {survey: form}\n", "message: {survey: form}\nsinks:\n"+routes, 1)
	for _, name := range []string{"a", "b"} {
		text += fmt.Sprintf("---\nsink: %s\nprovider: test\nsettings: {name: %s}\nretry: {jitter: none}\n", name, name)
	}
	return text
}

const toBoth = "  - {sink: a}\n  - {sink: b}\n"

func noJitter(c *engine.Config) { c.NoJitter = true }

// whole returns the outbox event and its state at each sink.
func (a asked) whole() (outbox.Event, outbox.Status, map[string]outbox.Row) {
	a.Helper()
	events, err := a.Store.OutboxEvents(a.Context(), a.Workspace.ID, store.OutboxFilter{}, store.Page{})
	if err != nil || len(events) == 0 {
		a.Fatalf("%d outbox events, %v", len(events), err)
	}
	at, err := a.Store.Dispatches(a.Context(), a.Workspace.ID, []int64{events[0].ID})
	if err != nil {
		a.Fatal(err)
	}
	rows, states := map[string]outbox.Row{}, []outbox.Status{}
	for _, r := range at[events[0].ID] {
		rows[r.Sink] = r
		states = append(states, r.Status)
	}
	return events[0], outbox.Whole(states), rows
}

func (a asked) ids(name string) (ids []string) {
	for _, m := range a.Sinks.Got(name) {
		ids = append(ids, m.ID)
	}
	return ids
}

// Shows: C34, C35, C36, C37.
func TestAnAnswerReachesItsSinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(toBoth), noJitter)
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		if event, status, rows := a.whole(); status != outbox.Pending || len(rows) != 2 || len(a.Sinks.Got("a")) != 0 {
			t.Fatalf("before the pass: %s, %+v, %+v", status, rows, event)
		}
		if r := a.At(a.Now()); r.Dispatched != 2 || r.Dead != 0 {
			t.Errorf("pass: %+v", r)
		}
		event, status, rows := a.whole()
		id := engine.PublicIDs(a.Workspace).Encode('d', int64(a.Workspace.ID), int64(a.link.Delivery))
		if status != outbox.Dispatched || rows["a"].Attempts != 1 || event.MessageID != id {
			t.Errorf("after the pass: %s, %+v, message id %s, want %s", status, rows, event.MessageID, id)
		}
		got := a.Sinks.Got("b")
		if len(got) != 1 || got[0].ID != id || got[0].Type != "response.completed" || got[0].Group != id || got[0].Workspace != "default" {
			t.Fatalf("sink b got %+v", got)
		}
		var body outcome.CloudEvent
		d := json.NewDecoder(strings.NewReader(string(got[0].Body)))
		d.DisallowUnknownFields()
		if err := d.Decode(&body); err != nil {
			t.Fatal(err)
		}
		set, err := a.Definitions(t.Context(), a.Workspace.ID)
		if err != nil {
			t.Fatal(err)
		}
		instance := engine.PublicIDs(a.Workspace).Encode('i', int64(a.Workspace.ID), int64(a.row().Instance))
		want := outcome.CloudEvent{
			SpecVersion: "1.0", ID: id, Source: "/workspaces/default/workflows/visit", Type: "response.completed", Subject: id, Time: a.Now(),
			DataContentType: "application/json", Data: outcome.Data{
				Workflow: "visit", ExtID: "visit", Trigger: "t", Instance: instance, Delivery: id, CustomerRef: "c-1", Address: "+964771", Locale: "ar",
				Channel: "memory:default", Status: "responded", Reason: reason.Answered, Survey: "form", Definitions: set.Number, Answers: map[string]any{"rate": 7.0},
				CompletedAt: a.Now(),
				Event:       &outcome.Cause{ID: "1", Kind: "visited", OccurredAt: a.Now(), Payload: map[string]any{"place": "Basra", "gold": true}},
			},
		}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Error(diff)
		}
	})
}

// Shows: C35, C38. Only the sink that failed is asked again; the others are not.
func TestAFailingSink(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(toBoth), noJitter)
		a.At(a.Now())
		a.Sinks.Answer("b", sink.Failed(errors.New("503")), sink.Lost(errors.New("timeout")))
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		if _, status, rows := a.whole(); status != outbox.Pending || rows["a"].Status != outbox.Dispatched || rows["b"].Attempts != 1 ||
			!rows["b"].NextAt.Equal(a.Now().Add(10*time.Second)) || rows["b"].Reason != reason.TemporaryError {
			t.Fatalf("after the first pass: %s, %+v", status, rows)
		}
		if at, err := a.NextDue(t.Context()); err != nil || !at.Equal(a.Now().Add(10*time.Second)) {
			t.Errorf("next due %s, %v", at, err)
		}
		a.At(a.Now().Add(9 * time.Second))
		if len(a.ids("b")) != 1 {
			t.Errorf("tried before its wait was over: %v", a.ids("b"))
		}
		a.At(a.Now().Add(time.Second))
		a.At(a.Now().Add(40 * time.Second))
		_, status, rows := a.whole()
		if ids := a.ids("b"); status != outbox.Dispatched || rows["b"].Attempts != 3 || len(ids) != 3 || ids[0] != ids[2] || len(a.ids("a")) != 1 {
			t.Errorf("at the end: %s, %+v, a %v, b %v", status, rows, a.ids("a"), ids)
		}
		event, _, _ := a.whole()
		tries, err := s.DispatchAttempts(t.Context(), a.Workspace.ID, event.ID)
		if err != nil || len(tries) != 4 {
			t.Fatalf("%d tries logged, %v", len(tries), err)
		}
		var log []string
		for _, try := range tries {
			log = append(log, fmt.Sprint(try.Sink, try.Number, " ", try.Outcome, " ", try.Reason))
		}
		if diff := cmp.Diff([]string{"a1 accepted delivered", "b1 temporary temporary_error", "b2 temporary reply_lost", "b3 accepted delivered"}, log); diff != "" {
			t.Error(diff)
		}
		if tries[1].Error != "temporary_error: 503" {
			t.Errorf("error %q", tries[1].Error)
		}
	})
}

// Shows: C38. After its last try an event is dead until somebody redrives it, and a permanent refusal is dead at once.
func TestDeadEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(toBoth), noJitter)
		a.At(a.Now())
		a.Sinks.Answer("a", sink.Refused(errors.New("400")))
		for range 8 {
			a.Sinks.Answer("b", sink.Failed(errors.New("500")))
		}
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		dead := 0
		for range 8 {
			dead += a.At(a.Now()).Dead
			at, err := a.NextDue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if at.After(a.Now()) && at.Before(a.Now().Add(14*time.Hour)) {
				a.Clock.Set(at)
			}
		}
		_, status, rows := a.whole()
		if status != outbox.Dead || rows["a"].Reason != reason.PermanentError || rows["a"].Attempts != 1 || rows["b"].Reason != reason.RetriesUsedUp || rows["b"].Attempts != 8 || dead != 2 {
			t.Errorf("%s, %+v, %d dead", status, rows, dead)
		}
		if a.At(a.Now().Add(30 * 24 * time.Hour)); len(a.ids("b")) != 8 {
			t.Errorf("a dead event was tried again: %d", len(a.ids("b")))
		}
		var last journal.Entry
		for _, e := range a.Journal() {
			if e.What == journal.Dead {
				last = e
			}
		}
		if last.Sink != "b" || last.Kind != "response.completed" || last.Reason != reason.RetriesUsedUp || last.Delivery != a.link.Delivery {
			t.Errorf("journal %+v", last)
		}
	})
}

// Shows: C39.
func TestRoutes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := routed("  - {sink: a, events: [response.completed, delivery.sent], when: 'event.gold == true'}\n" +
			"  - {sink: b, when: answers.rate < 5}\n  - {sink: b, events: [delivery.sent, instance.completed]}\n")
		a := ask(t, s, definitions, noJitter)
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		types := func(name string) (list []string) {
			for _, m := range a.Sinks.Got(name) {
				list = append(list, m.Type)
			}
			return list
		}
		if diff := cmp.Diff([]string{"delivery.sent", "response.completed"}, types("a")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"instance.completed", "delivery.sent"}, types("b")); diff != "" {
			t.Error(diff)
		}
		for _, id := range append(a.ids("a"), a.ids("b")...) {
			if strings.ContainsAny(id, ". ") {
				t.Errorf("message id %q", id)
			}
		}
	})
}

// The events of one delivery arrive in their order, whatever fails; those of others do not wait for them.
func TestOrderOfOneDelivery(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a, events: [delivery.sent, response.completed]}\n"), noJitter)
		a.Sinks.Answer("a", sink.Failed(errors.New("1")), sink.Failed(errors.New("2")))
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			a.At(a.Now())
			if at, err := a.NextDue(t.Context()); err == nil && at.After(a.Now()) {
				a.Clock.Set(at)
			}
		}
		var types []string
		for _, m := range a.Sinks.Got("a") {
			types = append(types, m.Type)
		}
		if diff := cmp.Diff([]string{"delivery.sent", "delivery.sent", "delivery.sent", "response.completed"}, types); diff != "" {
			t.Error(diff)
		}
	})
}

// followed is a survey whose answers start a second workflow, and messages of that one itself.
const followed = `---
sink: next
provider: workflow
---
workflow: complaint
type: alert
triggers:
  - {id: t, event: response.completed, when: event.answers.rate < 5}
audience: {to: event.recipient}
channel: memory
message: {sms: {text: "Sorry about {{ event.answers.rate }} in {{ event.event.payload.place }}"}}
---
workflow: loop
type: alert
triggers:
  - {id: t, event: delivery.sent}
audience: {to: event.recipient}
channel: memory
message: {sms: {text: Again}}
sinks: [{sink: next, events: [delivery.sent]}]
`

// An outcome of one workflow is the occasion of another one, once, however often it is handed over.
func TestWorkflowsFollowWorkflows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: next}\n")+followed, noJitter)
		a.At(a.Now())
		if err := a.submit(map[string]any{"rate": 3.0, "why": "late"}); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		a.At(a.Now())
		sent := a.Provider.Sent()
		if len(sent) != 2 || sent[1].Text != "Sorry about 3 in Basra" || sent[1].Address != "+964771" {
			t.Fatalf("sent %+v", sent)
		}
	})
}

// Two workflows may be the cause of each other: the chain ends after eight links.
func TestALoopIsStopped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: next, events: [delivery.sent]}\n")+followed, noJitter)
		for range 30 {
			a.At(a.Now().Add(time.Second))
		}
		if n := len(a.Provider.Sent()); n != 1+outcome.MaxChain {
			t.Errorf("%d messages, want the survey and %d that followed", n, outcome.MaxChain)
		}
		_, status, rows := a.whole()
		if status != outbox.Dead || rows["next"].Reason != reason.LoopStopped {
			t.Errorf("%s, %+v", status, rows)
		}
	})
}

// Somebody else's event of the same kind counts as the end of a chain if it says so, and never as less than it is.
func TestChain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, chain string
		want        int
	}{
		{"visited", "3", 0},
		{"response.completed", "3", 3},
		{"response.completed", "", 0},
		{"response.completed", "-1", outcome.MaxChain},
		{"response.completed", "99", outcome.MaxChain},
		{"response.completed", "1.5", outcome.MaxChain},
	} {
		ev := subject.Event{Kind: tt.kind, Payload: map[string]any{}}
		if tt.chain != "" {
			ev.Payload["chain"] = json.Number(tt.chain)
		}
		if got := outcome.Chain(ev); got != tt.want {
			t.Errorf("%s with chain %q: %d, want %d", tt.kind, tt.chain, got, tt.want)
		}
	}
}
