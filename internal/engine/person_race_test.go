package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// open is a store of which one transaction stays open until it is released.
type open struct {
	*store.Store
	after         int // transactions that come before it
	done, release chan struct{}
}

func openOf(s *store.Store) *open { return &open{s, 0, make(chan struct{}), make(chan struct{})} }

func (o *open) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	return o.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		if o.after--; o.after >= 0 {
			return nil
		}
		close(o.done)
		<-o.release
		return nil
	})
}

// moveIn writes the zone of a contact through a store of its own.
func (w world) moveIn(s contact.Store, name, zone string) error {
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}, "timezone": %q}`, name, zone)), name)
	writer := contact.New(s, catalog.New(w.Store, enginetest.Options(nil)), func(journal.Entry) {})
	_, err := writer.Write(w.Context(), w.Workspace, upsert.Merge, []contact.Item{item}, w.Clock.Now(), nil)
	return err
}

// A contact's write that is not committed yet when the record is evaluated, for the first time or again: the evaluation that follows the commit reads
// the new zone, whether the contact or the record is new or known.
//
// Shows: R14, R15.
func TestAPersonMovesDuringTheEvaluation(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"to: record", "to: record.patient"} {
		for _, known := range []string{"", "contact", "record", "contact and record"} {
			t.Run(strings.TrimSpace(to+" "+known), func(t *testing.T) {
				t.Parallel()
				s := storetest.Open(t, storetest.URL(t, "postgres"))
				w := newWorld(t, s, strings.Replace(ofPatients("[contact.timezone, Asia/Tokyo]"), "to: record.patient", to, 1))
				w.Clock.Set(on(14, 0, 0))
				if strings.Contains(known, "contact") {
					w.mother("1", "Africa/Nairobi")
				}
				if strings.Contains(known, "record") {
					w.put("paper/1", `{"wanted": true, "patient": "1", "date": "2026-05-16"}`)
				}
				w.follow(on(14, 1, 0))
				o := openOf(s)
				ended := make(chan error, 1)
				go func() { ended <- w.moveIn(o, "1", "Europe/Berlin") }()
				<-o.done
				w.put("paper/1", `{"wanted": true, "patient": "1", "date": "2026-05-17"}`)
				for w.tick() {
				}
				if planned := w.zonesOf(); len(planned) != 1 || strings.HasSuffix(planned[0], "Berlin") {
					t.Errorf("planned before the commit: %q", planned)
				}
				close(o.release)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				w.follow(on(14, 2, 0))
				w.mustBe("the zone", w.zonesOf(), []string{"1 Europe/Berlin"})
			})
		}
	}
}

// The person moves, and the job looks for the records that follow them, before the first evaluation of the record is committed, which has read the old
// zone: the record is evaluated once more.
//
// Shows: R14, R15.
func TestTheRecordsOfAPersonAreLookedForBeforeTheyAreKnown(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	w := newWorld(t, s, ofPatients("contact.timezone"))
	w.Clock.Set(on(14, 0, 0))
	w.mother("1", "Africa/Nairobi")
	w.follow(on(14, 1, 0))
	w.put("paper/1", `{"wanted": true, "patient": "1", "date": "2026-05-16"}`)
	o := openOf(s)
	o.after = 1 // a step returns cooldowns first
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := evaluator.New(o, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}).Step(t.Context(), w.Clock.Now(), 10); err != nil {
			t.Error(err)
		}
	})
	<-o.done
	w.mother("1", "Europe/Berlin")
	if done, _, err := jobs.New(s, related.Jobs(s, 10)).Step(t.Context(), w.Clock.Now()); err != nil || done != 1 {
		t.Errorf("looked for the records of %d people, %v", done, err)
	}
	close(o.release)
	running.Wait()
	w.follow(on(14, 2, 0))
	w.mustBe("the zone", w.zonesOf(), []string{"1 Europe/Berlin"})
}

// waitsForALock waits until a transaction of the database waits for a lock.
func waitsForALock(t *testing.T, db *pgx.Conn) {
	t.Helper()
	waitsFor(t, db, nil, `wait_event_type = 'Lock'`)
}

// waitsForALockOf waits until a transaction of the database waits for a lock that a connection holds. What should wait is over when done is closed.
func waitsForALockOf(t *testing.T, db, holder *pgx.Conn, done <-chan struct{}) {
	t.Helper()
	waitsFor(t, db, done, `$1 = ANY(pg_blocking_pids(pid))`, holder.PgConn().PID())
}

// waitsFor waits until a session of the database meets a condition.
func waitsFor(t *testing.T, db *pgx.Conn, done <-chan struct{}, condition string, args ...any) {
	t.Helper()
	for end := clock.Monotonic(); end() < patience; {
		select {
		case <-done:
			t.Fatal("it did not wait for the lock")
		default:
		}
		var n int
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND `+condition, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing waits for the lock")
}

