package store_test

import (
	"fmt"
	"os"
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
		second := f.claim(first[0].LeaseUntil) // now ≥ lease (decision 29)
		if len(second) != 1 || second[0].Version != 2 || second[0].AttemptNo != 2 || !second[0].LostIntent.Equal(now) {
			t.Fatalf("second claim %+v", second)
		}
		if stale := f.settle(accepted(first[0])); len(stale) != 1 {
			t.Errorf("the first claim's result was taken")
		}
	})
}

func TestIntentMoves(t *testing.T) {
	t.Parallel()
	later := now.Add(time.Hour)
	tests := []struct {
		name string
		move store.IntentMove
		want func(d *delivery.Row) // the claimed row → the row afterwards
		sent bool
	}{
		{
			"deferred",
			store.IntentMove{Status: delivery.Scheduled, SendAt: later, Slot: later, DeferredBy: reason.CadenceDaily, Remaining: 2},
			func(d *delivery.Row) {
				d.SendAt, d.Slot, d.DeferredBy, d.AttemptNo = later, later, reason.CadenceDaily, 0
			}, false,
		},
		{
			"cancelled",
			store.IntentMove{Status: delivery.Cancelled, Reason: reason.Suppressed, Completed: true, Trace: "why"},
			func(d *delivery.Row) {
				d.Status, d.SendAt, d.Slot, d.Reason, d.AttemptNo, d.CompletedAt, d.Trace, d.RemindersRemaining = delivery.Cancelled, time.Time{}, time.Time{}, reason.Suppressed, 0, now, "why", 0
			}, false,
		},
		{
			"a new slot and sent",
			store.IntentMove{Send: true, Status: delivery.Scheduled, SendAt: now, Slot: now.Add(time.Second), AttemptNo: 1, Remaining: 2},
			func(d *delivery.Row) { d.Slot = now.Add(time.Second) }, true,
		},
		{
			"kept back",
			store.IntentMove{Status: delivery.Scheduled, SendAt: now, Slot: now, LeaseUntil: later, Remaining: 2},
			func(d *delivery.Row) { d.LeaseUntil, d.AttemptNo = later, 0 }, false,
		},
		{
			"a step skipped, a reminder planned",
			store.IntentMove{Status: delivery.Sent, SendAt: later, Slot: now, ExpiresAt: later.Add(time.Hour), Step: 2, Remaining: 1},
			func(d *delivery.Row) {
				d.Status, d.SendAt, d.Step, d.RemindersRemaining, d.AttemptNo = delivery.Sent, later, 2, 1, 0
			}, false,
		},
		{
			"parked",
			store.IntentMove{Status: delivery.Scheduled, Slot: now, ExpiresAt: later, Reason: reason.NoChannel, Remaining: 2},
			func(d *delivery.Row) {
				d.SendAt, d.ExpiresAt, d.Reason, d.AttemptNo = time.Time{}, later, reason.NoChannel, 0
			}, false,
		},
	}
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		byID := map[delivery.ID]int{}
		for i, d := range f.scheduled(len(tests), nil) {
			byID[d.ID] = i
		}
		entry := func(c store.Claim) delivery.Attempt {
			return delivery.Attempt{Workspace: c.Workspace, Delivery: c.ID, Step: 1, Channel: c.Channel, SettledAt: now, Outcome: delivery.AttemptNone, Reason: reason.NoChannel}
		}
		want := map[delivery.ID]delivery.Row{}
		sent, err := s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 1000, nil, func(claims []store.Claim, _ bool) ([]store.IntentVerdict, error) {
			verdicts := make([]store.IntentVerdict, len(claims))
			for i, c := range claims {
				test := tests[byID[c.ID]]
				verdicts[i] = store.IntentVerdict{Move: &test.move, Attempts: []delivery.Attempt{entry(c)}}
				row := c.Row
				if !test.sent {
					row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}
				}
				test.want(&row)
				want[c.ID] = row
			}
			return verdicts, nil
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
		if len(sent) != 1 || !tests[byID[sent[0].ID]].sent {
			t.Fatalf("%d to be sent", len(sent))
		}
		if diff := cmp.Diff(want[sent[0].ID], sent[0].Row); diff != "" {
			t.Errorf("returned (-want +got)\n%s", diff)
		}
	})
}

func TestIntentAsksAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(3, nil)
		other := f.scheduled(1, nil)[0]
		var rounds []string
		claims, err := s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 1000, nil, func(claims []store.Claim, locked bool) ([]store.IntentVerdict, error) {
			rounds = append(rounds, fmt.Sprint(len(claims), locked))
			verdicts := make([]store.IntentVerdict, len(claims))
			for i, c := range claims {
				if c.Person.Locked != locked {
					t.Errorf("person locked %v in round locked %v", c.Person.Locked, locked)
				}
				want := []store.Slot{{At: now, Type: "survey", Channel: "sms:twilio", N: 3, Waits: true}} // its own included, and claimed here
				if diff := cmp.Diff(want, c.Person.Slots); locked && diff != "" {
					t.Errorf("slots (-want +got)\n%s", diff)
				}
				verdicts[i].NeedLock = !locked && c.ID != other.ID
			}
			return verdicts, nil
		})
		f.must(err)
		if diff := cmp.Diff([]string{"4 false", "3 true"}, rounds); diff != "" || len(claims) != 4 {
			t.Errorf("%d claims, rounds (-want +got)\n%s", len(claims), diff)
		}
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
				claims, err := s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 7, nil, send)
				if err != nil || len(claims) == 0 {
					return err
				}
				list := make([]store.Settlement, len(claims))
				mu.Lock()
				for i, c := range claims {
					claimed[c.ID]++
					list[i] = accepted(c)
				}
				mu.Unlock()
				if stale, err := s.Settle(t.Context(), now, list); err != nil || len(stale) > 0 {
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
		tests := []struct {
			name     string
			verdicts []store.IntentVerdict
			err      error
			want     error
		}{
			{"the decision fails", nil, errBroken, errBroken},
			{"no verdict", nil, nil, store.ErrInvalid},
			{"C27 a final status that would be sent", []store.IntentVerdict{{Move: &store.IntentMove{Status: delivery.Failed, SendAt: now}}}, nil, store.ErrInvalid},
		}
		for _, test := range tests {
			_, err := s.CommitIntents(t.Context(), now, now.Add(time.Minute), 10, nil, func([]store.Claim, bool) ([]store.IntentVerdict, error) { return test.verdicts, test.err })
			f.mustBe(err, test.want)
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
	claims, err := s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 10, nil, func(claims []store.Claim, again bool) ([]store.IntentVerdict, error) {
		asked = append(asked, len(claims))
		return send(claims, again)
	})
	f.must(err)
	if len(claims) > 0 {
		t.Errorf("%d are sent whose intents were not written", len(claims))
	}
	if diff := cmp.Diff([]int{3, 0}, asked); diff != "" {
		t.Errorf("tries (-want +got)\n%s", diff)
	}
}

// An intent that has locked one person, and after another look asks for one who comes before them, gives the first one back
// and takes both in order: it does not wait for somebody who waits for it.
func TestIntentLocksPeopleInOrder(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") || os.Getenv(storetest.EnvPooler) != "" {
		t.Skip("PostgreSQL is not selected, or its locks are seen through a pooler")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	one, two := f.scheduled(1, nil)[0], f.scheduled(1, nil)[0]
	names := make([]string, 2)
	for i, d := range []delivery.Row{one, two} {
		who, _, err := f.s.ContactByID(t.Context(), f.ws, d.Contact)
		f.must(err)
		names[i] = who.ExtID
	}
	done := make(chan error, 1)
	var started bool
	claims, err := f.s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 10, nil, func(claims []store.Claim, _ bool) ([]store.IntentVerdict, error) {
		verdicts := make([]store.IntentVerdict, len(claims))
		for i, c := range claims {
			switch first := c.Contact == one.Contact; {
			case c.Person.Locked:
			case first && !c.Person.SlotsRead:
				verdicts[i].NeedSlots = true
			default:
				verdicts[i].NeedLock = true
			}
			if c.Contact == two.Contact && c.Person.Locked && !started {
				started = true
				go func() {
					done <- f.s.WriteContacts(t.Context(), f.ws, now, names, func(map[string]store.ContactRow) ([]store.ContactWrite, error) { return nil, nil }, nil)
				}()
				somebodyWaits(t, db)
			}
		}
		return verdicts, nil
	})
	f.must(err)
	f.must(<-done)
	if len(claims) != 2 || !claims[0].Person.Locked || !claims[1].Person.Locked {
		t.Errorf("%d claims", len(claims))
	}
	if n := f.s.Deadlocks(); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}
