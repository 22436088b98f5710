package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

const day = 24 * time.Hour

// retain runs a whole pass.
func (f fixture) retain(now, cutoff time.Time, limit int) store.Retained {
	f.Helper()
	var total store.Retained
	var c store.RetainCursor
	for range 10_000 {
		r, done, err := f.s.Retain(f.Context(), f.ws, now, store.Cutoffs{Occasions: cutoff, Digests: cutoff, Messages: cutoff, Quiet: cutoff}, &c, limit)
		f.must(err)
		total.Add(r)
		if done {
			return total
		}
	}
	f.Fatal("the pass has no end")
	return total
}

// world is the model with which retention is compared: the rows that were made, and their present state.
type world struct {
	fixture
	t         *rapid.T
	now       time.Time
	occasions map[string]*modelOccasion // by base key
	keys      map[string]bool           // every instance key that was ever used
	events    map[subject.EventID]*modelEvent
}

type modelOccasion struct {
	freed   int // n of the key:retry:n that has taken the key's place; 0: the key was not freed
	retries int
	members []*modelInstance // those whose rows exist
	ever    bool
}

type modelInstance struct {
	row        instance.Row
	event      subject.EventID
	deliveries []*modelDelivery
}

type modelDelivery struct {
	row  delivery.Row
	over bool
}

type modelEvent struct{ at time.Time }

