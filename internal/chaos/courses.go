package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
)

// courseDefinitions are those of a storm of courses, before the messages of the first one: a course of a record's date, a course from the
// moment at which a condition is met, and a course after an event. Every message that is late is sent, so that none is left out.
const courseDefinitions = `
workspace: default
retry: {backoff: [1s, 2s], jitter: none, then: forever%[2]s}
cadence: {max_per_day: 0} # no limits
---
channel: sms:provider
provider: http
settings: {url: "%[1]s/main"}
---
record_type: patient
fields: {begins: datetime, ends: datetime, number: text, active: bool, state: text, episode: text, phone: text}
---
workflow: steps
type: custom
triggers:
  - id: t
    record: patient
    when: record.active == true
    timing:
      sequence: [{after: 1s, message: {sms: {text: "%[3]s 1"}}}, {after: 1s, message: {sms: {text: "%[3]s 2"}}}, {after: 1s, message: {sms: {text: "%[3]s 3"}}}]
      reset_on: record.number
      backlog: all
audience: [{address: record.phone, kind: sms}]
channel: sms:provider
---
workflow: welcome
type: broadcast
triggers:
  - id: t
    event: joined
    timing:
      sequence: [{after: 0s, message: {sms: {text: "%[4]s 1"}}}, {after: 2s, message: {sms: {text: "%[4]s 2"}}}, {after: 2s, message: {sms: {text: "%[4]s 3"}}}]
      backlog: all
audience: [{to: event.recipient}]
channel: sms:provider
---
workflow: course
type: reminder
triggers:
  - id: t
    record: patient
    when: record.active == true
    timing:
      anchor: record.begins
      repeat: {every: 6d, until: record.ends}
      reset_on: record.number
      backlog: all
      sequence:
`

// courseEnd follows the messages.
const courseEnd = `audience: [{address: record.phone, kind: sms}]
channel: sms:provider
`

const (
	// beside is the time between two messages of a course that come at once.
	beside = time.Second
	oneDay = 24 * time.Hour
	// oneRound is the length of a round: each day of it has messages, so that a course that began some days ago has messages now.
	oneRound = 6 * oneDay
	// steps is how many messages the course from the moment on has, and welcomes the one after an event.
	steps, welcomes = 3, 3
	// patience bounds how long the next change of a record waits for a message. Whether the message is lost is judged at the end.
	patience = 20 * time.Second
	// courseStorm is how long kills go on, on an idle machine.
	courseStorm = 9 * time.Second
	// crashWithin bounds how long a worker that shall end at a failpoint may live.
	crashWithin = 30 * time.Second
)

// courseOffsets are when the messages of a round are due, from its beginning: some on each day, and some of both rounds where two rounds meet.
func courseOffsets() (all []time.Duration) {
	for day := time.Duration(0); day <= oneRound; day += oneDay {
		for at := day - 2*beside; at <= day+2*beside; at += beside {
			if at >= 0 && at < oneRound {
				all = append(all, at)
			}
		}
	}
	return all
}

// courses is the profile Courses.
type courses struct {
	*run
	offsets  []time.Duration
	batches  []batch
	patients []*patient
	life     errgroup.Group // of patients
	until    time.Time      // by then everything was due that is to arrive

	mu       sync.Mutex
	came     map[string]int // how often a message of a course was accepted, by its text without the state
	episodes map[string]int // how many messages of an episode were accepted
	gaveUp   int            // changes that came before the messages for which they waited
	crashed  int            // workers that ended in a fan-out
	beside   []string       // a message of each course of which two waited at once
	looks    int            // for such courses
}

func (c *courses) prepare() (string, error) {
	c.addProvider(moods{{takenLost, 3}, {slowly, 5}, {later, 3}})
	c.offsets, c.came, c.episodes = courseOffsets(), map[string]int{}, map[string]int{}
	retry := ""
	if c.Crash != "" {
		c.Workers, c.Kills, c.Freezes, c.provider.moods = 1, 0, 0, nil
		c.lease = crashLease
	}
	if c.Crash == fanout.AfterTaken {
		retry = ", lease: 1s"
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, courseDefinitions, c.provider.server.URL, retry, "steps {{ record.id }} {{ record.state }} {{ record.number }}", "welcome {{ event.id }}")
	last := time.Duration(0)
	for i, at := range c.offsets {
		fmt.Fprintf(text, "        - {after: %ds, message: {sms: {text: \"course {{ record.id }} {{ record.state }} {{ record.episode }} {{ iteration }} %d\"}}}\n", (at-last)/time.Second, i+1)
		last = at
	}
	text.WriteString(courseEnd)
	const perBatch = 5
	c.batches = inBatches(c.Events, perBatch, func(i int) client.Event {
		id := fmt.Sprintf("e%05d", i)
		return client.Event{ID: id, Kind: "joined", Payload: map[string]any{"id": id}, Recipient: &client.Recipient{Address: id + "@example.org"}}
	})
	for i := range c.Events {
		c.patients = append(c.patients, &patient{id: fmt.Sprintf("r%05d", i), chance: rand.New(rand.NewPCG(c.Seed, uint64(100+i))), used: map[string]bool{}})
	}
	return text.String(), nil
}

