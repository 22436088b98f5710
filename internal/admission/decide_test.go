package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// tenOClock is a Thursday, at noon in Berlin.
var tenOClock = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

const decided = `
workspace: default
timezone: UTC
cadence: {cooldown: 1h, max_per_day: 3}
---
{channel: email, provider: memory}
---
{channel: sms, provider: memory}
---
{channel: "email:slow", provider: memory, rate: 1/m}
---
{channel: "email:few", provider: memory, only_to: ["*@example.org"]}
---
{channel: "email:hold", provider: memory, on_unknown: hold}
---
persona: Sleeper
cadence: {quiet_hours: "08:00-18:00"}
`

// decidedWorkflow is a workflow with one trigger; more are further keys of the trigger.
const decidedWorkflow = `
---
workflow: %[1]s
type: alert
enabled: %[4]t
triggers: [{id: t, %[2]s}]
audience: [{to: event.who}]
channel: %[3]s
message: {email: {subject: x, text: x}, sms: {text: x}}
timing: {catch_up: 1h}
`

func decidedSet(t *testing.T) *definition.Set {
	t.Helper()
	text := decided
	for _, w := range []struct {
		name, trigger, channel string
		off                    bool
	}{
		{name: "plain", trigger: "event: e"},
		{name: "disabled", trigger: "event: e", off: true},
		{name: "critical", trigger: "event: e, limits: {critical: true}"},
		{name: "folding", trigger: "event: e, limits: {at_send: fold}"},
		{name: "failing", trigger: "event: e, limits: {at_send: fail}"},
		{name: "skipping", trigger: "event: e, limits: {at_create: skip}"},
		{name: "falling", trigger: "event: e, limits: {at_create: fallback}, fallback: [sms]"},
		{name: "window", trigger: `event: e, limits: {send_window: "12:00-14:00"}`},
		{name: "slow", trigger: "event: e, limits: {critical: true}", channel: "email:slow"},
		{name: "few", trigger: "event: e", channel: "email:few"},
		{name: "hold", trigger: "event: e", channel: "email:hold"},
		{name: "texting", trigger: "event: e", channel: "sms"},
	} {
		if w.channel == "" {
			w.channel = "email"
		}
		text += fmt.Sprintf(decidedWorkflow, w.name, w.trigger, w.channel, !w.off)
	}
	for _, name := range []string{"braked", "second"} { // two messages an hour
		text += fmt.Sprintf(decidedWorkflow, name, "event: e", "email", true) + "limits: {max_sends_per_hour: 2}\n"
	}
	text += fmt.Sprintf(decidedWorkflow, "pacedbraked", "event: e", "email:slow", true) + "limits: {max_sends_per_hour: 2}\n"
	return compile(t, text)
}

// world is what a test of a batch knows.
type world struct {
	set     *definition.Set
	due     []delivery.Claim
	beside  []delivery.Claim // due for the same people, with no slot ahead
	slots   map[subject.ContactID][]delivery.Slot
	owners  []delivery.PersonRef // of every address that is not its contact's
	lock    func(*delivery.Person)
	heads   []delivery.Row
	members []delivery.Row
	resting []string // channels whose provider is away for ten minutes
	onlyTo  flow.Allow
	sends   flow.Sends // of every workflow that counts them
	givenUp time.Time
	ids     delivery.ID
}

func (w *world) rules(list []delivery.Claim) []Claimed {
	claims := make([]Claimed, len(list))
	for i, c := range list {
		claims[i] = Claimed{Claim: c, Rules: RulesOf(c.Row, w.set, w.set)}
	}
	return claims
}

