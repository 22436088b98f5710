package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// writeContacts writes contacts that are decided by those that are locked.
func (f fixture) writeContacts(ids []string, decide func(known map[string]subject.ContactRow) []store.ContactWrite) error {
	return f.s.Write(f.Context(), func(tx *store.Tx) error {
		known, err := tx.LockContacts(f.ws, ids)
		if err != nil {
			return err
		}
		_, missing, err := tx.WriteContacts(f.ws, now, known, decide(known))
		ids = append(ids, missing...)
		return err
	})
}

// suppress stops all deliveries of a contact, in the order of locks of a suppression, and returns them. locked is called when
// the contact is locked.
func (f fixture) suppress(who string, locked func()) (stopped []delivery.ID, err error) {
	return stopped, f.s.Write(f.Context(), func(tx *store.Tx) error {
		stopped = nil
		if _, err := tx.LockDeliveriesOf(f.ws, []string{who}); err != nil {
			return err
		}
		known, err := tx.LockContacts(f.ws, []string{who})
		if err != nil {
			return err
		}
		locked()
		deliveries, err := tx.LockDeliveriesOfNow(f.ws, []string{who})
		if err != nil {
			return err
		}
		var changed []delivery.Row
		for _, d := range deliveries {
			d.StopReason = reason.Suppressed
			if d.IntentAt.IsZero() {
				d.Status, d.Reason, d.SendAt, d.Slot = delivery.Cancelled, reason.Suppressed, time.Time{}, time.Time{}
			}
			changed, stopped = append(changed, d), append(stopped, d.ID)
		}
		if err := tx.UpdateDeliveries(now, deliveries, changed); err != nil {
			return err
		}
		row := known[who]
		row.Suppressed = true
		_, _, err = tx.WriteContacts(f.ws, now, known, []store.ContactWrite{{ContactRow: row}})
		return err
	})
}

// A suppression waits for an intent that is being committed: when it returns, every intent is before it. SQLite has one
// writer at a time.
// Shows: P5.
func TestSuppressWaitsForTheIntent(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	d := f.scheduled(1, nil)[0]
	who, _, err := f.s.ContactByID(t.Context(), f.ws, d.Contact)
	f.must(err)
	suppress := func() error {
		_, err := f.suppress(who.ExtID, func() {})
		return err
	}
	done := make(chan error, 1)
	claims, err := claimDue(t.Context(), f.s, now, 10, func(*store.Tx, []delivery.Claim) (w store.ClaimWrites, err error) {
		go func() { done <- suppress() }()
		waits := func() bool {
			return column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] != "0"
		}
		for !waits() {
			select {
			case err := <-done:
				t.Errorf("it did not wait: %v", err)
				done <- err
				return w, nil
			case <-t.Context().Done():
				return w, t.Context().Err()
			default:
			}
		}
		return w, nil
	})
	f.must(err)
	f.must(<-done)
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	if row := f.row(d.ID); row.StopReason != reason.Suppressed || row.Status != delivery.Scheduled {
		t.Errorf("what is being sent is %s, stop %q", row.Status, row.StopReason)
	}
	if again := f.claim(now.Add(time.Hour)); len(again) != 1 || !again[0].Person.Suppressed {
		t.Errorf("the next intent does not see it: %+v", again)
	}
}

// somebodyWaits returns once a transaction waits for another one. When none does, the lock is not taken that the test is
// about: it says so after a while instead of asking for as long as tests may take.
func somebodyWaits(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if ctx.Err() != nil {
			t.Error("no transaction waits for another one: a lock is missing")
			return
		}
		if column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] != "0" {
			return
		}
	}
}

// An event that has found who was made for its address, and waits for them while somebody claims that, is the claimant's.
func TestEventWaitsForTheClaim(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	for _, lock := range []bool{true, false} {
		ref := person("", fmt.Sprint("x", lock))
		ref.Lock = lock
		request := ingestRequest{Recipients: []store.RecipientRef{ref}}
		f.ingest(request, func(ingestState) (w store.OccasionWrites, err error) { return w, nil })
		ada := fmt.Sprint("ada", lock)
		found := make(chan string, 1)
		ingest := func() {
			var who string
			err := ingest(t.Context(), f.s, f.ws, request, func(s ingestState) (w store.OccasionWrites, err error) {
				who = s.Persons[0].ExtID
				return w, nil
			})
			if err != nil {
				t.Error(err)
			}
			found <- who
		}
		f.must(f.writeContacts([]string{ada, ref.NewExtID}, func(known map[string]subject.ContactRow) []store.ContactWrite {
			if lock {
				go ingest()
				somebodyWaits(t, db)
			}
			write := store.ContactWrite{Hashes: []string{ref.AddressHash}}
			write.ExtID = ada
			return []store.ContactWrite{write}
		}))
		if !lock {
			go ingest()
		}
		if who := <-found; who != ada {
			t.Errorf("lock %t: it is %q's", lock, who)
		}
	}
}

