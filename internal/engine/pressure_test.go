package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

const steady = "retry: {backoff: [5m], jitter: none}\n"

// A slot that has passed without its message leaving counts for no cooldown, whatever delayed the message: only messages that left, may have left or
// are about to leave make others wait.
//
// Shows: A31, A39.
func TestSlotsThatHavePassed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cadence, rest, day, want string }{
		{
			"two are refused", "{cooldown: 2h}", steady,
			"10:30 later, 10:30 later, 10:30 news, 10:30 news, 13:00",
			"10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:35 sent inbox, 10:35 sent inbox",
		},
		{
			"and none of them is lost", "{cooldown: 2h}", steady + "limits: {at_send: fail}\n",
			"10:30 later, 10:30 later, 10:30 news, 10:30 news, 13:00",
			"10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:35 sent inbox, 10:35 sent inbox",
		},
		{
			"nor goes to another channel", "{cooldown: 2h}", steady + "fallback: [email]\n",
			"10:30 later, 10:30 later, 10:30 news, 10:30 news, 13:00",
			"10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:35 sent inbox, 10:35 sent inbox",
		},
		{
			"refused again and again", "{cooldown: 2h}", "retry: {backoff: [5m, 20m], jitter: none}\n",
			"10:30 later, 10:30 later, 10:30 later, 10:30 later, 10:30 news, 10:30 news, 13:00",
			"10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:35 retried inbox temporary_error, " +
				"10:35 retried inbox temporary_error, 10:55 sent inbox, 10:55 sent inbox",
		},
		{
			"one by one where the policy is strict", "{cooldown: 2h, max_per_slot: 1}", steady,
			"10:30 later, 10:30 news, 10:40 news, 13:00",
			"10:30 retried inbox temporary_error, 10:35 sent inbox, 10:40 deferred inbox 12:35 cooldown, 12:35 sent inbox",
		},
		{
			"a new one passes those that wait for their retry", "{cooldown: 2h}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 later, 10:30 news, 10:33 news, 13:00",
			"10:30 retried inbox temporary_error, 10:33 sent inbox, 10:45 deferred inbox 12:33 cooldown, 12:33 sent inbox",
		},
		{
			"within the grace it waits for them", "{cooldown: 2h, slot_grace: 5m}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 later, 10:30 news, 10:33 news, 13:00",
			"10:30 retried inbox temporary_error, 10:33 deferred inbox 12:30 cooldown, 10:45 deferred inbox 12:30 cooldown, " +
				"12:30 sent inbox, 12:30 sent inbox",
		},
		{
			"a day's cap goes on counting what waits", "{max_per_day: 1}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 later, 10:30 news, 10:33 news, 10:50",
			"10:30 retried inbox temporary_error, 10:33 deferred inbox 00:00 daily, 10:45 sent inbox",
		},
		{
			"but where only what has left counts", "{max_per_day: 1, count: sent}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 later, 10:30 news, 10:33 news, 10:50",
			"10:30 retried inbox temporary_error, 10:33 sent inbox, 10:45 deferred inbox 00:00 daily",
		},
		{
			"nor within the grace", "{max_per_day: 1, count: sent}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 later, 10:30 news, 10:30 news, 10:50",
			"10:30 retried inbox temporary_error, 10:30 sent inbox, 10:45 deferred inbox 00:00 daily",
		},
		{
			"and what is critical counts from when it goes", "{max_per_day: 2, count: sent}", "",
			"10:30 siren held, 10:30 news held, 10:30 news held, 10:50",
			"10:30 deferred inbox 00:00 daily, 10:30 sent inbox, 10:30 sent inbox",
		},
		{
			"the process was down over a shared place", "{cooldown: 2h}", "",
			"10:00 news, 10:30 news, 10:40 news, 12:20 down, 14:30",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 10:40 deferred inbox 12:00 cooldown, 12:20 sent inbox, 12:20 sent inbox",
		},
		{
			"and over places one after the other", "{cooldown: 2h, max_per_slot: 1}", "limits: {at_send: fail}\n",
			"10:00 news, 10:30 news, 10:40 news, 16:20 down, 19:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 10:40 deferred inbox 14:00 cooldown, 16:20 failed inbox cooldown, 16:20 sent inbox",
		},
		{
			"a new one comes while the process is down", "{cooldown: 2h}", "",
			"10:00 news, 10:30 news, 10:40 news, 12:20 down, 12:20 news, 14:30",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 10:40 deferred inbox 12:00 cooldown, 12:20 sent inbox, 12:20 sent inbox, 12:20 sent inbox",
		},
		{
			"reminders are refused", "{cooldown: 20m}", steady + "timing: {reminders: [30m]}\n",
			"10:00 news, 10:00 news, 10:20 later, 10:20 later, 11:00",
			"10:00 sent inbox, 10:00 sent inbox, 10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:35 sent inbox, 10:35 sent inbox",
		},
		{
			"something critical comes in between", "{cooldown: 2h}", "",
			"10:00 news, 10:30 news, 10:40 news, 11:00 siren, 15:00",
			"10:00 sent inbox, 10:30 deferred inbox 12:00 cooldown, 10:40 deferred inbox 12:00 cooldown, 11:00 sent inbox, " +
				"12:00 deferred inbox 13:00 cooldown, 12:00 deferred inbox 13:00 cooldown, 13:00 sent inbox, 13:00 sent inbox",
		},
		{
			"and after a refusal", "{cooldown: 2h}", steady,
			"10:30 later, 10:30 later, 10:30 news, 10:30 news, 10:32 siren, 15:00",
			"10:30 retried inbox temporary_error, 10:30 retried inbox temporary_error, 10:32 sent inbox, " +
				"10:35 deferred inbox 12:32 cooldown, 10:35 deferred inbox 12:32 cooldown, 12:32 sent inbox, 12:32 sent inbox",
		},
		{
			"a critical one that was refused keeps its place within the grace", "{cooldown: 2h, slot_grace: 10m}", steady,
			"10:30 later, 10:30 siren, 11:00 news, 13:00",
			"10:30 retried inbox temporary_error, 10:35 sent inbox, 11:00 deferred inbox 12:30 cooldown, 12:30 sent inbox",
		},
		{
			"and has a new one after it", "{cooldown: 2h}", steady,
			"10:30 later, 10:30 siren, 12:32 news, 13:00",
			"10:30 retried inbox temporary_error, 10:35 sent inbox, 12:32 deferred inbox 12:35 cooldown, 12:35 sent inbox",
		},
		{
			"what may have arrived counts", "{cooldown: 2h}", "retry: {backoff: [15m], jitter: none}\n",
			"10:30 lose, 10:30 news, 10:33 news, 13:00",
			"10:30 retried inbox reply_lost, 10:33 deferred inbox 12:30 cooldown, 10:45 sent inbox, 12:30 sent inbox",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, limited(c.cadence, c.rest))
				w.person("ann", `"persona": "Manager"`)
				for n, step := range strings.Split(c.day, ", ") {
					when, what, _ := strings.Cut(step, " ")
					if what == "down" {
						w.Clock.Set(at(when))
						continue
					}
					if at(when).After(w.Clock.Now()) {
						w.live(when)
					}
					switch what {
					case "":
					case "later":
						w.Provider.Next(channel.Temporary(errors.New("not now")))
					case "lose":
						w.Provider.Next(&channel.SendError{Reason: reason.ReplyLost, Unknown: true, Retry: true, Err: errors.New("lost")})
					default:
						kind, held := strings.CutSuffix(what, " held") // until the next one
						w.Post(fmt.Sprintf(`{"kind": %q, "id": "%d", "recipient": {"address": "ann", "customer_ref": "ann"}}`, kind, n))
						if !held {
							w.live(when)
						}
					}
				}
				w.mustBe("the day", w.diary(), strings.Split(c.want, ", "))
			})
		})
	}
}

