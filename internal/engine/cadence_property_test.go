package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// gauntlet is a provider that logs messages by the clock and follows the next of its orders.
type gauntlet struct {
	world
	orders []error
	log    []handed
	seen   map[string]bool
	away   func() bool // nil: the provider answers
}

// handed is a message that the provider accepted, with the limits in force then.
type handed struct {
	delivery string
	at       time.Time
	policy   cadence.Policy
	critical bool
	text     string
	earlier  bool   // it was in flight when the limits changed
	kind     string // of its channel
}

func (g *gauntlet) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	var order error
	if g.away != nil && g.away() {
		return channel.Receipt{}, channel.Away(errors.New("no connection"))
	}
	if len(g.orders) > 0 {
		order, g.orders = g.orders[0], g.orders[1:]
	}
	var known *channel.SendError
	accepted := order == nil || errors.As(order, &known) && known.Unknown
	if accepted && !g.seen[out.IdempotencyKey] {
		g.seen[out.IdempotencyKey] = true
		g.log = append(g.log, handed{delivery: out.DeliveryID, at: g.Clock.Now(), critical: out.Workflow == "siren", kind: admission.Kind(out.Channel)})
	}
	return channel.Receipt{ProviderID: "x"}, order
}

var errDied = errors.New("the process died")

// liveTo runs every stage whenever something is due, until an instant, and looks after each pass. The process may die on the way.
func (w world) liveTo(t *rapid.T, until time.Time, look func()) {
	t.Helper()
	for range 100_000 {
		r, err := w.Tick(w.Context())
		if err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		look()
		if r.Any() || err != nil {
			continue
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() || next.After(until) {
			w.Clock.Set(until)
			return
		}
		w.Clock.Set(next)
	}
	t.Fatal("there is no end to it")
}

// byEmail is a workflow with another channel.
const byEmail = `---
workflow: letter
type: alert
triggers:
  - id: t
    event: letter
audience:
  - to: event.recipient
channel: email
message:
  email: {subject: s, text: t}
retry: {backoff: [5m, 20m], jitter: none}
`

func drawPolicy(t *rapid.T) cadence.Policy {
	p := cadence.Policy{
		Cooldown:    time.Duration(rapid.SampledFrom([]int{0, 30, 90, 300}).Draw(t, "cooldown")) * time.Minute,
		MaxPerDay:   rapid.IntRange(0, 4).Draw(t, "day"),
		MaxPerWeek:  rapid.SampledFrom([]int{0, 0, 6, 9}).Draw(t, "week"),
		MaxPerMonth: rapid.SampledFrom([]int{0, 0, 0, 12}).Draw(t, "month"),
		MaxPerSlot:  rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "slot"),
		TypeLimits:  map[string]int{"alert": rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "alerts")},
		Rolling:     rapid.Bool().Draw(t, "rolling"),
	}
	if rapid.Bool().Draw(t, "quiet") {
		p.Quiet = civil.Span{From: civil.TimeOfDay(3600 * rapid.IntRange(18, 23).Draw(t, "from")), To: civil.TimeOfDay(3600 * rapid.IntRange(4, 9).Draw(t, "to"))}
	}
	if p.MaxPerSlot > 0 {
		p.Cooldown = max(p.Cooldown, 30*time.Minute)
	}
	if rapid.Bool().Draw(t, "in total") {
		p.Total = cadence.Total{
			MaxPerDay:  rapid.IntRange(0, 4).Draw(t, "total day"),
			MaxPerWeek: rapid.SampledFrom([]int{0, 0, 6, 9}).Draw(t, "total week"), MaxPerMonth: rapid.SampledFrom([]int{0, 0, 0, 12}).Draw(t, "total month"),
			Rolling: p.Rolling,
		}
	}
	return p
}

