package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Shows: C18, C27.
func TestClaimTakesWhatIsDueInItsOrder(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		want := []string{"slot 3 h ago", "before 1970", "2 h ago", "opened", "now"}
		changes := map[string]func(d *delivery.Row){
			"now":          func(*delivery.Row) {},
			"2 h ago":      func(d *delivery.Row) { d.SendAt, d.Slot, d.Status = now.Add(-2*time.Hour), time.Time{}, delivery.Sent },
			"opened":       func(d *delivery.Row) { d.SendAt, d.Slot, d.Status = now.Add(-time.Hour), time.Time{}, delivery.Opened },
			"slot 3 h ago": func(d *delivery.Row) { d.Slot = now.Add(-3 * time.Hour) },
			"later":        func(d *delivery.Row) { d.SendAt = now.Add(time.Microsecond) },
			"leased":       func(d *delivery.Row) { d.LeaseUntil = now.Add(time.Microsecond) },
			"before 1970": func(d *delivery.Row) {
				d.SendAt, d.Slot = time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC), now.Add(-150*time.Minute)
			},
		}
		for _, status := range delivery.Statuses() {
			if status != delivery.Scheduled && status != delivery.Sent && status != delivery.Opened {
				changes[string(status)] = func(d *delivery.Row) { d.Status, d.SendAt = status, time.Time{} }
			}
			changes["unplanned "+string(status)] = func(d *delivery.Row) { d.Status, d.SendAt = status, time.Time{} }
		}
		for name, change := range changes {
			f.scheduled(1, func(_ int, d *delivery.Row) { d.Key = name; change(d) })
		}
		claims := f.claim(now)
		var got []string
		for _, c := range claims {
			got = append(got, c.Key)
			row := f.row(c.ID)
			if diff := cmp.Diff(row, c.Row); diff != "" {
				t.Errorf("%s: stored and claimed differ (-stored +claimed)\n%s", c.Key, diff)
			}
			if !c.LeaseUntil.Equal(now.Add(30*time.Second)) || c.Version != 1 || c.AttemptNo != 1 || !c.IntentAt.Equal(now) || !c.LostIntent.IsZero() {
				t.Errorf("%s: %+v", c.Key, c.Row)
			}
			if !c.Person.Found || c.Person.Locked || c.Person.ID != c.Contact {
				t.Errorf("%s: person %+v", c.Key, c.Person)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if again := f.claim(now); len(again) != 0 {
			t.Errorf("%d claimed twice", len(again))
		}
	})
}

func TestClaimOfALostIntent(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		first := f.claim(now)
		if early := f.claim(first[0].LeaseUntil.Add(-time.Microsecond)); len(early) != 0 {
			t.Errorf("claimed under a running lease")
		}
		second := f.claim(first[0].LeaseUntil) // now ≥ lease (product decision 29)
		if len(second) != 1 || second[0].Version != 2 || second[0].AttemptNo != 2 || !second[0].LostIntent.Equal(now) {
			t.Fatalf("second claim %+v", second)
		}
		if stale := f.settle(accepted(first[0])); len(stale) != 1 {
			t.Errorf("the first claim's result was taken")
		}
	})
}

