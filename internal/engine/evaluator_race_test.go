package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// Eight processes evaluate many records of one context at once, each with its own clock: the context fires once a cooldown.
// Shows: A5, A11.
func TestOneFiringHoweverManyEvaluate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h, per: []}\n", ""), "alice")
		var mu sync.Mutex
		var fired []time.Time
		note := func(e journal.Entry) {
			mu.Lock()
			defer mu.Unlock()
			if e.What == journal.Created {
				fired = append(fired, e.At)
			}
		}
		for round := range 3 {
			now := ten.Add(time.Duration(round) * 61 * time.Minute)
			w.Clock.Set(now)
			items := make([]record.Item, 200)
			for i := range items {
				items[i] = record.Item{Type: "team", ID: fmt.Sprint(i), Props: map[string]any{"name": "A", "morale": 10 - round, "owner_id": "alice"}}
			}
			if _, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items, "test", now, nil); err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			for n := range 8 {
				running.Go(func() {
					c := evaluator.New(s, catalog.New(s, loader.Options{}), note)
					for step := 1; ; step++ { // a clock that differs from the others' at every step
						r, err := c.Step(t.Context(), now.Add(time.Duration(8*step+n)*time.Millisecond), 7)
						if err != nil {
							t.Error(err)
						}
						if err != nil || r.Evaluated == 0 {
							return
						}
					}
				})
			}
			running.Wait()
		}
		bursts := map[time.Time]int{} // records of one pass are reported at once
		for _, at := range fired {
			bursts[at]++
		}
		if len(bursts) != 3 {
			t.Errorf("the context fired at %d instants, want 3: %v", len(bursts), bursts)
		}
	})
}

var errCrash = errors.New("the process is gone")

// crashing is a store whose evaluations end before they are committed. A step refunds cooldowns first, in a transaction of its own.
type crashing struct {
	*store.Store
	passed bool // the refunds are done
}

func (c *crashing) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	return c.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil || !c.passed {
			c.passed = c.passed || err == nil
			return err
		}
		return errCrash
	})
}

// undone is a store whose first evaluation is rolled back and repeated after meanwhile.
type undone struct {
	crashing
	meanwhile func()
}

func (u *undone) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	if err := u.crashing.WriteHoldingDefinitions(ctx, work); !errors.Is(err, errCrash) {
		return err
	}
	u.meanwhile()
	return u.Store.WriteHoldingDefinitions(ctx, work)
}

// A decision of a try that was not committed is not reported, as when another process has evaluated the record meanwhile.
func TestAnUncommittedEvaluationReportsNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h}\n", ""), "alice")
		w.put("team/a", `{"name": "A", "morale": 40, "owner_id": "alice"}`)
		reported := 0
		other := func() {
			r, err := evaluator.New(s, catalog.New(s, loader.Options{}), nil).Step(t.Context(), w.Clock.Now(), 10)
			if err != nil || r.Evaluated != 1 {
				t.Errorf("the other process: %+v, %v", r, err)
			}
		}
		c := evaluator.New(&undone{crashing{Store: s}, other}, catalog.New(s, loader.Options{}), func(journal.Entry) { reported++ })
		if _, err := c.Step(t.Context(), w.Clock.Now(), 10); err != nil {
			t.Fatal(err)
		}
		if reported != 0 {
			t.Errorf("%d lines report an undone try", reported)
		}
	})
}

// A process that ends during an evaluation leaves the mark: the next one finds everything unchanged. Shows: A5.
func TestACrashLeavesTheMark(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h}\n", ""), "alice")
		w.put("team/a", `{"name": "A", "morale": 40, "owner_id": "alice"}`)
		c := evaluator.New(&crashing{Store: s}, catalog.New(s, loader.Options{}), nil)
		if _, err := c.Step(t.Context(), w.Clock.Now(), 10); !errors.Is(err, errCrash) {
			t.Fatalf("error %v", err)
		}
		if row, err := s.Record(t.Context(), w.Workspace.ID, subject.RecordRef{Type: "team", ExtID: "a"}); err != nil || !row.EvaluateAt.Equal(ten) || row.State != "" {
			t.Errorf("%+v, %v", row, err)
		}
		w.live("10:01")
		w.mustBe("after it", w.happened(journal.Created, journal.Sent), []string{"10:00 created t:a", "10:00 sent alice delivered"})
	})
}

