package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// The rows of their machinery: runs, work rows, locks, batches and recovery. A run is an instance here, a work row and a content row are a delivery, and a worker
// that holds a lock is one that holds a lease.

var errDied = errors.New("the process died")

// mortalWorld is a world whose process dies as dies says.
type mortalWorld struct {
	govWorld
	dies func(point string) bool
}

func mortal(t *testing.T, s *store.Store, begin time.Time, definitions string, change func(*engine.Config)) *mortalWorld {
	m := &mortalWorld{}
	m.govWorld = govWorld{enginetest.Setup(t, s, "workspace: default\n", func(c *engine.Config) {
		c.Failpoint = func(point string) error {
			if m.dies != nil && m.dies(point) {
				return errDied
			}
			return nil
		}
		if change != nil {
			change(c)
		}
	}), t}
	m.Clock.Set(begin)
	m.Apply(definitions)
	return m
}

// diesAt lets the process work until it dies.
func (m *mortalWorld) diesAt(now time.Time, dies func(point string) bool) {
	m.t.Helper()
	m.Clock.Set(now)
	m.dies = dies
	for range 100 {
		if _, err := m.Tick(m.Context()); errors.Is(err, errDied) {
			m.dies = nil
			return
		} else if err != nil {
			m.t.Fatal(err)
		}
	}
	m.t.Fatal("it never died")
}

