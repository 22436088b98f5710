package store_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// told writes an outbox event about a delivery, and returns its id.
func (f fixture) told(of int64, at time.Time, sinks ...string) {
	f.Helper()
	row := outbox.Event{
		Workspace: f.ws, Type: "delivery.sent", MessageID: "d_x-delivery_sent-0", Workflow: "w", Delivery: delivery.ID(of), Instance: 77,
		Body: `{"specversion":"1.0"}`, CreatedAt: at,
	}
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		return tx.AddOutboxEvents([]store.NewOutboxEvent{{Event: row, Sinks: sinks}})
	}))
}

// begin begins the tries of what is due at a sink, and returns the rows that may leave.
func (f fixture) begin(sink string, at time.Time, limit int) (sent []outbox.Row) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		sent = nil
		found, err := tx.LockDispatches(store.SinkRef{Workspace: f.ws, Name: sink}, at, limit)
		if err != nil {
			return err
		}
		var changes []store.DispatchChange
		for _, d := range found {
			p, send := outbox.Begin(d.Row, outbox.Policy{}, at, time.Minute)
			changes = append(changes, store.DispatchChange{Was: d.Row, Is: d.With(p)})
			if send {
				sent = append(sent, d.With(p))
			}
		}
		_, err = tx.WriteDispatches(changes)
		return err
	}))
	return sent
}

// result writes the results of tries, and reports which were taken.
func (f fixture) result(at time.Time, result outbox.Result, rows ...outbox.Row) (written map[int64]bool) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		var changes []store.DispatchChange
		var groups []int64
		for _, r := range rows {
			is := r.With(outbox.Decide(r, result, outbox.Policy{}, at, nil))
			if is.Status != outbox.Pending {
				is.EndedAt = at
				groups = append(groups, is.Group)
			}
			changes = append(changes, store.DispatchChange{Was: r, Is: is})
		}
		var err error
		if written, err = tx.WriteDispatches(changes); err != nil {
			return err
		}
		return tx.WakeBehind(at, rows[0].Sink, groups)
	}))
	return written
}

func (f fixture) dueSinks(at time.Time) (names []string) {
	f.Helper()
	found, err := f.s.DueSinks(f.Context(), at)
	f.must(err)
	for _, s := range found {
		names = append(names, s.Name)
	}
	return names
}

// Shows: C35 and C38.
func TestOutbox(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.told(7, now, "a", "b")
		f.told(7, now.Add(-time.Hour), "a") // a clock that is behind
		f.told(8, now, "a")
		if diff := cmp.Diff([]string{"a", "b"}, f.dueSinks(now)); diff != "" {
			t.Fatal(diff)
		}
		first := f.begin("a", now, 10)
		if len(first) != 2 || first[0].Group == first[1].Group || first[0].Attempts != 1 {
			t.Fatalf("the first of each group leaves: %+v", first)
		}
		if again := f.begin("a", now.Add(59*time.Second), 10); len(again) != 0 {
			t.Errorf("tried while a try is in flight: %+v", again)
		}
		if at, err := s.EarliestDue(t.Context(), now.Add(time.Second)); err != nil || !at.Equal(now) { // sink b
			t.Errorf("next due %s, %v", at, err)
		}
		if written := f.result(now, outbox.Result{Outcome: outbox.Accepted}, first...); len(written) != 2 {
			t.Errorf("results %v", written)
		}
		second := f.begin("a", now, 10)
		if len(second) != 1 || second[0].Group != 7 {
			t.Fatalf("the event behind is tried as soon as the one before it ended: %+v", second)
		}
		events, err := s.OutboxEvents(t.Context(), f.ws, store.OutboxFilter{Delivery: 7}, store.Page{})
		f.must(err)
		if len(events) != 2 || events[0].ID != second[0].EventID || events[0].CreatedAt.After(events[1].CreatedAt) {
			t.Errorf("ids ascend in the order of the transactions: %+v", events)
		}
		if written := f.result(now, outbox.Result{Outcome: outbox.Permanent, Reason: reason.PermanentError}, second...); len(written) != 1 {
			t.Errorf("results %v", written)
		}
		if written := f.result(now, outbox.Result{Outcome: outbox.Accepted}, second...); len(written) != 0 {
			t.Errorf("a second result was taken: %v", written)
		}
		frozen := f.begin("b", now, 10)
		later := f.begin("b", now.Add(2*time.Minute), 10) // its lease has ended
		if len(frozen) != 1 || len(later) != 1 || later[0].AttemptNo != 2 {
			t.Fatalf("tried again when the lease had ended: %+v, %+v", frozen, later)
		}
		if written := f.result(now, outbox.Result{Outcome: outbox.Permanent}, frozen...); len(written) != 0 {
			t.Errorf("the result of a try was taken while a later one is in flight: %v", written)
		}
		for name, want := range map[string]struct {
			filter store.OutboxFilter
			n      int
		}{
			"all": {store.OutboxFilter{}, 3}, "sink": {store.OutboxFilter{Sink: "b"}, 1}, "dead": {store.OutboxFilter{Status: outbox.Dead}, 1},
			"dead at another sink": {store.OutboxFilter{Sink: "b", Status: outbox.Dead}, 0}, "pending there": {store.OutboxFilter{Sink: "b", Status: outbox.Pending}, 1},
			"type": {store.OutboxFilter{Type: "delivery.sent"}, 3}, "another type": {store.OutboxFilter{Type: "x"}, 0},
			"workflow": {store.OutboxFilter{Workflow: "w"}, 3}, "instance": {store.OutboxFilter{Instance: 77}, 3},
			"later": {store.OutboxFilter{Made: store.Span{Since: now.Add(time.Hour)}}, 0},
		} {
			if got, err := s.OutboxEvents(t.Context(), f.ws, want.filter, store.Page{}); err != nil || len(got) != want.n {
				t.Errorf("%s: %d events, %v, want %d", name, len(got), err, want.n)
			}
		}
		at, err := s.Dispatches(t.Context(), f.ws, []int64{events[0].ID, events[1].ID})
		f.must(err)
		if len(at[events[0].ID]) != 1 || len(at[events[1].ID]) != 2 || at[events[0].ID][0].Status != outbox.Dead {
			t.Errorf("dispatches %+v", at)
		}
		sinks, err := s.Sinks(t.Context())
		f.must(err)
		if len(sinks) != 2 || sinks[0].Dead != 1 || sinks[0].Pending != 0 || sinks[1].Pending != 1 || !sinks[1].Oldest.Equal(now.Add(3*time.Minute)) {
			t.Errorf("sinks %+v", sinks)
		}
	})
}