func TestSaveClaims(t *testing.T) {
	t.Parallel()
	later := now.Add(time.Hour)
	unsent := func(d *delivery.Row) { d.LeaseUntil, d.IntentAt, d.AttemptNo = time.Time{}, time.Time{}, 0 }
	tests := []struct {
		name   string
		change func(d *delivery.Row)
	}{
		{"deferred", func(d *delivery.Row) { unsent(d); d.SendAt, d.Slot, d.DeferredBy = later, later, reason.CadenceDaily }},
		{"cancelled", func(d *delivery.Row) {
			unsent(d)
			d.Status, d.SendAt, d.Slot, d.Reason, d.CompletedAt, d.Trace, d.RemindersRemaining = delivery.Cancelled, time.Time{}, time.Time{}, reason.Suppressed, now, "why", 0
		}},
		{"a new slot and sent", func(d *delivery.Row) { d.Slot = now.Add(time.Second) }},
		{"kept back", func(d *delivery.Row) { unsent(d); d.LeaseUntil = later }},
		{"a step skipped, a reminder planned", func(d *delivery.Row) {
			unsent(d)
			d.Status, d.SendAt, d.Step, d.RemindersRemaining = delivery.Sent, later, 2, 1
		}},
		{"without a channel", func(d *delivery.Row) {
			unsent(d)
			d.SendAt, d.Hold, d.ExpiresAt, d.Reason = time.Time{}, delivery.HoldNoChannel, later, reason.NoChannel
		}},
		{"delayed by its channel", func(d *delivery.Row) {
			unsent(d)
			d.SendAt, d.DueAt, d.EligibleAt, d.UnknownSince, d.Address, d.Fold, d.FoldedInto = later, now, now, now, "new@example.com", delivery.FoldHead, d.ID
		}},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		byID := map[delivery.ID]int{}
		for i, d := range f.scheduled(len(tests), nil) {
			byID[d.ID] = i
		}
		want := map[delivery.ID]delivery.Row{}
		_, err := claimDue(t.Context(), s, now, 1000, func(_ *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
			for _, c := range claims {
				tests[byID[c.ID]].change(&c.Row)
				want[c.ID] = c.Row
				w.Claims = append(w.Claims, c.Row)
				w.Attempts = append(w.Attempts, delivery.Attempt{
					Workspace: c.Workspace, Delivery: c.ID, Step: 1, Channel: c.Channel, SettledAt: now, Outcome: delivery.AttemptNone, Reason: reason.NoChannel,
				})
			}
			return w, nil
		})
		f.must(err)
		for id, i := range byID {
			if diff := cmp.Diff(want[id], f.row(id)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tests[i].name, diff)
			}
			attempts, err := s.Attempts(t.Context(), f.ws, id)
			if err != nil || len(attempts) != 1 || attempts[0].Reason != reason.NoChannel {
				t.Errorf("%s: attempts %+v %v", tests[i].name, attempts, err)
			}
		}
	})
}

func TestPersonsOfClaims(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		mine := f.scheduled(3, nil)[0].Contact
		f.scheduled(1, nil)
		_, err := claimDue(t.Context(), s, now, 1000, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
			me := delivery.PersonRef{Workspace: f.ws, ID: mine}
			read := map[delivery.PersonRef]delivery.Person{}
			for _, c := range claims {
				if c.Person.Locked || c.Person.SlotsRead {
					t.Errorf("claimed with %+v", c.Person)
				}
				if c.Contact == mine {
					read[me] = c.Person
				}
			}
			if err := tx.ReadSlots(now, read, nil); err != nil {
				return w, err
			}
			locked, err := tx.LockPersons(now, []delivery.PersonRef{me, me}, nil)
			want := []delivery.Slot{{At: now, Type: "survey", Channel: "sms:twilio", N: 3, Waits: true}} // its own included, and claimed here
			for _, persons := range []map[delivery.PersonRef]delivery.Person{read, locked} {
				if diff := cmp.Diff(want, persons[me].Slots); len(persons) != 1 || !persons[me].SlotsRead || diff != "" {
					t.Errorf("%d persons, slots (-want +got)\n%s", len(persons), diff)
				}
			}
			if read[me].Locked || !locked[me].Locked {
				t.Errorf("read %t, locked %t", read[me].Locked, locked[me].Locked)
			}
			return w, err
		})
		f.must(err)
	})
}