// A large audience is expanded in chunks, and a crash between two of them loses nobody and duplicates nobody. Contacts that are named beside the
// persona belong to the first chunk.
func TestALargeAudience(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people = 1203
		w := newWorld(t, s, strings.Replace(simple("[change]", "    cooldown: {length: 1m}\n", ""), "- to: record.owner_id",
			"- to: record.owner_id\n  - persona: Manager\n    where: contact.attributes.skip != true\n  - persona: Other", 1)+"---\npersona: Other\ncadence: {max_per_month: 10000}\n")
		var items []contact.Item
		for i := range people {
			persona := []string{"Manager", "Other"}[i%2]
			items = append(items, contact.Parse([]byte(fmt.Sprintf(`{"persona": %q, "addresses": {"inbox": "p%d"}, "attributes": {"skip": %t}}`, persona, i, i%10 == 0)), fmt.Sprint("p", i)))
		}
		for from := 0; from < people; from += 1000 {
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items[from:min(from+1000, people)], w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.person("owner", `"persona": "Manager"`)
		w.put("team/a", `{"name": "A", "morale": 40, "owner_id": "owner"}`)
		w.evaluateOnly()
		instances, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{})
		if err != nil || len(instances) != 1 || instances[0].Status != instance.Pending || instances[0].ExpandCursor == 0 {
			t.Fatalf("after the first chunk: %+v, %v", instances, err)
		}
		// During the fan-out the context does not fire again, although the cooldown is over.
		w.Clock.Set(at("10:02"))
		w.put("team/a", `{"morale": 39}`)
		w.evaluateOnly()
		w.live("10:02:30")
		counts, err := s.Counts(t.Context(), w.Workspace.ID)
		skipped := (people + 9) / 10
		if want := int64(people - skipped + 1); err != nil || counts.DeliveriesByStatus[delivery.Sent] != want || counts.InstancesByStatus[instance.Completed] != 1 {
			t.Errorf("%+v, %v; want %d sent", counts, err, want)
		}
		if got := len(w.Provider.Sent()); got != people-skipped+1 {
			t.Errorf("%d messages", got)
		}
	})
}

// crashingChunks is a store whose chunks end before they are committed.
type crashingChunks struct{ *store.Store }

func (c crashingChunks) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	return c.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		return errCrash
	})
}

// A process that ends between two chunks of a large audience, or within one, leaves the rest to the next one: everybody is notified once.
//
// Shows: A5, P1, P2.
func TestACrashBetweenChunks(t *testing.T) {
	t.Parallel()
	const people = 1203
	for name, crash := range map[string]func(t *testing.T, w world){
		"before the commit of a chunk": func(t *testing.T, w world) {
			t.Helper()
			x := fanout.New(crashingChunks{w.Store}, catalog.New(w.Store, loader.Options{}), nil, nil)
			if _, err := x.Step(t.Context(), w.Clock.Now(), 10); !errors.Is(err, errCrash) {
				t.Fatalf("error %v", err)
			}
		},
		"after it": func(t *testing.T, w world) {
			t.Helper()
			if _, err := w.Tick(t.Context()); !errors.Is(err, errCrash) {
				t.Fatalf("error %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				all := strings.Replace(simple("[change]", "    cooldown: {length: 9h}\n", ""), "to: record.owner_id", "persona: Manager", 1)
				first := world{enginetest.Setup(t, s, all, func(c *engine.Config) {
					c.Failpoint = func(point string) error {
						if point == fanout.AfterChunk {
							return errCrash
						}
						return nil
					}
				})}
				for first.tick() {
				}
				first.Clock.Set(ten)
				var items []contact.Item
				for i := range people {
					items = append(items, contact.Parse([]byte(fmt.Sprintf(`{"persona": "Manager", "addresses": {"inbox": "p%d"}}`, i)), fmt.Sprint("p", i)))
				}
				for from := 0; from < people; from += 1000 {
					if _, err := first.Contacts().Write(t.Context(), first.Workspace, upsert.Replace, items[from:min(from+1000, people)], ten, nil); err != nil {
						t.Fatal(err)
					}
				}
				first.put("team/a", `{"name": "A", "morale": 40}`)
				first.evaluateOnly() // the first chunk
				crash(t, first)
				second := world{enginetest.Setup(t, s, "", nil)} // the next process
				second.Clock.Set(ten)
				second.live("10:01")
				heard := map[string]int{}
				for _, m := range append(first.Provider.Sent(), second.Provider.Sent()...) {
					heard[m.Address]++
				}
				for i := range people {
					if n := heard[fmt.Sprint("p", i)]; n != 1 {
						t.Errorf("p%d heard of it %d times", i, n)
					}
				}
				counts, err := s.Counts(t.Context(), first.Workspace.ID)
				if err != nil || counts.DeliveriesByStatus[delivery.Sent] != people || counts.InstancesByStatus[instance.Completed] != 1 {
					t.Errorf("%+v, %v", counts, err)
				}
			})
		})
	}
}