// An intent that takes a delivery up while a suppression has its person, and then asks for the person, is not waited for in
// turn: the suppression is done again behind it. So neither is broken off.
// Shows: P5.
func TestSuppressAndAnIntentDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	d := f.scheduled(1, func(_ int, d *delivery.Row) { d.SendAt, d.Slot = now.Add(time.Hour), time.Time{} })[0]
	who, _, err := f.s.ContactByID(t.Context(), f.ws, d.Contact)
	f.must(err)
	in := f.instance("late", instance.Completed)
	late := f.delivery(in, d.Contact)
	sent := make(chan []delivery.Claim, 1)
	begun := false
	stopped, err := f.suppress(who.ExtID, func() { // its deliveries are not locked for good
		if begun {
			return
		}
		begun = true
		storetest.Beside(func() { f.add(store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{late}}) })
		go func() {
			claims, err := claimDue(t.Context(), f.s, now, 10, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
				_, err = tx.LockPersons(now, personsOf(claims), nil)
				return w, err
			})
			if err != nil {
				t.Error(err)
			}
			sent <- claims
		}()
		somebodyWaits(t, db)
	})
	f.must(err)
	if claims := <-sent; len(claims) != 1 || claims[0].ID != late.ID {
		t.Errorf("sent %+v", claims)
	}
	if len(stopped) != 2 {
		t.Errorf("stopped %v, want both", stopped)
	}
	if n := f.s.Deadlocks(); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// Deliveries of a contact that was made for an address move to the contact that claims it. The number of statements does not
// depend on the number of contacts.
func TestClaimsMergeContacts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var spent []int64
		for _, n := range []int{2, 300} {
			var refs []store.RecipientRef
			for i := range n {
				refs = append(refs, person("", fmt.Sprintf("%d@%d", i, n)))
			}
			var w store.OccasionWrites
			f.ingest(ingestRequest{Recipients: refs}, func(s ingestState) (store.OccasionWrites, error) {
				w = store.OccasionWrites{}
				for _, p := range s.Persons {
					in := f.instance(fmt.Sprint(p.ID), instance.Completed)
					w.Instances, w.Deliveries = append(w.Instances, in), append(w.Deliveries, f.delivery(in, p.ID))
				}
				return w, nil
			})
			var ids []string
			var writes []store.ContactWrite
			for i, r := range refs {
				ids = append(ids, fmt.Sprintf("c%d-%d", n, i), r.NewExtID)
				write := store.ContactWrite{Hashes: []string{r.AddressHash}}
				write.ExtID = ids[2*i]
				writes = append(writes, write)
			}
			before := s.Statements()
			f.must(f.writeContacts(ids, func(map[string]subject.ContactRow) []store.ContactWrite { return writes }))
			spent = append(spent, s.Statements()-before)
			for i, d := range w.Deliveries {
				made, err := s.ContactRow(t.Context(), f.ws, refs[i].NewExtID)
				f.must(err)
				claimant, err := s.ContactRow(t.Context(), f.ws, ids[2*i])
				f.must(err)
				if made.Claimant != claimant.ExtID || made.MergedInto != claimant.ID {
					t.Fatalf("%s is merged into %q", made.ExtID, made.Claimant)
				}
				if row := f.row(d.ID); row.Contact != claimant.ID || row.Slot.IsZero() || row.Version != 0 {
					t.Fatalf("%+v is not that of %s", row, claimant.ExtID)
				}
			}
		}
		if spent[0] != spent[1] {
			t.Errorf("statements %v", spent)
		}
	})
}

// A delivery that is made for somebody who is being merged into another one, without their lock, is the other one's when
// it is sent. What they got already stays, and is nobody's.
func TestIntentMergesContacts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		made, survivor := f.contact("addr:x"), f.contact("ada")
		f.exec(`UPDATE cadence SET merged_into = $1 WHERE contact_id = $2`, int64(survivor), int64(made))
		one, two := f.instance("one", instance.Completed), f.instance("two", instance.Completed)
		theirs := f.delivery(two, survivor)
		theirs.SendAt, theirs.Slot = time.Time{}, time.Time{}
		theirs.Status, theirs.CompletedAt = delivery.Cancelled, now
		late, double := f.delivery(one, made), f.delivery(two, made)
		f.add(store.OccasionWrites{Instances: []instance.Row{one, two}, Deliveries: []delivery.Row{theirs, late, double}})
		for _, c := range f.claim(now) {
			want := survivor
			if c.ID == double.ID {
				want = made
			}
			if c.Contact != want || c.Person.ID != want || f.row(c.ID).Contact != want {
				t.Errorf("%s is of %d, by %d", c.Key, c.Contact, c.Person.ID)
			}
		}
		for ref, want := range map[store.RecipientRef]subject.ContactID{
			{ExtID: "addr:x"}: survivor, {ExtID: "addr:x", Lock: true}: survivor, {ID: made, Lock: true}: 0,
		} {
			f.ingest(ingestRequest{Recipients: []store.RecipientRef{ref}}, func(s ingestState) (w store.OccasionWrites, err error) {
				if p := s.Persons[0]; p.Found != (want != 0) || p.Found && p.ID != want {
					t.Errorf("%+v is %d", ref, p.ID)
				}
				return w, nil
			})
		}
	})
}
