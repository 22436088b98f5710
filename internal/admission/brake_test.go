package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// What a workflow that may send two messages in an hour does with a third one. What does not leave for another reason pauses nothing.
func TestBrake(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	sent := func(ago ...time.Duration) (s flow.Sends) {
		for _, d := range ago {
			s = s.Add(tenOClock.Add(-d))
		}
		return s
	}
	used := func(ids ...subject.ContactID) map[subject.ContactID][]delivery.Slot {
		slots := map[subject.ContactID][]delivery.Slot{}
		for _, id := range ids {
			slots[id] = []delivery.Slot{{At: tenOClock.Add(-10 * time.Minute), Type: "alert", Channel: "email:default", N: 1}}
		}
		return slots
	}
	braked := func(id delivery.ID, changes ...func(*delivery.Claim)) delivery.Claim {
		return claimOf(id, subject.ContactID(id), "braked", changes...)
	}
	stopped := func(c *delivery.Claim) { c.StopReason = "stopped" }
	lost := func(c *delivery.Claim) {
		c.LostIntent, c.UnknownSince, c.AttemptNo = tenOClock.Add(-time.Minute), tenOClock.Add(-time.Minute), 2
	}
	for name, tt := range map[string]struct {
		world
		want   string
		count  int    // of the workflow afterwards; 0: nothing is written
		paused string // workflows
	}{
		"two of two":                      {world: world{due: []delivery.Claim{braked(1), braked(2)}}, want: "sent | sent", count: 2},
		"three":                           {world: world{due: []delivery.Claim{braked(1), braked(2), braked(3)}}, want: "sent | sent | scheduled workflow_paused parked", count: 2, paused: "braked"},
		"three without slots":             {world: world{due: []delivery.Claim{braked(1, noSlot), braked(2, noSlot), braked(3, noSlot)}}, want: "sent | sent | scheduled workflow_paused parked", count: 2, paused: "braked"},
		"one was sent before":             {world: world{due: []delivery.Claim{braked(1), braked(2)}, sends: sent(time.Hour)}, want: "sent | scheduled workflow_paused parked", count: 2, paused: "braked"},
		"two were":                        {world: world{due: []delivery.Claim{braked(1)}, sends: sent(time.Minute, time.Hour)}, want: "scheduled workflow_paused parked", paused: "braked"},
		"one of them is older":            {world: world{due: []delivery.Claim{braked(1)}, sends: sent(time.Minute, 61*time.Minute)}, want: "sent", count: 2},
		"the third waits for a limit":     {world: world{due: []delivery.Claim{braked(1), braked(2), braked(3, noSlot)}, slots: used(3)}, want: "sent | sent | scheduled cooldown 14 10:50", count: 2},
		"the first waits for a limit":     {world: world{due: []delivery.Claim{braked(1, noSlot), braked(2), braked(3)}, slots: used(1)}, want: "scheduled cooldown 14 10:50 | sent | sent", count: 2},
		"the third ends":                  {world: world{due: []delivery.Claim{braked(1), braked(2), braked(3, stopped)}}, want: "sent | sent | cancelled stopped", count: 2},
		"what may have arrived counts":    {world: world{due: []delivery.Claim{braked(1, lost), braked(2), braked(3)}}, want: "sent | sent | scheduled workflow_paused parked", count: 2, paused: "braked"},
		"another workflow goes on":        {world: world{due: []delivery.Claim{braked(1), claimOf(2, 2, "plain"), claimOf(3, 3, "second")}, sends: sent(time.Minute, time.Minute)}, want: "scheduled workflow_paused parked | sent | scheduled workflow_paused parked", paused: "braked second"},
		"the rate of its channel decides": {world: world{due: []delivery.Claim{claimOf(1, 1, "pacedbraked"), claimOf(2, 2, "pacedbraked"), claimOf(3, 3, "pacedbraked")}, sends: sent(time.Minute)}, want: "sent | scheduled rate_limited 14 10:01 | scheduled rate_limited 14 10:02", count: 2},
		"it needs no rate":                {world: world{due: []delivery.Claim{claimOf(1, 1, "pacedbraked"), claimOf(2, 2, "pacedbraked")}, sends: sent(0, 0)}, want: "scheduled workflow_paused parked | scheduled workflow_paused parked", paused: "pacedbraked"},
	} {
		tt.set = set
		d := tt.decide(t)
		var paused []string
		for _, f := range d.TooFast {
			paused = append(paused, f.Workflow)
			if f.Most != 2 || f.Sends < 2 || f.Workspace != 1 {
				t.Errorf("%s: %+v", name, f)
			}
		}
		count := 0
		for _, s := range d.Sends {
			count += s.Within(tenOClock)
		}
		if got := saysAll(d); got != tt.want || count != tt.count || strings.Join(paused, " ") != tt.paused {
			t.Errorf("%s: %s, %d count, paused %v\nwant %s, %d, %s", name, got, count, paused, tt.want, tt.count, tt.paused)
		}
		reported := 0
		for _, e := range d.Entries {
			if e.Reason == reason.TooFast {
				reported++
			}
		}
		if reported != len(paused) {
			t.Errorf("%s: reported %d times", name, reported)
		}
	}
}