func (w govWorld) people(names ...string) {
	w.t.Helper()
	list := make([]contact.Item, len(names))
	for i, name := range names {
		list[i] = contact.Parse(json.RawMessage(fmt.Sprintf(`{"id": %q, "addresses": {"inbox": %q}}`, name, name)), name)
	}
	for some := range slices.Chunk(list, 500) {
		if _, err := w.Contacts().Write(w.Context(), w.Workspace, "replace", some, w.Clock.Now(), nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// address adds an address for mail to somebody.
func (w govWorld) address(name, address string) {
	w.t.Helper()
	parsed := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"email": %q}}`, address)), name)
	if _, err := w.Contacts().Write(w.Context(), w.Workspace, "merge", []contact.Item{parsed}, w.Clock.Now(), nil); err != nil {
		w.t.Fatal(err)
	}
}

// follow subscribes people to a topic; without a frequency they leave it.
func (w govWorld) follow(list, frequency string, people ...string) {
	w.t.Helper()
	all := make([]topics.Request, len(people))
	for i, person := range people {
		all[i] = topics.Request{Contact: person, Topic: list, Frequency: frequency}
	}
	for some := range slices.Chunk(all, 500) {
		var err error
		if frequency == "" {
			_, err = w.Topics().Unsubscribe(w.Context(), w.Workspace, some, w.Clock.Now(), nil)
		} else {
			_, err = w.Topics().Subscribe(w.Context(), w.Workspace, some, topic.SourceAPI, w.Clock.Now(), nil)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w govWorld) publish(id string, lists ...string) {
	w.t.Helper()
	raw, err := json.Marshal(map[string]any{"id": id, "version": id, "topics": lists})
	if err != nil {
		w.t.Fatal(err)
	}
	if results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
		w.t.Fatal(err, results[0].Error)
	}
}

func (w govWorld) keyed(k string) instance.Row {
	w.t.Helper()
	row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, k)
	if err != nil {
		w.t.Fatal(k, err)
	}
	return row
}

func (w govWorld) deliveries(of instance.ID) (all []delivery.Row) {
	w.t.Helper()
	for before := int64(0); ; {
		rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{Instance: of}, store.Page{Limit: 500, Before: before})
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, rows...)
		if len(rows) < 500 {
			return all
		}
		before = int64(rows[len(rows)-1].ID)
	}
}

// crowd is a page of people whose names begin with A, and one whose name is B: the fan-out takes them up in two transactions.
func crowd() []string {
	names := make([]string, store.MemberPage+1)
	for i := range names {
		names[i] = fmt.Sprintf("A%d", i)
	}
	names[store.MemberPage] = "B"
	return names
}

// namesOf are the first letters of the people of deliveries, each once.
func namesOf(rows []delivery.Row) []string {
	letters := []string{}
	for _, d := range rows {
		letters = append(letters, d.CustomerRef[:1])
	}
	slices.Sort(letters)
	return slices.Compact(letters)
}

// halfRun is a run at an instant that died when the deliveries of the first page of its people existed.
func halfRun(t *testing.T, s *store.Store, now time.Time) *mortalWorld {
	m := mortal(t, s, now.Add(-23*time.Hour), govDefinitions("UTC", float64(now.Hour()), []string{"L1"}), nil)
	m.people(crowd()...)
	m.follow("L1", "daily", crowd()...)
	m.publish("c1", "L1")
	m.until(now.Add(-time.Hour))
	chunks := 0
	m.diesAt(now, func(point string) bool {
		if point == fanout.AfterChunk {
			chunks++
		}
		return point == fanout.BeforeCommit && chunks > 0
	})
	return m
}

func runKey(kind string, day time.Time) string {
	return "digest:updates:" + kind + ":" + day.Format(time.DateOnly)
}

// resumedRun finishes a run of which a part of the rows exists.
func resumedRun(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := at(t, r.Given["now"])
	m := halfRun(t, s, now)
	run := m.keyed(runKey("daily", now))
	before := namesOf(m.deliveries(run.ID))
	m.until(now)
	rows := m.deliveries(run.ID)
	added := slices.DeleteFunc(namesOf(rows), func(name string) bool { return slices.Contains(before, name) })
	known, err := m.Store.DigestRun(t.Context(), m.Workspace.ID, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"work_rows": namesOf(rows), "new_rows": added, "jobs": len(added), "processed_at": instant(known.ExpandedAt)}
}

// twoRuns has the worker of an earlier run hold it, while those of the day begin.
func twoRuns(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := at(t, r.When["calls"].([]any)[0].([]any)[0].(string)+"T08:30:00Z")
	m := mortal(t, s, now.AddDate(0, 0, -2), strings.ReplaceAll(govDefinitions("UTC", 8, []string{"L1"}), "\nchannel: inbox\nmessage", "\nretry: {lease: 1h}\nchannel: inbox\nmessage"), nil)
	m.people("A")
	m.follow("L1", "daily", "A")
	m.publish("c1", "L1")
	m.until(now.Add(-10 * time.Minute))
	before := m.keyed(runKey("daily", now.AddDate(0, 0, -1)))
	held, err := m.Operator().RetryInstance(t.Context(), m.Workspace.ID, before.ID, "ann", m.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	m.diesAt(m.Clock.Now(), func(point string) bool { return point == fanout.AfterTaken })
	m.until(now)
	lease := m.Instance(held.NewInstance).LeaseUntil
	daily, weekly := m.keyed(runKey("daily", now)), m.keyed(runKey("weekly", now))
	return map[string]any{"result": said(lease.After(now) && daily.Status == instance.Completed && weekly.Status == instance.Completed, "both proceed", lease, daily.Status, weekly.Status)}
}

// twiceAtOnce has two processes make the messages of a run.
func twiceAtOnce(t *testing.T, s *store.Store, _ govRow) map[string]any {
	now := time.Date(2017, 1, 7, 8, 30, 0, 0, time.UTC)
	m := mortal(t, s, now.Add(-23*time.Hour), govDefinitions("UTC", 8, []string{"L1"}), nil)
	m.people("A")
	m.follow("L1", "daily", "A")
	m.publish("c1", "L1")
	m.until(now.Add(-time.Minute))
	b := enginetest.Setup(t, s, "", func(c *engine.Config) { c.Clock = m.Clock })
	b.Clock, b.Provider = m.Clock, m.Provider
	other := govWorld{b, t}
	m.Clock.Set(now)
	var wait sync.WaitGroup
	for _, w := range []govWorld{m.govWorld, other} {
		wait.Go(func() { w.until(now) })
	}
	wait.Wait()
	m.until(now)
	rows := m.deliveries(m.keyed(runKey("daily", now)).ID)
	return map[string]any{"emails": len(m.Provider.Sent()) + len(other.Provider.Sent()), "second_call": said(len(rows) == 1 && rows[0].Version > 0, "waits for row lock, then no-op", rows)}
}

// twoGroups makes a message for each of two topics of a person.
func twoGroups(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := time.Date(2017, 1, 7, 8, 30, 0, 0, time.UTC)
	w := govAt(t, s, now.Add(-23*time.Hour), strings.Replace(govDefinitions("UTC", 8, []string{"s1", "s2"}), "duplicates: each", "bundle: subscription", 1))
	w.people("A")
	for _, v := range r.Given["groups"].([]any) {
		list := fmt.Sprint(v.([]any)[0])
		w.follow(list, fmt.Sprint(r.Given["range"]), "A")
		for _, id := range v.([]any)[1].([]any) {
			w.publish(fmt.Sprint(id), list)
		}
	}
	w.until(now)
	run := w.keyed(runKey("daily", now))
	rows, sent := w.deliveries(run.ID), w.Provider.Sent()
	kinds, metric := map[string]bool{}, map[string]int{}
	for _, d := range rows {
		kinds[d.Type] = true
		if d.Status == delivery.Sent {
			metric[d.Trigger]++
		}
	}
	queue := ""
	for kind := range kinds {
		queue += kind
	}
	known, err := s.DigestRun(t.Context(), w.Workspace.ID, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"emails": len(sent), "send_jobs": map[string]any{"queue": queue, "count": len(rows)}, "content_rows": len(rows), "metric": metric, "processed": !known.ExpandedAt.IsZero(),
	}
}

// twice has a transaction insert rows again that exist: it has to begin again, which is how the store says that a key is taken.
func twice(t *testing.T, s *store.Store, ws store.Workspace, rows store.OccasionWrites) any {
	t.Helper()
	tries := 0
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		if tries++; tries > 1 {
			return nil
		}
		return tx.WriteOccasions(ws.ID, rows)
	})
	if err != nil || tries < 2 {
		t.Fatalf("%d tries: %v", tries, err)
	}
	return "unique_violation"
}

// insertRun inserts the run of a day that has one.
func insertRun(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := at(t, fmt.Sprint(r.When["date"])+"T08:30:00Z")
	w := govAt(t, s, now.AddDate(0, 0, -2), govDefinitions("UTC", 8, []string{"L1"}))
	w.until(now)
	of := w.keyed(runKey(fmt.Sprint(r.When["range"]), now))
	again := instance.Row{
		Workspace: of.Workspace, ID: instance.ID(s.NewID(now)), Key: of.Key, Workflow: of.Workflow, WorkflowVersion: of.WorkflowVersion, Definitions: of.Definitions,
		Type: of.Type, Trigger: of.Trigger, Source: of.Source, Status: instance.Pending, DueAt: of.DueAt, InputHash: of.InputHash, CreatedAt: now,
	}
	return map[string]any{"error": twice(t, s, w.Workspace, store.OccasionWrites{Instances: []instance.Row{again}})}
}

// insertContentRow inserts the message about an item again.
func insertContentRow(t *testing.T, s *store.Store, _ govRow) map[string]any {
	now := time.Date(2017, 1, 7, 10, 0, 0, 0, time.UTC)
	w := govAt(t, s, now, govDefinitions("UTC", 8, []string{"L1"}))
	w.people("A")
	w.follow("L1", "immediate", "A")
	w.publish("c1", "L1")
	w.until(now)
	rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Workflow: "updates"}, store.Page{Limit: 9})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	of := rows[0]
	again := delivery.Row{
		Workspace: of.Workspace, ID: delivery.ID(s.NewID(now)), Instance: of.Instance, Key: of.Key, Contact: of.Contact, CustomerRef: of.CustomerRef, Channel: of.Channel, Address: of.Address,
		Workflow: of.Workflow, WorkflowVersion: of.WorkflowVersion, Type: of.Type, Trigger: of.Trigger, Event: of.Event, Status: delivery.Scheduled, NotBefore: now, SendAt: now, CreatedAt: now,
	}
	return map[string]any{"error": twice(t, s, w.Workspace, store.OccasionWrites{Deliveries: []delivery.Row{again}})}
}

// insertWorkRows has a run forget how far it was: the rows that exist are met again.
func insertWorkRows(t *testing.T, s *store.Store, _ govRow) map[string]any {
	now := time.Date(2017, 1, 7, 8, 30, 0, 0, time.UTC)
	m := halfRun(t, s, now)
	run := m.keyed(runKey("daily", now))
	before := m.deliveries(run.ID)
	storetest.ChangeInstance(t, s, now, run, func(in *instance.Row) { in.ExpandCursor = 0 })
	m.until(now)
	inserted := []any{}
	for _, d := range m.deliveries(run.ID) {
		if !slices.ContainsFunc(before, func(b delivery.Row) bool { return b.ID == d.ID }) {
			inserted = append(inserted, []string{"run1", d.CustomerRef})
		}
	}
	return map[string]any{"inserted": inserted, "error": nil}
}

// markComplete ends a run that has no rows.
func markComplete(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govAt(t, s, at(t, dig(r.Given, "run")["processed_at"]), govDefinitions("UTC", 8, []string{"L1"}))
	run := store.DigestRun{
		Workspace: w.Workspace.ID, Instance: 1, Workflow: "updates", Trigger: "daily", Window: digest.Window{From: w.Clock.Now().AddDate(0, 0, -1), End: w.Clock.Now()},
		BegunAt: w.Clock.Now(), ExpandedAt: w.Clock.Now(),
	}
	if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.WriteDigestRuns([]store.DigestRun{run}) }); err != nil {
		t.Fatal(err)
	}
	w.Clock.Set(at(t, r.When["now"]))
	w.until(w.Clock.Now())
	known, err := s.DigestRun(t.Context(), w.Workspace.ID, run.Instance)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"completed_at": instant(known.OverAt)}
}

// missingRuns lets no process run for nine days, and says which runs it made up for. Theirs are missing when 09:00 is past, and for seven days: that is a run at
// 09:00 which is sent for seven days, an instant before the one of the row.
func missingRuns(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := at(t, r.When["now"]).Add(-time.Millisecond)
	definitions := strings.NewReplacer(`at: "08:30"`, `at: "09:00"`, "duplicates: each", "duplicates: each, catch_up: send").Replace(govDefinitions(fmt.Sprint(r.Given["tz"]), r.Given["hour"].(float64), []string{"L1"}))
	definitions = strings.Replace(definitions, "\nchannel: inbox\nmessage", "\ntiming: {catch_up: 7d}\nchannel: inbox\nmessage", 1)
	w := govAt(t, s, now.AddDate(0, 0, -9), definitions)
	w.Clock.Set(now)
	w.until(now)
	missing := map[string]any{"daily": []string{}, "weekly": []string{}}
	for kind := range missing {
		days := []string{}
		for day := now.AddDate(0, 0, -9); !day.After(now); day = day.AddDate(0, 0, 1) {
			row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, runKey(kind, day))
			if err == nil && row.Status == instance.Completed {
				days = append(days, day.Format(time.DateOnly))
			} else if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
		}
		missing[kind] = days
	}
	return missing
}

// recovered has a worker die over a run, or over a message, and says whether another one takes it up by the instant of the row.
func recovered(t *testing.T, s *store.Store, r govRow) map[string]any {
	begun, now := at(t, r.Given["created_at"]), at(t, r.When["now"])
	if r.Given["kind"] == "digest_run" {
		definitions := strings.ReplaceAll(govDefinitions("UTC", float64(begun.Hour()), []string{"L1"}), "\nchannel: inbox\nmessage", "\nretry: {lease: 1h}\nchannel: inbox\nmessage")
		m := mortal(t, s, begun.AddDate(0, 0, -9), definitions, nil)
		m.until(begun.Add(-time.Minute))
		m.diesAt(begun, func(point string) bool { return point == fanout.AfterTaken })
		m.Clock.Set(now.Add(-time.Minute))
		m.until(now.Add(-time.Minute))
		early := len(m.runsAt(now)) + len(m.runsAt(begun))
		m.until(now)
		args := []string{}
		for _, run := range m.runsAt(now) {
			args = append(args, run.Window.End.Format(time.DateOnly))
		}
		return map[string]any{"requeued": early == 0 && len(args) > 0, "args": args}
	}
	m := mortal(t, s, begun, govDefinitions("UTC", 8, []string{"L1"}), func(c *engine.Config) { c.Lease = 3 * time.Hour })
	m.people("A")
	m.follow("L1", "immediate", "A")
	m.publish("c1", "L1")
	if r.Given["status"] == "sent" {
		m.until(begun)
	} else {
		m.diesAt(begun, func(point string) bool { return point == sender.AfterIntent })
	}
	first := len(m.Provider.Sent())
	m.until(now)
	again := len(m.Provider.Sent())
	return map[string]any{"requeued": first == 0 && again == 1}
}

// batchOf has a subscriber leave between the item and its messages.
func batchOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	ended := at(t, dig(r.Given["subs"].([]any)[0])["ended_at"])
	published := ended.Add(-30 * time.Second)
	m := mortal(t, s, published, govDefinitions("UTC", 8, []string{"L1"}), nil)
	m.people("A")
	m.follow("L1", "immediate", "A")
	m.publish("c1", "L1")
	m.diesAt(published, func(point string) bool { return point == fanout.BeforeCommit })
	m.Clock.Set(ended)
	m.follow("L1", "", "A")
	m.until(ended.Add(time.Minute))
	mails := []any{}
	for _, out := range m.Provider.Sent() {
		mails = append(mails, out.Address)
	}
	return map[string]any{"mails": mails}
}

// batchesOf counts what each transaction of a fan-out writes. A page of theirs is 5,000 people and ours store.MemberPage: there are as many fewer people, and the
// sizes are as much larger. One transaction fails: nothing of it is written.
func batchesOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	const theirs = 5000
	now := time.Date(2017, 1, 7, 10, 0, 0, 0, time.UTC)
	m := mortal(t, s, now, govDefinitions("UTC", 8, []string{"L1"}), nil)
	names := make([]string, int(r.Given["subscribers"].(float64))*store.MemberPage/theirs)
	for i := range names {
		names[i] = fmt.Sprintf("A%d", i)
	}
	m.people(names...)
	m.follow("L1", "immediate", names...)
	m.publish("c1", "L1")
	of := instance.ID(0)
	written := func() int {
		rows, err := s.Instances(t.Context(), m.Workspace.ID, store.InstanceFilter{Workflow: "updates"}, store.Page{Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Trigger == "immediate" {
				of = row.ID
			}
		}
		if of == 0 {
			return 0
		}
		return len(m.deliveries(of))
	}
	sizes, before, chunks := []int{}, 0, 0
	m.diesAt(now, func(point string) bool {
		if point == fanout.AfterChunk {
			chunks++
		}
		return point == fanout.BeforeCommit && chunks > 0
	})
	lost := written()
	for done := false; !done; {
		m.diesAt(now, func(point string) bool { return point == fanout.AfterChunk })
		n := written()
		if len(sizes) == 0 { // of the first page, before the death
			sizes, before = append(sizes, lost*theirs/store.MemberPage), lost
		}
		sizes, before = append(sizes, (n-before)*theirs/store.MemberPage), n
		done = n == len(names)
	}
	return map[string]any{"sizes": sizes, "transaction": said(lost == store.MemberPage, "one per batch: mails and content rows together", lost)}
}
