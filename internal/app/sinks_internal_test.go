package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/telemetry"
)

// The gauges of sinks are what the database has, of every workspace under its name.
func TestReadSinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		now := time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)
		a := &App{store: s}
		is := func(want ...telemetry.Sink) {
			t.Helper()
			got, err := a.readSinks(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			byName := cmpopts.SortSlices(func(a, b telemetry.Sink) bool { return a.Workspace+a.Name < b.Workspace+b.Name })
			if diff := cmp.Diff(want, got, byName, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		}
		is()
		ids := map[string]subject.WorkspaceID{}
		for _, name := range []string{"default", "north"} {
			ws, err := s.EnsureWorkspace(t.Context(), name, []byte("0123456789abcdef0123456789abcdef"), now)
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = ws.ID
		}
		is()
		write := func(work func(*store.Tx) error) {
			t.Helper()
			if err := s.Write(t.Context(), work); err != nil {
				t.Fatal(err)
			}
		}
		write(func(tx *store.Tx) error {
			var list []store.NewOutboxEvent
			for i, in := range []struct {
				workspace string
				sinks     []string
			}{{"default", []string{"bi", "desk"}}, {"default", []string{"bi"}}, {"default", []string{"bi"}}, {"north", []string{"bi"}}} {
				list = append(list, store.NewOutboxEvent{Sinks: in.sinks, Event: outbox.Event{
					Workspace: ids[in.workspace], Type: "delivery.sent", MessageID: "m", Workflow: "w", Instance: 7, Delivery: 0, Body: "{}", CreatedAt: now.Add(time.Duration(i)),
				}})
			}
			return tx.AddOutboxEvents(list)
		})
		is(
			telemetry.Sink{Workspace: "default", Name: "bi", Pending: 3, Active: true}, telemetry.Sink{Workspace: "default", Name: "desk", Pending: 1, Active: true},
			telemetry.Sink{Workspace: "north", Name: "bi", Pending: 1, Active: true},
		)
		bi := store.SinkRef{Workspace: ids["default"], Name: "bi"}
		write(func(tx *store.Tx) error {
			found, err := tx.LockDispatches(bi, now.Add(time.Hour), 10)
			if err != nil {
				return err
			}
			var changes []store.DispatchChange
			for i, d := range found[:2] {
				is := d.With(outbox.Patch{Status: []outbox.Status{outbox.Dead, outbox.Dispatched}[i], AttemptNo: 1})
				is.EndedAt = now
				changes = append(changes, store.DispatchChange{Was: d.Row, Is: is})
			}
			if _, err := tx.WriteDispatches(changes); err != nil {
				return err
			}
			if err := tx.WriteSink(bi, outbox.Health{State: outbox.Active, FailingSince: now.Add(-time.Minute), FailedAt: now}); err != nil {
				return err
			}
			return tx.WriteSink(store.SinkRef{Workspace: ids["default"], Name: "desk"}, outbox.Health{State: outbox.Paused})
		})
		is(
			telemetry.Sink{Workspace: "default", Name: "bi", Pending: 1, Dead: 1, Active: true, Failing: time.Minute},
			telemetry.Sink{Workspace: "default", Name: "desk", Pending: 1},
			telemetry.Sink{Workspace: "north", Name: "bi", Pending: 1, Active: true},
		)
		write(func(tx *store.Tx) error {
			return tx.WriteSink(store.SinkRef{Workspace: ids["north"], Name: "bi"}, outbox.Health{State: outbox.Disabled})
		})
		is(
			telemetry.Sink{Workspace: "default", Name: "bi", Pending: 1, Dead: 1, Active: true, Failing: time.Minute},
			telemetry.Sink{Workspace: "default", Name: "desk", Pending: 1},
			telemetry.Sink{Workspace: "north", Name: "bi", Pending: 1},
		)
	})
}
