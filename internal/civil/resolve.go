package civil

import (
	"math"
	"time"
)

// Gap is how a local time that clocks skip when they are put forward is resolved.
type Gap string

const (
	GapForward Gap = "forward" // later by the length of the gap: 02:30 becomes 03:30; the default, also for ""
	GapSkip    Gap = "skip"    // to no instant
)

// Overlap is which instant a local time means that occurs twice because clocks were put back.
type Overlap string

const (
	OverlapFirst  Overlap = "first"  // the earlier instant; the default, also for ""
	OverlapSecond Overlap = "second" // the later instant
)

// Rule is the value of `dst` in a definition. The zero Rule is the default: forward, first.
type Rule struct {
	Gap     Gap
	Overlap Overlap
}

const secondsPerDay = 24 * 60 * 60

// Resolve returns the instant at which the clocks of loc show time t on date d (product decision 27). rule resolves a time that does not exist or
// occurs twice; ok is false only in a gap with GapSkip.
//
// A local time in a gap may resolve to a later instant than a local time after the gap: 02:45 becomes 03:45, and 03:15 stays 03:15. Callers
// that make a sequence of instants must keep it ascending.
func Resolve(d Date, t TimeOfDay, loc *time.Location, rule Rule) (at time.Time, ok bool) {
	// wall is the reading of the clock, as if the zone were UTC. An offset from UTC is shorter than a day, so the instant is within a day
	// of it. Far from transitions one period covers that time, and the loop runs once.
	wall := int64(d.epochDay())*secondsPerDay + int64(t)
	var shown, moved int64
	found, gap := false, false
	p := periodAt(loc, wall-secondsPerDay)
	for {
		if u := wall - p.offset; p.start <= u && u < p.end {
			shown, found = u, true
			if rule.Overlap != OverlapSecond {
				break
			}
		}
		if p.end > wall+secondsPerDay {
			break
		}
		next := periodAt(loc, p.end)
		if !gap && p.end+p.offset <= wall && wall < next.start+next.offset {
			moved, gap = wall-p.offset, true
		}
		p = next
	}
	switch {
	case found:
		return time.Unix(shown, 0).UTC(), true
	case gap && rule.Gap != GapSkip:
		return time.Unix(moved, 0).UTC(), true
	}
	return time.Time{}, false
}

// DateOf returns the local date and time of t in loc, in whole seconds.
func DateOf(t time.Time, loc *time.Location) (Date, TimeOfDay) {
	local := t.In(loc)
	y, m, d := local.Date()
	hour, minute, second := local.Clock()
	return Date{Year: y, Month: m, Day: d}, TimeOfDay(hour*3600 + minute*60 + second)
}

// period is a time [start, end), in unix seconds, in which a zone has one offset. Neighbouring periods may have the same offset.
type period struct{ start, end, offset int64 }

func periodAt(loc *time.Location, unix int64) period {
	t := time.Unix(unix, 0).In(loc)
	_, offset := t.Zone()
	p := period{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= unix {
		// After the zone's last listed transition the standard library ends the last period of a year after 365 days, which on 31 December
		// of a leap year is in the past. The true end of the year is the next midnight in UTC.
		p.end = unix - unix%secondsPerDay + secondsPerDay
	}
	return p
}

// OffsetAt returns how far the clocks of loc are ahead of UTC at t, and until when; the zero time means for ever. The next offset may be
// the same.
func OffsetAt(t time.Time, loc *time.Location) (ahead time.Duration, until time.Time) {
	p := periodAt(loc, t.Unix())
	if p.end != math.MaxInt64 {
		until = time.Unix(p.end, 0).UTC()
	}
	return time.Duration(p.offset) * time.Second, until
}
