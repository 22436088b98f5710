package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
)

// broadcastDefinitions are those of one message to many people. Both groups name most of the readers, and so does one place of the audience after
// the other: each person has one message.
const broadcastDefinitions = `
workspace: default
retry: {backoff: [1s, 2s], jitter: none, then: forever%[2]s}
cadence: {max_per_day: 0} # no limits
---
channel: sms:provider
provider: http
settings: {url: "%[1]s/main"}
---
group: readers
where: contact.attributes.n < %[3]d
---
group: regulars
where: contact.attributes.n < %[3]d && contact.attributes.n > %[4]d
---
workflow: news
type: broadcast
triggers: [{id: t, event: never}]
audience: [{group: regulars}, {group: readers}]
channel: sms:provider
message: {sms: {text: "{{ contact.id }}"}}
`

const (
	// broadcastRun is the id of the one run by hand.
	broadcastRun = "1"
	// strangersShare of the people belong to no group.
	strangersShare = 10
	// perCall is how many people are posted at once, by so many callers.
	perCall, broadcastCallers = 500, 4
	// blink is the longest time between a step of the expansion that is seen and the kill.
	blink = 30 * time.Millisecond
	// crashedLives is how many workers end at a failpoint of the expansion, one after the other.
	crashedLives = 5
	// restedShare of the people may wait for the breaker of the channel, besides fewRested: outcomes of a moment may open it for that moment.
	restedShare, fewRested = 10, 1000
)

// broadcast is the profile Broadcast.
type broadcast struct {
	*run
	readers  int // whom the message is for; the others get nothing
	midway   int // deaths that have found some of them taken up, and others not
	last     int // how many were taken up at the last death
	progress map[int]bool
}

func (b *broadcast) prepare() (string, error) {
	m, lease := moods{{takenLost, 3}, {later, 3}}, ""
	if b.Crash != "" {
		m, b.Workers, b.Kills, b.lease = nil, 1, 0, crashLease
	}
	if b.Leased {
		lease = ", lease: 5s"
	}
	b.addProvider(m)
	b.readers, b.progress = b.Events-b.Events/strangersShare, map[int]bool{}
	return fmt.Sprintf(broadcastDefinitions, b.provider.server.URL, lease, b.readers, b.readers/2), nil
}

// storm makes the people, begins the broadcast, and has all workers die again and again while it is expanded.
func (b *broadcast) storm(ctx context.Context, _ *errgroup.Group) error {
	if err := b.postPeople(ctx); err != nil {
		return err
	}
	if b.Crash != "" {
		return b.crash(ctx)
	}
	if err := b.begin(ctx); err != nil {
		return err
	}
	for i := range b.Kills {
		enough := max((i+1)*b.readers/(b.Kills+1), b.last+1) // it goes on between two deaths: more of them in a row put it on hold
		if err := b.wait(ctx, func() (bool, error) {
			taken, err := b.taken(ctx)
			return taken >= min(enough, b.readers), err
		}); err != nil {
			return err
		}
		b.pause(ctx, time.Duration(b.chance.Int64N(int64(blink))))
		if err := b.powerCut(ctx); err != nil {
			return err
		}
	}
	return nil
}

// crash has one worker after the other end at a failpoint: with a chunk that is lost, and with one that is committed and not reported.
func (b *broadcast) crash(ctx context.Context) error {
	if least := crashedLives * engine.DefaultBatch; b.readers <= least {
		return fmt.Errorf("%d lives end in a chunk each: that takes more than %d readers, not %d", crashedLives, least, b.readers)
	}
	points := []string{b.Crash, fanout.AfterChunk}
	s := b.slots[0]
	var asking errgroup.Group
	for i := range crashedLives {
		asking.Go(func() error { return b.begin(ctx) }) // a worker that ends first does not answer; a later one does
		if err := s.crashed(ctx); err != nil {
			return fmt.Errorf("failpoint %s: %w", points[i%len(points)], err)
		}
		if err := b.died(ctx); err != nil {
			return err
		}
		b.Crash = ""
		if s.crash = ""; i < crashedLives-1 {
			s.crash = points[(i+1)%len(points)]
		}
		if err := s.start(); err != nil {
			return err
		}
	}
	return asking.Wait()
}