// A message that is parked by the brake takes no place of its person: a message of another workflow gets the last one of the day.
func TestBrakeTakesNoSlot(t *testing.T) {
	t.Parallel()
	before := func(hours time.Duration) delivery.Slot {
		return delivery.Slot{At: tenOClock.Add(-hours * time.Hour), Type: "alert", Channel: "email:default", N: 1}
	}
	own := delivery.Slot{At: tenOClock, Type: "alert", Channel: "email:default", N: 1, Waits: true}
	counting := func(c *delivery.Claim) { c.Person.Cadence = `{"max_per_day": 3, "count": "sent"}` }
	for name, tt := range map[string]struct {
		slots  []delivery.Slot
		change []func(*delivery.Claim)
	}{
		"it has none":                      {[]delivery.Slot{before(5), before(3)}, []func(*delivery.Claim){noSlot}},
		"it has one, and what waits is no": {[]delivery.Slot{before(5), before(3), own}, []func(*delivery.Claim){counting}},
	} {
		w := world{
			set: decidedSet(t), due: []delivery.Claim{claimOf(1, 1, "braked", tt.change...), claimOf(2, 1, "plain", append(tt.change, noSlot)...)},
			slots: map[subject.ContactID][]delivery.Slot{1: tt.slots}, sends: flow.Sends{}.Add(tenOClock).Add(tenOClock),
		}
		if got := saysAll(w.decide(t)); got != "scheduled workflow_paused parked | sent" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Where only what was sent counts, a message that is parked in its own slot counts for no other kind of channel either.
func TestBrakeTakesNothingOfATotal(t *testing.T) {
	t.Parallel()
	before := func(hours time.Duration) delivery.Slot {
		return delivery.Slot{At: tenOClock.Add(-hours * time.Hour), Type: "alert", Channel: "email:default", N: 1}
	}
	own := delivery.Slot{At: tenOClock, Type: "alert", Channel: "email:default", N: 1, Waits: true}
	counting := func(c *delivery.Claim) {
		c.Person.Cadence = `{"count": "sent", "total": {"max_per_day": 3}, "channels": {"email": {"max_per_day": 9, "count": "sent"}, "sms": {"max_per_day": 9, "count": "sent"}}}`
	}
	for want, sends := range map[string]flow.Sends{
		"sent | scheduled daily 15 00:00":         nil,
		"scheduled workflow_paused parked | sent": flow.Sends{}.Add(tenOClock).Add(tenOClock),
	} {
		w := world{
			set: decidedSet(t), due: []delivery.Claim{claimOf(1, 1, "braked", counting), claimOf(2, 1, "texting", counting, noSlot)},
			slots: map[subject.ContactID][]delivery.Slot{1: {before(5), before(3), own}}, sends: sends,
		}
		if got := saysAll(w.decide(t)); got != want {
			t.Errorf("%v: %s, want %s", sends, got, want)
		}
	}
}
