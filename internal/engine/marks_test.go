package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// broadcast is a workflow of an event to everybody with a persona, with a reminder.
const broadcast = `
workflow: news
type: alert
triggers: [{id: t, event: news}]
timing: {offset: 0d, reminders: [1d]}
audience: [{persona: Manager}]
channel: inbox
message: {inbox: {text: x}}
---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
`

// newBroadcast has n contacts, and cancels at once no more than atOnce deliveries.
func newBroadcast(t testing.TB, s *store.Store, n, atOnce int) world {
	t.Helper()
	return broadcastOf(t, s, broadcast, n, atOnce)
}

func broadcastOf(t testing.TB, s *store.Store, definitions string, n, atOnce int) world {
	t.Helper()
	w := newWorld(t, s, definitions)
	people := make([]contact.Item, n)
	for i := range people {
		people[i] = contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": "p%d"}, "persona": "Manager"}`, i)), fmt.Sprintf("p%d", i))
	}
	if results, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, people, w.Clock.Now(), nil); err != nil || results[n-1].Error != nil {
		t.Fatal(err, results)
	}
	w.Operator().AtOnce = atOnce
	w.Post(`{"id": "1", "kind": "news"}`)
	return w
}

// deliveriesOf reads the rows as they are stored.
func (w world) deliveriesOf(id instance.ID) (rows []delivery.Row) {
	w.Helper()
	err := w.Store.Write(w.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.LockDeliveriesOfInstance(w.Workspace.ID, id)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}

// shownOf reads the rows as people see them.
func (w world) shownOf(id instance.ID) []delivery.Row {
	w.Helper()
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{Instance: id}, store.Page{Limit: 10_000})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}

func (w world) cancelOccasion(id instance.ID) operator.Result {
	w.Helper()
	r, err := w.Operator().CancelInstance(w.Context(), w.Workspace.ID, id, "ann", w.Clock.Now())
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// A cancel of a large occasion marks it. From then on nothing of it is sent, and a job ends its deliveries, each once. A message that was sent
// gets no reminder.
// Shows: P5.
func TestCancelOfALargeOccasion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n, atOnce = 130, 20
		w := newBroadcast(t, s, n, atOnce)
		id := oldest(w.Bundle).ID
		w.tick() // as many as a tick sends
		if sent := len(w.Provider.Sent()); sent != engine.TickBatch {
			t.Fatalf("sent %d", sent)
		}
		w.Journal()
		r := w.cancelOccasion(id)
		if !r.Changed || r.Job == 0 || len(r.Deliveries) != 0 {
			t.Fatalf("cancel: %+v", r)
		}
		if again := w.cancelOccasion(id); again.Changed || again.Job != r.Job {
			t.Errorf("again: %+v", again)
		}
		for _, d := range w.deliveriesOf(id) {
			if d.Status.Final() {
				t.Errorf("ended at once: %+v", d)
			}
		}
		for _, d := range w.shownOf(id) {
			if d.Status != delivery.Cancelled || d.Reason != reason.CancelledByPerson || !d.SendAt.IsZero() {
				t.Errorf("shown as %+v", d)
			}
		}
		var refused *operator.StateError
		if _, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, id, "ann", w.Clock.Now()); !errors.As(err, &refused) {
			t.Errorf("a retry beside it: %v", err)
		}
		for w.tick() {
		}
		if sent := w.Provider.Sent(); len(sent) > 0 {
			t.Errorf("%d were sent afterwards", len(sent))
		}
		cancelled := map[delivery.ID]int{}
		for _, e := range w.Journal() {
			if e.What == journal.Cancelled && e.Delivery != 0 {
				if cancelled[e.Delivery]++; e.Reason != reason.CancelledByPerson {
					t.Errorf("entry %+v", e)
				}
			}
		}
		for _, d := range w.deliveriesOf(id) {
			if d.Status != delivery.Cancelled || d.Reason != reason.CancelledByPerson || !d.SendAt.IsZero() || d.CompletedAt.IsZero() || cancelled[d.ID] != 1 {
				t.Errorf("%d entries, %+v", cancelled[d.ID], d)
			}
		}
		run := wholeRun(w).run()
		if run.ID != r.Job || run.Status != job.Done || run.Done != n || run.Total != n || run.Changed < engine.TickBatch || len(cancelled) != n {
			t.Errorf("the job: %+v, %d entries", run, len(cancelled))
		}
		if in := w.Instance(id); in.Status != instance.Completed || !in.CancelledAt.Equal(w.Clock.Now()) {
			t.Errorf("the instance: %+v", in)
		}
		w.Clock.Set(w.Clock.Now().Add(25 * time.Hour))
		for w.tick() {
		}
		if sent := w.Provider.Sent(); len(sent) > 0 {
			t.Errorf("%d reminders", len(sent))
		}
		if again := w.cancelOccasion(id); again.Changed || again.Job != 0 {
			t.Errorf("at the end: %+v", again)
		}
		again, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, id, "ann", w.Clock.Now())
		if err != nil || again.NewInstance == 0 {
			t.Fatal(again, err)
		}
		for w.tick() {
		}
		if sent := w.Provider.Sent(); len(sent) != n {
			t.Errorf("the repetition sent %d", len(sent))
		}
	})
}