func (w *world) check(err error) {
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// post ingests an event with a random key and compares the result with the model's.
func (w *world) post() {
	base := fmt.Sprintf("survey:visit:event:%d", rapid.IntRange(0, 2).Draw(w.t, "key"))
	live := rapid.IntRange(0, 3).Draw(w.t, "live") == 0
	sends := rapid.IntRange(0, 2).Draw(w.t, "deliveries")
	o := w.occasions[base]
	if o == nil {
		o = &modelOccasion{}
		w.occasions[base] = o
	}
	free := !o.ever || o.freed > o.retries
	var made *modelInstance
	err := ingest(w.Context(), w.s, w.ws, ingestRequest{At: w.now, Keys: []string{base}, Recipients: []store.RecipientRef{person("p", "")}}, func(state ingestState) (out store.OccasionWrites, err error) {
		met, duplicate := state.Instances[base]
		switch {
		case duplicate && free:
			return out, fmt.Errorf("%s is free and met instance %d", base, met.ID)
		case duplicate && (met.ID == 0 || met.Key != string(key.Instance(base).Retry(o.freed))):
			return out, fmt.Errorf("%s met %+v", base, met)
		case duplicate:
			out.Decisions = []store.Decision{{At: w.now, Instance: met.ID, Reason: "duplicate"}}
			return out, nil
		case !free:
			return out, fmt.Errorf("%s can be used twice", base)
		case state.Forgotten[base] != o.freed:
			return out, fmt.Errorf("%s was freed %d times, not %d", base, o.freed, state.Forgotten[base])
		}
		ev := w.event("closed")
		ev.ID, ev.ReceivedAt = subject.EventID(w.s.NewID(w.now)), w.now
		made = &modelInstance{event: ev.ID}
		made.row = w.instance(string(key.Instance(base).Retry(o.freed)), instance.Completed)
		made.row.ID, made.row.Event, made.row.CreatedAt, made.row.CompletedAt = instance.ID(w.s.NewID(w.now)), ev.ID, w.now, w.now
		if live {
			made.row.Status, made.row.CompletedAt, made.row.DueAt = instance.Pending, time.Time{}, w.now.Add(400*day)
		}
		out.Events, out.Instances = []store.EventRow{ev}, []instance.Row{made.row}
		out.Decisions = []store.Decision{{At: w.now, Event: ev.ID, Reason: "filtered"}}
		made.deliveries = nil
		for n := range sends {
			d := w.delivery(made.row, state.Persons[0].ID)
			d.ID, d.Channel = delivery.ID(w.s.NewID(w.now)), fmt.Sprintf("sms:%d", n)
			d.CreatedAt, d.CompletedAt, d.Slot = w.now, w.now, w.now
			d.Status, d.SendAt = delivery.Sent, time.Time{}
			waits := rapid.IntRange(0, 3).Draw(w.t, "waits") == 0
			if waits {
				d.Status, d.CompletedAt, d.SendAt = delivery.Scheduled, time.Time{}, w.now.Add(500*day)
			}
			made.deliveries = append(made.deliveries, &modelDelivery{d, !waits})
			out.Deliveries = append(out.Deliveries, d)
		}
		w.events[ev.ID] = &modelEvent{w.now}
		return out, nil
	})
	w.check(err)
	if made != nil {
		o.members, o.ever = append(o.members, made), true
		o.retries = max(o.retries, o.freed)
		if w.keys[made.row.Key] {
			w.t.Fatalf("key %s was used twice", made.row.Key)
		}
		w.keys[made.row.Key] = true
	}
}

// operate is an operator's action on an instance that exists: repeat it, free its key, or end it while it waits.
func (w *world) operate() {
	o, m := w.any()
	if m == nil {
		return
	}
	what := rapid.SampledFrom([]string{"repeat", "forget", "end"}).Draw(w.t, "action")
	base, _ := key.Instance(m.row.Key).Base()
	err := w.fixture.operate(m.row.ID, func(tx *store.Tx, in instance.Row, rows []delivery.Row) error {
		n, err := tx.Retries(w.ws, base)
		if err != nil || n != o.retries {
			return fmt.Errorf("%s was repeated %d times, not %d: %w", m.row.Key, o.retries, n, err)
		}
		switch what {
		case "repeat":
			again := w.instance(string(key.Instance(m.row.Key).Retry(n+1)), instance.Completed)
			again.CreatedAt, again.CompletedAt, again.Event = w.now, w.now, m.event
			again.ID = instance.ID(w.s.NewID(w.now))
			return tx.WriteOccasions(w.ws, store.OccasionWrites{Instances: []instance.Row{again}})
		case "forget":
			return tx.FreeKey(w.ws, base, n+1)
		}
		row := in
		row.Status, row.CompletedAt = instance.Cancelled, w.now
		if err := tx.UpdateInstance(w.now, in, row); err != nil {
			return err
		}
		var changed []delivery.Row
		for _, d := range rows {
			d.Status, d.SendAt, d.CompletedAt = delivery.Cancelled, time.Time{}, w.now
			changed = append(changed, d)
		}
		return tx.UpdateDeliveries(w.now, rows, changed)
	})
	w.check(err)
	switch what {
	case "repeat":
		o.retries++
		name := string(key.Instance(m.row.Key).Retry(o.retries))
		row, err := w.s.InstanceByKey(w.Context(), w.ws, name)
		w.check(err)
		o.members = append(o.members, &modelInstance{row: row, event: m.event})
		if w.keys[name] {
			w.t.Fatalf("key %s was used twice", name)
		}
		w.keys[name] = true
	case "forget":
		o.freed = o.retries + 1
	case "end":
		m.row.Status, m.row.CompletedAt = instance.Cancelled, w.now
		for _, d := range m.deliveries {
			d.over, d.row.CompletedAt = true, w.now
		}
	}
}

func (w *world) any() (*modelOccasion, *modelInstance) {
	var all []*modelInstance
	of := map[*modelInstance]*modelOccasion{}
	for n := range 6 {
		if o := w.occasions[fmt.Sprintf("survey:visit:event:%d", n)]; o != nil {
			for _, m := range o.members {
				all, of[m] = append(all, m), o
			}
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	m := rapid.SampledFrom(all).Draw(w.t, "instance")
	return of[m], m
}

// retention runs a pass and compares the remaining rows with the model.
func (w *world) retention() {
	keep := time.Duration(rapid.IntRange(1, 120).Draw(w.t, "days")) * day
	cutoff := w.now.Add(-keep)
	w.retain(w.now, cutoff, rapid.IntRange(1, 7).Draw(w.t, "batch"))
	used := map[subject.EventID]bool{}
	for _, o := range w.occasions {
		if o.over(w.now, cutoff) {
			o.members = nil
		}
		for _, m := range o.members {
			used[m.event] = true
		}
	}
	for id, ev := range w.events {
		if !used[id] && ev.at.Before(cutoff) {
			delete(w.events, id)
		}
	}
	w.compare()
}

// over is the model's version of the rule.
func (o *modelOccasion) over(now, cutoff time.Time) bool {
	for _, m := range o.members {
		if m.row.Status == instance.Pending || !m.row.CreatedAt.Before(cutoff) || !m.row.CompletedAt.Before(cutoff) {
			return false
		}
		for _, d := range m.deliveries {
			if !d.over || !d.row.CreatedAt.Before(cutoff) || !d.row.CompletedAt.Before(cutoff) || !d.row.Slot.Before(now.Add(-62*day)) {
				return false
			}
		}
	}
	return true
}

// compare reads all rows and compares them with the model's.
func (w *world) compare() {
	var instances, deliveries, events []string
	for _, o := range w.occasions {
		for _, m := range o.members {
			instances = append(instances, m.row.Key)
			for _, d := range m.deliveries {
				deliveries = append(deliveries, fmt.Sprint(d.row.ID))
			}
		}
	}
	for id := range w.events {
		events = append(events, fmt.Sprint(id))
	}
	for _, table := range []struct {
		name, query string
		want        []string
	}{
		{"instances", `SELECT key FROM instance`, instances},
		{"deliveries", `SELECT CAST(id AS text) FROM delivery`, deliveries},
		{"events", `SELECT CAST(id AS text) FROM event`, events},
		{"decisions of events that are gone", `SELECT CAST(id AS text) FROM decision WHERE event_id <> 0 AND event_id NOT IN (SELECT id FROM event)`, nil},
	} {
		got, err := w.s.Strings(w.Context(), table.query)
		w.check(err)
		slices.Sort(got)
		slices.Sort(table.want)
		if !slices.Equal(got, table.want) {
			w.t.Fatalf("%s\n%v, want\n%v", table.name, got, table.want)
		}
	}
}

// Instances are made, ended, repeated and freed at random, with passes of retention in between. No occasion is deleted while it
// may change, an occasion that is over is deleted as a whole, and no key is used twice.
//
// Shows: P2, C10.
func TestRetentionAgainstAModel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		runs := 0
		begin := now // ids never go back, so each run begins where the one before ended; they last until 2255
		rapid.Check(t, func(r *rapid.T) {
			if runs++; runs > 100 || runs > 30 && s.Dialect() == "postgres" { // which takes a tenth of a second for each
				return
			}
			ws, err := s.EnsureWorkspace(t.Context(), fmt.Sprintf("w%d", runs), []byte("secret"), now)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"instance", "delivery", "event", "decision", "spent"} { // each run is alone
				if _, err := s.Exec(t.Context(), "DELETE FROM "+table); err != nil {
					t.Fatal(err)
				}
			}
			w := &world{
				fixture: fixture{t, s, ws.ID}, t: r, now: begin, occasions: map[string]*modelOccasion{}, keys: map[string]bool{},
				events: map[subject.EventID]*modelEvent{},
			}
			defer func() { begin = w.now.Add(day) }()
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				switch rapid.IntRange(0, 6).Draw(r, "step") {
				case 0, 1, 2:
					w.post()
				case 3:
					w.operate()
				case 4, 5:
					w.now = w.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(r, "pass")) * day)
				case 6:
					w.retention()
				}
			}
			w.now = w.now.Add(200 * day)
			w.retention()
		})
	})
}

