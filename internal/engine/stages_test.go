package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// fourKinds are a reminder by a date, one by a threshold, a report of the calendar and a message of an event; all are due at twelve.
func fourKinds(audience, text string) string {
	var all strings.Builder
	for _, w := range []struct{ name, typ, trigger, timing string }{
		{"dated", "reminder", "record: paper", `{anchor: record.target, at: "12:00", timezone: UTC}`},
		{"full", "reminder", "record: room\n    metric: {name: used, value: record.used, thresholds: [80]}\n    fire: once_per_threshold", "{offset: 2h}"},
		{"news", "report", `schedule: {every: 1d, at: "12:00", from: 2026-05-14, times: 1}`, ""},
		{"order", "custom", "event: order.placed\n    dedup: [number]", "{offset: 2h}"},
	} {
		fmt.Fprintf(&all, "workflow: %s\ntype: %s\ntriggers:\n  - id: t\n    %s\n", w.name, w.typ, w.trigger)
		if w.timing != "" {
			fmt.Fprintf(&all, "timing: %s\n", w.timing)
		}
		fmt.Fprintf(&all, "audience: %s\nchannel: email\nmessage: {email: {subject: %s, text: %[2]s}}\n---\n", audience, text)
	}
	return all.String() + "record_type: paper\nfields: {target: date}\n---\nrecord_type: room\nfields: {used: number}\n---\n" +
		"workspace: default\ncadence: {max_per_day: 0}\nretry: {jitter: none}\n---\nchannel: email\nprovider: memory\n"
}

// Whatever causes a message, it has three stages. A planned occasion is a row, and sends nothing. When it is due it is completed: its messages wait
// in the queue, and nobody has got them yet. Each of these is sent by itself. Every stage finds due work in the tables alone, and no key depends on
// the recipients or the text.
// Shows: B2, B3, B4, B5, B10, B18.
func TestStages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		keys := stages(newWorld(t, s, fourKinds(`{address: '"ann@example.org"', kind: email}`, "x")))
		others := stages(newWorld(t, storetest.Memory(t), fourKinds(`{address: '"bob@example.com"', kind: email}`, "something else")))
		if diff := cmp.Diff(keys, others); diff != "" {
			t.Errorf("keys depend on audience, text or chance:\n%s", diff)
		}
	})
}

// stages takes the four kinds through their stages, and returns their keys.
func stages(w world) (keys []string) {
	w.Helper()
	fresh := func() { // the next stage runs in a process that has just started
		w.Helper()
		b := enginetest.Setup(w.TB, w.Store, "", nil)
		b.Clock.Set(w.Clock.Now())
		w = world{b}
	}
	w.put("paper/p", `{"target": "2026-05-14"}`)
	w.put("room/r", `{"used": 81}`)
	w.Post(`{"kind": "order.placed", "payload": {"number": 7}}`)
	w.live("11:59")
	fresh()
	list := func() []instance.Row {
		w.Helper()
		rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 10})
		if err != nil || len(rows) != 4 {
			w.Fatal(rows, err)
		}
		return rows
	}
	messages := func(of store.DeliveryFilter) []delivery.Row {
		w.Helper()
		rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, of, store.Page{Limit: 10})
		if err != nil {
			w.Fatal(err)
		}
		return rows
	}
	for _, row := range list() {
		keys = append(keys, row.Key)
		if due := row.DueAt; row.Status != instance.Pending || due.Before(at("12:00")) || due.After(at("12:00").Add(time.Minute)) {
			w.Errorf("planned: %+v", row)
		}
	}
	if n := len(messages(store.DeliveryFilter{})); n != 0 || len(w.Provider.Sent()) != 0 {
		w.Errorf("%d messages before anything is due", n)
	}
	fresh()
	w.Provider.Next(slices.Repeat([]error{channel.Temporary(errors.New("closed"))}, 4)...)
	w.live("12:02")
	completed := list()
	for _, row := range completed {
		theirs := messages(store.DeliveryFilter{Instance: row.ID})
		if row.Status != instance.Completed || row.Reason != reason.Expanded || row.Attempts != 1 {
			w.Errorf("due: %+v", row)
		}
		if len(theirs) != 1 || theirs[0].Status != delivery.Scheduled || theirs[0].RetryCount != 1 {
			w.Errorf("what came of %s: %+v", row.Key, theirs)
		}
	}
	fresh()
	w.live("12:30")
	if n := len(w.Provider.Sent()); n != 4 {
		w.Errorf("sent %d", n)
	}
	if diff := cmp.Diff(completed, list()); diff != "" {
		w.Errorf("sending changed the instances:\n%s", diff)
	}
	slices.Sort(keys)
	return keys
}