// decide runs a batch as the sender does, and again when it asks for that.
func (w *world) decide(t interface{ Fatal(...any) }) Decision {
	facts := Facts{
		Now: tenOClock, Zones: &civil.Zones{}, OnlyTo: w.onlyTo, GivenUpUntil: w.givenUp, NoJitter: true, Ahead: time.Second,
		Workspaces: map[subject.WorkspaceID]Secrets{1: {Addresses: key.NewKeyed([]byte("secret"), key.PurposeAddress), Jitter: key.NewKeyed([]byte("secret"), key.PurposeJitter)}},
		Resting:    map[delivery.PaceRef]flow.Verdict{},
		NewID:      func() delivery.ID { w.ids++; return 1000 + w.ids },
	}
	for _, name := range w.resting {
		facts.Resting[delivery.PaceRef{Workspace: 1, Channel: name}] = flow.Verdict{Until: tenOClock.Add(10 * time.Minute)}
	}
	lock := func(b *Batch, refs []delivery.PersonRef) {
		owners := map[delivery.AddressRef][]delivery.PersonRef{}
		for _, a := range b.AddressesToFind() {
			owners[a] = w.owners
		}
		locked := map[delivery.PersonRef]delivery.Person{}
		for _, ref := range b.WithOwners(refs, owners) {
			p := contactOf(ref.ID)
			p.Locked, p.SlotsRead, p.Slots = true, true, w.slots[ref.ID]
			for _, c := range w.due {
				if c.Contact == ref.ID {
					p.Contact = c.Person.Contact
				}
			}
			if w.lock != nil {
				w.lock(&p)
			}
			locked[ref] = p
		}
		b.Locked(locked)
	}
	earlier := NewEarlier()
	for range 10 {
		w.ids = 0
		b := NewBatch(facts, earlier)
		if b.Add(w.rules(w.due)) {
			continue
		}
		read := b.SlotsToRead()
		for ref, p := range read {
			p.SlotsRead, p.Slots = true, w.slots[ref.ID]
			read[ref] = p
		}
		b.SlotsRead(read)
		lock(b, b.ToLock())
		groups := b.PeersToClaim()
		b.AddPeers(w.rules(slices.DeleteFunc(slices.Clone(w.beside), func(c delivery.Claim) bool { return !slices.Contains(groups, peerGroupOf(c.Row)) })))
		lock(b, nil)
		persons, _, _ := b.ToFold()
		var members []Member
		for _, row := range w.members {
			members = append(members, Member{Row: row, Rules: RulesOf(row, w.set, w.set)})
		}
		b.FoldsRead(persons, slices.DeleteFunc(slices.Clone(w.heads), func(row delivery.Row) bool { return !slices.Contains(persons, delivery.PersonOf(row)) }), members, nil)
		paces := map[delivery.PaceRef]flow.Pace{}
		for _, ref := range b.Channels() {
			paces[ref] = flow.Pace{}
		}
		sends := map[delivery.WorkflowRef]flow.Sends{}
		for _, ref := range b.Counted() {
			sends[ref] = w.sends
		}
		if d, again := b.Decide(paces, sends); !again {
			return d
		}
	}
	t.Fatal("the batch asks to run again and again")
	return Decision{}
}

func contactOf(id subject.ContactID) delivery.Person {
	address := fmt.Sprint(id, "@example.com")
	return delivery.Person{Found: true, Contact: subject.Contact{ID: id, ExtID: fmt.Sprint(id), Address: address, Addresses: map[string]string{"email": address, "sms": "+49"}}}
}

