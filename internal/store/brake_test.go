package store_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Two processes count the sends of a workflow one after the other: none is lost, and what one has counted the other one sees.
func TestSendsAreCountedByAllProcesses(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const deliveries = 60
			url := storetest.URL(t, database)
			stores := [2]*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
			f := setup(t, stores[0])
			f.scheduled(deliveries, func(int, *delivery.Row) {})
			ref := delivery.WorkflowRef{Workspace: f.ws, Workflow: "w"}
			race(t, 4, func(n int) error {
				for {
					claims, err := claimDue(t.Context(), stores[n%2], now, 7, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
						if w.Sends, err = tx.LockSends([]delivery.WorkflowRef{ref, ref}); err != nil {
							return w, err
						}
						for i := range claims {
							w.Sends[ref] = w.Sends[ref].Add(now.Add(time.Duration(n+i) * time.Minute))
						}
						return w, nil
					})
					if err != nil || len(claims) == 0 {
						return err
					}
				}
			})
			f.must(f.s.Write(t.Context(), func(tx *store.Tx) error {
				sends, err := tx.LockSends([]delivery.WorkflowRef{ref})
				if got := sends[ref].Within(now); got != deliveries {
					t.Errorf("%d sends: %v", got, sends)
				}
				return err
			}))
		})
	}
}

// A workflow that is too fast is paused with its cause, one of the same name in another workspace is not, and the pause of a person stays theirs. A resume
// forgets what was counted; to resume what is not paused does not.
func TestTooFast(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		mine, theirs := delivery.WorkflowRef{Workspace: f.ws, Workflow: "w"}, delivery.WorkflowRef{Workspace: other.ID, Workflow: "w"}
		save := func(w store.ClaimWrites) {
			t.Helper()
			f.must(s.WriteClaiming(t.Context(), func(tx *store.Tx) error {
				if _, err := tx.LockSends([]delivery.WorkflowRef{theirs, mine}); err != nil {
					return err
				}
				return tx.SaveClaims(now, w)
			}))
		}
		within := func(ref delivery.WorkflowRef) (n int) {
			t.Helper()
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				sends, err := tx.LockSends([]delivery.WorkflowRef{ref})
				n = sends[ref].Within(now)
				return err
			}))
			return n
		}
		pauses := func() []store.Pause {
			t.Helper()
			list, err := s.Pauses(t.Context(), f.ws)
			f.must(err)
			return list
		}
		save(store.ClaimWrites{Sends: map[delivery.WorkflowRef]flow.Sends{mine: flow.Sends{}.Add(now), theirs: flow.Sends{}.Add(now).Add(now)}})
		if within(mine) != 1 || within(theirs) != 2 {
			t.Errorf("%d and %d", within(mine), within(theirs))
		}
		if was, err := f.resume("w"); was || err != nil || within(mine) != 1 {
			t.Errorf("resumed what is not paused: %t, %v, %d", was, err, within(mine))
		}
		tooFast := store.ClaimWrites{TooFast: []store.TooFast{{WorkflowRef: mine, Why: "much", Detail: []byte(`{}`)}}}
		save(tooFast)
		if list := pauses(); len(list) != 1 || list[0].Cause != reason.TooFast || list[0].Why != "much" || list[0].Actor != store.Program || !list[0].PausedAt.Equal(now) {
			t.Errorf("paused %+v", list)
		}
		if list, err := s.Pauses(t.Context(), other.ID); err != nil || len(list) > 0 {
			t.Errorf("the other workspace: %+v, %v", list, err)
		}
		if was, err := f.resume("w"); !was || err != nil || within(mine) != 0 || within(theirs) != 2 {
			t.Errorf("resumed: %t, %v, %d and %d", was, err, within(mine), within(theirs))
		}
		save(tooFast) // it was resumed, and its parked rows are not taken up yet
		if list := pauses(); len(list) != 1 || !list[0].ResumedAt.IsZero() || list[0].Cause != reason.TooFast {
			t.Errorf("paused again %+v", list)
		}
		_, err = f.resume("w")
		f.must(err)
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			r, err := tx.NextResumed()
			if err != nil || r == nil {
				return err
			}
			return tx.DeletePause(*r)
		}))
		f.pause("w")
		save(tooFast)
		if list := pauses(); len(list) != 1 || list[0].Cause != "" || list[0].Actor != "ops" {
			t.Errorf("of a person: %+v", list)
		}
		log, err := s.AuditLog(t.Context(), f.ws, store.Page{})
		if err != nil || len(log) != 2 || log[0].Action != "pause" || log[0].Actor != store.Program || log[0].Target != "w" {
			t.Errorf("audit %+v, %v", log, err)
		}
	})
}

// What an occasion has taken up is the sum of its rows, and one row that a person has released releases them all.
func TestTakenUp(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		row := func(key string, head instance.ID, n int) instance.Row {
			in := f.instance(key, instance.Pending)
			in.Head, in.Recipients = head, n
			return in
		}
		first, second := row("first", 0, 1), row("second", 0, 5)
		berlin, rome := row("first@berlin", first.ID, 20), row("first@rome", first.ID, 300)
		f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
			return store.OccasionWrites{Instances: []instance.Row{first, second, berlin, rome}}, nil
		})
		read := func() map[instance.ID]store.TakenUp {
			t.Helper()
			by := map[instance.ID]store.TakenUp{}
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				found, err := tx.LockTakenUp([]store.OccasionRef{{f.ws, second.ID}, {f.ws, first.ID}, {f.ws, first.ID}, {other.ID, first.ID}})
				for _, u := range found {
					by[u.ID] = u
				}
				if len(found) != 2 {
					t.Errorf("%+v", found)
				}
				return err
			}))
			return by
		}
		if by := read(); by[first.ID].Recipients != 321 || by[second.ID].Recipients != 5 || by[first.ID].Unbraked || by[second.ID].Unbraked {
			t.Errorf("%+v", by)
		}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			in, err := tx.LockInstance(f.ws, rome.ID)
			if err != nil {
				return err
			}
			is := in
			is.UnbrakedAt = now
			return tx.UpdateInstance(now, in, is)
		}))
		if by := read(); !by[first.ID].Unbraked || by[second.ID].Unbraked {
			t.Errorf("released: %+v", by)
		}
	})
}
