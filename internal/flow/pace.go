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
type Pace struct {
	NextAt time.Time // the next free instant
	TailAt time.Time // the place after the last one in the line
}

// Take reserves the next instant if it is at most within after now. Otherwise ok is false, and at is a place in the line.
func (p Pace) Take(r Rate, now time.Time, within time.Duration) (next Pace, at time.Time, ok bool) {
	every := r.Every()
	// No caller takes an instant further away than this. So it was reserved at a slower rate, or before the clock was set back. The
	// waiting messages have their places already.
	if far := now.Add(within + idle + every); p.NextAt.After(far) {
		p = Pace{NextAt: far}
	}
	if now.After(p.NextAt.Add(every + idle)) {
		p.TailAt = time.Time{}
	}
	if p.NextAt.Before(now) {
		p.NextAt = now
	}
	if p.TailAt.Before(p.NextAt) {
		p.TailAt = p.NextAt
	}
	if p.NextAt.Sub(now) > within {
		at = p.TailAt
		p.TailAt = at.Add(every)
		return p, at, false
	}
	at = p.NextAt
	p.NextAt = at.Add(every)
	if p.TailAt.Before(p.NextAt) {
		p.TailAt = p.NextAt
	}
	return p, at, true
}