// Two messages of one contact and slot wait for a provider that is away, among many others. When it is back they leave together, with or without
// jitter, although each waits for its channel by itself.
//
// Shows: A31, A39.
func TestSlotsThatPassWhileABreakerIsOpen(t *testing.T) {
	t.Parallel()
	for name, minutes := range map[string]int{"soon": 1, "within half an hour": 29} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				away := true
				provider := &station{answer: func(time.Time) error {
					if away {
						return channel.Away(errors.New("no connection"))
					}
					return nil
				}}
				b := enginetest.Setup(t, s, limited("{cooldown: 2h}", ""), func(c *engine.Config) {
					provider.clock = c.Clock
					for i := range c.Providers {
						c.Providers[i].Open = func(map[string]string) (channel.Channel, error) { return provider, nil }
					}
				})
				b.Clock.Set(at("10:29:55"))
				for _, name := range []string{"ann", "bob", "cid", "dan", "eve", "fay"} {
					world{b}.person(name, `"persona": "Manager"`)
				}
				post := func(name string, n int) {
					b.Post(fmt.Sprintf(`{"kind": "news", "id": "%s-%d", "recipient": {"customer_ref": %[1]q}}`, name, n))
				}
				for _, name := range []string{"bob", "cid", "dan", "eve", "fay"} {
					post(name, 1)
				}
				b.At(at("10:29:55"))
				b.Clock.Set(at("10:30"))
				post("ann", 1)
				post("ann", 2)
				b.At(at("10:30"))
				run := func(until time.Time) {
					for range 10_000 {
						if b.At(b.Clock.Now()).Any() {
							continue
						}
						next, err := b.NextDue(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						if next.IsZero() || next.After(until) {
							b.Clock.Set(until)
							return
						}
						b.Clock.Set(next)
					}
					t.Fatal("there is no end to it")
				}
				run(at("10:30").Add(time.Duration(minutes) * time.Minute))
				away = false
				run(at("12:15"))
				left := map[string][]time.Time{}
				for _, e := range b.Journal() {
					if e.What == journal.Sent {
						left[e.Contact] = append(left[e.Contact], e.At)
					}
					if e.What == journal.Deferred && e.Reason == reason.CadenceCooldown {
						t.Errorf("%s waits for what nobody sent", e.Contact)
					}
				}
				if ann := left["ann"]; len(ann) != 2 || ann[1].Sub(ann[0]).Abs() > time.Minute {
					t.Errorf("they left at %v", ann)
				}
			})
		})
	}
}

