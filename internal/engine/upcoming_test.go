package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// coming lists the occurrences of the workflow w: "month-day hour:minute status reason".
func (w world) coming(q outlook.Query) (list []string) {
	w.Helper()
	q.Workflow, q.Limit = "w", 3
	answer, err := w.Upcoming(w.Context(), w.Workspace.ID, q)
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range answer.Occurrences {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", o.At.UTC().Format("01-02 15:04"), o.Status, o.Reason)))
	}
	return list
}

// An outlook sees a record as its next evaluation will, before that evaluation: where another zone brings a message of a course before the one that
// waits, that one waits no longer, and comes again at its new instant.
//
// Shows: D16, R13.
func TestOutlookOfARecordThatIsNotEvaluatedYet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "workflow: w\ntype: broadcast\ntriggers:\n  - id: t\n    record: visit\n    timing:\n      anchor: record.day\n      timezone: record.zone\n"+
			"      sequence: [{day: 0, at: \"02:15\"}, {day: 1, at: \"01:00\"}]\naudience: {to: record.who}\nchannel: inbox\nmessage: {inbox: {text: x}}\n"+
			"---\nrecord_type: visit\nfields: {day: date, zone: text, who: text}\n---\npersona: Manager\n---\nchannel: inbox\nprovider: inbox\n", "ann")
		w.Clock.Set(time.Date(2026, 3, 23, 17, 30, 0, 0, time.UTC))
		visit := outlook.Query{Record: subject.RecordRef{Type: "visit", ExtID: "v"}}
		w.put("visit/v", `{"day": "2026-03-24", "zone": "Australia/Lord_Howe", "who": "ann"}`)
		before := []string{"03-24 14:00 planned"} // the first one is past
		w.mustBe("before the first evaluation", w.coming(visit), before)
		for w.tick() {
		}
		w.mustBe("after it", w.coming(visit), []string{"03-24 14:00 waiting"})
		w.put("visit/v", `{"zone": "Europe/Berlin"}`)
		moved := []string{"03-24 01:15 planned", "03-25 00:00 planned"}
		w.mustBe("in another zone", w.coming(visit), moved)
		if diff := cmp.Diff([]string{"24 01:15 ann", "25 00:00 ann"}, w.follow(w.Clock.Now().AddDate(0, 0, 5))); diff != "" {
			t.Errorf("sent (-want +got)\n%s", diff)
		}
	})
}

// What is held, paused or cancelled shows in the outlook, and an outlook changes nothing.
//
// Shows: D21, R3.
func TestOutlookOfWhatAPersonDid(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "workflow: w\ntype: broadcast\ntriggers:\n  - id: t\n    schedule: {every: 1d, at: \"12:00\"}\naudience: {persona: Manager}\n"+
			"channel: inbox\nmessage: {inbox: {text: x}}\n---\npersona: Manager\n---\nchannel: inbox\nprovider: inbox\n", "ann")
		pending := func() instance.Row {
			rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 5})
			if err != nil || len(rows) == 0 {
				t.Fatal(err, rows)
			}
			return rows[0]
		}
		ann := outlook.Query{Contact: "ann"}
		row := pending()
		w.mustBe("at first", w.coming(ann), []string{"05-14 12:00 waiting", "05-15 12:00 planned", "05-16 12:00 planned"})
		if pending() != row {
			t.Error("an outlook has changed something")
		}
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.mustBe("cancelled", w.coming(ann), []string{"05-15 12:00 waiting", "05-16 12:00 planned", "05-17 12:00 planned"})
		storetest.ChangeInstance(t, s, w.Clock.Now(), pending(), func(r *instance.Row) { r.PutOnHold(instance.HoldRetries, w.Clock.Now()) })
		if got := w.coming(ann); got[0] != "05-15 12:00 held retries_used_up" {
			t.Errorf("held: %q", got)
		}
		if _, err := w.Operator().Pause(t.Context(), w.Workspace.ID, "w", "why", "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		answer, err := w.Upcoming(t.Context(), w.Workspace.ID, outlook.Query{Workflow: "w", Limit: 1})
		if err != nil || answer.Pause == nil {
			t.Errorf("paused: %+v %v", answer.Pause, err)
		}
		var refused *outlook.Error
		if _, err := w.Upcoming(t.Context(), w.Workspace.ID, outlook.Query{Workflow: "ww", Limit: 1}); !errors.As(err, &refused) || !refused.Missing {
			t.Errorf("a workflow that does not exist: %v", err)
		}
	})
}

// After events the outlook has what waits of everybody, and for a contact what follows in their series, also where the first message was too late for
// a delivery. What an event would begin is in it where it is asked for, and nothing else is then.
//
// Shows: D16, C8, R3, R14.
func TestOutlookAfterEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, welcomes(threeMessages, ""))
		w.Clock.Set(time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC))
		w.Post(registered("ann", ""))
		w.Post(registered("late", `, "occurred_at": "2026-05-10T08:00:00Z"`)) // the messages of the 10th and the 13th are past; the latter is sent
		w.Post(registered("later", `, "occurred_at": "2026-05-09T08:00:00Z"`))
		for w.tick() {
		}
		w.mustBe("everybody", w.coming(outlook.Query{}), []string{"05-16 12:00 waiting", "05-17 12:00 waiting", "05-17 12:00 waiting"})
		w.mustBe("ann", w.coming(outlook.Query{Contact: "ann"}), []string{"05-17 12:00 waiting", "05-21 12:00 planned"})
		w.mustBe("an event that was late", w.coming(outlook.Query{Contact: "late"}), []string{"05-17 12:00 waiting"})
		w.mustBe("if it came now", w.coming(outlook.Query{Event: "registered"}), []string{"05-14 08:00 assumed", "05-17 12:00 assumed", "05-21 12:00 assumed"})
		answer, err := w.Upcoming(t.Context(), w.Workspace.ID, outlook.Query{Workflow: "w", Contact: "ann", Limit: 5})
		if err != nil || len(answer.Occurrences) != 2 || answer.Occurrences[0].Recipient != "ann" || answer.Occurrences[0].Event == 0 {
			t.Fatalf("%+v %v", answer, err)
		}
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, answer.Occurrences[0].Row.ID, "test", w.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		w.mustBe("one is cancelled", w.coming(outlook.Query{Contact: "ann"}), []string{"05-21 12:00 waiting"})
		for _, q := range []outlook.Query{
			{Event: "registred"},
			{Event: "registered", Record: subject.RecordRef{Type: "visit", ExtID: "v"}},
			{Record: subject.RecordRef{Type: "visit", ExtID: "v"}},
		} {
			q.Workflow, q.Limit = "w", 1
			var refused *outlook.Error
			if _, err := w.Upcoming(t.Context(), w.Workspace.ID, q); !errors.As(err, &refused) || refused.Missing || refused.Hint == "" {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}