// over returns a limit that a message breaks, given the messages sent before. It shares no code with Decide.
func over(p cadence.Policy, before []handed, m handed, loc *time.Location) string {
	day := func(t time.Time) string { return t.In(loc).Format(time.DateOnly) }
	monday := func(t time.Time) string {
		l := t.In(loc)
		return day(l.AddDate(0, 0, -(int(l.Weekday())+6)%7))
	}
	month := func(t time.Time) string { return t.In(loc).Format("2006-01") }
	count := func(in func(time.Time) bool) (n int) {
		for _, b := range before {
			if b.kind != m.kind {
				continue
			}
			if b.critical && !b.at.Before(m.at) { // it came while this one was in flight
				continue
			}
			if in(b.at) {
				n++
			}
		}
		return n
	}
	total := func(limit int, length time.Duration, name func(time.Time) string) bool {
		n := 0
		for _, b := range before {
			late := b.critical && !b.at.Before(m.at)
			if in := p.Rolling && !b.at.After(m.at) && m.at.Sub(b.at) < length || !p.Rolling && name(b.at) == name(m.at); in && !late {
				n++
			}
		}
		return limit > 0 && n >= limit
	}
	window := func(limit int, length time.Duration, name func(time.Time) string) bool {
		return limit > 0 && limit <= count(func(at time.Time) bool {
			if p.Rolling {
				return !at.After(m.at) && m.at.Sub(at) < length
			}
			return name(at) == name(m.at)
		})
	}
	clock := m.at.In(loc).Format("15:04")
	from, to := p.Quiet.From.String(), p.Quiet.To.String()
	switch {
	case count(func(at time.Time) bool { return !at.Equal(m.at) && m.at.Sub(at).Abs() < p.Cooldown }) > 0:
		return "cooldown"
	case p.MaxPerSlot > 0 && count(func(at time.Time) bool { return at.Equal(m.at) }) >= p.MaxPerSlot:
		return "slot"
	case window(p.TypeLimits["alert"], 24*time.Hour, day):
		return "type"
	case window(p.MaxPerDay, 24*time.Hour, day):
		return "day"
	case window(p.MaxPerWeek, 7*24*time.Hour, monday):
		return "week"
	case window(p.MaxPerMonth, 30*24*time.Hour, month):
		return "month"
	case total(p.Total.MaxPerDay, 24*time.Hour, day):
		return "day over all channels"
	case total(p.Total.MaxPerWeek, 7*24*time.Hour, monday):
		return "week over all channels"
	case total(p.Total.MaxPerMonth, 30*24*time.Hour, month):
		return "month over all channels"
	case !p.Quiet.IsZero() && (clock >= from || clock < to):
		return "quiet"
	}
	return ""
}