// Shows: B25.
func TestRacingSendersClaimEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		const deliveries = 200
		f := setup(t, s)
		f.scheduled(deliveries, nil)
		var mu sync.Mutex
		claimed := map[delivery.ID]int{}
		race(t, 8, func(int) error {
			for {
				claims, err := claimDue(t.Context(), s, now, 7, nil)
				if err != nil || len(claims) == 0 {
					return err
				}
				list := make([]settlement, len(claims))
				mu.Lock()
				for i, c := range claims {
					claimed[c.ID]++
					list[i] = accepted(c)
				}
				mu.Unlock()
				if stale, err := settle(t.Context(), s, list...); err != nil || len(stale) > 0 {
					return fmt.Errorf("%d stale: %w", len(stale), err)
				}
			}
		})
		counts, err := s.Counts(t.Context(), f.ws)
		f.must(err)
		if len(claimed) != deliveries || counts.DeliveriesByStatus[delivery.Sent] != deliveries {
			t.Errorf("%d claimed, %+v, want %d", len(claimed), counts, deliveries)
		}
	})
}

func TestIntentErrorsRollBack(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		before := f.scheduled(1, nil)[0]
		decisions := map[error]func(*store.Tx, []delivery.Claim) (store.ClaimWrites, error){
			errBroken: func(*store.Tx, []delivery.Claim) (w store.ClaimWrites, err error) { return w, errBroken },
			store.ErrInvalid: func(_ *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) { // C27: a final status that would be sent
				claims[0].Status = delivery.Failed
				w.Claims = append(w.Claims, claims[0].Row)
				return w, nil
			},
		}
		for want, decide := range decisions {
			_, err := claimDue(t.Context(), s, now, 10, decide)
			f.mustBe(err, want)
		}
		if diff := cmp.Diff(before, f.row(before.ID)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// When the commit of intents has failed, and at the next try others have the deliveries, nothing is sent: what the try
// before it decided was never written.
//
// Shows: P3.
func TestIntentsThatWereNotCommittedAreNotSent(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres")) // SQLite has no commit that fails and may be done again
	f := setup(t, s)
	f.scheduled(3, nil)
	for _, statement := range []string{
		`CREATE SEQUENCE failed`, // counts although its transaction is undone
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM nextval('failed'); RAISE EXCEPTION 'do it again' USING ERRCODE = 'serialization_failure'; END $$`,
		`CREATE CONSTRAINT TRIGGER fail AFTER UPDATE ON delivery DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`,
		`CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT is_called FROM failed) THEN RETURN NULL; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER taken BEFORE UPDATE ON delivery FOR EACH ROW EXECUTE FUNCTION taken()`,
	} {
		_, err := s.Exec(t.Context(), statement)
		f.must(err)
	}
	var asked []int
	claims, err := claimDue(t.Context(), s, now, 10, func(_ *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
		asked = append(asked, len(claims))
		return w, nil
	})
	f.must(err)
	if len(claims) > 0 {
		t.Errorf("%d are sent whose intents were not written", len(claims))
	}
	if diff := cmp.Diff([]int{3, 0}, asked); diff != "" {
		t.Errorf("tries (-want +got)\n%s", diff)
	}
}

// Persons are locked in one order. A transaction that later needs a person who comes earlier in it gets ErrAgain, and runs again.
func TestPersonsAreLockedInOrder(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for range 3 {
			f.scheduled(1, nil)
		}
		_, err := claimDue(t.Context(), s, now, 10, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
			refs := slices.SortedFunc(slices.Values(personsOf(claims)), func(a, b delivery.PersonRef) int { return int(a.ID - b.ID) })
			if !tx.MayLock(refs) {
				t.Error("the first may not be locked")
			}
			_, err = tx.LockPersons(now, refs[1:2], nil)
			if tx.MayLock(refs[:1]) != (s.Dialect() == "sqlite") || !tx.MayLock(refs[2:]) {
				t.Errorf("after the second, the first may be locked: %t, the third: %t", tx.MayLock(refs[:1]), tx.MayLock(refs[2:]))
			}
			return w, err
		})
		f.must(err)
	})
}
