package sinks_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/engine/service/sinks"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

var now = time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)

// bench is the service over a database.
type bench struct {
	*testing.T
	*sinks.Sinks
	store *store.Store
}

func setup(t *testing.T, s *store.Store) bench {
	t.Helper()
	if ws, err := s.EnsureWorkspace(t.Context(), "default", []byte("0123456789abcdef0123456789abcdef"), now); err != nil || ws.ID != catalogtest.Workspace {
		t.Fatal(ws.ID, err)
	}
	c := catalogtest.Of(t, "workspace: default\n---\nsink: defined\nprovider: workflow\n")
	return bench{t, sinks.New(s, c), s}
}

func ref(name string) store.SinkRef {
	return store.SinkRef{Workspace: catalogtest.Workspace, Name: name}
}

func (b bench) write(work func(*store.Tx) error) {
	b.Helper()
	if err := b.store.Write(b.Context(), work); err != nil {
		b.Fatal(err)
	}
}

// event writes an outbox event, and returns its id.
func (b bench) event(at ...string) int64 {
	b.Helper()
	b.write(func(tx *store.Tx) error {
		return tx.AddOutboxEvents([]store.NewOutboxEvent{{Sinks: at, Event: outbox.Event{
			Workspace: catalogtest.Workspace, Type: "delivery.sent", MessageID: "m", Workflow: "w", Instance: 7, Body: "{}", CreatedAt: now,
		}}})
	})
	found, err := b.store.OutboxEvents(b.Context(), catalogtest.Workspace, store.OutboxFilter{}, store.Page{})
	if err != nil || len(found) == 0 {
		b.Fatal(len(found), err)
	}
	return found[0].ID // the newest
}

// dies makes everything dead that waits at a sink.
func (b bench) dies(sink string) {
	b.Helper()
	b.write(func(tx *store.Tx) error {
		found, err := tx.LockDispatches(ref(sink), now.Add(time.Hour), 10_000)
		if err != nil {
			return err
		}
		var changes []store.DispatchChange
		for _, d := range found {
			is := d.With(outbox.Patch{Status: outbox.Dead, Attempts: 8, AttemptNo: 8, Reason: reason.RetriesUsedUp})
			is.EndedAt = now
			changes = append(changes, store.DispatchChange{Was: d.Row, Is: is})
		}
		_, err = tx.WriteDispatches(changes)
		return err
	})
}

// at says how an event is at its sinks.
func (b bench) at(event int64) map[string]string {
	b.Helper()
	found, err := b.store.Dispatches(b.Context(), catalogtest.Workspace, []int64{event})
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range found[event] {
		all[r.Sink] = fmt.Sprintf("%s %d/%d ended %t", r.Status, r.Attempts, r.AttemptNo, !r.EndedAt.IsZero())
	}
	return all
}

// audited lists what the audit log says, the oldest first.
func (b bench) audited() (list []string) {
	b.Helper()
	found, err := b.store.AuditLog(b.Context(), catalogtest.Workspace, store.Page{})
	if err != nil {
		b.Fatal(err)
	}
	for _, a := range found {
		list = append([]string{fmt.Sprint(a.Actor, " ", a.Action, " ", a.Target, " ", string(a.Detail))}, list...)
	}
	return list
}

func (b bench) same(want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Error(diff)
	}
}

// A sink is paused and enabled if it is defined, or was ever routed an event. What changes nothing is not in the audit log.
func TestPauseAndEnable(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		b.event("routed")
		for _, name := range []string{"defined", "routed"} {
			for _, step := range []struct {
				do      string
				changed bool
				state   outbox.State
			}{{"enable", false, outbox.Active}, {"pause", true, outbox.Paused}, {"pause", false, outbox.Paused}, {"enable", true, outbox.Active}} {
				do := b.Enable
				if step.do == "pause" {
					do = b.Pause
				}
				h, changed, err := do(t.Context(), ref(name), "ada", now)
				if err != nil || changed != step.changed || h.State != step.state {
					t.Errorf("%s %s: %+v, %t, %v", step.do, name, h, changed, err)
				}
			}
		}
		if _, _, err := b.Pause(t.Context(), ref("unknown"), "ada", now); !errors.Is(err, sinks.ErrNotFound) {
			t.Errorf("an unknown sink: %v", err)
		}
		elsewhere := ref("routed")
		elsewhere.Workspace++
		if _, _, err := b.Pause(t.Context(), elsewhere, "ada", now); err == nil {
			t.Error("a sink of another workspace was paused")
		}
		b.same([]string{"ada pause_sink defined {}", "ada enable_sink defined {}", "ada pause_sink routed {}", "ada enable_sink routed {}"}, b.audited())
		states, err := s.Sinks(t.Context())
		if err != nil || len(states) != 2 || !states[0].Sends() || !states[1].Sends() {
			t.Errorf("%+v, %v", states, err)
		}
	})
}

