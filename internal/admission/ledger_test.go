package admission

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// A sent message counts for every limit, even if its clock was ahead. A message that waits in a slot that has passed counts for no cooldown, but for
// the caps of its window; if only sent messages count, waiting ones count for nothing.
//
// Shows: A31, A32, A39.
func TestWhichSlotsCount(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	tomorrow := cadence.Verdict{At: time.Date(2026, 5, 14, 22, 0, 0, 0, time.UTC), Reason: reason.CadenceDaily}
	after := func(at time.Time) cadence.Verdict {
		return cadence.Verdict{At: at.Add(2 * time.Hour), Reason: reason.CadenceCooldown}
	}
	free, soon, just, past := cadence.Verdict{At: now}, now.Add(50*time.Millisecond), now.Add(-time.Minute), now.Add(-time.Minute-time.Microsecond)
	for name, c := range map[string]struct {
		rules string
		slot  time.Time
		waits bool
		want  cadence.Verdict
	}{
		"sent by a later clock":                       {`{"max_per_day": 1, "count": "sent"}`, soon, false, tomorrow},
		"where only what was sent counts, it waits":   {`{"max_per_day": 1, "count": "sent"}`, soon, true, free},
		"it has just begun to wait":                   {`{"max_per_day": 1, "count": "sent"}`, now, true, free},
		"so too for the cooldown":                     {`{"cooldown": "2h", "count": "sent"}`, just, true, free},
		"the cooldown of what left":                   {`{"cooldown": "2h"}`, past, false, after(past)},
		"of what waits within the grace":              {`{"cooldown": "2h"}`, just, true, after(just)},
		"of what waits in a place that has passed":    {`{"cooldown": "2h"}`, past, true, free},
		"of what waits within a grace of their own":   {`{"cooldown": "2h", "slot_grace": "1h"}`, past, true, after(past)},
		"the cap of what waits in a place that was":   {`{"max_per_day": 1}`, past, true, tomorrow},
		"and of the last 24 hours":                    {`{"max_per_day": 1, "window": "rolling"}`, past, true, cadence.Verdict{At: past.Add(24 * time.Hour), Reason: reason.CadenceDaily}},
		"the cap of yesterday's place is not today's": {`{"max_per_day": 1}`, now.Add(-20 * time.Hour), true, free},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person := delivery.Person{
				Contact: subject.Contact{ID: 1, Persona: "none", Cadence: c.rules}, Found: true, Locked: true, SlotsRead: true,
				Slots: []delivery.Slot{{At: c.slot, Type: "alert", Channel: "email:default", N: 1, Waits: c.waits}},
			}
			a := SlotRequest{Set: set, Person: person, Channel: "email:default", Type: "alert", Now: now, Until: now.AddDate(0, 1, 0)}
			if got := NewLedger(&civil.Zones{}, a.Now).Try(a); !got.At.Equal(c.want.At) || got.Reason != c.want.Reason {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// A slot that a transaction reserves or releases on one kind of channel counts on the others, in whatever order they are requested, and after the
// contact's slots were read again.
//
// Shows: A32, A41.
func TestTotalAcrossKinds(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	person := delivery.Person{
		Contact: subject.Contact{ID: 1, Persona: "none", Cadence: `{"total": {"max_per_day": 2}, "channels": {"sms": {"max_per_day": 9}}}`},
		Found:   true, Locked: true, SlotsRead: true,
		Slots: []delivery.Slot{{At: now.Add(-time.Hour), Type: "report", Channel: "push:default", N: 1}},
	}
	on := func(channel string) SlotRequest {
		return SlotRequest{Set: set, Person: person, Channel: channel, Type: "alert", Now: now, Until: now.AddDate(0, 1, 0)}
	}
	for _, asked := range []bool{false, true} { // whether the history of the other kind was made before
		ledger := NewLedger(&civil.Zones{}, now)
		free := func(b *Ledger, channel string) bool { return b.Try(on(channel)).At.Equal(now) }
		if asked && !free(ledger, "sms:default") {
			t.Error("one of two is left, and SMS has none")
		}
		ledger.Reserve(on("email:default"), now)
		for range 2 {
			if free(ledger, "sms:default") {
				t.Errorf("asked before: %v: SMS has a third of two", asked)
			}
			ledger.Forget(0, person.ID)
		}
		ledger.Release(on("email:default"), now, "alert")
		for range 2 {
			if !free(ledger, "sms:default") {
				t.Errorf("asked before: %v: the released slot is not free for SMS", asked)
			}
			ledger.Forget(0, person.ID)
		}
	}
}

// Two workspaces may have contacts of the same id: what is reserved, released or requeued for one is nothing to the other.
func TestALedgerKeepsWorkspacesApart(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	person := delivery.Person{Contact: subject.Contact{ID: 1, Persona: "none", Cadence: `{"max_per_day": 1}`}, Found: true, Locked: true, SlotsRead: true}
	of := func(ws subject.WorkspaceID) SlotRequest {
		return SlotRequest{Workspace: ws, Set: set, Person: person, Channel: "email:default", Type: "alert", Now: now, Until: now.AddDate(0, 1, 0)}
	}
	ledger := NewLedger(&civil.Zones{}, now)
	free := func(ws subject.WorkspaceID) bool { return ledger.Try(of(ws)).At.Equal(now) }
	ledger.Reserve(of(7), now)
	if free(7) || !free(8) {
		t.Errorf("reserved for workspace 7: free %t and %t", free(7), free(8))
	}
	ledger.Reserve(of(8), now)
	ledger.Requeue(delivery.Row{Workspace: 8, Contact: 1, Channel: "email:default", Type: "alert", Slot: now})
	if free(7) || !free(8) {
		t.Errorf("requeued of workspace 8: free %t and %t", free(7), free(8))
	}
	ledger.Forget(8, 1)
	if free(7) || !free(8) {
		t.Errorf("read again of workspace 8: free %t and %t", free(7), free(8))
	}
}
