package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
)

// patient is a record, with all that was written of it.
type patient struct {
	id     string
	chance *rand.Rand
	states []state
	used   map[string]bool // dates of rounds with the present number: a date has its messages once
}

// state is what a record was from one write to the next one.
type state struct {
	episode, number int
	days            int       // since the course began, on the day of base
	base            time.Time // the messages around it are those that come now
	ends            time.Time // nothing is sent from then on; none: no end
	off, closed     bool
	deleted         bool
	from, acked     time.Time // of its write: the first try, and the answer
	before, until   time.Time // of the next write; none: it is the last one
}

// wants reports whether the record asks for messages.
func (s state) wants() bool { return !s.off && !s.closed && !s.deleted }

// has reports whether it asks for a message of its course that is due at an instant.
func (s state) has(due time.Time) bool { return s.wants() && (s.ends.IsZero() || due.Before(s.ends)) }

func (s state) begins() time.Time { return s.base.Add(-time.Duration(s.days) * oneDay) }

// now returns when the messages of the course are due that come now.
func (s state) now() (due []time.Time) {
	for at := s.base.Add(-2 * beside); !at.After(s.base.Add(2 * beside)); at = at.Add(beside) {
		if s.has(at) {
			due = append(due, at)
		}
	}
	return due
}

// live has a record live: each change comes at some moment, or when so many messages of its course have arrived.
func (c *courses) live(ctx context.Context, p *patient) error {
	c.pause(ctx, time.Duration(p.chance.Int64N(int64(3*beside))))
	if err := c.write(ctx, p, p.begun(c.clock.Now(), state{number: 1, episode: 1})); err != nil {
		return err
	}
	for range 1 + p.chance.IntN(3) {
		if enough, waits := p.waits(); waits {
			c.await(ctx, p, enough)
		} else {
			c.pause(ctx, time.Duration(p.chance.Int64N(int64(4*beside))))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.write(ctx, p, p.next(c.clock.Now())); err != nil {
			return err
		}
	}
	return nil
}

func (p *patient) last() state { return p.states[len(p.states)-1] }

// waits draws whether the next change waits for messages, and for how many of the episode. If the episode was interrupted, what was on its way
// then may have ended.
func (p *patient) waits() (enough int, ok bool) {
	now := p.last()
	if !now.wants() || slices.ContainsFunc(p.states, func(s state) bool { return s.episode == now.episode && !s.wants() }) || p.chance.IntN(3) == 0 {
		return 0, false
	}
	return 1 + p.chance.IntN(len(now.now())), true
}

// await waits until so many messages of the present episode have arrived.
func (c *courses) await(ctx context.Context, p *patient, enough int) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	episode := fmt.Sprint(p.id, " ", p.last().episode)
	err := c.wait(bounded, func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.episodes[episode] >= enough, nil
	})
	if err != nil && ctx.Err() == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gaveUp++
	}
}

// begun begins an episode: a course whose messages come from now on. With another number than before the course begins again where two rounds
// meet; with the same number it moves to a date that the number has not had.
func (p *patient) begun(now time.Time, s state) state {
	s.base, s.ends = now.Add(3*beside).UTC().Truncate(time.Millisecond), time.Time{}
	const again = int(oneRound / oneDay)
	dates := func(days int) (all []string) {
		for ; days >= 0; days -= again {
			all = append(all, s.base.AddDate(0, 0, -days).Format(time.DateOnly))
		}
		return all
	}
	days := again
	if len(p.states) > 0 && s.number != p.last().number {
		clear(p.used)
	}
	if len(p.states) > 0 && s.number == p.last().number {
		days = 1 + p.chance.IntN(again-1)
		for range again {
			if !p.used[dates(days)[0]] {
				break
			}
			days = 1 + days%(again-1)
		}
	}
	if p.used[dates(days)[0]] { // it has had all of them
		s.number, days = s.number+1, again
	}
	if days == again {
		clear(p.used)
	}
	for _, date := range dates(days) {
		p.used[date] = true
	}
	s.days = days
	return s
}

// next draws the next change.
func (p *patient) next(now time.Time) state {
	s := p.last()
	if !s.wants() && p.chance.IntN(4) > 0 { // it goes on, or begins again
		if s.off, s.closed, s.deleted = false, false, false; p.chance.IntN(3) == 0 {
			s.episode++
			s.number += p.chance.IntN(2)
			return p.begun(now, s)
		}
		return s
	}
	switch p.chance.IntN(8) {
	case 0: // what nobody reads changes
	case 1, 2:
		s.episode, s.number = s.episode+1, s.number+1
		return p.begun(now, s)
	case 3:
		s.episode++
		return p.begun(now, s)
	case 4:
		s.closed = true
	case 5:
		s.off = true
	case 6:
		s.deleted = true
	case 7:
		s.ends = s.base.Add(beside / 2)
	}
	return s
}

// write has a state written. A try that a frozen worker has not answered is made again with that worker alone: what it has taken in is older
// than what it is asked for next.
func (c *courses) write(ctx context.Context, p *patient, s state) error {
	if n := len(p.states); s.deleted && n > 0 && p.last().deleted {
		s.deleted = false // else there is nothing to delete
	}
	s.from = c.clock.Now()
	deleted := false // by an earlier try
	wait := postWait
	for slot := int(p.chance.Int64N(int64(len(c.slots)))); ; wait = tryAfter(wait) {
		select {
		case c.poster.posting <- slot % len(c.slots):
		default:
		}
		err := within(ctx, wait, func(ctx context.Context) error { return c.put(ctx, c.poster.clients[slot%len(c.slots)], p, s, deleted) })
		if err == nil {
			break
		}
		if problem := (*client.Problem)(nil); errors.As(err, &problem) && problem.Status < http.StatusInternalServerError {
			return fmt.Errorf("write %s: %w", p.id, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if late := net.Error(nil); !errors.As(err, &late) || !late.Timeout() {
			slot++
		}
		deleted = s.deleted
		c.poster.broken.Add(1)
		c.pause(ctx, beat)
	}
	s.acked = c.clock.Now()
	if n := len(p.states); n > 0 {
		p.states[n-1].before, p.states[n-1].until = s.from, s.acked
	}
	p.states = append(p.states, s)
	return nil
}

func (c *courses) put(ctx context.Context, by *client.Client, p *patient, s state, deleted bool) error {
	if s.deleted {
		_, err := by.DeleteRecord(ctx, "patient", p.id)
		if problem := (*client.Problem)(nil); deleted && errors.As(err, &problem) && problem.Code == client.CodeNotFound {
			return nil
		}
		return err
	}
	props := map[string]any{
		"begins": s.begins().Format(time.RFC3339Nano), "number": strconv.Itoa(s.number), "active": !s.off, "state": strconv.Itoa(len(p.states)),
		"episode": strconv.Itoa(s.episode), "phone": "+49" + strings.Repeat("0", 4) + p.id[1:],
	}
	if !s.ends.IsZero() {
		props["ends"] = s.ends.Format(time.RFC3339Nano)
	}
	_, err := by.PutRecord(ctx, client.RecordInput{Type: "patient", ID: p.id, Props: props, Closed: &s.closed})
	return err
}
