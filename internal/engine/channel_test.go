package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// station is a provider that logs its requests and answers with a function of the test.
type station struct {
	clock  clock.Clock
	answer func(at time.Time) error // nil: accepts

	mu   sync.Mutex
	log  []time.Time
	keys map[string]int
}

func (p *station) Send(_ context.Context, out channel.Outgoing) (channel.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.log = append(p.log, now)
	if p.answer != nil {
		if err := p.answer(now); err != nil {
			return channel.Receipt{}, err
		}
	}
	if p.keys == nil {
		p.keys = map[string]int{}
	}
	p.keys[out.IdempotencyKey]++
	return channel.Receipt{}, nil
}

// stand puts a station behind the provider memory.
func stand(c *engine.Config, p *station) {
	p.clock = c.Clock
	c.Providers = []channel.Provider{{Name: "memory", Open: func(map[string]string) (channel.Channel, error) { return p, nil }}}
	c.Definitions = enginetest.Options(c.Providers)
}

// most returns the largest number of requests within any period.
func (p *station) most(per time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.SortFunc(p.log, time.Time.Compare)
	most, from := 0, 0
	for to, at := range p.log {
		for at.Sub(p.log[from]) >= per {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// accepted returns how many messages arrived, and fails if one arrived twice.
func (p *station) accepted(t *testing.T) int {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, n := range p.keys {
		if n != 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
	return len(p.keys)
}

func many(n int) []string {
	events := make([]string, n)
	for i := range events {
		events[i] = event("up", fmt.Sprint(i), fmt.Sprintf("p%d@x.org", i))
	}
	return events
}

// engines starts further processes on the database of a bundle.
func engines(t *testing.T, b *enginetest.Bundle, n int, config engine.Config) []*engine.Engine {
	t.Helper()
	all := []*engine.Engine{b.Engine}
	for range n - 1 {
		config.Store, config.Clock, config.Concurrency = b.Store, b.Clock, 1
		e, err := engine.New(config)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Several processes share a channel with a rate: by the provider's own log no period has more requests than the rate, and nothing is lost. A backlog
// is moved once and not again and again.
func TestRateOverAllProcesses(t *testing.T) {
	t.Parallel()
	const messages, rate = 150, 20
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		provider := &station{}
		var config engine.Config
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory+fmt.Sprintf("rate: %d/s\n", rate), func(c *engine.Config) { stand(c, provider); config = *c })
		processes := 1
		if s.Dialect() == "postgres" {
			processes = 2
		}
		all := engines(t, b, processes, config)
		b.PostAll(many(messages)...)
		moved := 0
		for ticks := 0; ; ticks++ {
			due, err := b.NextDue(t.Context())
			if err != nil || ticks > 10*messages {
				t.Fatalf("after %d ticks: %v", ticks, err)
			}
			if due.IsZero() {
				break
			}
			if due.After(b.Clock.Now()) {
				b.Clock.Set(due)
			}
			var ticking sync.WaitGroup
			for _, e := range all {
				ticking.Go(func() {
					if _, err := e.Tick(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			ticking.Wait()
		}
		for _, e := range b.Journal() {
			if e.Reason == reason.RateLimited {
				moved++
			}
		}
		if n := provider.accepted(t); n != messages {
			t.Errorf("%d of %d came", n, messages)
		}
		if most := provider.most(time.Second); most > rate {
			t.Errorf("%d in one second", most)
		}
		took, least := b.Now().Sub(enginetest.Start), time.Duration(messages)*time.Second/rate
		if took < least-time.Second || took > 2*least {
			t.Errorf("took %s", took)
		}
		if moved < messages/2 || moved > 2*messages {
			t.Errorf("%d moves of %d messages", moved, messages)
		}
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Status != delivery.Sent || row.AttemptNo != 1 || row.DeferredBy != "" || !row.DueAt.IsZero() {
				t.Errorf("a move left traces: %+v", row)
			}
		}
	})
}

// A corrected rate brings forward the messages that the old one had deferred for hours; messages of other channels stay.
func TestRateIsCorrected(t *testing.T) {
	t.Parallel()
	const messages = 12
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		provider := &station{}
		definitions := alert("a", "up", "") + memory
		b := enginetest.Setup(t, s, definitions+"rate: 1/h\n", func(c *engine.Config) { stand(c, provider) })
		b.PostAll(many(messages)...)
		b.At(b.Now())
		if n := provider.accepted(t); n != 1 {
			t.Fatalf("%d came at 1/h", n)
		}
		b.Apply(definitions + "rate: 10/s\n")
		for end := b.Now().Add(3 * time.Second); ; {
			due, err := b.NextDue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if due.IsZero() || due.After(end) {
				break
			}
			b.At(later(due, b.Now()))
		}
		if n := provider.accepted(t); n != messages {
			t.Errorf("%d of %d came in the seconds after the rate was corrected", n, messages)
		}
		if most := provider.most(time.Second); most > 10 {
			t.Errorf("%d in one second", most)
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// The same on the system clock, with senders that wait for the instants; the oracle allows for a slow machine.
func TestRateOfRunningProcesses(t *testing.T) {
	t.Parallel()
	const messages, rate = 45, 30
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		provider := &station{}
		setup := func(definitions string) *enginetest.Bundle {
			return enginetest.Setup(t, s, definitions, func(c *engine.Config) {
				c.Clock = &clock.System{}
				stand(c, provider)
				c.Concurrency = 0
			})
		}
		b := setup(alert("a", "up", "timing: {catch_up: forever}\n") + memory + fmt.Sprintf("rate: %d/s\n", rate))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		for _, e := range []*engine.Engine{b.Engine, setup("").Engine} {
			running.Go(func() { _ = e.Run(ctx) })
			if s.Dialect() == "sqlite" {
				break
			}
		}
		b.PostAll(many(messages)...)
		for provider.accepted(t) < messages && t.Context().Err() == nil {
			_ = (&clock.System{}).Sleep(t.Context(), (&clock.System{}).Now().Add(10*time.Millisecond))
		}
		if most := provider.most(time.Second - 2*flow.Rate{Count: rate, Per: time.Second}.Slack()); most > rate {
			t.Errorf("%d in one second", most)
		}
	})
}

// Waiting for a rate is lateness: catch_up counts from the due instant. A message that waits for the rate can be cancelled.
func TestWaitingForARateIsLateness(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		provider := &station{}
		b := enginetest.Setup(t, s, alert("a", "up", "timing: {catch_up: 150s}\n")+memory+"rate: 1/m\n", func(c *engine.Config) { stand(c, provider) })
		results := b.PostAll(many(6)...)
		b.At(b.Now())
		var waits []delivery.Row
		for _, r := range results {
			if row := b.Delivery(r.Instances[0].Deliveries[0].ID); row.Status == delivery.Scheduled {
				if row.Reason != reason.RateLimited || row.Trace == "" || !row.Due().Equal(enginetest.Start) || !row.SendAt.After(b.Now()) || row.AttemptNo != 0 || row.Slot.IsZero() {
					t.Errorf("stands in line as %+v", row)
				}
				waits = append(waits, row)
			}
		}
		if len(waits) != 5 {
			t.Fatalf("%d wait", len(waits))
		}
		slices.SortFunc(waits, func(a, b delivery.Row) int { return a.SendAt.Compare(b.SendAt) })
		if _, err := b.Operator().CancelDelivery(t.Context(), b.Workspace.ID, waits[0].ID, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		for due, err := b.NextDue(t.Context()); !due.IsZero(); due, err = b.NextDue(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			b.At(due)
		}
		want := []delivery.Status{delivery.Cancelled, delivery.Sent, delivery.Skipped, delivery.Skipped, delivery.Skipped}
		for i, row := range waits {
			if got := b.Delivery(row.ID); got.Status != want[i] || got.Status == delivery.Skipped && got.Reason != reason.Stale {
				t.Errorf("the one that waited until %s: %s %s, want %s", row.SendAt, got.Status, got.Reason, want[i])
			}
		}
	})
}

// An outage of an hour with a backlog: the provider gets only probes, waiting messages count no tries, and when it is back everything is sent.
func TestAnHourWithoutAProvider(t *testing.T) {
	t.Parallel()
	messages := 300
	if outageMessages > 0 {
		messages = outageMessages
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const outage = time.Hour
		back := enginetest.Start.Add(outage)
		provider := &station{answer: func(at time.Time) error {
			if at.Before(back) {
				return channel.Away(errors.New("no connection"))
			}
			return nil
		}}
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, func(c *engine.Config) { stand(c, provider) })
		for part := range slices.Chunk(many(messages), 500) {
			b.PostAll(part...)
		}
		opened := false
		for now := enginetest.Start; ; now = now.Add(10 * time.Second) {
			b.Clock.Set(now)
			for b.At(now).Processed == engine.TickBatch {
			}
			for _, c := range b.Channels() {
				opened = opened || c.Breaker == flow.Open && c.Failures >= flow.Threshold && c.OpenUntil.After(now) && c.Failure != ""
			}
			if now.Sub(back) > 5*time.Minute {
				break
			}
		}
		if !opened {
			t.Error("the breaker was never seen open")
		}
		during := len(provider.log) - messages
		t.Logf("%d messages, %d requests during the outage", messages, during)
		if during < flow.Threshold || during > 60 {
			t.Errorf("%d requests during the outage", during)
		}
		untouched := 0
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{Status: delivery.Sent}, store.Page{Limit: messages})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.AttemptNo == 1 {
				untouched++
			}
		}
		// Messages that were tried in the outage may wait for their next retry.
		if n := provider.accepted(t); n < messages-during || untouched < messages-during {
			t.Errorf("five minutes after: %d sent, %d of them with one try, of %d", n, untouched, messages)
		}
		for due, err := b.NextDue(t.Context()); !due.IsZero(); due, err = b.NextDue(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			b.At(due)
		}
		if n := provider.accepted(t); n != messages {
			t.Errorf("%d of %d came", n, messages)
		}
		if c := b.Channels(); len(c) != 1 || c[0].Breaker != flow.Closed || c[0].AcceptedAt.IsZero() || c[0].InFlight != 0 {
			t.Errorf("in the end %+v", c)
		}
	})
}

// outageMessages enlarges the backlog of TestAnHourWithoutAProvider for a measurement.
var outageMessages = 0

// Retry-After is the provider's request for the whole channel.
func TestRetryAfterRestsTheChannel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		first := true
		provider := &station{answer: func(time.Time) error {
			if first {
				first = false
				e := channel.Temporary(errors.New("too many requests"))
				e.RetryAfter = 90 * time.Second
				return e
			}
			return nil
		}}
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, func(c *engine.Config) { stand(c, provider); c.NoJitter = true })
		b.PostAll(many(3)...)
		b.At(b.Now())
		if len(provider.log) != 1 {
			t.Fatalf("%d requests, although the first answer asked for rest", len(provider.log))
		}
		if due, err := b.NextDue(t.Context()); err != nil || !due.Equal(enginetest.Start.Add(90*time.Second)) {
			t.Fatalf("next due %s, %v", due, err)
		}
		b.At(enginetest.Start.Add(90 * time.Second))
		if n := provider.accepted(t); n != 2 {
			t.Errorf("%d came", n)
		}
	})
}

