package flow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

const (
	// shortSlack is the slack of a rate per second, longSlack that of longer periods.
	shortSlack = 50 * time.Millisecond
	longSlack  = time.Second
	// idle is how long after the turn of the next message the line counts as empty if no caller has come: its messages were
	// cancelled or sent in another way.
	idle = 5 * time.Second
	// leaveFree is the part of the time ahead that messages of the lower priorities reserve: a fourth. So an urgent message finds an instant soon.
	leaveFree = 4
	// maxCount bounds the messages of a rate.
	maxCount = 1_000_000
)

// Rate bounds the messages that a channel sends in any period of the length Per. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration
}

func periods() map[string]time.Duration {
	return map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
}

// ParseRate reads 50/s, 600/m or 1000/h. The error is a *civil.Error.
func ParseRate(s string) (Rate, error) {
	count, unit, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	per, known := periods()[unit]
	if !ok || err != nil || !known || n < 1 || n > maxCount || count[0] == '+' {
		return Rate{}, &civil.Error{Message: fmt.Sprintf("%q is not a rate", s), Hint: "a rate is written 50/s, 600/m or 1000/h"}
	}
	return Rate{Count: n, Per: per}, nil
}

// String returns the rate as it is written in a definition; empty for the zero Rate.
func (r Rate) String() string {
	for unit, per := range periods() {
		if r.Count > 0 && r.Per == per {
			return fmt.Sprintf("%d/%s", r.Count, unit)
		}
	}
	return ""
}

// Slack returns how much later than its instant a message may leave. Timers and schedulers are not exact, and a commit comes between the
// transaction that reserves the instant and the request. The spaces between instants are wider by the slack, so that no period has more
// messages than the rate. Longer periods allow more slack, and need it: at a slow rate the reserved instant is mostly now, and a message
// that misses it goes to the end of the line. If a commit took longer than the slack, this would happen again and again.
func (r Rate) Slack() time.Duration {
	if r.Per > time.Second {
		return longSlack
	}
	return shortSlack
}

// Every returns the space between two messages.
func (r Rate) Every() time.Duration {
	many := time.Duration(r.Count) * time.Microsecond
	return (r.Per + r.Slack() + many - 1) / many * time.Microsecond // rounded up: instants are whole microseconds
}

// Pace is the state of a channel with a rate: which instants are reserved. In the zero Pace none is.
//
// There is no queue. A caller takes the next free instant if it is near (GCRA with strict spacing). Otherwise it gets a place at the end of
// a line, whose length is only an estimate, and asks again at that place's instant. So no instant is reserved for a caller that does not
// use it, and a new message does not wait behind a backlog of hours. For each message that overtakes the backlog, one message of the
// backlog goes to the end of the line again.
//
// A message stands in line behind those of its own and of higher priorities alone. While one of a higher priority has a place in line, no
// instant before that place's end is given to a message of a lower one.
type Pace struct {
	NextAt time.Time // the next free instant
	// Tails are the places after the last message in line of each priority or a higher one, in the order of Priorities. So they ascend.
	Tails [numberOfPriorities]time.Time
}

// Take reserves the next instant if it is at most within after now, for one of the lower priorities at most a fourth of that. Otherwise ok is false, and at is a place in the line.
func (p Pace) Take(r Rate, of Priority, now time.Time, within time.Duration) (next Pace, at time.Time, ok bool) {
	every := r.Every()
	near := within
	if of > Transactional {
		near /= leaveFree
	}
	// No caller takes an instant further away than this. So it was reserved at a slower rate, or before the clock was set back. The
	// waiting messages have their places already.
	if far := now.Add(within + idle + every); p.NextAt.After(far) {
		p = Pace{NextAt: far}
	}
	if now.After(p.NextAt.Add(every + idle)) {
		p.Tails = [numberOfPriorities]time.Time{}
	}
	if p.NextAt.Before(now) {
		p.NextAt = now
	}
	p.push(0, p.NextAt)
	place := of.place()
	if higher := place > 0 && p.Tails[place-1].After(p.NextAt); higher || p.NextAt.Sub(now) > near {
		at = p.Tails[place]
		p.push(place, at.Add(every))
		return p, at, false
	}
	at = p.NextAt
	p.NextAt = at.Add(every)
	p.push(0, p.NextAt)
	return p, at, true
}

// push moves the tails from a place on behind an instant.
func (p *Pace) push(place int, at time.Time) {
	for i := place; i < len(p.Tails); i++ {
		if p.Tails[i].Before(at) {
			p.Tails[i] = at
		}
	}
}