// powerCut kills all workers at once, looks at what they have left, and starts others.
func (b *broadcast) powerCut(ctx context.Context) error {
	for _, s := range b.slots {
		if err := s.now.alive(); err != nil {
			return err
		}
		s.killed[s.now.life] = true
		if err := s.now.kill(); err != nil {
			return err
		}
	}
	if err := b.died(ctx); err != nil {
		return err
	}
	for _, s := range b.slots {
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// died counts a death in the middle of the expansion.
func (b *broadcast) died(ctx context.Context) error {
	taken, err := b.taken(ctx)
	b.progress[taken], b.last = true, taken
	b.midway += b2i(taken > 0 && taken < b.readers)
	return err
}

// begin starts the broadcast, or learns that it has begun.
func (b *broadcast) begin(ctx context.Context) error {
	return b.poster.ask(ctx, 0, func(ctx context.Context, c *client.Client) error {
		_, err := c.RunWorkflow(ctx, "news", broadcastRun)
		return err
	})
}

// taken is how many people the broadcast has taken up.
func (b *broadcast) taken(ctx context.Context) (n int, err error) {
	err = b.db.raw.QueryRowContext(ctx, "SELECT COALESCE(SUM(recipients), 0) FROM instance").Scan(&n)
	return n, err
}

func (b *broadcast) postPeople(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(broadcastCallers)
	for from := 0; from < b.Events; from += perCall {
		group.Go(func() error {
			var people []client.ContactInput
			for n := from; n < min(from+perCall, b.Events); n++ {
				people = append(people, client.ContactInput{
					ID: personOf(n), Addresses: map[string]string{"sms": fmt.Sprintf("+49170%07d", n)}, Attributes: map[string]any{"n": n},
				})
			}
			return b.poster.ask(ctx, from/perCall, func(ctx context.Context, c *client.Client) error {
				answer, err := c.PostContacts(ctx, people...)
				if err == nil && answer.Failed > 0 {
					err = fmt.Errorf("%w: %+v", errAnswer, answer.Items)
				}
				return err
			})
		})
	}
	for n := range b.Events {
		b.poster.acked[personOf(n)] = 1
	}
	return group.Wait()
}

func personOf(n int) string { return fmt.Sprintf("p%06d", n) }

// rests reports whether the database has nothing more to do, ever.
func (b *broadcast) rests(ctx context.Context) (bool, error) {
	due, err := b.db.store.NextDue(ctx, b.clock.Now())
	return err == nil && due.Earliest().IsZero(), err
}

func (b *broadcast) counters() (verdicts, proofs []string) {
	verdicts = []string{
		"lost",    // a person of the audience without a delivery, or without a message
		"doubled", // with two
		"unasked", // somebody else who has one
		"rested",  // many of them, since a provider that answers most requests was taken for one that is away
		"miscounted",
		"unfenced",
	}
	if b.Kills == 0 {
		return verdicts, []string{"died midway"}
	}
	return verdicts, []string{"kills", "died midway", "repeats"}
}

// judge holds deliveries and messages against the audience.
func (b *broadcast) judge(ctx context.Context, report *Report) error {
	report.count("died midway", b.midway)
	report.count("places of death", len(b.progress))
	wanted := map[string]bool{}
	for n := range b.readers {
		wanted[personOf(n)] = true
	}
	compare := func(of string, have map[string]int) {
		for id := range wanted {
			if n := have[id]; n == 0 {
				report.violate("lost", "%s has no %s", id, of)
			}
		}
		for id, n := range have {
			switch {
			case !wanted[id]:
				report.violate("unasked", "%s has %d of %s", id, n, of)
			case n > 1:
				report.violate("doubled", "%s has %d of %s", id, n, of)
			}
		}
	}
	deliveries, messages := map[string]int{}, map[string]int{}
	err := b.db.each(ctx, `SELECT c.ext_id, count(*) FROM delivery d JOIN contact c ON c.ws = d.ws AND c.id = d.contact_id GROUP BY c.ext_id`, func(rows *sql.Rows) error {
		id, n := "", 0
		err := rows.Scan(&id, &n)
		deliveries[id] = n
		return err
	})
	if err != nil {
		return err
	}
	for _, q := range b.provider.requests(report) {
		messages[q.Text] += b2i(q.accepted)
	}
	compare("delivery", deliveries)
	compare("message", messages)
	lines, err := b.journals()
	if err != nil {
		return err
	}
	for _, l := range lines {
		report.count("put off", b2i(putOff(l)))
	}
	if n, most := int(report.Count("put off")), b.readers/restedShare+fewRested; n > most {
		report.violate("rested", "%d messages were put off, more than %d", n, most)
	}
	return errors.Join(
		b.find(ctx, report, "unfenced", `SELECT 'delivery ' || delivery_id || ': ' || what FROM chaos_watch`),
		b.find(ctx, report, "miscounted",
			`SELECT 'there are ' || count(*) || ' instances' FROM instance HAVING count(*) <> 1`,
			fmt.Sprintf(`SELECT 'the instance is ' || status || ' (' || reason || ', ' || crashes || ' crashes), and has ' || recipients || ' people' FROM instance
WHERE status <> 'completed' OR recipients <> %d`, b.readers)),
	)
}