// A batch with many messages for a silent provider delays no other channel, and a channel never has more requests in flight than it allows, however
// many senders run.
func TestChannelsSendIndependently(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const allowed = 3
		definitions := alert("silent", "up", "") + strings.Replace(alert("good", "up", ""), "channel: memory", "channel: http", 1) + memory +
			fmt.Sprintf("concurrency: %d\n---\nchannel: http:default\nprovider: http\nsettings:\n  url: http://x\n", allowed)
		b := enginetest.Setup(t, s, definitions, nil)
		silence, asked, good := make(chan struct{}), make(chan struct{}, 200), make(chan struct{}, 200)
		var mu sync.Mutex
		now, most := 0, 0
		w := sendersOf(b, s, provider("memory", func() error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			asked <- struct{}{}
			<-silence
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}), provider("http", func() error { good <- struct{}{}; return nil }))
		const messages = 200 // per channel in a batch: more than the senders would reach one after another
		b.PostAll(many(messages)...)
		var steps sync.WaitGroup
		step := func() {
			if _, err := w.Step(context.WithoutCancel(t.Context()), b.Clock.Now(), messages); err != nil {
				t.Error(err)
			}
		}
		steps.Go(step)
		<-asked // its claims are committed: while it claims, the other sender passes over the people whom it has locked
		steps.Go(step)
		for range messages {
			<-good
		}
		for range allowed - 1 {
			<-asked
		}
		close(silence)
		steps.Wait()
		if most != allowed {
			t.Errorf("%d requests at once, allowed are %d", most, allowed)
		}
	})
}