// A new trigger evaluates every record, in pages. It does not delay due work, and a process that ends in between loses nothing.
func TestANewTriggerEvaluatesAllRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const records = 1700
		w := newWorld(t, s, "")
		var items []record.Item
		for i := range records {
			items = append(items, record.Item{Type: "team", ID: fmt.Sprint(i), Props: map[string]any{"name": "A", "morale": 40 + i/16, "owner_id": "alice"}})
		}
		for from := 0; from < records; from += 1000 {
			if _, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items[from:min(from+1000, records)], "test", w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.live("10:01")
		w.Apply(simple("[change]", "    cooldown: {length: 1h}\n", ""))
		w.person("alice", `"persona": "Manager"`)
		runs, err := w.runs(job.Backfill)
		if err != nil || len(runs) != 1 || runs[0].Status != job.Running {
			t.Fatalf("%+v, %v", runs, err)
		}
		sentAt, most := 0, 0
		for tick := 1; w.tick(); tick++ {
			sent := len(w.Provider.Sent())
			most = max(most, sent)
			if sent > 0 && sentAt == 0 {
				sentAt = tick
			}
			if tick == 2 { // between two pages
				w.put("team/1699", `{"name": "A", "morale": 1}`)
			}
		}
		if sentAt == 0 || sentAt > 4 {
			t.Errorf("the first message left at tick %d", sentAt)
		}
		if runs, err = w.runs(job.Backfill); err != nil || runs[0].Status != job.Done || runs[0].Done != records || runs[0].Total != records || runs[0].FinishedAt.IsZero() {
			t.Errorf("%+v, %v", runs, err)
		}
		counts, err := s.Counts(t.Context(), w.Workspace.ID)
		if err != nil || counts.InstancesByStatus[instance.Completed] != 161 {
			t.Errorf("%+v, %v: want an alert for each of the 160 that are low, and the one that became so", counts, err)
		}
		w.Apply(strings.Replace(simple("[change]", "    cooldown: {length: 1h}\n", ""), "morale < 50", "morale < 45", 1))
		if runs, err = w.runs(job.Backfill); err != nil || len(runs) != 2 { // the workflow is locked meanwhile: a person ends it
			t.Fatalf("%+v, %v", runs, err)
		}
		if _, err := jobs.Cancel(t.Context(), s, w.Workspace.ID, runs[0].ID, w.Clock.Now(), store.Audit{At: w.Clock.Now(), Actor: "test", Action: "cancel run"}); err != nil {
			t.Fatal(err)
		}
		w.Apply(strings.Replace(simple("[change]", "    cooldown: {length: 1h}\n", ""), "morale < 50", "morale < 46", 1))
		if runs, err = w.runs(job.Backfill); err != nil || len(runs) != 3 || runs[0].Status != job.Running || runs[1].Status != job.Cancelled {
			t.Errorf("two edits: %+v, %v", runs, err)
		}
	})
}
