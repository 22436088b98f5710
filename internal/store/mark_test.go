package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// mark marks an instance in a transaction, and waits for claims.
func (f fixture) mark(id instance.ID) error {
	return f.s.Write(f.Context(), func(tx *store.Tx) error {
		in, err := tx.LockInstance(f.ws, id)
		if err != nil {
			return err
		}
		row := in
		row.CancelDeliveries(now)
		if err := tx.UpdateInstance(now, in, row); err != nil {
			return err
		}
		return tx.AwaitClaims()
	})
}

// A claim has the mark of its instance, and no other one's.
func TestClaimsReadTheMark(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		rows := f.scheduled(3, nil)
		f.must(f.mark(rows[1].Instance))
		claims := f.claim(now)
		if len(claims) != 3 {
			t.Fatalf("%d claims", len(claims))
		}
		for _, c := range claims {
			if marked := c.Instance == rows[1].Instance; c.CancelledAt.IsZero() == marked || marked && !c.CancelledAt.Equal(now) {
				t.Errorf("claim %d: %s", c.ID, c.CancelledAt)
			}
		}
	})
}

// A cancel is committed after the intents of a transaction that has claimed before, and after what one writes that has seen no cancel.
// Shows: P5.
func TestACancelWaitsForClaims(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		id := f.scheduled(1, nil)[0].Instance
		marked := make(chan error, 1)
		waits := func() error { // until the cancel waits
			go func() { marked <- f.mark(id) }()
			if s.Dialect() == "sqlite" {
				return nil // there is one writer
			}
			for {
				select {
				case err := <-marked:
					return fmt.Errorf("the mark did not wait: %w", err)
				default:
				}
				waits := make(chan []string, 1)
				go func() { // outside of this transaction
					list, _ := s.Strings(t.Context(), "SELECT 'x' FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
					waits <- list
				}()
				if len(<-waits) > 0 {
					return nil
				}
			}
		}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			cancelled, err := tx.CancelledAt(f.ws, []instance.ID{id})
			if err != nil || len(cancelled) > 0 {
				return fmt.Errorf("%v, %w", cancelled, err)
			}
			return waits()
		}))
		f.must(<-marked)
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			cancelled, err := tx.CancelledAt(f.ws, []instance.ID{id, id + 1})
			if err == nil && (len(cancelled) != 1 || !cancelled[id].Equal(now)) {
				err = fmt.Errorf("cancelled: %v", cancelled)
			}
			return err
		}))
		id = f.scheduled(2, nil)[1].Instance
		f.must(s.WriteClaiming(t.Context(), func(tx *store.Tx) error {
			claims, err := tx.ClaimDueDeliveries(now, now.Add(time.Minute), 10)
			if err != nil || !slices.ContainsFunc(claims, func(c delivery.Claim) bool { return c.Instance == id && c.CancelledAt.IsZero() }) {
				return fmt.Errorf("%+v, %w", claims, err)
			}
			return waits()
		}))
		f.must(<-marked)
	})
}

// What is left to cancel is what delivery.Row.Cancel changes.
func TestLeftToCancel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		row := f.scheduled(1, nil)[0]
		for _, status := range delivery.Statuses() {
			for _, planned := range []bool{true, false} {
				for _, completed := range []bool{true, false} {
					d := row
					d.Status, d.SendAt, d.CompletedAt = status, time.Time{}, time.Time{}
					if planned && (status == delivery.Scheduled || status == delivery.Sent || status == delivery.Opened) {
						d.SendAt = now.Add(time.Hour)
					}
					if completed {
						d.CompletedAt = now
					}
					_, want := d.Cancel(reason.CancelledByPerson, now)
					f.exec("UPDATE delivery SET status = $1, send_at = $2, completed_at = $3", string(d.Status), microsOf(d.SendAt), microsOf(d.CompletedAt))
					f.must(s.Write(t.Context(), func(tx *store.Tx) error {
						left, ended, err := tx.LeftToCancel(f.ws, row.Instance)
						if left != want || ended != status.Final() {
							t.Errorf("%s, planned %t, completed %t: left %t, ended %t", status, planned, completed, left, ended)
						}
						return err
					}))
				}
			}
		}
	})
}

