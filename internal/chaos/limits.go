package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

const (
	// limitCallers is how many callers post to the workers at once.
	limitCallers = 8
	// perRequest is how many events one request holds: few, so that many requests meet at one person.
	perRequest = 2
	// round is the time between two rounds, in which each caller makes a request.
	round = 80 * time.Millisecond
	// afterwards is how long what was put off by seconds may still leave.
	afterwards = 1500 * time.Millisecond
)

// limits is the profile Limits.
type limits struct {
	*run
	people []somebody
	until  time.Time // what is due by then has left
}

// storm posts round by round, so that requests to all workers concern one person, and kills the workers in turn.
func (l *limits) storm(ctx context.Context, group *errgroup.Group) error {
	if err := l.postPeople(ctx); err != nil {
		return err
	}
	batches := inBatches(l.Events, perRequest, l.event)
	for i := range batches {
		batches[i].records = []client.RecordInput{l.tank(l.chance.IntN(tanks))}
	}
	l.poster.start(ctx, group, limitCallers, batches)
	kills := 0
	for released := limitCallers; released < len(batches)+limitCallers || kills < l.Kills; released += limitCallers {
		l.poster.release(released)
		next := l.clock.Now().Add(round)
		if kills < l.Kills*released/len(batches) {
			l.pause(ctx, time.Duration(l.chance.Int64N(int64(round))))
			if err := l.kill(ctx, kills%len(l.slots), false); err != nil {
				return err
			}
			kills++
		}
		l.pause(ctx, next.Sub(l.clock.Now()))
		if err := l.wait(ctx, func() (bool, error) { return len(l.poster.tickets) == 0, nil }); err != nil {
			return err
		}
	}
	l.poster.posted.Wait()
	closed := true // takes a record away from the watch
	var closing []client.RecordInput
	for n := range tanks {
		closing = append(closing, client.RecordInput{Type: "tank", ID: fmt.Sprint("t", n), Closed: &closed})
	}
	err := l.poster.write(ctx, 0, closing)
	l.until = l.clock.Now().Add(afterwards)
	return err
}

// rests reports whether what was due by until has left.
func (l *limits) rests(ctx context.Context) (bool, error) {
	idle, err := l.idle(ctx, l.until)
	return idle && l.clock.Now().After(l.until), err
}

// manyEvents is from how many on the kills of a run fall into posts too.
const manyEvents = 2000

func (l *limits) counters() (verdicts, proofs []string) {
	proofs = []string{
		"kills",
		"at_limit", // places that were taken up to the last one in some window
		"waiting",
		"unknown", // accepted, with an unknown outcome for a while
		"repeats", "alerts",
	}
	if l.Events >= manyEvents {
		proofs = append(proofs, "broken_posts")
	}
	return []string{
		"lost",       // not sent, without a reason
		"doubled",    // messages beyond what on_unknown allows
		"broken",     // limits that an accepted message breaks
		"overbooked", // limits that the places given out will break
		"refired",    // alerts within the cooldown of their context
	}, proofs
}

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
  sms: {text: "{{ record.id }}@{{ detected_at | date: '%%s' }}"}
  email: {subject: s, text: "{{ record.id }}@{{ detected_at | date: '%%s' }}"}
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

const (
	tanks        = 3
	tankCooldown = 2 * time.Second // of the workflow watch, for each of them
)

// somebody is a person of a storm with the limits that hold for them.
type somebody struct {
	id    string
	zone  *time.Location
	rules cadence.Rules
	input client.ContactInput
}

func (l *limits) person(id string) somebody {
	return l.people[slices.IndexFunc(l.people, func(p somebody) bool { return p.id == id })]
}