// A provider is away for two hours: it answers 503, does not answer, or loses its replies. By default all messages that are due meanwhile arrive
// once, soon after it is back. The tries that found it away stay in the log and do not count.
func TestTwoHoursWithoutAProvider(t *testing.T) {
	t.Parallel()
	const outage, messages = 2 * time.Hour, 60
	for name, every := range map[string]time.Duration{"one by one": 2 * time.Minute, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each := storetest.Each
			if every == 0 {
				storetest.NotUnderRace(t, "one goroutine and a store in memory")
				each = func(t *testing.T, f func(*testing.T, *store.Store)) { f(t, storetest.Memory(t)) }
			}
			each(t, func(t *testing.T, s *store.Store) {
				back := enginetest.Start.Add(outage)
				provider := &station{answer: func(at time.Time) error {
					switch in := at.Sub(enginetest.Start); {
					case in < outage/3:
						return channel.Away(errors.New("503 Service Unavailable"))
					case in < outage*2/3:
						return channel.Lost(errors.New("no answer within 20s"))
					case in < outage:
						return channel.Lost(errors.New("the connection was reset"))
					}
					return nil
				}}
				b := enginetest.Setup(t, s, alert("a", "up", "")+memory+"idempotency_ttl: 3h\n", func(c *engine.Config) { stand(c, provider) })
				run := func(until time.Time) { // due messages are claimed every minute: a message is late by that at most
					for ; !b.Clock.Now().After(until); b.Clock.Set(b.Clock.Now().Add(time.Minute)) {
						for b.At(b.Clock.Now()).Any() {
						}
					}
					b.Clock.Set(until)
				}
				for i, e := range many(messages) {
					run(enginetest.Start.Add(time.Duration(i) * every))
					b.Post(e)
				}
				run(later(b.Clock.Now(), back).Add(20 * time.Minute))
				if n := provider.accepted(t); n != messages {
					t.Errorf("%d of %d arrived", n, messages)
				}
				rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				tried := 0
				for _, row := range rows {
					tried += len(b.Attempts(row.ID)) - 1
					if row.Status != delivery.Sent || row.LastSentAt.Sub(later(back, row.CreatedAt)) > 5*time.Minute {
						t.Errorf("%s at %s, %s: %+v", row.Status, row.LastSentAt, row.Reason, row)
					}
				}
				if tried < 40 {
					t.Errorf("%d tries in the outage are in the log", tried)
				}
			})
		})
	}
}

// A message with a fallback goes there when its backoff of an hour and twenty minutes is over; an explicit backoff holds for both.
func TestDefaultBackoffs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ rest, ends string }{
		"with a further channel":  {"fallback: [email]\n", "11:20 failed inbox retries_used_up, 11:20 sent email"},
		"without one":             {"", "13:20 failed inbox retries_used_up"},
		"with a written backoff":  {"retry: {backoff: [5m]}\n", "10:05 failed inbox retries_used_up"},
		"and with both":           {"retry: {backoff: [5m]}\nfallback: [email]\n", "10:05 failed inbox retries_used_up, 10:05 sent email"},
		"a reminder has no other": {"timing: {reminders: [30m]}\nfallback: [email]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := world{enginetest.Setup(t, s, limited("{}", c.rest), func(c *engine.Config) { c.NoJitter = true })}
				w.Clock.Set(ten)
				w.person("ann", `"persona": "Manager"`)
				w.Journal()
				tries := 8
				switch {
				case strings.Contains(c.rest, "backoff"):
					tries = 2
				case strings.Contains(c.rest, "reminders"):
					w.Provider.Next(nil)
				case c.rest != "":
					tries = 4
				}
				for range tries {
					w.Provider.Next(channel.Temporary(errors.New("not now")))
				}
				w.post("news", "ann")
				for range 100 {
					for w.tick() {
					}
					next, err := w.NextDue(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if next.IsZero() {
						break
					}
					w.Clock.Set(next)
				}
				var ends []string
				retried := 0
				for _, line := range w.diary() {
					if strings.Contains(line, "retried") {
						retried++
					} else if !strings.HasPrefix(line, "10:00 sent") {
						ends = append(ends, line)
					}
				}
				if c.ends == "" {
					if retried != 7 {
						t.Errorf("a reminder was tried again %d times", retried)
					}
					return
				}
				if got := strings.Join(ends, ", "); got != c.ends || retried != tries-1 {
					t.Errorf("%d tries again, then %q, want %q", retried, got, c.ends)
				}
			})
		})
	}
}