// A request gets the timeout of its channel; after that its outcome is unknown.
func TestATimeoutOfItsOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": sender.DefaultTimeout, "timeout: 90s\n": 90 * time.Second} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				var given time.Duration
				b := enginetest.Setup(t, s, alert("a", "up", "")+memory+text, func(c *engine.Config) {
					c.Providers = []channel.Provider{{Name: "memory", Open: func(map[string]string) (channel.Channel, error) {
						return timed{&given}, nil
					}}}
					c.Definitions = enginetest.Options(c.Providers)
				})
				id := b.Post(event("up", "1", "a@x.org")).Instances[0].Deliveries[0].ID
				b.At(b.Now())
				if given > want || given < want-5*time.Second {
					t.Errorf("it has %s, want %s", given, want)
				}
				if a := b.Attempts(id); len(a) != 1 || a[0].Outcome != delivery.AttemptUnknown || a[0].Error == "" {
					t.Errorf("got %+v", a)
				}
			})
		})
	}
}

// timed records how long a request may take, and gives up at once as if that time were over.
type timed struct{ given *time.Duration }

func (c timed) Send(ctx context.Context, _ channel.Outgoing) (channel.Receipt, error) {
	end, _ := ctx.Deadline()
	*c.given = end.Sub((&clock.System{}).Now())
	return channel.Receipt{}, channel.Lost(context.DeadlineExceeded)
}

// A test process or channel with an allowlist writes to no other address.
func TestOnlyTo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory+"only_to: ['*@x.org', '+49*']\n", func(c *engine.Config) { c.OnlyTo = flow.Allow{"*@X.org"} })
		for address, want := range map[string]delivery.Status{"ann@x.org": delivery.Sent, "+49301": delivery.Skipped, "bob@y.org": delivery.Skipped} {
			id := b.Post(event("up", address, address)).Instances[0].Deliveries[0].ID
			b.At(b.Now())
			row := b.Delivery(id)
			if row.Status != want || want == delivery.Skipped && (row.Reason != reason.NotAllowed || row.AttemptNo != 0 || !row.Slot.IsZero()) {
				t.Errorf("%s: %s %s", address, row.Status, row.Reason)
			}
			if n := len(b.Attempts(id)); (n == 1) != (want == delivery.Sent) {
				t.Errorf("%s: %d tries", address, n)
			}
		}
	})
}