// A contact is merged into another one while its unsubscribe link is used: the link waits for the survivor too, whose digest may be admitted just then.
//
// Shows: E15.
func TestALinkWaitsForTheSurvivor(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "postgres")
	s, db, sending := storetest.Open(t, url), connect(t, url), connect(t, url)
	w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob")
	ids := map[string]subject.ContactID{}
	for _, who := range []string{"ann", "bob"} {
		w.subscribe(who, "tax", "daily")
		row, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
		if err != nil {
			t.Fatal(err)
		}
		ids[who] = row.ID
	}
	of, err := s.Topic(t.Context(), w.Workspace.ID, "tax")
	if err != nil {
		t.Fatal(err)
	}
	do := func(db *pgx.Conn, statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(db, "BEGIN")
	do(db, "UPDATE cadence SET merged_into = $2 WHERE contact_id = $1", int64(ids["ann"]), int64(ids["bob"]))
	do(sending, "BEGIN")
	do(sending, "UPDATE cadence SET merged_into = 0 WHERE contact_id = $1", int64(ids["bob"]))
	done := make(chan struct{})
	go func() {
		defer close(done)
		left, err := w.Topics().Leave(t.Context(), w.Workspace.ID, topic.Leaving{Contact: ids["ann"], Topic: of.ID}, w.Clock.Now())
		if err != nil || left.Contact.ExtID != "bob" || len(left.Ended) != 1 {
			t.Errorf("%+v, %v", left, err)
		}
	}()
	waitsForALockOf(t, db, db, done)
	do(db, "COMMIT")
	waitsForALockOf(t, db, sending, done)
	do(sending, "COMMIT")
	<-done
	w.mustBe("who follows it", w.followed(), []string{"ann tax daily"})
}

// The transaction that takes a message of a course up makes the next message by the zone that it has read. An evaluation by a newer zone waits for the
// message that is being taken up: it moves the next one, which it could not see before.
//
// Shows: R14, D20.
func TestAnEvaluationWaitsForAMessageOfTheCourse(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "postgres")
	s, db := storetest.Open(t, url), connect(t, url)
	w := newWorld(t, s, strings.Replace(ownCourse(""), "[contact.timezone, record.timezone, Asia/Tokyo]", "record.timezone", 1))
	w.Clock.Set(on(14, 0, 0))
	w.mother("1", "Africa/Nairobi")
	w.put("paper/1", `{"date": "2026-05-16", "wanted": true, "timezone": "Africa/Nairobi"}`)
	w.follow(on(16, 5, 0))
	w.Clock.Set(on(16, 6, 0))
	o := openOf(s)
	var running sync.WaitGroup
	running.Go(func() {
		x := fanout.New(o, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}, nil)
		if n, err := x.Step(t.Context(), w.Clock.Now(), 10); err != nil || n != 1 {
			t.Errorf("took up %d, %v", n, err)
		}
	})
	<-o.done
	w.put("paper/1", `{"timezone": "Europe/Lisbon"}`)
	running.Go(func() {
		if _, err := evaluator.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}).Step(t.Context(), w.Clock.Now(), 10); err != nil {
			t.Error(err)
		}
	})
	waitsForALock(t, db)
	close(o.release)
	running.Wait()
	w.follow(on(16, 7, 0))
	w.mustBe("the next message", w.zonesOf(), []string{"1 Europe/Lisbon"})
}

// People move and records are written while several processes evaluate: at the end every row is in the zone of its person.
//
// Shows: R14, R15.
func TestManyPeopleMoveWhileTheirRecordsAreEvaluated(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people, moves = 12, 60
		zones := []string{"Africa/Nairobi", "Europe/Berlin", "America/New_York", "Asia/Tokyo"}
		w := newWorld(t, s, ofPatients("[contact.timezone, UTC]"))
		now := on(14, 0, 0)
		w.Clock.Set(now)
		homes := make([]string, people)
		var running, moving sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			running.Go(func() {
				c := evaluator.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {})
				for step := 0; ; step++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.Step(context.WithoutCancel(t.Context()), now.Add(time.Duration(step)*time.Microsecond), 5); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for half := range 2 {
			moving.Go(func() {
				for i := range moves / 2 {
					n := half*people/2 + rand.IntN(people/2) //nolint:gosec // any choice will do
					name, zone := fmt.Sprint(n), zones[rand.IntN(len(zones))]
					if i%3 == 0 {
						w.put("paper/"+name, fmt.Sprintf(`{"date": "2026-05-16", "wanted": true, "patient": %q}`, name))
					}
					if err := w.moveIn(s, name, zone); err != nil {
						t.Error(err)
						return
					}
					homes[n] = zone
				}
			})
		}
		moving.Wait()
		close(stop)
		running.Wait()
		w.follow(on(14, 1, 0))
		for _, row := range w.zonesOf() {
			var n int
			var zone string
			if _, err := fmt.Sscan(row, &n, &zone); err != nil {
				t.Fatal(err)
			}
			want := homes[n]
			if want == "" {
				want = "UTC"
			}
			if zone != want {
				t.Errorf("paper %d waits in %s, and its person is in %s", n, zone, want)
			}
		}
	})
}
