package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/pgtest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.Memory(t)
	f := fixture{TB: t, s: s}
	tries := 0
	f.mustBe(s.Write(t.Context(), func(*store.Tx) error { tries++; return store.ErrAgain }), store.ErrConflict)
	if tries != store.MaxTries {
		t.Errorf("%d tries, want %d", tries, store.MaxTries)
	}
	tries = 0
	f.mustBe(s.Write(t.Context(), func(*store.Tx) error { tries++; return errBroken }), errBroken)
	if tries != 1 {
		t.Errorf("%d tries of what is broken", tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries = 0
	if err := s.Write(ctx, func(*store.Tx) error { tries++; cancel(); return store.ErrAgain }); err == nil || tries != 1 {
		t.Errorf("%d tries after the end: %v", tries, err)
	}
}

// A cancelled call writes nothing and breaks nothing, and a database in memory keeps its rows.
func TestCancelledCallsLeaveNothing(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("before", instance.Completed)}})
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			err := ingest(ctx, s, f.ws, ingestRequest{Recipients: []store.RecipientRef{person("c-1", "")}}, func(ingestState) (store.OccasionWrites, error) {
				cancel()
				return store.OccasionWrites{Instances: []instance.Row{f.instance("cancelled", instance.Completed)}}, nil
			})
			f.mustBe(err, context.Canceled)
			cancelled, stop := context.WithCancel(t.Context())
			stop()
			if _, err := s.Instances(cancelled, f.ws, store.InstanceFilter{}, store.Page{}); !errors.Is(err, context.Canceled) {
				t.Errorf("a read of a caller that is gone: %v", err)
			}
		}
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("after", instance.Completed)}})
		rows, err := s.Instances(t.Context(), f.ws, store.InstanceFilter{}, store.Page{})
		f.must(err)
		if len(rows) != 2 || rows[0].Key != "after" || rows[1].Key != "before" {
			t.Errorf("%d instances", len(rows))
		}
	})
}