// claimOf is a first message that is due now, in a slot of its own.
func claimOf(id delivery.ID, to subject.ContactID, workflow string, changes ...func(*delivery.Claim)) delivery.Claim {
	channel := map[string]string{"slow": "email:slow", "few": "email:few", "hold": "email:hold", "pacedbraked": "email:slow", "texting": "sms:default"}[workflow]
	if channel == "" {
		channel = "email:default"
	}
	p := contactOf(to)
	c := delivery.Claim{Person: p, Row: delivery.Row{
		Workspace: 1, ID: id, Key: fmt.Sprint("k", id), Contact: to, Workflow: workflow, Type: "alert", Trigger: "t", Channel: channel, Version: 1,
		Address: p.Address, OwnAddress: true, Status: delivery.Scheduled, NotBefore: tenOClock, SendAt: tenOClock, Slot: tenOClock, AttemptNo: 1, IntentAt: tenOClock,
	}}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func noSlot(c *delivery.Claim) { c.Slot = time.Time{} }

// says puts a verdict into one line: what becomes of the delivery, why, and when it is due again.
func says(v Verdict) string {
	if v.Send {
		line := "sent"
		for _, row := range v.Folded {
			line += fmt.Sprint(" with ", row.ID)
		}
		return line
	}
	line := fmt.Sprint(v.Row.Status, " ", v.Row.Reason)
	switch row := v.Row; {
	case row.Parked():
		line += " parked"
	case !row.SendAt.IsZero():
		line += " " + string(row.DeferredBy) + " " + row.LeavesAt().Format("02 15:04")
	}
	if v.Row.FoldedInto != 0 {
		line += fmt.Sprint(" in ", v.Row.FoldedInto)
	}
	if v.Fallback != nil {
		line += " instead " + v.Fallback.Channel
	}
	return strings.Join(strings.Fields(line), " ")
}

func saysAll(d Decision) string {
	lines := make([]string, len(d.Verdicts))
	for i, v := range d.Verdicts {
		lines[i] = says(v)
	}
	return strings.Join(lines, " | ")
}

// What keeps one message from leaving, whatever its limits say. Of several obstacles, the one that comes first in the list decides.
//
// Shows: P5, R17.
func TestWhatStopsAMessage(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	row := func(change func(*delivery.Row)) func(*delivery.Claim) {
		return func(c *delivery.Claim) { change(&c.Row) }
	}
	who := func(change func(*delivery.Person)) func(*delivery.Claim) {
		return func(c *delivery.Claim) { change(&c.Person) }
	}
	unknown := row(func(r *delivery.Row) { r.UnknownSince = tenOClock.Add(-time.Minute) })
	lostWorker := func(c *delivery.Claim) {
		c.LostIntent, c.UnknownSince = tenOClock.Add(-time.Minute), tenOClock.Add(-time.Minute)
	}
	late := row(func(r *delivery.Row) { r.SendAt, r.Slot = tenOClock.Add(-2*time.Hour), tenOClock.Add(-2*time.Hour) })
	reminder := row(func(r *delivery.Row) {
		r.Step, r.Status, r.LastSentAt, r.Slot = 1, delivery.Sent, tenOClock.Add(-24*time.Hour), time.Time{}
	})
	foreign := row(func(r *delivery.Row) { r.Address, r.OwnAddress = "other@example.com", false })
	noAddress := who(func(p *delivery.Person) { p.Address, p.Addresses = "", map[string]string{"sms": "+49"} })
	suppressed := who(func(p *delivery.Person) { p.Suppressed = true })
	stopped := row(func(r *delivery.Row) { r.StopReason = reason.CancelledByPerson })
	cancelled := func(c *delivery.Claim) { c.CancelledAt = tenOClock.Add(-time.Minute) }
	for name, tt := range map[string]struct {
		workflow string
		changes  []func(*delivery.Claim)
		world    world
		want     string
	}{
		"nothing":                                {want: "sent"},
		"its workflow is deleted":                {workflow: "gone", want: "cancelled workflow_inactive"},
		"its trigger is deleted":                 {changes: []func(*delivery.Claim){row(func(r *delivery.Row) { r.Trigger = "gone" })}, want: "cancelled workflow_inactive"},
		"its workflow is switched off":           {workflow: "disabled", want: "scheduled workflow_inactive 14 11:00"},
		"a stop request":                         {changes: []func(*delivery.Claim){stopped}, want: "cancelled cancelled_by_operator"},
		"a stop request, of a reminder":          {changes: []func(*delivery.Claim){stopped, reminder}, want: "sent cancelled_by_operator"},
		"its occasion is cancelled":              {changes: []func(*delivery.Claim){cancelled}, want: "cancelled cancelled_by_operator"},
		"cancelled, of a reminder":               {changes: []func(*delivery.Claim){cancelled, reminder}, want: "cancelled cancelled_by_operator"},
		"cancelled, and switched off":            {workflow: "disabled", changes: []func(*delivery.Claim){cancelled}, want: "cancelled cancelled_by_operator"},
		"cancelled, and paused":                  {changes: []func(*delivery.Claim){cancelled, func(c *delivery.Claim) { c.PausedAt = tenOClock }}, want: "cancelled cancelled_by_operator"},
		"cancelled, and its outcome is unknown":  {workflow: "hold", changes: []func(*delivery.Claim){cancelled, unknown}, want: "cancelled cancelled_by_operator"},
		"cancelled, and its provider is away":    {changes: []func(*delivery.Claim){cancelled}, world: world{resting: []string{"email:default"}}, want: "cancelled cancelled_by_operator"},
		"its contact is suppressed":              {changes: []func(*delivery.Claim){suppressed}, want: "cancelled suppressed"},
		"its contact is suppressed under a lock": {changes: []func(*delivery.Claim){noSlot}, world: world{lock: func(p *delivery.Person) { p.Suppressed = true }}, want: "cancelled suppressed"},
		"the owner of its address is suppressed": {
			changes: []func(*delivery.Claim){foreign}, want: "cancelled suppressed",
			world: world{owners: []delivery.PersonRef{{Workspace: 1, ID: 9}}, lock: func(p *delivery.Person) { p.Suppressed = p.ID == 9 }},
		},
		"the owner of its address is not suppressed":           {changes: []func(*delivery.Claim){foreign}, world: world{owners: []delivery.PersonRef{{Workspace: 1, ID: 9}}}, want: "sent"},
		"its contact was merged":                               {changes: []func(*delivery.Claim){who(func(p *delivery.Person) { p.MergedInto = 3 })}, want: "skipped duplicate"},
		"its workflow is paused":                               {changes: []func(*delivery.Claim){func(c *delivery.Claim) { c.PausedAt = tenOClock }}, want: "scheduled workflow_paused parked"},
		"paused when it was too late already":                  {changes: []func(*delivery.Claim){late, func(c *delivery.Claim) { c.PausedAt = tenOClock }}, want: "skipped stale"},
		"paused, and stopped":                                  {changes: []func(*delivery.Claim){stopped, func(c *delivery.Claim) { c.PausedAt = tenOClock }}, want: "cancelled cancelled_by_operator"},
		"no channel":                                           {changes: []func(*delivery.Claim){row(func(r *delivery.Row) { r.Channel = "email:gone" })}, want: "scheduled no_channel"},
		"no address":                                           {changes: []func(*delivery.Claim){noAddress}, want: "skipped no_address"},
		"no address, but a fallback":                           {workflow: "falling", changes: []func(*delivery.Claim){noAddress}, want: "skipped no_address instead sms:default"},
		"the channel may not write there":                      {workflow: "few", want: "skipped not_allowed"},
		"the process may not write there":                      {world: world{onlyTo: flow.Allow{"*@example.org"}}, want: "skipped not_allowed"},
		"it is too late":                                       {changes: []func(*delivery.Claim){late}, want: "skipped stale"},
		"due before the copy was restored":                     {world: world{givenUp: tenOClock.Add(time.Minute)}, want: "skipped restored"},
		"due after the copy was restored":                      {world: world{givenUp: tenOClock.Add(-time.Minute)}, want: "sent"},
		"its outcome is unknown, and the channel holds":        {workflow: "hold", changes: []func(*delivery.Claim){unknown}, want: "unknown reply_lost"},
		"its worker was lost, and the channel holds":           {workflow: "hold", changes: []func(*delivery.Claim){lostWorker}, want: "unknown worker_lost"},
		"its outcome is unknown, and the channel sends again":  {changes: []func(*delivery.Claim){unknown}, want: "sent"},
		"its outcome is unknown, at another address":           {changes: []func(*delivery.Claim){unknown, who(func(p *delivery.Person) { p.Address, p.Addresses = "new@example.com", nil })}, want: "unknown reply_lost"},
		"its outcome is unknown, and it is too late":           {changes: []func(*delivery.Claim){late, unknown}, want: "unknown reply_lost"},
		"its outcome is unknown, and it may not be sent there": {changes: []func(*delivery.Claim){unknown}, world: world{onlyTo: flow.Allow{"x"}}, want: "unknown reply_lost"},
		"its provider is away":                                 {world: world{resting: []string{"email:default"}}, want: "scheduled channel_down 14 10:10"},
		"another provider is away":                             {world: world{resting: []string{"sms:default"}}, want: "sent"},
		"its provider is away, and it is stopped":              {changes: []func(*delivery.Claim){stopped}, world: world{resting: []string{"email:default"}}, want: "cancelled cancelled_by_operator"},
	} {
		w := tt.world
		if tt.workflow == "" {
			tt.workflow = "plain"
		}
		w.set, w.due = set, []delivery.Claim{claimOf(1, 1, tt.workflow, tt.changes...)}
		if got := saysAll(w.decide(t)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A delivery follows the set that it is pinned to, as long as its workflow exists; channels and switches are those of the set in force.
//
// Shows: R17.
func TestRulesOf(t *testing.T) {
	t.Parallel()
	const channel = "{channel: email, provider: memory}\n"
	workflow := func(more string, triggers ...string) string {
		text := "---\nworkflow: w\ntype: alert\n" + more + "triggers:\n"
		for _, one := range triggers {
			text += "  - {" + one + "}\n"
		}
		return text + "audience: [{to: event.who}]\nchannel: email\nmessage: {email: {subject: x, text: x}}\n"
	}
	pinned, plain, other := workflow("", "id: t, event: e"), workflow("pin: false\n", "id: t, event: e"), workflow("", "id: u, event: e")
	for name, tt := range map[string]struct {
		set, live string
		trigger   bool
		channel   bool
		off       bool
	}{
		"as it is":                          {set: channel + plain, live: channel + plain, trigger: true, channel: true},
		"its workflow is deleted":           {set: channel + plain, live: channel},
		"deleted, and pinned":               {set: channel + pinned, live: channel},
		"its trigger is deleted":            {set: channel + plain, live: channel + other, channel: true},
		"its trigger is deleted, pinned":    {set: channel + pinned, live: channel + other, trigger: true, channel: true},
		"its workflow is switched off":      {set: channel + plain, live: channel + workflow("enabled: false\n", "id: t, event: e"), trigger: true, channel: true, off: true},
		"its version is not known any more": {set: channel, live: channel + plain, channel: true},
	} {
		set, live := compile(t, tt.set), compile(t, tt.live)
		got := RulesOf(delivery.Row{Workflow: "w", Trigger: "t", Channel: "email:default"}, set, live)
		if (got.Trigger != nil) != tt.trigger || got.Off != tt.off || got.Trigger != nil && (got.Channel != nil) != tt.channel {
			t.Errorf("%s: trigger %t, channel %t, off %t", name, got.Trigger != nil, got.Channel != nil, got.Off)
		}
	}
}

// What the limits of a contact and the rate of a channel make of the messages of a batch.
//
// Shows: A36, A40, R2, R4, R7.
func TestWhatLimitsDecide(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	at := func(minutes int) delivery.Slot {
		return delivery.Slot{At: tenOClock.Add(time.Duration(minutes) * time.Minute), Type: "alert", Channel: "email:default", N: 1}
	}
	waiting := func(minutes int) delivery.Slot {
		s := at(minutes)
		s.Waits = true
		return s
	}
	own := waiting(0)
	taken := func(slots ...delivery.Slot) map[subject.ContactID][]delivery.Slot {
		return map[subject.ContactID][]delivery.Slot{1: slots}
	}
	due := func(claims ...delivery.Claim) []delivery.Claim { return claims }
	asleep := func(c *delivery.Claim) { c.Person.Persona = "Sleeper" }
	laterDue := func(c *delivery.Claim) { c.NotBefore = tenOClock.Add(time.Second) }
	urgent := func(c *delivery.Claim) { c.Priority = flow.Urgent }
	waited := func(c *delivery.Claim) { c.Slot = tenOClock.Add(-2 * time.Hour) } // in a slot that has passed
	reminder := func(c *delivery.Claim) {
		c.Step, c.Status, c.LastSentAt, c.Slot = 1, delivery.Sent, tenOClock.Add(-48*time.Hour), tenOClock.Add(-48*time.Hour)
	}
	member := func(of delivery.ID) func(*delivery.Claim) {
		return func(c *delivery.Claim) { c.Fold, c.FoldedInto, c.Slot = delivery.FoldMember, of, time.Time{} }
	}
	head := func(c *delivery.Claim) { c.SetFold(delivery.FoldHead, c.ID) }
	claimedReminder := func(c *delivery.Claim) {
		waited(c)
		c.Step, c.Status, c.LastSentAt = 1, delivery.Sent, tenOClock.Add(-3*time.Hour)
	}
	waitsHead := claimOf(7, 1, "folding", head, func(c *delivery.Claim) {
		c.SendAt, c.Slot = tenOClock.Add(50*time.Minute), tenOClock.Add(50*time.Minute)
	}).Row
	for name, tt := range map[string]struct {
		world
		want string
	}{
		"its own slot":                         {world{due: due(claimOf(1, 1, "plain")), slots: taken(own)}, "sent"},
		"no slot yet":                          {world{due: due(claimOf(1, 1, "plain", noSlot))}, "sent"},
		"the cooldown":                         {world{due: due(claimOf(1, 1, "plain", noSlot)), slots: taken(at(-10))}, "scheduled cooldown 14 10:50"},
		"the cooldown, its slot lost":          {world{due: due(claimOf(1, 1, "plain")), slots: taken(at(-10), own)}, "scheduled cooldown 14 10:50"},
		"the day's limit":                      {world{due: due(claimOf(1, 1, "plain", noSlot)), slots: taken(at(-180), at(-120), at(-61))}, "scheduled daily 15 00:00"},
		"quiet hours":                          {world{due: due(claimOf(1, 1, "plain", noSlot, asleep))}, "scheduled quiet_hours 14 18:00"},
		"a send window":                        {world{due: due(claimOf(1, 1, "window", noSlot))}, "scheduled send_window 14 12:00"},
		"a critical one passes":                {world{due: due(claimOf(1, 1, "critical", noSlot)), slots: taken(at(-10))}, "sent"},
		"left out when it is made":             {world{due: due(claimOf(1, 1, "skipping", noSlot)), slots: taken(at(-10))}, "skipped cooldown"},
		"fails when its slot has passed":       {world{due: due(claimOf(1, 1, "failing", waited)), slots: taken(at(-10))}, "failed cooldown"},
		"does not fail at first":               {world{due: due(claimOf(1, 1, "failing", noSlot)), slots: taken(at(-10))}, "scheduled cooldown 14 10:50"},
		"a reminder waits by its own limits":   {world{due: due(claimOf(1, 1, "plain", waited, reminder)), slots: taken(at(-10))}, "sent cooldown 14 10:50"},
		"a reminder is left out":               {world{due: due(claimOf(1, 1, "failing", claimedReminder)), slots: taken(at(-10))}, "sent cooldown"},
		"a fallback is free":                   {world{due: due(claimOf(1, 1, "falling", noSlot)), slots: taken(at(-10))}, "skipped cooldown instead sms:default"},
		"a fallback is free, its provider not": {world{due: due(claimOf(1, 1, "falling", noSlot)), slots: taken(at(-10)), resting: []string{"sms:default"}}, "scheduled cooldown 14 10:50"},
		"two peers share one slot":             {world{due: due(claimOf(2, 1, "plain", noSlot), claimOf(1, 1, "plain", noSlot))}, "sent | sent"},
		"the earlier of two peers leaves":      {world{due: due(claimOf(1, 1, "plain", noSlot, laterDue), claimOf(2, 1, "plain", noSlot)), slots: taken(at(-180), at(-120))}, "scheduled daily 15 00:00 | sent"},
		"the more urgent of two peers leaves":  {world{due: due(claimOf(1, 1, "plain", noSlot), claimOf(2, 1, "plain", noSlot, laterDue, urgent)), slots: taken(at(-180), at(-120))}, "scheduled daily 15 00:00 | sent"},
		"a peer that is claimed beside":        {world{due: due(claimOf(2, 1, "plain", noSlot, laterDue)), beside: due(claimOf(1, 1, "plain", noSlot)), slots: taken(at(-180), at(-120))}, "scheduled daily 15 00:00 | sent"},
		"peers release the slots they have":    {world{due: due(claimOf(1, 1, "plain", waited), claimOf(2, 1, "plain", waited)), slots: taken(waiting(-120), waiting(-120), at(-180), at(-240))}, "sent | scheduled daily 15 00:00"},
		"two contacts":                         {world{due: due(claimOf(1, 1, "plain", noSlot), claimOf(2, 2, "plain", noSlot))}, "sent | sent"},
		"a rate":                               {world{due: due(claimOf(1, 1, "slow"), claimOf(2, 2, "slow"))}, "sent | scheduled rate_limited 14 10:01"},
		"it becomes a fold head":               {world{due: due(claimOf(1, 1, "folding", noSlot)), slots: taken(at(-10))}, "scheduled cooldown 14 10:50 in 1"},
		"the second is folded into it":         {world{due: due(claimOf(1, 1, "folding", noSlot), claimOf(2, 1, "folding", noSlot)), slots: taken(at(-10))}, "scheduled cooldown 14 10:50 in 1 | scheduled cooldown 14 10:50 in 1"},
		"it is folded into one that waits":     {world{due: due(claimOf(1, 1, "folding", noSlot)), slots: taken(at(-10)), heads: []delivery.Row{waitsHead}}, "scheduled cooldown 14 10:50 in 7"},
		"a head leaves with its members":       {world{due: due(claimOf(1, 1, "folding", head)), slots: taken(own), members: []delivery.Row{claimOf(2, 1, "folding", member(1)).Row}}, "sent with 2"},
		"a member that may not be sent stays": {world{due: due(claimOf(1, 1, "folding", head)), slots: taken(own), members: []delivery.Row{
			claimOf(2, 1, "folding", member(1), func(c *delivery.Claim) { c.StopReason = reason.CancelledByPerson }).Row, claimOf(3, 1, "disabled", member(1)).Row, claimOf(4, 1, "plain", member(1)).Row,
		}}, "sent"},
		"a member is claimed with its head": {world{due: due(claimOf(1, 1, "folding", head), claimOf(2, 1, "folding", member(1))), slots: taken(own)}, "sent | skipped folded_into in 1"},
		"a member whose head has gone":      {world{due: due(claimOf(2, 1, "folding", member(1)))}, "sent"},
	} {
		w := tt.world
		w.set = set
		if got := saysAll(w.decide(t)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// Whatever is due: each claim has one verdict; nobody gets more than the limits allow; nothing leaves that is stopped; and what one contact gets does
// not depend on what else is claimed.
//
// Shows: A39, P5.
func TestBatchProperty(t *testing.T) {
	t.Parallel()
	set := decidedSet(t)
	rapid.Check(t, func(t *rapid.T) {
		w := world{set: set, slots: map[subject.ContactID][]delivery.Slot{}}
		for to := subject.ContactID(1); to <= 3; to++ {
			for _, minutes := range rapid.SliceOfN(rapid.IntRange(-600, -1), 0, 3).Draw(t, "taken") {
				w.slots[to] = append(w.slots[to], delivery.Slot{At: tenOClock.Add(time.Duration(minutes) * time.Minute), Type: "alert", Channel: "email:default", N: 1})
			}
		}
		workflows := rapid.SampledFrom([]string{"plain", "folding", "failing", "skipping", "falling", "window", "critical", "disabled"})
		for id := range delivery.ID(rapid.IntRange(1, 8).Draw(t, "claims")) {
			c := claimOf(id+1, rapid.SampledFrom([]subject.ContactID{1, 2, 3}).Draw(t, "to"), workflows.Draw(t, "workflow"), noSlot)
			c.NotBefore = tenOClock.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "due")) * time.Minute)
			if rapid.IntRange(0, 5).Draw(t, "stopped") == 0 {
				c.StopReason = reason.CancelledByPerson
			}
			c.Person.Suppressed = c.Contact == 3
			w.due = append(w.due, c)
		}
		w.lock = func(p *delivery.Person) { p.Suppressed = p.ID == 3 }
		d := w.decide(t)
		if len(d.Verdicts) != len(w.due) {
			t.Fatalf("%d verdicts about %d claims", len(d.Verdicts), len(w.due))
		}
		counted := map[subject.ContactID]int{}
		for i, v := range d.Verdicts {
			c := w.due[i]
			if v.Send && (c.StopReason != "" || c.Contact == 3 || c.Workflow == "disabled") {
				t.Fatalf("%s of %d leaves", c.Workflow, c.Contact)
			}
			if v.Send && c.Workflow != "critical" {
				counted[c.Contact]++
			}
			if !v.Send && !v.Changed {
				t.Fatalf("%s neither leaves nor changes", c.Workflow)
			}
		}
		for to, n := range counted {
			today := 0 // those that leave now share one slot, but each counts
			for _, s := range w.slots[to] {
				if s.At.Day() == tenOClock.Day() {
					today++
				}
			}
			if n+today > 3 {
				t.Fatalf("%d messages leave for %d after %d today", n, to, today)
			}
			for _, s := range w.slots[to] {
				if tenOClock.Sub(s.At) < time.Hour {
					t.Fatalf("a message leaves for %d %s after another one", to, tenOClock.Sub(s.At))
				}
			}
		}
		together := map[delivery.ID]string{}
		for i, v := range d.Verdicts {
			together[w.due[i].ID] = says(v)
		}
		alone := map[delivery.ID]string{}
		for to := subject.ContactID(1); to <= 3; to++ {
			one := w
			one.due = slices.DeleteFunc(slices.Clone(w.due), func(c delivery.Claim) bool { return c.Contact != to })
			for i, v := range one.decide(t).Verdicts {
				alone[one.due[i].ID] = says(v)
			}
		}
		if diff := cmp.Diff(together, alone); diff != "" {
			t.Fatalf("together (-) and alone (+):\n%s", diff)
		}
		again := w.decide(t)
		if diff := cmp.Diff(saysAll(d), saysAll(again)); diff != "" || len(slices.Collect(maps.Keys(again.Instants))) != 0 {
			t.Fatal(diff)
		}
	})
}