// By the provider's log, no message leaves while a limit forbids it, whatever fails, dies or is edited meanwhile, and none is lost. If nothing goes
// wrong, each leaves at the first instant that the limits allow.
//
// Shows: A31, A32, A33, A34, A39, A42, R5.
func TestLimitsHoldByTheProvidersLog(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	judged, deferred, edits, deaths, enough := 0, 0, 0, 0, storetest.MoreLives(20) // of weeks
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() && judged > 0 && deferred > 0 && edits > 0 && deaths > 0 { // a few lives more where chance withheld one
			return
		}
		g := &gauntlet{seen: map[string]bool{}}
		var die string
		g.world = world{enginetest.Setup(outer, storetest.Memory(outer), limited("{}", "retry: {backoff: [5m, 20m], jitter: none}\n")+byEmail, func(c *engine.Config) {
			for i := range c.Providers {
				c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return g, nil }
			}
			c.Failpoint = func(point string) error {
				if point == die {
					die = ""
					return errDied
				}
				return nil
			}
		})}
		g.Clock.Set(ten)
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Pacific/Auckland", "America/St_Johns"}).Draw(t, "zone")
		loc, err := civil.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		calm := rapid.Bool().Draw(t, "calm")
		policy := drawPolicy(t)
		edit := func() {
			own := (cadence.Rules{Policy: policy}).JSON()
			if own == "" {
				own = "null"
			}
			g.person("ann", fmt.Sprintf(`"timezone": %q, "cadence": %s, "addresses": {"email": "ann@example.org", "inbox": "ann"}`, zone, own))
		}
		edit()
		logged := 0
		look := func() {
			for ; logged < len(g.log); logged++ {
				g.log[logged].policy = policy
			}
		}
		live := func(until time.Time) { g.liveTo(t, until, look) }
		var edited time.Time       // of the last edit
		var history []cadence.Slot // of the model
		want := map[delivery.ID]time.Time{}
		n := rapid.IntRange(2, 14).Draw(t, "messages")
		for i := range n {
			live(g.Clock.Now().Add(time.Duration(rapid.SampledFrom([]int{0, 1, 20, 45, 200, 900, 2000}).Draw(t, "wait")) * time.Minute))
			kind := "news"
			if !calm {
				switch rapid.IntRange(0, 9).Draw(t, "event") {
				case 0:
					policy = drawPolicy(t)
					edit()
					edits++
					edited = g.Clock.Now()
				case 1:
					die = rapid.SampledFrom([]string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult}).Draw(t, "dies")
					deaths++
				case 2:
					g.orders = append(g.orders, channel.Permanent(errors.New("no")))
				case 3:
					g.orders = append(g.orders, channel.Temporary(errors.New("not now")))
				case 4:
					g.orders = append(g.orders, &channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
				case 5:
					kind = "siren"
				}
			}
			at := g.Clock.Now()
			elsewhere := kind == "news" && rapid.IntRange(0, 2).Draw(t, "by email") == 0
			if elsewhere {
				kind = "letter"
			}
			made := g.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {"address": "ann", "customer_ref": "ann"}}`, kind, i))
			seen := slices.Clone(history) // from its kind of channel
			for k := range seen {
				seen[k].Elsewhere = seen[k].Elsewhere != elsewhere
			}
			v := cadence.Decide(policy, seen, loc, at, at.Add(30*24*time.Hour), cadence.Message{Type: "alert"})
			if v.Reason != reason.DeferredTooLong {
				history = append(history, cadence.Slot{At: v.At, Type: "alert", N: 1, Elsewhere: elsewhere})
			}
			want[made.Instances[0].Deliveries[0].ID] = v.At
		}
		live(g.Clock.Now().Add(45 * 24 * time.Hour))
		rows, err := g.Store.Deliveries(g.Context(), g.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil || len(rows) != n {
			t.Fatalf("%d of %d deliveries, %v", len(rows), n, err)
		}
		ids := engine.PublicIDs(g.Workspace)
		byID := map[string]delivery.Row{}
		for _, row := range rows {
			byID[ids.Encode(key.KindDelivery, int64(row.Workspace), int64(row.ID))] = row
			if !row.Status.Final() && row.Status != delivery.Sent {
				t.Fatalf("left behind: %+v", row)
			}
			if row.Status == delivery.Expired && row.Reason != reason.DeferredTooLong && row.Reason != reason.NeverSettled {
				t.Fatalf("lost: %+v", row)
			}
			if calm {
				if at := want[row.ID]; !row.LastSentAt.Equal(at) {
					t.Fatalf("%+v in %s: left at %v, and might have at %v: %+v", policy, zone, row.LastSentAt, at, row)
				}
				if row.LastSentAt.After(row.CreatedAt) {
					deferred++
				}
			}
		}
		for i := range g.log {
			// Within the grace a message left in its slot, and one that may have arrived before keeps its old slot.
			m, row := &g.log[i], byID[g.log[i].delivery]
			unknownOutcome := slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.Outcome == delivery.AttemptUnknown })
			if !row.Slot.After(m.at) && (m.at.Sub(row.Slot) <= time.Minute || unknownOutcome) {
				m.earlier = unknownOutcome && !edited.Before(row.Slot)
				m.at = row.Slot
			}
		}
		for i, m := range g.log {
			if m.critical || m.earlier {
				continue
			}
			judged++
			if limit := over(m.policy, g.log[:i], m, loc); limit != "" {
				t.Fatalf("%+v in %s: message %d breaks %s: %v", m.policy, zone, i, limit, g.log)
			}
		}
	})
	if judged == 0 || deferred == 0 || edits == 0 || deaths == 0 {
		t.Errorf("%d judged, %d deferred, %d edits, %d deaths: nothing was tried", judged, deferred, edits, deaths)
	}
}