// A commit does not end when its caller's context does, and returns its result. Otherwise it could leave open intents that no
// worker knows of.
//
// Shows: P4.
func TestCommitIsNotBrokenOff(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	f := fixture{TB: t, s: s}
	for _, statement := range []string{
		`CREATE TABLE slow (id bigint)`,
		`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(1); RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`,
	} {
		_, err := s.Exec(t.Context(), statement)
		f.must(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, `INSERT INTO slow VALUES (1)`)
		over <- err
	}()
	const committing = `SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
	for inCommit := false; !inCommit; {
		found, err := s.Strings(t.Context(), committing)
		f.must(err)
		inCommit = len(found) == 1 && found[0] == "COMMIT"
	}
	cancel()
	f.must(<-over)
	rows, err := s.Strings(t.Context(), `SELECT id::text FROM slow`)
	f.must(err)
	if len(rows) != 1 {
		t.Errorf("%d rows are there", len(rows))
	}
}

// A deadlock runs again: a transaction that has locked a person waits for an instance, and a fan-out that has locked the instance
// waits for the person.
func TestDeadlocksAreDoneAgain(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		if database == "sqlite" {
			continue // one writer: nothing to wait for
		}
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t, storetest.URL(t, database))
			f := setup(t, s)
			in := f.instance("k:1", instance.Pending)
			f.contact("c-1")
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
			ref := person("c-1", "")
			ref.Lock = true
			personHeld, instanceHeld := make(chan struct{}), make(chan struct{})
			once := func(c chan struct{}) {
				select {
				case <-c:
				default:
					close(c)
				}
			}
			tries := make(chan string, 10)
			race(t, 2, func(n int) error {
				if n == 0 {
					return s.Write(t.Context(), func(tx *store.Tx) error {
						if _, err := tx.Recipients(f.ws, now, []store.RecipientRef{ref}, nil, false); err != nil {
							return err
						}
						tries <- "hold"
						once(personHeld)
						<-instanceHeld
						return tx.HoldInstance(f.ws, in.ID)
					})
				}
				<-personHeld
				_, err := f.fanOut(now, dueAt(now, 10), func(int, store.DueInstance) store.Audience {
					tries <- "expand"
					once(instanceHeld)
					return store.Audience{Refs: []store.RecipientRef{ref}}
				}, complete)
				return err
			})
			got, err := s.InstanceByID(t.Context(), f.ws, in.ID)
			f.must(err)
			if !got.Held() {
				t.Errorf("not held: %+v", got)
			}
			if len(tries) < 2 || len(tries) == 2 && got.Status == instance.Completed {
				t.Errorf("%d tries: they did not meet", len(tries))
			}
		})
	}
}

// Two processes on one database: each passes over the rows that the other one has claimed, and takes up rows whose lease has
// run out.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const deliveries = 120
			url := storetest.URL(t, database)
			stores := [2]*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
			f := setup(t, stores[0])
			f.scheduled(deliveries, nil)
			frozen := f.claim(now)[:7]
			f.must(release(t.Context(), stores[0], time.Time{}, f.claim(now.Add(30*time.Second))...)) // everything again, a lease later
			race(t, 4, func(n int) error {
				s := stores[n%2]
				for {
					claims, err := claimDue(t.Context(), s, now, 10, nil)
					if err != nil || len(claims) == 0 {
						return err
					}
					var list []settlement
					for _, c := range claims {
						list = append(list, accepted(c))
					}
					if stale, err := settle(t.Context(), s, list...); err != nil || len(stale) > 0 {
						return errors.Join(err, errors.New("stale"))
					}
				}
			})
			var late []settlement
			for _, c := range frozen {
				late = append(late, refused(c))
			}
			if stale := f.settle(late...); len(stale) != len(late) {
				t.Errorf("%d of %d late results refused", len(stale), len(late))
			}
			counts, err := stores[1].Counts(t.Context(), f.ws)
			if err != nil || counts.DeliveriesByStatus[delivery.Sent] != deliveries {
				t.Errorf("%+v %v", counts, err)
			}
		})
	}
}

func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, "\x00\x1f", "é\u2028<&>", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // refused before
		}
		var got string
		if err := json.Unmarshal(store.AppendJSON(nil, s), &got); err != nil || got != s {
			t.Errorf("%q came back as %q, %v", s, got, err)
		}
	})
}

func FuzzParseSlots(f *testing.F) {
	for _, s := range []string{"", "1 survey sms:x", "2 a b;1 a b;1 a b", "1 a", "x a b", ";", "9223372036854775808 a b", "0  ;0  ;0   0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		slots, err := store.ParseSlots(s)
		if err != nil {
			return
		}
		n := 0
		for i, slot := range slots {
			n += slot.N
			if i > 0 && !slots[i-1].At.Before(slot.At) && slots[i-1].Type == slot.Type && slots[i-1].Channel == slot.Channel && slots[i-1].Waits == slot.Waits {
				t.Errorf("slot %d of %q is listed twice", i, s)
			}
		}
		if want := strings.Count(s, ";") + 1; s != "" && n != want {
			t.Errorf("%d slots in %q, want %d", n, s, want)
		}
	})
}

// A restart of the server ends the pool's connections; callers see no error.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		if database == "sqlite" {
			continue // no server
		}
		server, err := pgtest.Start(t.Context(), pgtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		url, err := server.Create(t.Context(), pgtest.Template{})
		if err != nil {
			t.Fatal(err)
		}
		s := storetest.Open(t, url)
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := setup(t, s)
		race(t, 8, func(int) error { return s.Ping(t.Context()) }) // fills the pool
		f.must(server.Crash(t.Context()))
		if err := s.Ping(t.Context()); err == nil {
			t.Error("a server that is gone answers")
		}
		f.must(server.Resume(t.Context()))
		f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("k:1", instance.Completed)}})
		race(t, 16, func(int) error { _, err := s.Counts(t.Context(), f.ws); return err })
	}
}
