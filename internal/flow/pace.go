package flow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

const (
	// shortSlack is a rate's slack in a second, longSlack in longer periods.
	shortSlack = 50 * time.Millisecond
	longSlack  = time.Second
	// idle is how long after the next message's turn no caller has come before the line counts as empty: its messages
	// were cancelled or were sent in other ways.
	idle = 5 * time.Second
	// maxCount bounds a rate to what is a rate.
	maxCount = 1_000_000
)

// Rate is how many messages a channel sends at most in any period of this length. The zero Rate is no bound.
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

// String is the rate as it is written in a definition; empty for none.
func (r Rate) String() string {
	for unit, per := range periods() {
		if r.Count > 0 && r.Per == per {
			return fmt.Sprintf("%d/%s", r.Count, unit)
		}
	}
	return ""
}

// Slack is how much later than its instant a message may leave: timers and schedulers are not exact, and between the
// instant's transaction and the request lies a commit. The spaces between instants are so much wider that no period
// sees more than the rate all the same. Longer periods afford more of it, and need it: at a slow rate the instant that
// is given out is mostly now, and a message that misses it goes to the end of the line, time after time where a commit
// takes longer than the slack.
func (r Rate) Slack() time.Duration {
	if r.Per > time.Second {
		return longSlack
	}
	return shortSlack
}

// Every is the space between two messages.
func (r Rate) Every() time.Duration {
	many := time.Duration(r.Count) * time.Microsecond
	return (r.Per + r.Slack() + many - 1) / many * time.Microsecond // rounded up: instants are whole microseconds
}

// Pace is how far the instants of a channel with a rate are given out. The zero Pace has given out none.
//
// There is no queue. A caller takes the next free instant if it is near (GCRA with strict spacing). Otherwise it gets a place at the end
// of a line, whose length is only an estimate, and asks again when that place has come. So an instant is never given to a caller that
// does not use it, and a new message does not wait behind a backlog of hours. For each message that overtakes the backlog, one message of
// the backlog goes to the end of the line again.
type Pace struct {
	NextAt time.Time // the next free instant
	TailAt time.Time // the place behind the last of the line
}

// Take gives out the next instant if it lies within that much of now. Otherwise go is false, and at is a place in the
// line.
func (p Pace) Take(r Rate, now time.Time, within time.Duration) (next Pace, at time.Time, ok bool) {
	every := r.Every()
	// Nobody takes an instant farther off than this, so it was given out at a slower rate, or before the clock was set
	// back. What is left of that line has its places already.
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