// prepare draws personas and people.
func (l *limits) prepare() (string, error) {
	l.addProvider(moods{{later, 6}, {never, 4}, {dropped, 2}, {takenLost, 4}})
	text := &strings.Builder{}
	fmt.Fprintf(text, limitDefinitions, l.provider.server.URL)
	for _, f := range limitWorkflows() {
		fmt.Fprintf(text, "---\nworkflow: %[1]s\ntype: %[2]s\ntriggers: [{id: t, event: %[1]s}]\naudience: [{to: event.recipient}]\nchannel: sms:main\n"+
			"message: {sms: {text: '{{ candidate.id }}'}, email: {subject: s, text: '{{ candidate.id }}'}}\n%[3]s\n", f[0], f[1], f[2])
	}
	draw := drawPolicy
	if l.Single {
		draw = func(*rand.Rand) cadence.Policy { return cadence.Policy{Cooldown: time.Second, MaxPerSlot: 1} }
	}
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Auckland", "America/St_Johns", "America/Los_Angeles"}
	personas := make([]cadence.Rules, 3)
	for i := range personas {
		personas[i].Policy = draw(l.chance)
		personas[i].Channels = map[string]cadence.Policy{"email": {MaxPerDay: 1 + l.chance.IntN(3)}}
		fmt.Fprintf(text, "---\npersona: P%d\ncadence: %s\n", i, personas[i].JSON())
	}
	for i := range 12 {
		p := somebody{id: fmt.Sprint("p", i)}
		name := zones[l.chance.IntN(len(zones))]
		p.zone = must(civil.LoadZone(name))
		p.input = client.ContactInput{ID: p.id, Timezone: name, Addresses: map[string]string{"sms": fmt.Sprintf("+4930000%02d", i), "email": p.id + "@example.org"}}
		if i%3 == 2 { // limits of their own, and no others
			p.rules.Policy = draw(l.chance)
			if !l.Single {
				p.drawQuiet(l.chance, l.clock.Now())
			}
			p.input.Cadence = &client.Cadence{}
			if err := json.Unmarshal([]byte(p.rules.JSON()), p.input.Cadence); err != nil {
				return "", err
			}
		} else {
			persona := l.chance.IntN(len(personas))
			p.rules, p.input.Persona = personas[persona], fmt.Sprint("P", persona)
			if i%3 == 1 { // one limit of their own over the persona's
				p.rules.Cooldown = time.Duration(1+l.chance.IntN(2)) * time.Second
				p.input.Cadence = &client.Cadence{Limits: client.Limits{Cooldown: p.rules.Cooldown.String()}}
			}
		}
		l.people = append(l.people, p)
	}
	return text.String(), nil
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

// postPeople makes the people.
func (l *limits) postPeople(ctx context.Context) error {
	var inputs []client.ContactInput
	for _, p := range l.people {
		inputs = append(inputs, p.input)
	}
	return l.poster.ask(ctx, 0, func(ctx context.Context, c *client.Client) error {
		answer, err := c.PostContacts(ctx, inputs...)
		if err == nil && answer.Failed > 0 {
			err = fmt.Errorf("%w: %+v", errAnswer, answer.Items)
		}
		return err
	})
}

// event is the i-th one. Those of one round concern one person most of the time, so that processes meet at them.
func (l *limits) event(i int) client.Event {
	kinds := limitWorkflows()
	id := fmt.Sprintf("e%05d", i)
	kind := kinds[l.chance.IntN(len(kinds))][0]
	if kind == critical && l.chance.IntN(4) > 0 {
		kind = "news"
	}
	person := i / (perRequest * limitCallers) % len(l.people)
	if l.chance.IntN(10) == 0 {
		person = l.chance.IntN(len(l.people))
	}
	return client.Event{
		ID: id, Kind: kind, Payload: map[string]any{"id": id}, Recipient: &client.Recipient{CustomerRef: l.people[person].id},
	}
}

// tank is the n-th record: it is low more often than not, and concerns some people.
func (l *limits) tank(n int) client.RecordInput {
	var people []any
	for i, p := range l.people {
		if (i+n)%tanks == 0 {
			people = append(people, p.id)
		}
	}
	return client.RecordInput{Type: "tank", ID: fmt.Sprint("t", n), Props: map[string]any{"level": l.chance.IntN(80), "people": people}}
}
