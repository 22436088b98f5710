package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// broadcastLess is by how much fewer the people are with which a broadcast is compared.
	broadcastLess = 10
	// broadcastPoll is how often the progress of a broadcast and the memory of the process are read.
	broadcastPoll = 50 * time.Millisecond
	// cancelledAlone is how many deliveries of a broadcast are cancelled one by one.
	cancelledAlone = 20
	// groupSize is how many members the group has, and groupRuns how often an occasion for it is taken up.
	groupSize, groupRuns = 100, 10
)

const broadcastDefinitions = `
workflow: tip
type: broadcast
triggers: [{id: never, schedule: {from: 2090-01-01, every: 1y, at: "10:00"}}]
audience: {everyone: true}
channel: inbox
message: {inbox: {text: "Hello {{ contact.name }}, drink clean water."}}
---
workflow: crew
type: broadcast
triggers: [{id: never, schedule: {from: 2090-01-01, every: 1y, at: "10:00"}}]
audience: {group: crew}
channel: inbox
message: {inbox: {text: "Hello {{ contact.name }}"}}
---
group: crew
where: contact.persona == "Crew"
---
persona: Crew
---
channel: inbox:default
provider: memory
---
workspace: default
timezone: Europe/Berlin
`

// peopleRows are contacts with an address, of whom some are the members of a group.
const (
	peopleRows = `
INSERT INTO contact (ws, id, ext_id, address, locale, timezone, created_at, name, addresses, updated_at, persona)
SELECT w.id, n, 'person-' || n, 'person-' || n || '@example.org', 'en', 'Europe/Berlin', $1, 'Person ' || n, '{"inbox":"person-' || n || '"}', $1,
  CASE WHEN n % ($2::bigint / $3::bigint) = 0 THEN 'Crew' ELSE '' END
FROM workspace AS w, generate_series(1, $2::bigint) AS n`
	// limitRows have the locks of people, and what limits read of them.
	limitRows  = `INSERT INTO cadence (ws, contact_id) SELECT ws, id FROM contact`
	memberRows = `INSERT INTO group_member (ws, name, contact_id) SELECT ws, 'crew', id FROM contact WHERE persona = 'Crew'`
)

// broadcastContenders have the program itself send a message to everybody, and to a tenth of them (T12).
func broadcastContenders(s settings, b *binary) []contender {
	of := func(name string, people int) contender {
		return onDatabase("Carillon, a broadcast to "+name, []string{"T12"}, func(ctx context.Context, r *round, url string) error {
			return broadcastServer(ctx, r, b, url, name, people)
		})
	}
	return []contender{of(castFew, max(s.people/broadcastLess, groupSize)), of(castMany, s.people)}
}

