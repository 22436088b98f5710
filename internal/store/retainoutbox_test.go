package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// deadEvent makes an old occasion that is over, with an outbox event that is dead at two sinks. It returns the event's id.
func (f fixture) deadEvent() int64 {
	f.Helper()
	old := f.instance("old", instance.Completed)
	old.CompletedAt = now
	f.add(store.OccasionWrites{Instances: []instance.Row{old}})
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		return tx.AddOutboxEvents([]store.NewOutboxEvent{{Sinks: []string{"bi", "desk"}, Event: outbox.Event{
			Workspace: f.ws, Type: "instance.completed", MessageID: "m", Workflow: "w", Instance: old.ID, Body: "{}", CreatedAt: now,
		}}})
	}))
	events, err := f.s.OutboxEvents(f.Context(), f.ws, store.OutboxFilter{}, store.Page{})
	f.must(err)
	f.exec(`UPDATE dispatch SET status = 'dead', next_at = 0, ended_at = 1`)
	return events[0].ID
}

// redrive makes an event pending again at all sinks. Before the commit it calls meanwhile.
func (f fixture) redrive(event int64, meanwhile func()) (sinks int) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		rows, err := tx.LockDispatchesOf(f.ws, event)
		if err != nil {
			return err
		}
		sinks = len(rows)
		var changes []store.DispatchChange
		for _, r := range rows {
			if p, ok := outbox.Redrive(r, now.Add(day)); ok {
				is := r.With(p)
				is.EndedAt = time.Time{}
				changes = append(changes, store.DispatchChange{Was: r, Is: is})
			}
		}
		if _, err := tx.WriteDispatches(changes); err != nil {
			return err
		}
		meanwhile()
		return nil
	}))
	return sinks
}

// An old event that is dead goes with its occasion, unless it was redriven: then a sink is to get it.
func TestRetentionKeepsWhatIsPending(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		event := f.deadEvent()
		if n := f.redrive(event, func() {}); n != 2 {
			t.Fatalf("redriven at %d sinks", n)
		}
		if r := f.retain(now.Add(day), now.Add(time.Hour), 10); r.Instances != 0 {
			t.Errorf("deleted %+v", r)
		}
		f.exec(`UPDATE dispatch SET status = 'dispatched', next_at = 0, ended_at = 1 WHERE sink = 'bi'`)
		if r := f.retain(now.Add(day), now.Add(time.Hour), 10); r.Instances != 0 {
			t.Errorf("deleted %+v, and one sink has not got it", r)
		}
		f.exec(`UPDATE dispatch SET status = 'dead', next_at = 0, ended_at = 1, reason = '` + string(reason.RetriesUsedUp) + `' WHERE sink = 'desk'`)
		if r := f.retain(now.Add(day), now.Add(time.Hour), 10); r.Instances != 1 {
			t.Errorf("deleted %+v", r)
		}
		if n := f.redrive(event, func() {}); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// A redrive that began before retention, and is committed after retention has begun, is not lost.
func TestRetentionWaitsForARedrive(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected: SQLite has one writer")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	event := f.deadEvent()
	done := make(chan store.Retained, 1)
	if n := f.redrive(event, func() {
		go func() {
			var c store.RetainCursor
			r, _, err := f.s.Retain(t.Context(), f.ws, now.Add(day), store.Cutoffs{Occasions: now.Add(time.Hour), Digests: now.Add(time.Hour), Quiet: now}, &c, 10)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		for column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] == "0" {
			select {
			case r := <-done:
				t.Errorf("retention did not wait: %+v", r)
				done <- r
				return
			default:
				if t.Context().Err() != nil {
					return
				}
			}
		}
	}); n != 2 {
		t.Fatalf("redriven at %d sinks", n)
	}
	if r := <-done; r.Instances != 0 {
		t.Errorf("deleted %+v", r)
	}
	rows, err := f.s.Dispatches(t.Context(), f.ws, []int64{event})
	f.must(err)
	if len(rows[event]) != 2 || rows[event][0].Status != outbox.Pending || rows[event][1].Status != outbox.Pending {
		t.Errorf("the event is %+v", rows[event])
	}
}
