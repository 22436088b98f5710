package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// decided returns the reasons of a record's decisions, the oldest first.
func (w world) decided(name string) (list []string) {
	w.Helper()
	row := w.record(name)
	found, err := w.Store.Decisions(w.Context(), w.Workspace.ID, store.DecisionFilter{Record: row.ID}, store.Page{})
	if err != nil {
		w.Fatal(err)
	}
	for _, d := range found {
		list = append([]string{d.At.Format("15:04") + " " + string(d.Reason)}, list...)
	}
	return list
}

func (w world) record(name string) store.RecordRow {
	w.Helper()
	typ, id, _ := strings.Cut(name, "/")
	row, err := w.Store.Record(w.Context(), w.Workspace.ID, subject.RecordRef{Type: typ, ExtID: id})
	if err != nil {
		w.Fatal(err)
	}
	return row
}

// One of several conditions cannot be evaluated: this is reported once for as long as it lasts, and explains why the trigger does not fire, whatever
// the other conditions are.
func TestAFailingConditionIsReported(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(simple("[change, 5m]", "    cooldown: {length: 1h}\n", ""), "when: record.morale < 50",
			"issues: {LOW: record.morale < 50, NONE: record.people < 1, HOT: record.heat > 5}", 1), "alice")
		w.put("team/a", `{"name": "T", "owner_id": "alice", "morale": 90, "heat": "9"}`)
		w.live("10:12")
		w.put("team/a", `{"morale": 80}`)
		w.live("10:20")
		standing := func() (reason.Reason, string) {
			t.Helper()
			all, err := w.ExplainRecord(t.Context(), w.Workspace.ID, w.record("team/a"))
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			if all[0].Err == nil {
				return all[0].Reason, ""
			}
			return all[0].Reason, all[0].Err.Error()
		}
		if why, text := standing(); why != reason.ExpressionFailed || !strings.HasPrefix(text, "record.heat > 5: ") {
			t.Errorf("it stands at %s, %s", why, text)
		}
		w.put("team/a", `{"heat": 1}`)
		w.live("10:22")
		if why, text := standing(); why != reason.ValueMissing || text != "" {
			t.Errorf("corrected it stands at %s, %s", why, text)
		}
		w.put("team/a", `{"heat": "9"}`)
		w.live("10:40")
		w.mustBe("reported", w.happened(journal.Failed), []string{"10:00 failed expression_failed", "10:22 failed expression_failed"})
		w.mustBe("kept", w.decided("team/a"), []string{"10:00 expression_failed", "10:22 expression_failed"})
	})
}

// An alert without an audience is reported in every episode, and once in each.
func TestAnAlertWithoutAudienceIsReportedOnceAnEpisode(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h}\n", ""))
		for _, change := range []string{"10:00 40", "10:20 90", "10:30 40", "10:50 90"} {
			when, morale, _ := strings.Cut(change, " ")
			w.live(when)
			w.put("team/a", `{"name": "T", "owner_id": "nobody", "morale": `+morale+`}`)
		}
		w.live("11:00")
		w.mustBe("kept", w.decided("team/a"), []string{"10:00 no_recipient", "10:30 no_recipient"})
		if state := w.record("team/a").State; strings.Contains(state, `"b"`) {
			t.Errorf("when all is well, it remembers %s", state)
		}
	})
}

// Records without a field of the context share a cooldown, and the log shows it.
func TestAContextWithoutAValueIsReported(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 1h, per: [record.region]}\n", ""), "alice")
		w.put("team/a", `{"name": "A", "owner_id": "alice", "morale": 40}`)
		w.live("10:10")
		w.put("team/b", `{"name": "B", "owner_id": "alice", "morale": 40}`)
		w.live("10:20")
		w.put("team/b", `{"morale": 30}`)
		w.put("team/c", `{"name": "C", "owner_id": "alice", "morale": 30, "region": "north"}`)
		w.live("10:30")
		const shares = "cooldown: per: record.region has no value: all records without it share one cooldown"
		var got []string
		for _, e := range w.Journal() {
			if e.What == journal.Created || e.What == journal.Throttled {
				got = append(got, strings.TrimSpace(e.At.Format("15:04")+" "+string(e.What)+" "+e.Record+" "+strings.Replace(e.Error, shares, "shared", 1)))
			}
		}
		w.mustBe("", got, []string{"10:00 created team/a shared", "10:10 throttled team/b shared", "10:20 throttled team/b", "10:20 created team/c"})
	})
}

// Only alerts that a write or a tick would have sent count as throttled. An apply, which evaluates all records, throttles nothing.
func TestAnApplyHoldsNothingBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		defs := simple("[change]", "    cooldown: {length: 1d}\n", "")
		w := newWorld(t, s, defs, "alice")
		held := func() int {
			t.Helper()
			rows, err := w.Throttles(t.Context(), w.Workspace.ID, store.ThrottleFilter{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%+v, %v", rows, err)
			}
			return rows[0].Held
		}
		w.morale("team/a", 40)
		w.live("10:10")
		w.morale("team/a", 30)
		w.live("10:20")
		before := held()
		for i := range 3 {
			w.Apply(strings.Replace(defs, "{{ record.name }}", fmt.Sprint("{{ record.name }} ", i), 1))
			w.Clock.Set(w.Clock.Now().Add(time.Minute))
			for w.tick() {
			}
		}
		if n := held(); before != 1 || n != 1 {
			t.Errorf("held back %d times, after other definitions %d", before, n)
		}
		w.live("10:40")
		w.morale("team/a", 20)
		w.live("11:00")
		if n := held(); n != 2 {
			t.Errorf("after another write %d", n)
		}
	})
}

// A value for which no condition can be computed does not clear an alert: it stays open until an evaluation finds that it is over, and it is not sent
// again when the value is bad again.
//
// Shows: R9.
func TestAFailedConditionDoesNotEndAnEpisode(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "    cooldown: {length: 9h, reset_on_clear: true}\n",
			"limits: {revalidate: true}\nresolved:\n  inbox:\n    subject: over\n    text: over\n"), "alice")
		subjects := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, out := range w.Provider.Sent() {
				got = append(got, out.Subject)
			}
			w.mustBe(when, got, want)
		}
		w.put("team/a", `{"name": "low", "owner_id": "alice", "morale": 10}`)
		w.live("10:01")
		subjects("at first", "low")
		for i, broken := range []string{`"abc"`, "1e400", "[10]", "true"} {
			w.put("team/a", `{"morale": `+broken+`}`)
			w.live(fmt.Sprintf("10:%d2", i+1))
			w.put("team/a", `{"morale": 20}`)
			w.live(fmt.Sprintf("10:%d3", i+1))
			subjects(broken)
		}
		w.put("team/a", `{"morale": "abc"}`)
		w.live("11:00")
		w.put("team/a", `{"morale": 90}`)
		w.live("11:10")
		subjects("when it is well", "over")
	})
}

// A threshold is not reached a second time when its value can be computed again.
func TestAFailureIsNoCrossing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits("    metric: {name: m, value: record.booked / record.seats, thresholds: [8]}\n    fire: false_to_true\n"), "ann")
		for i, booked := range []string{"9", `"?"`, "9"} {
			w.put("visit/v", `{"booked": `+booked+`, "seats": 1, "who": "ann"}`)
			w.live(fmt.Sprintf("10:0%d", i+1))
		}
		w.mustPlan("after a failure", map[string]string{"visit:v:t:threshold:m:8:FalseToTrue:e1": "completed expanded"})
	})
}
