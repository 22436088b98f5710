package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/outcome"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// died writes an outbox event about a delivery that is dead at a sink, and returns its id.
func (b *bundle) died(c *client.Client, d, sink string) string {
	b.Helper()
	var ws store.Workspace
	var public key.PublicIDs
	var row int64
	all, err := b.app.Store().Workspaces(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, one := range all {
		p := key.NewPublicIDs(one.Secret)
		if _, of, id, ok := p.Decode(d); ok && of == int64(one.ID) {
			ws, public, row = one, p, id
		}
	}
	at := b.clock.Now()
	err = b.app.Store().Write(b.Context(), func(tx *store.Tx) error {
		return tx.AddOutboxEvents([]store.NewOutboxEvent{{Sinks: []string{sink}, Event: outbox.Event{
			Workspace: ws.ID, Type: "delivery.failed", MessageID: d + "-delivery_failed-0", Workflow: "welcome", Delivery: delivery.ID(row), Instance: 1,
			Body: `{"specversion":"1.0"}`, CreatedAt: at,
		}}})
	})
	if err != nil {
		b.Fatal(err)
	}
	events, err := b.app.Store().OutboxEvents(b.Context(), ws.ID, store.OutboxFilter{Sink: sink}, store.Page{Limit: 1})
	if err != nil || len(events) != 1 {
		b.Fatalf("%+v, %v", events, err)
	}
	err = b.app.Store().Write(b.Context(), func(tx *store.Tx) error {
		rows, err := tx.LockDispatchesOf(ws.ID, events[0].ID)
		if err != nil {
			return err
		}
		is := rows[0]
		is.Status, is.Reason, is.NextAt, is.EndedAt = outbox.Dead, reason.PermanentError, time.Time{}, at
		_, err = tx.WriteDispatches([]store.DispatchChange{{Was: rows[0], Is: is}})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	id := public.Encode(key.KindOutbox, int64(ws.ID), events[0].ID)
	if one, err := c.OutboxEvent(b.Context(), id); err != nil || one.Status != "dead" {
		b.Fatalf("%+v, %v", one, err)
	}
	return id
}

// told are a survey that is answered, and two sinks: a folder that is there, and one that is not.
const told = `
workflow: asked
type: survey
triggers: [{id: t, event: asked}]
audience: [{to: event.recipient}]
channel: memory
message: {survey: csi-gr}
sinks: [{sink: good}, {sink: lost}]
---
sink: good
provider: file
settings: {path: good.ndjson}
---
sink: lost
provider: file
settings: {path: none/lost.ndjson}
retry: {attempts: 1}
---
sink: unused
provider: workflow
`

// answered has a survey answered, and returns the delivery.
func (b *bundle) answered(id string) string {
	b.Helper()
	_, _, d := b.post(b.Client, client.Event{ID: id, Kind: "asked", Recipient: &client.Recipient{Address: id + "@example.org", CustomerRef: "c-" + id}})
	b.tick()
	if _, err := b.Respond(b.Context(), d, client.ResponseInput{Answers: map[string]any{"rate": 7}}); err != nil {
		b.Fatal(err)
	}
	return d
}

func (b *bundle) tick() {
	b.Helper()
	if _, err := b.Tick(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// An answer goes to two sinks, of which one fails. What is dead is redriven by a person, and reaches only that sink.
// Shows: C35.
func TestOutbox(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		b.apply(told)
		d := b.answered("1")
		list, err := b.OutboxEvents(ctx, client.OutboxQuery{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Status != "pending" || list.Items[0].Sinks[0].NextAt.IsZero() {
			t.Fatalf("before the pass: %+v, %v", list, err)
		}
		b.tick()
		one, err := b.OutboxEvent(ctx, list.Items[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(one.AttemptLog) != 2 || one.AttemptLog[1].Sink != "lost" || one.AttemptLog[1].Error == "" {
			t.Errorf("the tries are %+v", one.AttemptLog)
		}
		var body outcome.CloudEvent
		if err := json.Unmarshal(one.Body, &body); err != nil || body.Data.Delivery != d || body.ID != one.MessageID {
			t.Errorf("the body is %s, %v", one.Body, err)
		}
		want := client.OutboxEvent{
			ID: list.Items[0].ID, Type: "response.completed", MessageID: d, Workflow: "asked", Instance: body.Data.Instance, Delivery: d, Status: "dead", CreatedAt: start,
			Sinks: []client.OutboxSink{
				{Sink: "good", Status: "dispatched", Attempts: 1, Reason: "delivered", Message: reason.Delivered.Sentence(), EndedAt: start},
				{Sink: "lost", Status: "dead", Attempts: 1, Reason: "retries_used_up", Message: reason.RetriesUsedUp.Sentence(), EndedAt: start},
			},
		}
		if diff := cmp.Diff(want, one.OutboxEvent); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		about, err := b.Instance(ctx, one.Instance)
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]struct {
			query client.OutboxQuery
			n     int
		}{
			"type": {client.OutboxQuery{Type: "response.completed"}, 1}, "another type": {client.OutboxQuery{Type: "delivery.sent"}, 0},
			"workflow": {client.OutboxQuery{Workflow: "asked"}, 1}, "delivery": {client.OutboxQuery{Delivery: d}, 1}, "no delivery": {client.OutboxQuery{Delivery: "d_0"}, 0},
			"instance": {client.OutboxQuery{Instance: one.Instance}, 1}, "key of the instance": {client.OutboxQuery{Instance: about.Key}, 1}, "sink": {client.OutboxQuery{Sink: "lost", Status: "dead"}, 1},
			"sink in another state": {client.OutboxQuery{Sink: "good", Status: "dead"}, 0}, "status": {client.OutboxQuery{Status: "dead"}, 1},
			"since": {client.OutboxQuery{Since: "1h"}, 1}, "until": {client.OutboxQuery{Until: "1h"}, 0},
		} {
			if got, err := b.OutboxEvents(ctx, q.query); err != nil || len(got.Items) != q.n {
				t.Errorf("%s: %+v, %v, want %d", name, got.Items, err, q.n)
			}
		}

		for name, sink := range map[string]string{"a sink that has it": "good", "no such sink": "elsewhere"} {
			_, err := b.RedriveEvent(ctx, one.ID, sink)
			var p *client.Problem
			want := map[string]string{"good": client.CodeNotPossible, "elsewhere": client.CodeNotFound}[sink]
			if !errors.As(err, &p) || p.Code != want || p.Hint == "" {
				t.Errorf("redrive at %s: %v", name, err)
			}
		}
		if err := os.Mkdir(filepath.Join(b.sinks, "none"), 0o700); err != nil {
			t.Fatal(err)
		}
		first := b.once(b.key, "k", http.MethodPost, "/v1/outbox/"+one.ID+"/redrive", `{}`)
		again := b.once(b.key, "k", http.MethodPost, "/v1/outbox/"+one.ID+"/redrive", `{}`)
		if first.status != http.StatusOK || !strings.Contains(first.body, `"sinks":["lost"]`) || !again.replayed || again.body != first.body {
			t.Errorf("redrive: %+v, then %+v", first, again)
		}
		b.clock.Set(start.Add(time.Hour))
		b.tick()
		if one, err = b.OutboxEvent(ctx, one.ID); err != nil || one.Status != "dispatched" || len(one.AttemptLog) != 3 {
			t.Errorf("after the redrive: %+v, %v", one, err)
		}
	})
}

// Events of a paused sink wait. A sink that is only defined is listed, and so is one that only has events.
func TestSinks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		b.apply(told)
		list, err := b.Sinks(ctx)
		want := []client.Sink{
			{Name: "good", Provider: "file", State: "active"}, {Name: "lost", Provider: "file", State: "active"}, {Name: "unused", Provider: "workflow", State: "active"},
		}
		if diff := cmp.Diff(want, list.Items); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for i, changed := range []bool{true, false} {
			if got, err := b.PauseSink(ctx, "good"); err != nil || got != (client.ChangedSink{Name: "good", Changed: changed, State: "paused"}) {
				t.Errorf("pause %d: %+v, %v", i, got, err)
			}
		}
		b.answered("1")
		b.answered("2")
		b.tick()
		good, err := b.Sink(ctx, "good")
		if diff := cmp.Diff(client.Sink{Name: "good", Provider: "file", State: "paused", Pending: 2, OldestAt: start}, good); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		// It rests after the first failure, so the second event is tried later. It says when, and so does the event; what waits for a paused
		// sink has no such instant.
		rests, err := b.Sink(ctx, "lost")
		if err != nil || rests.Pending != 1 || !rests.RestUntil.After(start) || !rests.NextAt.Equal(rests.RestUntil) || !rests.OldestAt.Equal(start) {
			t.Errorf("the one that rests: %+v, %v", rests, err)
		}
		waits, err := b.OutboxEvents(ctx, client.OutboxQuery{Sink: "lost", Status: "pending"})
		if err != nil || len(waits.Items) != 1 {
			t.Fatalf("%+v, %v", waits, err)
		}
		one, err := b.OutboxEvent(ctx, waits.Items[0].ID)
		wantSinks := []client.OutboxSink{
			{Sink: "good", Status: "pending", State: "paused"}, {Sink: "lost", Status: "pending", State: "active", NextAt: rests.RestUntil},
		}
		if diff := cmp.Diff([][]client.OutboxSink{wantSinks, wantSinks}, [][]client.OutboxSink{waits.Items[0].Sinks, one.Sinks}); err != nil || diff != "" {
			t.Errorf("what waits: %v (-want +got)\n%s", err, diff)
		}
		b.clock.Set(start.Add(time.Hour))
		b.tick()
		lost, err := b.Sink(ctx, "lost")
		if err != nil || lost.Dead != 2 || lost.Pending != 0 || lost.Reason == "" || lost.Message == "" || !lost.FailingSince.Equal(start) || lost.RestUntil.IsZero() {
			t.Errorf("the one that fails: %+v, %v", lost, err)
		}
		if got, err := b.RedriveSink(ctx, "lost"); err != nil || got != (client.RedrivenSink{Name: "lost", Events: 2}) {
			t.Errorf("redrive: %+v, %v", got, err)
		}
		// They are dead again. The same request does nothing, a new one does.
		b.tick()
		b.clock.Set(b.clock.Now().Add(time.Hour))
		b.tick()
		for i, want := range []reply{{http.StatusOK, `{"name":"lost","events":2}` + "\n", false}, {http.StatusOK, `{"name":"lost","events":2}` + "\n", true}} {
			if got := b.once(b.key, "k", http.MethodPost, "/v1/sinks/lost/redrive", ""); got != want {
				t.Errorf("redrive %d under a key: %+v", i, got)
			}
			b.tick()
			b.clock.Set(b.clock.Now().Add(time.Hour))
			b.tick()
			if lost, err = b.Sink(ctx, "lost"); err != nil || lost.Dead != 2 {
				t.Errorf("after redrive %d under a key: %+v, %v", i, lost, err)
			}
		}
		if got := b.once(b.key, "k", http.MethodPost, "/v1/sinks/good/redrive", ""); problemOf(t, got.body).Code != client.CodeKeyReused {
			t.Errorf("another sink under the key: %+v", got)
		}
		if got, err := b.EnableSink(ctx, "good"); err != nil || got != (client.ChangedSink{Name: "good", Changed: true, State: "active"}) {
			t.Errorf("enable: %+v, %v", got, err)
		}
		b.tick()
		if good, err = b.Sink(ctx, "good"); err != nil || good.Pending != 0 || good.State != "active" {
			t.Errorf("after it was enabled: %+v, %v", good, err)
		}
		if _, err := b.DeleteDefinition(ctx, "workflow", "asked", false); err != nil {
			t.Fatal(err)
		}
		if _, err := b.DeleteDefinition(ctx, "sink", "lost", false); err != nil {
			t.Fatal(err)
		}
		if lost, err = b.Sink(ctx, "lost"); err != nil || lost.Provider != "" || lost.Dead+lost.Pending != 2 {
			t.Errorf("one that is not defined any more: %+v, %v", lost, err)
		}
	})
}

// The filter of types takes each outcome that there is.
func TestOutboxTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	for _, outcome := range definition.Outcomes() {
		if _, err := b.OutboxEvents(t.Context(), client.OutboxQuery{Type: outcome}); err != nil {
			t.Errorf("%s: %v", outcome, err)
		}
	}
	for _, status := range outbox.Statuses() {
		if _, err := b.OutboxEvents(t.Context(), client.OutboxQuery{Status: string(status)}); err != nil {
			t.Errorf("%s: %v", status, err)
		}
	}
	var p *client.Problem
	if _, err := b.OutboxEvents(t.Context(), client.OutboxQuery{Type: "visited"}); !errors.As(err, &p) || p.Field != "query.type" {
		t.Errorf("what is no outcome: %v", err)
	}
}