// A paused sink is not asked, one that rests not before its rest is over; neither wakes the stages meanwhile.
func TestSinksThatRest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.told(7, now, "a")
		ref := store.SinkRef{Workspace: f.ws, Name: "a"}
		write := func(h outbox.Health) {
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				if _, err := tx.LockSink(ref); err != nil {
					return err
				}
				return tx.WriteSink(ref, h)
			}))
		}
		failing := outbox.Health{State: outbox.Active, FailingSince: now, FailedAt: now, RestUntil: now.Add(time.Minute), Reason: reason.TemporaryError}
		write(failing)
		if at, err := s.EarliestDue(t.Context(), now); err != nil || !at.Equal(now.Add(time.Minute)) || len(f.dueSinks(now)) > 0 {
			t.Errorf("it rests until a minute later: %s, %v", at, err)
		}
		for _, busy := range []struct {
			ref  store.SinkRef
			want time.Time
		}{{ref, time.Time{}}, {store.SinkRef{Workspace: f.ws, Name: "b"}, now.Add(time.Minute)}, {store.SinkRef{Workspace: f.ws + 1, Name: "a"}, now.Add(time.Minute)}} {
			if at, err := s.EarliestDue(t.Context(), now, busy.ref); err != nil || !at.Equal(busy.want) {
				t.Errorf("busy with %v: due at %s, %v", busy.ref, at, err)
			}
		}
		if len(f.dueSinks(now.Add(time.Minute))) != 1 {
			t.Error("not due after its rest")
		}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			if got, err := tx.LockSink(ref); err != nil || !cmp.Equal(got, failing) {
				t.Errorf("health %+v, %v", got, err)
			}
			return nil
		}))
		paused, _ := failing.Pause()
		write(paused)
		if at, err := s.EarliestDue(t.Context(), now.Add(time.Hour)); err != nil || !at.IsZero() || len(f.dueSinks(now.Add(time.Hour))) > 0 {
			t.Errorf("a paused sink is due at %s, %v", at, err)
		}
		f.mustBe(s.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.LockSink(store.SinkRef{Workspace: f.ws + 1, Name: "a"})
			return err
		}), store.ErrNotFound)
	})
}

// With many events that wait at one sink, each statement of dispatching finds its rows by an index, in the order of that index: it reads what it
// takes and not what waits.
func TestDispatchReadsNoBacklog(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.told(7, now, "a")
		f.exec(`WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 20000)
			INSERT INTO outbox_event (ws, id, type, message_id, workflow, delivery_id, instance_id, body, created_at)
			SELECT ws.id, n, 'delivery.sent', 'm' || n, 'w', n, n, '{}', 1 FROM series, workspace AS ws`)
		f.exec(`WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 20000)
			INSERT INTO dispatch (ws, event_id, sink, group_id, status, next_at, ended_at)
			SELECT ws.id, n, 'a', n, CASE WHEN n % 4 = 0 THEN 'dead' ELSE 'pending' END, CASE WHEN n % 4 = 0 THEN 0 ELSE n END, CASE WHEN n % 4 = 0 THEN 1 ELSE 0 END FROM series, workspace AS ws`)
		for _, table := range []string{"outbox_event", "dispatch", "sink"} {
			if _, err := s.Exec(t.Context(), "ANALYZE "+table); err != nil {
				t.Fatal(err)
			}
		}
		at, ws := now.UnixMicro(), int64(f.ws)
		for name, test := range map[string]struct {
			text  string
			args  []any
			index string
			sorts bool // few rows
		}{
			"sinks that are due": {store.DueSinksQuery, []any{at}, "dispatch_due", true}, // by the sinks' names
			"claim":              {store.ClaimDispatches, []any{"a", ws, at, int64(32)}, "dispatch_due", false},
			"last of a group":    {store.LastOfGroups, []any{store.OneGroup()}, "dispatch_group", false},
			"wake":               {store.WakeGroups, []any{at, store.OneGroup()}, "dispatch_group", false},
			"dead":               {store.LockDeadQuery, []any{"a", ws, at, int64(500)}, "dispatch_dead", false},
			"next":               {store.NextDueQuery, []any{at, at, at, at, at, int64(1), at, at, at, at, at, at, store.NoSink()}, "dispatch_due", false},
		} {
			plans, err := s.Plans(t.Context(), test.text, test.args...)
			f.must(err)
			for _, text := range plans {
				sorts := strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "Sort ")
				whole := regexp.MustCompile(`Seq Scan on (dispatch|outbox_event)|SCAN (d|e|o|dispatch|outbox_event)($|\n)`).MatchString(text)
				if whole || sorts && !test.sorts || !strings.Contains(text, test.index) {
					t.Errorf("%s reads what waits, or sorts it:\n%s", name, text)
				}
			}
		}
	})
}
