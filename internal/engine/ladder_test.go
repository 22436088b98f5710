package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// failingPapers is a reminder at nine in Berlin that fails while its record says so.
func failingPapers(retry string) string {
	return "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    record: paper\n    timing: {anchor: record.target, at: \"09:00\", timezone: Europe/Berlin}\n" +
		"retry: {" + retry + "}\naudience: {to: \"record.people == 0 ? 1 / 0 : record.people\"}\nchannel: email\nmessage: {email: {subject: x, text: x}}\n" +
		"---\nrecord_type: paper\nfields: {target: date, people: number}\n---\nchannel: email\nprovider: memory\n"
}

// only returns the one instance of a test.
func only(b *enginetest.Bundle) instance.Row {
	b.Helper()
	rows, err := b.Store.Instances(b.Context(), b.Workspace.ID, store.InstanceFilter{}, store.Page{})
	if err != nil || len(rows) != 1 {
		b.Fatalf("%+v, %v", rows, err)
	}
	return rows[0]
}

// With then: daily a failed instance is retried once a day after the backoff, at the same time of day even when the clocks change. It is never put on
// hold.
// Shows: B28, B29.
func TestDailyRetries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, failingPapers("backoff: [5m, 1h], then: daily"))
		w.Clock.Set(time.Date(2026, 10, 23, 5, 0, 0, 0, time.UTC))
		w.put("paper/p", `{"target": "2026-10-24", "people": 0}`)
		for _, want := range []string{"24T07:05", "24T08:05", "25T09:05", "26T09:05"} { // 10:05 in Berlin, before and after the clocks
			for w.tick() {
			}
			if next, err := w.NextDue(t.Context()); err != nil || next.IsZero() {
				t.Fatal(next, err)
			} else {
				w.Clock.Set(next)
			}
			for w.tick() {
			}
			if row := only(w.Bundle); row.Held() || row.Reason != reason.AudienceFailed || row.NextRetryAt.Format("02T15:04") != want {
				t.Errorf("want %s: %+v", want, row)
			}
		}
	})
}

// A leased instance belongs to one worker until the lease ends. After the first death of its worker it is taken over at once, after the second one it
// waits for the backoff, and after the third a person decides.
// Shows: B25, B27, B28.
func TestLostLeases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, failingPapers("lease: 2m"))
		dying, err := engine.New(engine.Config{Store: s, Clock: w.Clock, Concurrency: 1, Failpoint: func(point string) error {
			if point == fanout.AfterTaken {
				return errDied
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.put("paper/p", `{"target": "2026-05-15", "people": 1}`)
		for w.tick() {
		}
		die := func(at time.Time) {
			t.Helper()
			w.Clock.Set(at)
			if _, err := dying.Tick(t.Context()); !errors.Is(err, errDied) {
				t.Fatalf("at %s: %v", at, err)
			}
		}
		is := func(what string, crashes, retries int, held bool, next time.Time) {
			t.Helper()
			if row := only(w.Bundle); row.Crashes != crashes || row.RetryCount != retries || row.Held() != held || !row.NextRetryAt.Equal(next) {
				t.Errorf("%s: %+v", what, row)
			}
		}
		due := time.Date(2026, 5, 15, 7, 0, 0, 0, time.UTC)
		die(due)
		if row := only(w.Bundle); !row.LeaseUntil.Equal(due.Add(2*time.Minute)) || row.Status != instance.Pending || row.Attempts != 0 {
			t.Errorf("taken up: %+v", row)
		}
		if r := w.At(due.Add(2*time.Minute - time.Microsecond)); r.Expanded != 0 {
			t.Errorf("it was taken while its lease runs: %+v", r)
		}
		if next, err := w.NextDue(t.Context()); err != nil || !next.Equal(due.Add(2*time.Minute)) {
			t.Errorf("next due %v, %v", next, err)
		}
		die(due.Add(2 * time.Minute))
		is("at once the first time", 1, 0, false, time.Time{})
		w.At(due.Add(4 * time.Minute))
		is("by the ladder the second", 2, 1, false, due.Add(9*time.Minute))
		die(due.Add(9 * time.Minute))
		w.At(due.Add(11 * time.Minute))
		is("held the third", 3, 2, true, time.Time{})
		if row := only(w.Bundle); row.Reason != reason.WorkerCrashed || !row.LeaseUntil.IsZero() {
			t.Errorf("held: %+v", row)
		}
		if _, err := w.Operator().Release(t.Context(), w.Workspace.ID, only(w.Bundle).ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		w.At(due.Add(12 * time.Minute))
		is("released", 0, 0, false, time.Time{})
		if row := only(w.Bundle); row.Status != instance.Completed {
			t.Errorf("released: %+v", row)
		}
	})
}

// A worker that was frozen past the end of its lease finds that another one has the instance, and leaves it alone.
// Shows: B26.
func TestLateWorkersLeaveTheClaimsOfOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, failingPapers("lease: 2m"))
		w.put("paper/p", `{"target": "2026-05-15", "people": 1}`)
		for w.tick() {
		}
		due := time.Date(2026, 5, 15, 7, 0, 0, 0, time.UTC)
		var then int64
		frozen, err := engine.New(engine.Config{Store: s, Clock: w.Clock, Concurrency: 1, Failpoint: func(point string) error {
			if point == fanout.AfterTaken {
				w.At(due.Add(3 * time.Minute)) // the other worker takes it over and expands it
				then = only(w.Bundle).Version
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.Clock.Set(due)
		if _, err := frozen.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if row := only(w.Bundle); row.Status != instance.Completed || row.Version != then || row.Crashes != 1 {
			t.Errorf("%+v, then version %d", row, then)
		}
	})
}