func microsOf(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// Pages have all deliveries of a contact or none, each once.
func TestDeliveryPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.large("k", 7, 3)
		for _, limit := range []int{1, 2, 3, 4, 5, 100} {
			seen := map[delivery.ID]int{}
			for after, more := int64(0), true; more; {
				f.must(s.Write(t.Context(), func(tx *store.Tx) error {
					rows, last, again, err := tx.LockDeliveryPage(f.ws, in.ID, subject.ContactID(after), limit)
					for _, d := range rows {
						seen[d.ID]++
					}
					after, more = int64(last), again
					return err
				}))
			}
			want := 21
			if limit < 3 { // a contact has more than a page may hold: claims end the rest
				want = 7 * (limit + 1)
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("limit %d: delivery %d %d times", limit, id, n)
				}
			}
			if len(seen) != want {
				t.Errorf("limit %d: %d deliveries", limit, len(seen))
			}
		}
	})
}

// visible returns the ways in which an occasion is seen.
func (f fixture) visible(in instance.Row) (ways []string) {
	f.Helper()
	add := func(what string, seen bool) {
		if seen {
			ways = append(ways, what)
		}
	}
	_, err := f.s.InstanceByID(f.Context(), f.ws, in.ID)
	add("by id", err == nil)
	_, err = f.s.InstanceByKey(f.Context(), f.ws, in.Key)
	add("by key", err == nil)
	list, err := f.s.Instances(f.Context(), f.ws, store.InstanceFilter{Key: in.Key}, store.Page{})
	f.must(err)
	add("listed", len(list) > 0)
	rows, err := f.s.Deliveries(f.Context(), f.ws, store.DeliveryFilter{Instance: in.ID}, store.Page{Limit: 10})
	f.must(err)
	add("deliveries", len(rows) > 0)
	add("to operate", f.operate(in.ID, func(*store.Tx, instance.Row, []delivery.Row) error { return nil }) == nil)
	return ways
}

// A large occasion is deleted in transactions of a bounded size. Between two of them it is as if it were deleted: its key is used, and nothing
// of it is shown. A process that is lost anywhere leaves it so, and the next pass goes on.
// Shows: P2.
func TestALargeOccasionIsDeletedInPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const contacts, limit = 1200, 25
		const page = 4 * limit
		f := setup(t, s)
		in := f.large("survey:visit:event:big", contacts, 1)
		small := f.large("survey:visit:event:small", 2, 1)
		later := now.Add(200 * day)
		f.exec("UPDATE delivery SET status = 'sent', send_at = 0, slot = 0, completed_at = $1", now.UnixMicro())
		kept := f.one("SELECT CAST(MIN(id) AS text) FROM delivery WHERE instance_id = $1", int64(in.ID))
		f.exec("UPDATE delivery SET completed_at = $1 WHERE id = $2", later.UnixMicro(), kept)
		if r := f.retain(later, now.Add(day), limit); r.Deliveries != 2 || r.Instances != 1 || len(f.visible(in)) != 5 {
			t.Fatalf("one of its deliveries is not over: %+v, %v", r, f.visible(in))
		}
		if _, err := s.InstanceByID(t.Context(), f.ws, small.ID); err == nil {
			t.Error("the small one is left")
		}
		f.exec("UPDATE delivery SET completed_at = $1 WHERE id = $2", now.UnixMicro(), kept)
		var c store.RetainCursor
		var sum store.Retained
		marked, steps := false, 0
		for done := false; !done; steps++ {
			if steps > 500 {
				t.Fatal("the passes have no end")
			}
			if steps%7 == 6 && marked && sum.Instances == 0 { // the process is lost, and begins from the oldest row
				c = store.RetainCursor{}
			}
			before := s.Statements()
			r, end, err := s.Retain(t.Context(), f.ws, later, store.Cutoffs{Occasions: now.Add(day), Digests: now.Add(day), Messages: now.Add(day), Quiet: now.Add(day)}, &c, limit)
			f.must(err)
			if n := s.Statements() - before; n > 16 || r.Deliveries > page {
				t.Errorf("step %d: %d statements, %+v", steps, n, r)
			}
			sum.Add(r)
			left := f.one("SELECT CAST(COUNT(*) AS text) FROM instance WHERE id = $1 AND deleted_at = 0", int64(in.ID))
			if ways := f.visible(in); left == 0 && len(ways) > 0 || left > 0 && (len(ways) != 5 || sum.Deliveries > 0) {
				t.Errorf("step %d, %d deliveries deleted: it is visible %s", steps, sum.Deliveries, strings.Join(ways, ", "))
			}
			if marked = left == 0; marked {
				f.ingest(ingestRequest{Keys: []string{in.Key}}, func(state ingestState) (store.OccasionWrites, error) {
					if met := state.Instances[in.Key]; met.ID != in.ID || met.Key != in.Key || len(met.Deliveries) > 0 || met.Status != "" {
						t.Errorf("step %d: the same event meets %+v", steps, met)
					}
					return store.OccasionWrites{}, nil
				})
			}
			done = end
		}
		if sum.Deliveries != contacts || sum.Instances != 1 || f.one("SELECT CAST(COUNT(*) AS text) FROM delivery") != 0 {
			t.Errorf("in the end: %+v", sum)
		}
	})
}

