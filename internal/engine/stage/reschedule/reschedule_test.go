package reschedule

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

var ten = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

// Messages take the first slots from now on that the limits leave, in the order in which they were due; those that stay where they are are not
// written.
func TestDecide(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return ten.Truncate(24*time.Hour).AddDate(0, 0, n) }
	for name, tt := range map[string]struct {
		limits, timing string
		slots          []time.Time // of the messages, which were due at intervals of a minute before ten
		change         func(rows []delivery.Row)
		want           string // id and new instant, or status
	}{
		"no limit is left":         {limits: "{}", slots: []time.Time{day(1), day(2)}, want: "1 14 10:00, 2 14 10:00"},
		"two a day":                {limits: "{max_per_day: 2}", slots: []time.Time{day(1), day(2), day(3)}, want: "1 14 10:00, 2 14 10:00, 3 15 00:00"},
		"one a day":                {limits: "{max_per_day: 1}", slots: []time.Time{ten.Add(time.Hour), ten.Add(2 * time.Hour)}, want: "1 14 10:00, 2 15 00:00"},
		"nothing moves":            {limits: "{max_per_day: 1, cooldown: 1h}", slots: []time.Time{ten, day(1)}, want: ""},
		"a cooldown":               {limits: "{cooldown: 3h, max_per_slot: 1}", slots: []time.Time{day(1), day(2)}, want: "1 14 10:00, 2 14 13:00"},
		"the order of what is due": {limits: "{cooldown: 3h, max_per_slot: 1}", slots: []time.Time{day(2), day(1)}, want: "1 14 10:00, 2 14 13:00"},
		"longer than it may wait":  {limits: "{max_per_month: 1}", timing: "timing: {expire_after: 3d}\n", slots: []time.Time{day(1), day(2)}, want: "1 14 10:00, 2 expired"},
		"its workflow is gone": {
			limits: "{}", slots: []time.Time{day(1), day(2)}, want: "2 14 10:00",
			change: func(rows []delivery.Row) { rows[0].Workflow = "gone" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := catalogtest.Of(t, "workflow: w\ntype: alert\ntriggers: [{id: t, event: x}]\naudience: [{to: event.who}]\nchannel: inbox\nmessage: {inbox: {text: x}}\n"+
				tt.timing+"---\npersona: Manager\ncadence: "+tt.limits+"\n---\nchannel: inbox\nprovider: inbox\n---\nworkspace: default\ncadence: {max_per_day: 0}\n")
			p := person{
				DueReschedule: store.DueReschedule{PersonRef: delivery.PersonRef{Workspace: catalogtest.Workspace, ID: 5}, InForce: 1},
				facts:         delivery.Person{Contact: subject.Contact{ID: 5, ExtID: "ann", Persona: "Manager"}, Found: true, Locked: true, SlotsRead: true},
			}
			for i, slot := range tt.slots {
				p.facts.Slots = append(p.facts.Slots, delivery.Slot{At: slot, Type: "alert", Channel: "inbox:default", N: 1, Waits: true})
				p.messages = append(p.messages, delivery.Row{
					Workspace: catalogtest.Workspace, ID: delivery.ID(i + 1), Contact: 5, Workflow: "w", Trigger: "t", Type: "alert", Channel: "inbox:default",
					Status: delivery.Scheduled, NotBefore: ten.Add(time.Duration(i-10) * time.Minute), SendAt: slot, Slot: slot, DeferredBy: reasonOf(slot), Reason: reasonOf(slot),
				})
			}
			if tt.change != nil {
				tt.change(p.messages)
			}
			r := run{catalog: known, now: ten}
			changed, err := r.decide([]person{p})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range changed {
				line := string(rune('0'+row.ID)) + " " + row.SendAt.Format("02 15:04")
				if row.Status != delivery.Scheduled {
					line = string(rune('0'+row.ID)) + " " + string(row.Status)
				}
				got = append(got, line)
			}
			if text := strings.Join(got, ", "); text != tt.want || len(r.entries) != len(changed) {
				t.Errorf("got %q with %d entries, want %q", text, len(r.entries), tt.want)
			}
		})
	}
}

// reasonOf is why a message waits for its slot.
func reasonOf(slot time.Time) reason.Reason {
	if slot.After(ten) {
		return reason.CadenceDaily
	}
	return ""
}
