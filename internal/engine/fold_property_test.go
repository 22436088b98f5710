package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// bundler is a provider that logs bundles and follows the next of its orders.
type bundler struct {
	world
	orders []error
	log    []handed
	texts  map[string]string // by idempotency key: the first request
	broken string            // a key that came with two different texts
}

func (g *bundler) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	var order error
	if len(g.orders) > 0 {
		order, g.orders = g.orders[0], g.orders[1:]
	}
	var known *channel.SendError
	if first, ok := g.texts[out.IdempotencyKey]; ok && first != out.Text {
		g.broken = fmt.Sprintf("%q and then %q", first, out.Text)
	}
	if accepted := order == nil || errors.As(order, &known) && known.Unknown; accepted {
		if _, ok := g.texts[out.IdempotencyKey]; !ok {
			g.log = append(g.log, handed{delivery: out.DeliveryID, at: g.Clock.Now(), critical: out.Workflow == "siren", text: out.Text})
		}
		g.texts[out.IdempotencyKey] = out.Text
	}
	return channel.Receipt{ProviderID: "x"}, order
}

// Whatever is folded, fails, dies, is cancelled or edited meanwhile: each message ends in exactly one sent message or says why not. By the provider's
// log, where a bundle counts once, no limit is exceeded.
//
// Shows: R7, A31, A39, P3.
func TestFoldedMessagesAreSentOnce(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	judged, folded, deaths, enough := 0, 0, 0, storetest.MoreLives(15) // of weeks
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() && judged > 0 && folded > 0 && deaths > 0 { // a few lives more where chance withheld one
			return
		}
		g := &bundler{texts: map[string]string{}}
		var die string
		g.world = world{enginetest.Setup(outer, storetest.Memory(outer), folding("{}", "retry: {backoff: [5m, 20m], jitter: none}\n"), func(c *engine.Config) {
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
		loc, err := civil.LoadZone("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		policy := drawPolicy(t)
		var edited time.Time
		edit := func() {
			own := (cadence.Rules{Policy: policy}).JSON()
			if own == "" {
				own = "null"
			}
			g.person("ann", `"timezone": "Europe/Berlin", "cadence": `+own)
			edited = g.Clock.Now()
		}
		edit()
		logged := 0
		look := func() {
			for ; logged < len(g.log); logged++ {
				g.log[logged].policy = policy
			}
		}
		live := func(until time.Time) { g.liveTo(t, until, look) }
		n := rapid.IntRange(3, 16).Draw(t, "messages")
		for i := range n {
			live(g.Clock.Now().Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 45, 200, 900}).Draw(t, "wait")) * time.Minute))
			kind := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "workflow")
			id := fmt.Sprintf("<%d>", i)
			switch rapid.IntRange(0, 13).Draw(t, "event") {
			case 0:
				policy = drawPolicy(t)
				edit()
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
			case 6:
				id = "bad" + id
			case 7:
				if rows := g.rows(); len(rows) > 0 {
					row := rapid.SampledFrom(rows).Draw(t, "cancelled")
					if _, err := g.Operator().CancelDelivery(g.Context(), g.Workspace.ID, row.ID, "test", g.Clock.Now()); err != nil && !strings.Contains(err.Error(), "cannot") {
						t.Log(err) // it has ended
					}
				}
			case 8: // the engine is stopped
				g.Clock.Set(g.Clock.Now().Add(3 * time.Hour))
			}
			g.event(kind, id, "ann")
		}
		live(g.Clock.Now().Add(60 * 24 * time.Hour))
		if g.broken != "" {
			t.Fatalf("one key with two texts: %s", g.broken)
		}
		rows := g.rows()
		if len(rows) != n {
			t.Fatalf("%d of %d deliveries", len(rows), n)
		}
		ids := engine.PublicIDs(g.Workspace)
		byID, byRow := map[string]delivery.Row{}, map[delivery.ID]delivery.Row{}
		for _, row := range rows {
			byID[ids.Encode(key.KindDelivery, int64(row.Workspace), int64(row.ID))], byRow[row.ID] = row, row
		}
		for _, row := range rows {
			name := g.name(row)
			times := 0
			for _, m := range g.log {
				times += strings.Count(m.text, name[strings.Index(name, "<"):])
			}
			end := row
			if row.Status == delivery.Skipped && row.Reason == reason.FoldedInto {
				folded++
				end = byRow[row.FoldedInto]
				if end.FoldedInto != end.ID {
					t.Fatalf("%s leaves with what carries nothing: %+v", name, end)
				}
			}
			want := 0
			if end.Status == delivery.Sent {
				want = 1
			}
			switch {
			case !end.Status.Final() && end.Status != delivery.Sent && end.Status != delivery.Unknown:
				t.Fatalf("%s is left behind: %+v", name, end)
			case end.Reason == "":
				t.Fatalf("%s says nothing: %+v", name, end)
			case times != want && !end.OutcomeUnknown() && end.Status != delivery.Unknown && end.Reason != reason.NeverSettled && end.Reason != reason.EarlierUnknown:
				t.Fatalf("%s was sent %d times: %+v\n%+v\n%v", name, times, row, end, g.log)
			case times > 1:
				t.Fatalf("%s was sent %d times: %v", name, times, g.log)
			}
		}
		for i := range g.log {
			// Within the grace a message left in its slot, and one that may have arrived before keeps its old slot.
			m, row := &g.log[i], byID[g.log[i].delivery]
			unknownOutcome := slices.ContainsFunc(g.Attempts(row.ID), func(a delivery.Attempt) bool { return a.Outcome == delivery.AttemptUnknown })
			if !row.Slot.IsZero() && !row.Slot.After(m.at) && (m.at.Sub(row.Slot) <= time.Minute || unknownOutcome) {
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
				t.Fatalf("%+v: message %d breaks %s: %v", m.policy, i, limit, g.log)
			}
		}
	})
	if judged == 0 || folded == 0 || deaths == 0 {
		t.Errorf("%d judged, %d folded, %d deaths: nothing was tried", judged, folded, deaths)
	}
}
