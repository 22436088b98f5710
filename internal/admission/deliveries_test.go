package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
)

// What becomes of the message to one recipient when its occasion is due.
//
// Shows: A38, A40, P5, R2, R4, R6.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	suppressed := func(p *delivery.Person) { p.Suppressed = true }
	noEmail := func(p *delivery.Person) { p.Address, p.Addresses = "", map[string]string{"sms": "+49"} }
	waiting := func(p *delivery.Person) {
		p.Waiting = []delivery.Waiting{{Context: "order/1", Row: claimOf(7, 1, "plain", func(c *delivery.Claim) {
			c.Instance, c.SendAt, c.Slot, c.DeferredBy = 1, tenOClock.Add(50*time.Minute), tenOClock.Add(50*time.Minute), reason.CadenceCooldown
		}).Row}}
	}
	taken := func(p *delivery.Person) {
		p.Slots = []delivery.Slot{{At: tenOClock.Add(-10 * time.Minute), Type: "alert", Channel: "email:default", N: 1}}
	}
	for name, tt := range map[string]struct {
		workflow string
		dueIn    time.Duration
		delay    instance.Delay // of the occasion: why it is not late
		people   []func(*delivery.Person)
		want     string
	}{
		"now":                            {want: "scheduled 14 10:00"},
		"later":                          {dueIn: time.Hour, want: "scheduled 14 11:00"},
		"too late":                       {dueIn: -2 * time.Hour, want: "skipped stale"},
		"too late, but it was held up":   {dueIn: -2 * time.Hour, delay: instance.DelayedByFailure, want: "scheduled 14 10:00"},
		"suppressed":                     {people: []func(*delivery.Person){suppressed}, want: "cancelled suppressed"},
		"suppressed, later":              {dueIn: time.Hour, people: []func(*delivery.Person){suppressed}, want: "cancelled suppressed"},
		"suppressed, without an address": {people: []func(*delivery.Person){suppressed, noEmail}, want: "cancelled suppressed"},
		"suppressed, with a fallback":    {workflow: "falling", people: []func(*delivery.Person){suppressed, noEmail}, want: "cancelled suppressed"},
		"no address":                     {people: []func(*delivery.Person){noEmail}, want: "skipped no_address"},
		"no address, a fallback":         {workflow: "falling", people: []func(*delivery.Person){noEmail}, want: "skipped no_address | sms:default scheduled 14 10:00"},
		"a limit":                        {people: []func(*delivery.Person){taken}, want: "scheduled cooldown 14 10:50"},
		"a limit, critical":              {workflow: "critical", people: []func(*delivery.Person){taken}, want: "scheduled 14 10:00"},
		"a limit leaves it out":          {workflow: "skipping", people: []func(*delivery.Person){taken}, want: "skipped cooldown"},
		"a limit, a fallback":            {workflow: "falling", people: []func(*delivery.Person){taken}, want: "skipped cooldown | sms:default scheduled 14 10:00"},
		"a limit, it may be folded":      {workflow: "folding", people: []func(*delivery.Person){taken}, want: "scheduled cooldown 14 10:50 in 1"},
		"an older one waits":             {people: []func(*delivery.Person){taken, waiting}, want: "scheduled cooldown 14 10:50 ends 7 superseded"},
	} {
		if tt.workflow == "" {
			tt.workflow = "plain"
		}
		person := contactOf(1)
		person.Locked, person.SlotsRead = true, true
		for _, change := range tt.people {
			change(&person)
		}
		o := Occasion{Set: set, Trigger: set.Workflow(tt.workflow).TriggerByID("t"), Now: tenOClock, Instance: instance.Row{
			Workspace: 1, ID: 5, Key: "k", Workflow: tt.workflow, Type: "alert", Trigger: "t", Status: instance.Pending, Delay: tt.delay,
			DueAt: tenOClock.Add(tt.dueIn), Context: "order/1",
		}}
		ledger, id := NewLedger(&civil.Zones{}, tenOClock), delivery.ID(0)
		var lines []string
		for i, row := range ledger.Deliveries(nil, o, Recipient{Person: person}, func() delivery.ID { id++; return id }) {
			line := says(Verdict{Row: row})
			if i > 0 {
				line = row.Channel + " " + line
			}
			lines = append(lines, line)
		}
		got := strings.Join(lines, " | ")
		for _, row := range ledger.Ended() {
			got += fmt.Sprint(" ends ", row.ID, " ", row.Reason)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A contact who is suppressed gets nothing by any of their channels, whatever limits, fallbacks and zones say.
//
// Shows: P5.
func TestSuppressionIsAbsolute(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	for _, w := range set.Workflows() {
		person := contactOf(1)
		person.Suppressed = true
		o := Occasion{Set: set, Trigger: w.TriggerByID("t"), Now: tenOClock, Instance: instance.Row{Workspace: 1, ID: 5, Key: "k", Workflow: w.Name, Type: "alert", DueAt: tenOClock}}
		rows := NewLedger(&civil.Zones{}, tenOClock).Deliveries(nil, o, Recipient{Person: person, Address: "other@example.com"}, func() delivery.ID { return 1 })
		if len(rows) != 1 || rows[0].Status != delivery.Cancelled || rows[0].Reason != reason.Suppressed || !rows[0].SendAt.IsZero() || !rows[0].Slot.IsZero() {
			t.Errorf("%s: %+v", w.Name, rows)
		}
		world := world{set: set, due: []delivery.Claim{claimOf(1, 1, w.Name, noSlot, func(c *delivery.Claim) { c.Person.Suppressed = true })}}
		if d := world.decide(t); saysAll(d) != "cancelled suppressed" {
			t.Errorf("%s: %s", w.Name, saysAll(d))
		}
	}
}