// A delivery that changes between the check and its page is left until it is over, and so is its instance. A contact has more deliveries than
// divide a page.
func TestALateChangeIsNotDeleted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		in := f.large("survey:visit:event:big", 50, 5)
		later := now.Add(200 * day)
		f.exec("UPDATE delivery SET status = 'sent', send_at = 0, slot = 0, completed_at = $1", now.UnixMicro())
		var c store.RetainCursor
		for f.one("SELECT CAST(COUNT(*) AS text) FROM instance WHERE deleted_at > 0") == 0 {
			_, done, err := s.Retain(t.Context(), f.ws, later, store.Cutoffs{Occasions: now.Add(day), Digests: now.Add(day), Messages: now.Add(day), Quiet: now}, &c, 3)
			if f.must(err); done {
				t.Fatal("never marked")
			}
		}
		f.exec("UPDATE delivery SET status = 'responded', completed_at = $1 WHERE id = (SELECT MAX(id) FROM delivery)", later.UnixMicro())
		if r := f.retain(later, now.Add(day), 3); r.Deliveries != 249 || r.Instances != 0 || len(f.visible(in)) > 0 {
			t.Errorf("it was answered: %+v, visible %v", r, f.visible(in))
		}
		if r := f.retain(later.Add(200*day), later.Add(day), 3); r.Deliveries != 1 || r.Instances != 1 {
			t.Errorf("long afterwards: %+v", r)
		}
	})
}

// Nothing is folded into a delivery of a marked instance, and none of its deliveries leaves with another one's message.
// Shows: P5.
func TestNothingIsFoldedWithAMark(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		rows := f.scheduled(2, nil)
		head, member := rows[0], rows[1]
		f.exec("UPDATE delivery SET fold = 'head', folded_into = id, slot = $1 WHERE id = $2", now.UnixMicro(), int64(head.ID))
		f.exec("UPDATE delivery SET fold = 'member', folded_into = $1, contact_id = $2 WHERE id = $3", int64(head.ID), int64(head.Contact), int64(member.ID))
		for _, test := range []struct {
			mark           instance.ID
			heads, members int
		}{{0, 1, 1}, {member.Instance, 1, 0}, {head.Instance, 0, 0}} {
			if test.mark != 0 {
				f.must(f.mark(test.mark))
			}
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				heads, err := tx.FoldHeads(now, []delivery.PersonRef{delivery.PersonOf(head)})
				if err != nil {
					return err
				}
				members, err := tx.FoldMembers(now, []delivery.Row{head})
				if len(heads) != test.heads || len(members) != test.members {
					t.Errorf("%d is marked: %d heads, %d members", test.mark, len(heads), len(members))
				}
				return err
			}))
		}
	})
}