// An event whose occasion was deleted is a duplicate for ever. The answer names its former instance, and its key cannot be freed
// any more.
//
// Shows: P2, C11.
func TestADeletedOccasionIsADuplicate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		d := f.scheduled(1, func(_ int, d *delivery.Row) {
			d.Status, d.SendAt, d.CompletedAt, d.Slot = delivery.Sent, time.Time{}, now, time.Time{}
		})[0]
		in, err := s.InstanceByID(t.Context(), f.ws, d.Instance)
		f.must(err)
		f.exec(`INSERT INTO content VALUES ($1, $2, 1, 7, 8, 'c', 'a', 'l', 's', 't', 'h')`, int64(f.ws), int64(d.ID))
		f.exec(`INSERT INTO attempt VALUES ($1, $2, 1, 1, 'c', 'k', 2, 3, 'delivered', '', '', '')`, int64(f.ws), int64(d.ID))
		f.exec(`INSERT INTO draft VALUES ($1, $2, '{}', 1)`, int64(f.ws), int64(d.ID))
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			return tx.AddResponse(delivery.Response{Workspace: f.ws, ID: 5, Delivery: d.ID, CreatedAt: now})
		}))
		later := now.Add(100 * day)
		if r := f.retain(later, now, 10); r != (store.Retained{}) {
			t.Errorf("what ended at the cutoff was deleted: %+v", r)
		}
		if r := f.retain(later, later, 10); r.Instances != 1 || r.Deliveries != 1 {
			t.Errorf("deleted %+v", r)
		}
		for _, table := range []string{"instance", "delivery", "content", "attempt", "response", "draft"} {
			if rows, err := s.Strings(t.Context(), "SELECT 'x' FROM "+table); len(rows) > 0 || err != nil {
				t.Errorf("%s: %d rows, %v", table, len(rows), err)
			}
		}
		f.ingest(ingestRequest{Keys: []string{in.Key}}, func(state ingestState) (store.OccasionWrites, error) {
			if got := state.Instances[in.Key]; got.ID != in.ID || got.Key != in.Key {
				t.Errorf("met %+v", got)
			}
			return store.OccasionWrites{}, nil
		})
		_, err = s.InstanceByKey(t.Context(), f.ws, in.Key)
		f.mustBe(err, store.ErrNotFound)
	})
}

