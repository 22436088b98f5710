package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// The workflows of a storm of limits. What distinguishes them is what limits do to them; the judge knows them by name.
const (
	critical  = "siren" // passes the limits, and counts
	uncounted = "note"  // meets the limits, and uses up nothing
)

// limitDefinitions are those of a storm of limits, before its personas. The first channel honours idempotency keys; the
// second does not, and leaves an unknown outcome to a person.
const limitDefinitions = `
workspace: default
retry: {backoff: [1s, 1s], jitter: none, then: forever}
---
channel: sms:main
provider: http
settings: {url: "%[1]s/main"}
---
channel: email:spare
provider: http
settings: {url: "%[1]s/spare"}
on_unknown: hold
---
workflow: watch
type: alert
triggers:
  - id: low
    record: tank
    check: [change]
    when: record.level < 50
    cooldown: {length: 2s}
audience: [{to: record.people}]
channel: sms:main
fallback: [email:spare]
message:
  sms:
    text: "{{ record.id }}@{{ detected_at | date: '%%s' }}"
  email:
    subject: s
    text: "{{ record.id }}@{{ detected_at | date: '%%s' }}"
`

// limitWorkflows are those that events start: name, type, and what limits do to them.
func limitWorkflows() [][3]string {
	return [][3]string{
		{"news", "alert", "fallback: [email:spare]"},
		{"summary", "report", ""},
		{critical, "alert", "limits: {critical: true}"},
		{uncounted, "custom", "limits: {counts: false}"},
		{"brief", "alert", "limits: {at_create: skip}"},
		{"strict", "custom", "limits: {at_send: fail}\nfallback: [email:spare]"},
	}
}

// tankCooldown is that of the watch's contexts.
const tankCooldown = 2 * time.Second

// somebody is a person of a storm with the limits that hold for them.
type somebody struct {
	id    string
	zone  *time.Location
	rules cadence.Rules
	input client.ContactInput
}

// limitWorld is whom and what a storm of limits is about, all of it made from its seed.
type limitWorld struct {
	definitions string
	people      []somebody
	tanks       int
}

// newLimitWorld draws personas and people. Now only decides where quiet hours lie.
func newLimitWorld(chance *rand.Rand, url string, now time.Time, single bool) (w limitWorld, err error) {
	text := &strings.Builder{}
	fmt.Fprintf(text, limitDefinitions, url)
	for _, f := range limitWorkflows() {
		fmt.Fprintf(text, "---\nworkflow: %[1]s\ntype: %[2]s\ntriggers: [{id: t, event: %[1]s}]\naudience: [{to: event.recipient}]\n"+
			"channel: sms:main\nmessage:\n  sms:\n    text: \"{{ candidate.id }}\"\n  email:\n    subject: s\n    text: \"{{ candidate.id }}\"\n%[3]s\n", f[0], f[1], f[2])
	}
	draw := drawPolicy
	if single {
		draw = func(*rand.Rand) cadence.Policy { return cadence.Policy{Cooldown: time.Second, MaxPerSlot: 1} }
	}
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Auckland", "America/St_Johns", "America/Los_Angeles"}
	personas := make([]cadence.Rules, 3)
	for i := range personas {
		personas[i].Policy = draw(chance)
		personas[i].Channels = map[string]cadence.Policy{"email": {MaxPerDay: 1 + chance.IntN(3)}}
		fmt.Fprintf(text, "---\npersona: P%d\ncadence: %s\n", i, personas[i].JSON())
	}
	w.definitions, w.tanks = text.String(), 3
	const number = 12
	for i := range number {
		p := somebody{id: fmt.Sprint("p", i)}
		name := zones[chance.IntN(len(zones))]
		if p.zone, err = civil.LoadZone(name); err != nil {
			return w, err
		}
		p.input = client.ContactInput{ID: p.id, Timezone: name, Addresses: map[string]string{"sms": fmt.Sprintf("+4930000%02d", i), "email": p.id + "@example.org"}}
		if i%3 == 2 { // limits of their own, and no others
			p.rules.Policy = draw(chance)
			if !single {
				p.drawQuiet(chance, now)
			}
			p.input.Cadence = &client.Cadence{Limits: wirePolicy(p.rules.Policy)}
		} else {
			persona := chance.IntN(len(personas))
			p.rules, p.input.Persona = personas[persona], fmt.Sprint("P", persona)
			if i%3 == 1 { // one limit of their own over the persona's
				p.rules.Cooldown = time.Duration(1+chance.IntN(2)) * time.Second
				p.input.Cadence = &client.Cadence{Limits: client.Limits{Cooldown: p.rules.Cooldown.String()}}
			}
		}
		w.people = append(w.people, p)
	}
	return w, nil
}