// storm lets all records live at once, posts events, and kills workers meanwhile.
func (c *courses) storm(ctx context.Context, group *errgroup.Group) error {
	c.provider.reach(c.reached)
	c.poster.start(ctx, group, len(c.slots), c.batches)
	watched, over := context.WithCancel(ctx)
	defer over()
	group.Go(func() error { return c.watchWaiting(watched) })
	for _, p := range c.patients {
		c.life.Go(func() error { return c.live(ctx, p) })
	}
	group.Go(func() error {
		for i := range c.Freezes {
			if err := c.freeze(ctx, c.slots[i%len(c.slots)]); err != nil {
				return err
			}
		}
		return nil
	})
	var err error
	if c.Crash != "" {
		err = c.crashes(ctx, c.batches)
	} else {
		err = c.blows(ctx)
	}
	c.poster.release(len(c.batches))
	if err = errors.Join(err, c.life.Wait()); err != nil {
		return err
	}
	c.poster.posted.Wait()
	now := c.clock.Now()
	c.until = now.Add(5 * beside)
	for _, p := range c.patients {
		if end := p.last().base.Add(3 * beside); end.After(c.until) {
			c.until = end
		}
	}
	return context.Cause(ctx)
}

// blows kills workers: at any moment, while they take a write in, while the provider has their requests, and in the middle of a fan-out.
func (c *courses) blows(ctx context.Context) error {
	points := []string{fanout.BeforeCommit, fanout.AfterChunk}
	for i := range c.Kills {
		c.poster.release((i + 1) * len(c.batches) / c.Kills)
		next := c.clock.Now().Add(courseStorm / time.Duration(c.Kills))
		victim := c.chance.IntN(len(c.slots))
		var err error
		switch i % 4 {
		case 0:
			c.pause(ctx, time.Duration(c.chance.Int64N(int64(beside))))
			err = c.kill(ctx, victim, false)
		case 1:
			err = c.die(ctx, c.slots[victim], points[i/4%len(points)])
		case 2:
			err = c.kill(ctx, victim, true)
		case 3:
			if n, ok := c.poster.caught(beside); ok {
				victim = n
			}
			err = c.kill(ctx, victim, false)
		}
		if err != nil {
			return err
		}
		c.pause(ctx, next.Sub(c.clock.Now()))
	}
	return context.Cause(ctx)
}

// die has a worker end at a failpoint, if it gets there in time.
func (c *courses) die(ctx context.Context, s *slot, point string) error {
	if !s.mu.TryLock() { // it is frozen
		return nil
	}
	defer s.mu.Unlock()
	s.crash = point
	err := s.replace()
	if s.crash = ""; err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, crashWithin)
	defer cancel()
	switch err = s.crashed(bounded); {
	case err == nil:
		c.crashed++
		return s.start()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() == nil: // it has ended otherwise
		return err
	}
	return s.replace()
}

// reached notes a message that was accepted.
func (c *courses) reached(q request) {
	kind, id, _, rest := partsOf(q.Text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.came[kind+" "+id+" "+rest]++; kind == "course" && c.came[kind+" "+id+" "+rest] == 1 {
		episode, _, _ := strings.Cut(rest, " ")
		c.episodes[id+" "+episode]++
	}
}

// partsOf takes the text of a message apart: the workflow, whom it is about, the state of that record, and which message it is.
func partsOf(text string) (kind, id, state, rest string) {
	kind, rest, _ = strings.Cut(text, " ")
	id, rest, _ = strings.Cut(rest, " ")
	if kind != "welcome" {
		state, rest, _ = strings.Cut(rest, " ")
	}
	return kind, id, state, rest
}

// rests reports whether everything was due that is to arrive, and nothing is due that was not done. What is due in days waits.
func (c *courses) rests(ctx context.Context) (bool, error) {
	now := c.clock.Now()
	idle, err := c.idle(ctx, now.Add(time.Hour))
	return idle && now.After(c.until), err
}

// manyRecords is from how many on the records of a storm change in each way.
const manyRecords = 60

func (c *courses) counters() (verdicts, proofs []string) {
	verdicts = []string{
		"lost",    // a message that was due did not arrive
		"doubled", // it arrived twice
		"unasked", // it arrived when nothing asked for it any more
		"early",
		"out of order",
		"stopped", // a course without a message that waits
		"two wait",
	}
	if c.Kills == 0 {
		return verdicts, nil // a run of crashes
	}
	if c.Events < manyRecords {
		return verdicts, []string{"kills", "looked at", "repeats"}
	}
	return verdicts, []string{
		"kills",
		"ended in a fan-out",
		"messages of later rounds",
		"begun again",          // messages of courses whose number changed
		"moved",                // messages of courses whose date changed
		"went on",              // messages of courses that were interrupted
		"closed while waiting", // rows that were withdrawn
		"off while waiting",
		"over before their end",
		"looked at",
		"unfinished by a change", // messages that were due, and were not sent as their record changed
		"broken_posts", "repeats", "skipped",
	}
}