// What was repeated and freed under a key counts in its own workspace, also after its occasion is deleted.
//
// Shows: P2, C10.
func TestSpentKeysAreOfTheWorkspace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one := setup(t, s)
		second, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		one.must(err)
		two := fixture{t, s, second.ID}
		later := now.Add(100 * day)
		const plain, freed = key.Instance("survey:visit:event:1"), key.Instance("survey:visit:event:2")
		over := func(f fixture, k key.Instance) (row instance.Row) {
			row = f.instance(string(k), instance.Completed)
			row.CompletedAt = now
			f.add(store.OccasionWrites{Instances: []instance.Row{row}})
			return row
		}
		repeated := func(f fixture, k key.Instance, times int) {
			over(f, k)
			for n := range times {
				over(f, k.Retry(n+1))
			}
		}
		free := func(f fixture, k key.Instance, n int) {
			f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.FreeKey(f.ws, k, n) }))
		}
		is := func(f fixture, k key.Instance, in instance.ID, retries, forgotten int) {
			t.Helper()
			want := fmt.Sprintf("instance %d, %d retries, freed at %d", in, retries, forgotten)
			got, err := s.Strings(t.Context(), `SELECT 'instance ' || instance_id || ', ' || retries || ' retries, freed at ' || forgotten FROM spent WHERE ws = $1 AND hash = $2`, int64(f.ws), key.Hash(string(k)))
			if err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("workspace %d, %s: %v, %v, want %s", f.ws, k, got, err, want)
			}
		}
		for _, k := range []key.Instance{plain, freed} { // in workspace 2 alone
			repeated(two, k, 3)
			free(two, k, 4)
		}
		two.retain(later, later, 10)
		is(two, plain, 0, 3, 4)

		first := over(one, plain)
		over(one, freed)
		free(one, freed, 1)
		one.retain(later, later, 10)
		is(one, plain, first.ID, 0, 0)
		is(one, freed, 0, 0, 1)

		// The freed key is used again in both: what is known of it is its own workspace's.
		for _, again := range []struct {
			fixture
			n int
		}{{one, 1}, {two, 4}} {
			row := over(again.fixture, freed.Retry(again.n))
			again.retain(later, later, 10)
			is(again.fixture, freed, row.ID, again.n, again.n)
			again.must(s.Write(t.Context(), func(tx *store.Tx) error {
				n, err := tx.Retries(again.ws, freed)
				if n != again.n {
					t.Errorf("workspace %d: the key was repeated %d times, want %d", again.ws, n, again.n)
				}
				return err
			}))
		}
		one.must(s.Write(t.Context(), func(tx *store.Tx) error {
			n, err := tx.Retries(one.ws, plain)
			if n != 0 {
				t.Errorf("the key was repeated %d times in a workspace where it was not", n)
			}
			return err
		}))
	})
}