func broadcastServer(ctx context.Context, r *round, b *binary, url, name string, people int) error {
	return withPeople(ctx, r, b, url, broadcastDefinitions, name, people, func(c *broadcast) error {
		for _, part := range []func(context.Context) error{c.group, c.whole, c.half} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// withPeople starts the program with definitions and many people.
func withPeople(ctx context.Context, r *round, b *binary, url, definitions, name string, people int, do func(*broadcast) error) (err error) {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(definitions), 0o600); err != nil {
		return err
	}
	p, err := b.serve(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	key, err := b.call(ctx, "keys", "create", "--db", url, "--name", "bench", "--scopes", "admin")
	if err != nil {
		return err
	}
	if _, err := b.call(ctx, "apply", "--server", p.address, "--key", key, dir); err != nil {
		return err
	}
	if err := errors.Join(execute(ctx, url, peopleRows, (&clock.System{}).Now().UnixMicro(), people, groupSize), execute(ctx, url, limitRows), execute(ctx, url, memberRows)); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	api, err := client.New(p.address, key)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(&broadcast{round: r, process: p, key: key, api: api, pool: pool, name: name, people: people})
}

// broadcast is a program with many people, one of whose workflows is run by hand.
type broadcast struct {
	*round
	process *process
	key     string
	api     *client.Client
	pool    *pgxpool.Pool
	name    string
	people  int
}

// group measures how long it takes from the request of a run until all members of the group have their message.
func (c *broadcast) group(ctx context.Context) error {
	var took []time.Duration
	for n := range groupRuns {
		elapsed := clock.Monotonic()
		if _, err := c.api.RunWorkflow(ctx, "crew", fmt.Sprintf("run-%d", n)); err != nil {
			return err
		}
		if err := c.until(ctx, func() (bool, error) { return c.has(ctx, (n+1)*groupSize) }); err != nil {
			return err
		}
		took = append(took, elapsed())
	}
	return c.lateness(c.name+castGroup, took)
}

// whole measures a broadcast from its request until the last message is sent, and the memory that it takes.
func (c *broadcast) whole(ctx context.Context) error {
	m, err := c.meter(c.process.pid)
	if err != nil {
		return err
	}
	elapsed, peak := clock.Monotonic(), 0.0
	if _, err := c.api.RunWorkflow(ctx, "tip", "whole"); err != nil {
		return err
	}
	err = c.until(ctx, func() (bool, error) {
		now, err := resident(c.process.pid)
		if err != nil {
			return false, err
		}
		peak = max(peak, now)
		return c.has(ctx, groupRuns*groupSize+c.people)
	})
	if err != nil {
		return err
	}
	if err := m.rate(c.name, c.people, elapsed()); err != nil {
		return err
	}
	c.record(c.name+" memory", peak)
	return nil
}

// half cancels single deliveries of a broadcast, then, when half of it is sent, the whole of it: how long the calls take, and how long messages leave after the
// last call began.
func (c *broadcast) half(ctx context.Context) error {
	run, err := c.api.RunWorkflow(ctx, "tip", "half")
	if err != nil {
		return err
	}
	sent := func(n int) error {
		return c.until(ctx, func() (bool, error) { return c.has(ctx, groupRuns*groupSize+c.people+n) })
	}
	if err := sent(c.people / 20); err != nil {
		return err
	}
	page, err := c.api.Deliveries(ctx, client.DeliveryQuery{Instance: run.Instance, Status: "scheduled", Limit: cancelledAlone})
	if err != nil {
		return err
	}
	var alone []time.Duration
	for _, d := range page.Items {
		elapsed := clock.Monotonic()
		_, err := c.api.CancelDelivery(ctx, d.ID)
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusConflict {
			continue // it was sent meanwhile
		}
		if err != nil {
			return err
		}
		alone = append(alone, elapsed())
	}
	if err := errors.Join(c.lateness(c.name+castAlone, alone), sent(c.people/2)); err != nil {
		return err
	}
	began, elapsed := (&clock.System{}).Now(), clock.Monotonic()
	if _, err := c.api.CancelInstance(ctx, run.Instance); err != nil {
		return err
	}
	c.record(c.name+castCall, float64(elapsed().Microseconds())/1000)
	// The run that ends the rest has ended when nothing of the workflow waits.
	const waits = `SELECT count(*) FROM (SELECT FROM delivery WHERE workflow = 'tip' AND status = 'scheduled' LIMIT 1) AS d`
	err = c.until(ctx, func() (bool, error) {
		left, err := c.number(ctx, waits)
		return left == 0, err
	})
	if err != nil {
		return err
	}
	last, err := c.number(ctx, `SELECT max(intent_at) FROM attempt`)
	if err != nil {
		return err
	}
	c.record(c.name+castLast, max(0, float64(int64(last)-began.UnixMicro())/1000))
	left, err := c.number(ctx, `SELECT count(*) FROM delivery WHERE workflow = 'tip' AND status = 'sent'`)
	if err == nil && (left < c.people+c.people/2 || left >= 2*c.people) {
		err = fmt.Errorf("%d messages were sent of a broadcast to %d people that was cancelled in the middle", left-c.people, c.people)
	}
	return err
}

// sent is how many messages the program has sent since its start, by its own counter: to count rows would be work for the database.
func (c *broadcast) sent(ctx context.Context) (n int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.process.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("metrics: %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(name, "carillon_deliveries_total{") || !strings.Contains(name, `what="sent"`) {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metrics: %w", err)
		}
		n += int(count)
	}
	return n, lines.Err()
}

func (c *broadcast) has(ctx context.Context, n int) (bool, error) {
	sent, err := c.sent(ctx)
	return sent >= n, err
}

func (c *broadcast) number(ctx context.Context, text string) (n int, err error) {
	var at int64
	err = c.pool.QueryRow(ctx, text).Scan(&at)
	return int(at), err
}

// until polls until a condition holds.
func (c *broadcast) until(ctx context.Context, holds func() (bool, error)) error {
	system := &clock.System{}
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if err := system.Sleep(ctx, system.Now().Add(broadcastPoll)); err != nil {
			return err
		}
	}
}