// An event is redriven where it is dead, or at one of those sinks, with all its tries. A sink that rests is tried at once.
func TestRedrive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		e := b.event("a", "b", "c")
		b.dies("a")
		b.dies("b")
		dead, waits := "dead 8/8 ended true", "pending 0/8 ended false"
		b.same(map[string]string{"a": dead, "b": dead, "c": "pending 0/0 ended false"}, b.at(e))
		b.write(func(tx *store.Tx) error {
			return tx.WriteSink(ref("a"), outbox.Health{State: outbox.Active, FailingSince: now, FailedAt: now, RestUntil: now.Add(time.Hour)})
		})
		for _, sink := range []string{"c", "nope"} {
			want := map[string]error{"c": sinks.ErrNotDead, "nope": sinks.ErrNotFound}[sink]
			if at, err := b.Redrive(t.Context(), catalogtest.Workspace, e, sink, "ada", now); !errors.Is(err, want) {
				t.Errorf("at %s: %v, %v", sink, at, err)
			}
		}
		if _, err := b.Redrive(t.Context(), catalogtest.Workspace, e+1, "", "ada", now); !errors.Is(err, sinks.ErrNotFound) {
			t.Errorf("an event that is none: %v", err)
		}
		at, err := b.Redrive(t.Context(), catalogtest.Workspace, e, "b", "ada", now)
		if err != nil {
			t.Fatal(err)
		}
		b.same([]string{"b"}, at)
		b.same(map[string]string{"a": dead, "b": waits, "c": "pending 0/0 ended false"}, b.at(e))
		if due, err := s.DueSinks(t.Context(), now); err != nil || len(due) != 2 {
			t.Errorf("due are %v, %v", due, err)
		}
		if at, err = b.Redrive(t.Context(), catalogtest.Workspace, e, "", "ada", now); err != nil {
			t.Fatal(err)
		}
		b.same([]string{"a"}, at)
		if due, err := s.DueSinks(t.Context(), now); err != nil || len(due) != 3 {
			t.Errorf("a rests still: due are %v, %v", due, err)
		}
		if _, err = b.Redrive(t.Context(), catalogtest.Workspace, e, "", "ada", now); !errors.Is(err, sinks.ErrNotDead) {
			t.Errorf("again: %v", err)
		}
		if n := len(b.audited()); n != 2 {
			t.Errorf("audited were %v", b.audited())
		}
	})
}

// All that is dead at one sink at an instant is redriven, page by page. What is dead elsewhere stays dead.
func TestRedriveAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		const events = 501 // more than a page
		b.write(func(tx *store.Tx) error {
			var list []store.NewOutboxEvent
			for range events {
				list = append(list, store.NewOutboxEvent{Sinks: []string{"a", "b"}, Event: outbox.Event{
					Workspace: catalogtest.Workspace, Type: "delivery.sent", MessageID: "m", Workflow: "w", Instance: 7, Body: "{}", CreatedAt: now,
				}})
			}
			return tx.AddOutboxEvents(list)
		})
		b.dies("a")
		b.dies("b")
		dead := func(want map[string]int64) {
			t.Helper()
			states, err := s.Sinks(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, k := range states {
				got[k.Name] = k.Dead
			}
			b.same(want, got)
		}
		dead(map[string]int64{"a": events, "b": events})
		if n, err := b.RedriveAll(t.Context(), ref("a"), "ada", now.Add(-time.Second)); err != nil || n != 0 {
			t.Errorf("%d were redriven that died later, %v", n, err)
		}
		if n, err := b.RedriveAll(t.Context(), ref("a"), "ada", now); err != nil || n != events {
			t.Errorf("%d were redriven, %v", n, err)
		}
		dead(map[string]int64{"a": 0, "b": events})
		for _, name := range []string{"a", "never"} {
			if n, err := b.RedriveAll(t.Context(), ref(name), "ada", now); err != nil || n != 0 {
				t.Errorf("%s: %d were redriven, %v", name, n, err)
			}
		}
		b.same([]string{`ada redrive a {"events":500}`, `ada redrive a {"events":1}`}, b.audited())
	})
}