// Versions of definitions that no instance refers to are deleted; the set in force stays complete.
func TestReplacedDefinitionsAreDeleted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		apply := func(text string) int64 {
			number, _, err := storetest.Apply(t.Context(), s, f.ws, now, store.Definition{Kind: "workflow", Name: "visit", Text: text, Hash: text})
			f.must(err)
			return number
		}
		for n := range 5 {
			apply(fmt.Sprintf("v%d", n))
		}
		f.exec(`UPDATE workspace SET definitions = 5`)
		in := f.instance("k", instance.Pending)
		in.Definitions = 3
		f.exec(`UPDATE workspace SET definitions = 0`) // the fixture's set
		f.add(store.OccasionWrites{Instances: []instance.Row{in}})
		f.exec(`UPDATE workspace SET definitions = 5`)
		if r := f.retain(now.Add(day), now, 10); r.Definitions != 2 {
			t.Errorf("deleted %d, want 2", r.Definitions)
		}
		for set, want := range map[int64]int{3: 1, 4: 1, 5: 1} {
			if docs, err := s.DefinitionSet(t.Context(), f.ws, set); len(docs) != want || err != nil {
				t.Errorf("set %d has %d documents, %v", set, len(docs), err)
			}
		}
		f.exec(`DELETE FROM instance`)
		if r := f.retain(now.Add(day), now, 10); r.Definitions != 2 {
			t.Errorf("deleted %d, want 2", r.Definitions)
		}
	})
}

// A batch of retention reads and deletes by indexes, also a full batch in a workspace of many rows, with current statistics.
func TestRetentionReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		look := func(batch int, signs ...string) {
			for text, args := range store.RetainStatements(batch) {
				plans, err := s.Plans(t.Context(), text, args...)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				for _, sign := range signs {
					if lines := strings.Join(plans, "\n"); strings.Contains(lines, sign) {
						t.Errorf("%s\n%s", text, lines)
					}
				}
			}
		}
		signs := []string{"Seq Scan", "SCAN content", "SCAN attempt", "SCAN response", "SCAN draft", "SCAN delivery", "SCAN i\n", "SCAN instance\n", "SCAN event\n", "SCAN decision\n", "SCAN s\n", "SCAN dispatch", "SCAN outbox_event", "SCAN e\n"}
		look(1, signs...)
		f.exec(`WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 10000)
			INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, status, due_at, input_hash, trace, created_at)
			SELECT ws.id, n, 'reminder:w:' || (n * 7919 % 10000), 'w', 1, 1, 'reminder', 't', 'schedule', n, 'completed', 1, '', '"` + strings.Repeat("x", 1000) + `"', 1 FROM series, workspace AS ws`)
		if _, err := s.Exec(t.Context(), "ANALYZE instance"); err != nil {
			t.Fatal(err)
		}
		look(200, append(signs, "Join Filter: ((i.")...)
	})
}