// drawPolicy draws limits that a few seconds can hit: cooldowns of seconds, and windows by the number of messages.
func drawPolicy(chance *rand.Rand) cadence.Policy {
	pick := func(of ...int) int { return of[chance.IntN(len(of))] }
	p := cadence.Policy{
		Cooldown:   time.Duration(pick(0, 1, 1, 2)) * time.Second,
		MaxPerDay:  pick(0, 8, 15, 30),
		MaxPerWeek: pick(0, 0, 12, 25),
		MaxPerSlot: pick(0, 0, 1, 3),
		Rolling:    pick(0, 1) == 1,
		SlotGrace:  time.Duration(pick(0, 1, 3)) * time.Second,
	}
	if n := pick(0, 5, 12); n > 0 {
		p.TypeLimits = map[string]int{"alert": n}
	}
	if pick(0, 0, 0, 1) == 1 {
		p.MaxPerMonth = pick(20, 40)
	}
	if pick(0, 0, 1) == 1 {
		p.Types = []string{"alert", "report"}
	}
	if pick(0, 0, 0, 1) == 1 {
		p.Count = cadence.CountSent
	}
	if p.MaxPerSlot > 0 {
		p.Cooldown = max(p.Cooldown, time.Second)
	}
	if p.MaxPerDay+p.MaxPerWeek+p.MaxPerMonth == 0 {
		p.MaxPerDay = 20
	}
	return p
}

// drawQuiet gives some people quiet hours: that hold now, that begin with the next minute, or that are over.
func (p *somebody) drawQuiet(chance *rand.Rand, now time.Time) {
	local := now.In(p.zone)
	minute := local.Hour()*60 + local.Minute()
	span := func(from, to int) civil.Span {
		const day = 24 * 60
		return civil.Span{From: civil.TimeOfDay((from + day) % day * 60), To: civil.TimeOfDay((to + day) % day * 60)}
	}
	switch chance.IntN(4) {
	case 0:
		p.rules.Quiet = span(minute-60, minute+60)
	case 1:
		p.rules.Quiet = span(minute+1, minute+90)
	case 2:
		p.rules.Quiet = span(minute-90, minute)
	}
}

// wirePolicy is a policy as a caller writes it.
func wirePolicy(p cadence.Policy) client.Limits {
	l := client.Limits{
		MaxPerDay: p.MaxPerDay, MaxPerWeek: p.MaxPerWeek, MaxPerMonth: p.MaxPerMonth, MaxPerSlot: p.MaxPerSlot, TypeLimits: p.TypeLimits,
		Types: p.Types, QuietHours: p.Quiet.String(), Count: string(p.Count), Window: "calendar",
	}
	if p.Rolling {
		l.Window = "rolling"
	}
	if p.Cooldown > 0 {
		l.Cooldown = p.Cooldown.String()
	}
	if p.SlotGrace > 0 {
		l.SlotGrace = p.SlotGrace.String()
	}
	return l
}

// postPeople makes the people.
func (w limitWorld) postPeople(ctx context.Context, c *client.Client) error {
	inputs := make([]client.ContactInput, len(w.people))
	for i, p := range w.people {
		inputs[i] = p.input
	}
	answer, err := c.PostContacts(ctx, inputs...)
	if err == nil && answer.Created != len(inputs) {
		err = fmt.Errorf("%d of %d people: %+v", answer.Created, len(inputs), answer.Items)
	}
	return err
}

// event is the i-th one. Those of one round concern one person most of the time, so that processes meet at them.
func (w limitWorld) event(i int, chance *rand.Rand) client.Event {
	kinds := limitWorkflows()
	id := fmt.Sprintf("e%05d", i)
	kind := kinds[chance.IntN(len(kinds))][0]
	if kind == critical && chance.IntN(4) > 0 {
		kind = "news"
	}
	person := i / (letterBatch * letterPosters) % len(w.people)
	if chance.IntN(10) == 0 {
		person = chance.IntN(len(w.people))
	}
	return client.Event{
		ID: id, Kind: kind, Payload: map[string]any{"id": id}, Recipient: &client.Recipient{CustomerRef: w.people[person].id},
	}
}

// tank is a record write: it is low more often than not, and concerns some people.
func (w limitWorld) tank(chance *rand.Rand) client.RecordInput {
	n := chance.IntN(w.tanks)
	var people []any
	for i, p := range w.people {
		if (i+n)%w.tanks == 0 {
			people = append(people, p.id)
		}
	}
	return client.RecordInput{Type: "tank", ID: fmt.Sprint("t", n), Props: map[string]any{"level": chance.IntN(80), "people": people}}
}

// closing takes all records away from the watch, so that a run can come to rest.
func (w limitWorld) closing() []client.RecordInput {
	over := true
	var all []client.RecordInput
	for n := range w.tanks {
		all = append(all, client.RecordInput{Type: "tank", ID: fmt.Sprint("t", n), Closed: &over})
	}
	return all
}