// The job goes on where it was when its process is lost, and when a person cancels and resumes it.
func TestCancelOfALargeOccasionResumes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n, atOnce = 45, 10
		w := newBroadcast(t, s, n, atOnce)
		id := oldest(w.Bundle).ID
		w.tick()
		w.Provider.Sent()
		r := w.cancelOccasion(id)
		run := wholeRun(w)
		run.step()
		if j := run.run(); j.Done != atOnce || j.Total != n {
			t.Fatalf("after a page: %+v", j)
		}
		audit := store.Audit{At: w.Clock.Now(), Actor: "ann", Action: "cancel run"}
		if _, err := w.Operator().CancelJob(t.Context(), w.Workspace.ID, r.Job, w.Clock.Now(), audit); err != nil {
			t.Fatal(err)
		}
		again := w.cancelOccasion(id) // nobody ends the rest: another job begins
		if !again.Changed || again.Job == 0 || again.Job == r.Job {
			t.Errorf("again: %+v", again)
		}
		for run.run().Status == job.Running {
			run.step()
		}
		if j := run.run(); j.ID != again.Job || j.Done != n || j.Changed != n-atOnce {
			t.Errorf("at the end: %+v", j)
		}
	})
}

// losing is a store whose process is lost at the commit of a transaction: before it, or after it.
type losing struct {
	*store.Store
	after bool
}

func (l losing) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	err := l.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil || l.after {
			return err
		}
		return errDied
	})
	if err == nil {
		return errDied
	}
	return err
}

// The mark and the job that ends the rows are one transaction: a process that is lost leaves both or none. Asked again, the cancel finds the job.
// Shows: P5.
func TestACancelIsLostWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n, atOnce = 25, 10
		w := newBroadcast(t, s, n, atOnce)
		id := oldest(w.Bundle).ID
		w.tick()
		w.Provider.Sent()
		runs := func() int {
			list, err := s.Jobs(t.Context(), w.Workspace.ID, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			return len(slices.DeleteFunc(list, func(j job.Row) bool { return j.Kind != job.Cancel }))
		}
		for _, after := range []bool{false, true} {
			op := operator.New(losing{s, after}, catalog.New(s, enginetest.Options(nil)), nil)
			op.AtOnce = atOnce
			if _, err := op.CancelInstance(t.Context(), w.Workspace.ID, id, "ann", w.Clock.Now()); !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			if marked := !w.Instance(id).CancelledAt.IsZero(); marked != after || (runs() == 1) != after {
				t.Errorf("lost after the commit: %t; marked %t, %d runs", after, marked, runs())
			}
		}
		if again := w.cancelOccasion(id); again.Changed || again.Job == 0 {
			t.Errorf("again: %+v", again)
		}
		for w.tick() {
		}
		for _, d := range w.deliveriesOf(id) {
			if d.Status != delivery.Cancelled {
				t.Errorf("in the end: %+v", d)
			}
		}
		if sent := w.Provider.Sent(); len(sent) > 0 || runs() != 1 {
			t.Errorf("%d were sent, %d runs", len(sent), runs())
		}
	})
}

// A large message of a course is cancelled alone: the next one, which its first deliveries made, is sent to everybody, once.
// Shows: R17.
func TestCancelOfALargeMessageOfACourse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n = 130
		course := strings.Replace(broadcast, "{offset: 0d, reminders: [1d]}", `{timezone: UTC, sequence: [{after: 0m}, {day: 1, at: "12:00"}]}`, 1)
		w := broadcastOf(t, s, course, n, 20)
		id := oldest(w.Bundle).ID
		w.tick()
		if sent := len(w.Provider.Sent()); sent == 0 || sent == n {
			t.Fatalf("sent %d", sent)
		}
		if r := w.cancelOccasion(id); r.Job == 0 {
			t.Fatalf("cancel: %+v", r)
		}
		for w.tick() {
		}
		if sent := len(w.Provider.Sent()); sent > 0 {
			t.Errorf("%d were sent after the cancel", sent)
		}
		w.Clock.Set(w.Clock.Now().AddDate(0, 0, 2))
		for w.tick() {
		}
		to := map[string]int{}
		for _, out := range w.Provider.Sent() {
			to[out.Address]++
		}
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 10})
		if err != nil || len(rows) != 2 || len(to) != n || to["p0"] != 1 {
			t.Errorf("%d rows, %d people, %d to one of them, %v", len(rows), len(to), to["p0"], err)
		}
	})
}

// mark cancels the occasion of a delivery as that of very many people is cancelled: by a mark alone.
func mark(t *testing.T, s *store.Store, of delivery.Row, now time.Time) {
	t.Helper()
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		in, err := tx.LockInstance(of.Workspace, of.Instance)
		if err != nil {
			return err
		}
		marked := in
		marked.CancelDeliveries(now)
		return tx.UpdateInstance(now, in, marked)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A survey of a cancelled occasion takes no answer, though its row has not been ended yet.
// Shows: C33.
func TestAnAnswerToACancelledOccasion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a, events: [response.completed]}\n"), noJitter)
		a.At(a.Now())
		mark(t, s, a.row(), a.Now())
		if err := a.submit(good); !errors.Is(err, answer.ErrClosed) {
			t.Errorf("an answer: %v", err)
		}
	})
}

// A conversation about a cancelled occasion is over, though the rows of the occasion have not been ended yet: what is written then answers nothing, and
// what was answered before is no response.
//
// Shows: C33.
func TestAConversationOfACancelledOccasion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := askedWorld(t, s)
		w.after(time.Minute)
		w.mustBe("an answer", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
		w.mustBe("asked on", w.spoken(), []string{"Pain, 0 to 10?"})
		open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{}, store.Page{Limit: 10})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v, %v", open, err)
		}
		mark(t, s, w.Delivery(open[0].Delivery), w.Clock.Now())
		w.after(time.Minute)
		w.mustBe("after the cancel", w.replies("sms:default", "+254700000001", "3"), []string{"ann  session_over"})
		w.mustBe("nothing", w.spoken(), nil)
		w.after(72 * time.Hour)
		w.mustBe("no response", w.answered(), nil)
	})
}
