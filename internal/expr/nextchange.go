package expr

import (
	"math"
	"slices"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/carillonhq/carillon/internal/civil"
)

// The result of a condition that reads the time may change although nothing is written. NextChange computes when. It evaluates the
// condition once with values that know how time changes them: now, an age, today, a number of days. At each comparison of such a
// value with a constant one, it records the instant at which the result of the comparison changes. Until the earliest of these
// instants every step of the evaluation, and so the result, stays the same.
//
// A line that uses such a value in another way cannot be analysed; shape.go finds these lines when they are compiled.

// resolution is the resolution of the engine's instants.
const resolution = time.Microsecond

// lastYear is the last year that has a form in JSON (RFC 3339). Later changes are ignored.
const lastYear = 9999

// NextChange returns the earliest instant after in.Now, in whole microseconds, at which time alone may change the result of the condition:
// until then it need not be evaluated again. The zero time means that time alone never changes it. Exact is false when the instant
// cannot be computed, because of the line that TimeBound names.
func (c *Condition) NextChange(in Input) (at time.Time, exact bool) {
	if _, bound := c.TimeBound(); bound {
		return time.Time{}, false
	}
	if !c.ReadsNow() {
		return time.Time{}, true
	}
	w := &watch{}
	in.watch = w
	c.holds(&in, unbounded)
	return w.next, !w.loose
}

// Watch is Holds and NextChange in one evaluation: it reports whether the condition holds, and when time alone may change that. Size
// is an upper bound of the input's size as JSON, in bytes.
func (c *Condition) Watch(in *Input, size int) (met bool, at time.Time, exact bool) {
	in.watch, in.failed = nil, false
	if !c.ReadsNow() {
		return c.holds(in, size), time.Time{}, true
	}
	if _, bound := c.TimeBound(); bound {
		return c.holds(in, size), time.Time{}, false
	}
	w := &watch{}
	in.watch = w
	met = c.holds(in, size)
	return met, w.next, !w.loose
}

// Failed reports whether a line that the last result of Watch depends on could not be evaluated.
func (in *Input) Failed() bool { return in.failed }

// TimeBound returns the first line that uses the time in a way that NextChange cannot analyse; such a condition must be evaluated
// periodically.
func (c *Condition) TimeBound() (line string, bound bool) {
	if c == nil {
		return "", false
	}
	if c.line != nil {
		return c.source, c.line.loose
	}
	for _, part := range c.group {
		if line, bound = part.TimeBound(); bound {
			return line, true
		}
	}
	return "", false
}

// ReadsNow reports whether time alone may change the result.
func (c *Condition) ReadsNow() bool {
	if c == nil {
		return false
	}
	if c.line != nil {
		return c.line.readsNow
	}
	return slices.ContainsFunc(c.group, (*Condition).ReadsNow)
}

// CallsOwn reports whether the condition calls a function of a binary of one's own.
func (c *Condition) CallsOwn() bool {
	if c == nil {
		return false
	}
	if c.line != nil {
		return c.line.callsOwn
	}
	return slices.ContainsFunc(c.group, (*Condition).CallsOwn)
}

// watch records the earliest instant at which time changes a comparison of one evaluation.
type watch struct {
	now   time.Time // in the zone of dates
	next  time.Time
	loose bool // a moving value was used in a way that cannot be analysed
}

// moving is a value that time alone changes. Operators see its value at the instant of the evaluation.
type moving struct {
	ref.Val
	motion
	watch *watch
}

// motion describes how time changes a value.
type motion interface {
	// value returns the value at t.
	value(t time.Time) ref.Val
	// turns returns all instants at which its order relative to a constant value can change, and possibly others.
	turns(other ref.Val, loc *time.Location) []time.Time
}

func (w *watch) moving(m motion) *moving { return &moving{m.value(w.now), m, w} }

// giveUp records that the evaluation cannot be analysed. It returns v, the value at now.
func (w *watch) giveUp(v ref.Val) ref.Val {
	w.loose = true
	return v
}

// still returns the value at the instant of the evaluation.
func still(v ref.Val) ref.Val {
	if m, ok := v.(*moving); ok {
		return m.Val
	}
	return v
}

// watcher returns the watch of the first moving value; nil if there is none.
func watcher(values ...ref.Val) *watch {
	for _, v := range values {
		if m, ok := v.(*moving); ok {
			return m.watch
		}
	}
	return nil
}

// compared applies a comparison, and records when time alone changes its result.
func compared(x, y ref.Val, op binary) ref.Val {
	w := watcher(x, y)
	if w == nil {
		return op(x, y)
	}
	is := op(still(x), still(y))
	m, left := x.(*moving)
	other := y
	if !left {
		m, other = y.(*moving), x
	}
	if watcher(other) != nil {
		return w.giveUp(is)
	}
	loc := w.now.Location()
	for _, turn := range m.turns(other, loc) {
		// At is the first of the engine's instants at or after the turn. The result of < changes at this instant, that of <= at
		// the next one.
		at := turn.Add(resolution - 1).Truncate(resolution)
		for _, at := range []time.Time{at, at.Add(resolution)} {
			if !at.After(w.now) || at.Year() > lastYear || !w.next.IsZero() && !at.Before(w.next) {
				continue
			}
			a, b := m.value(at.In(loc)), other
			if !left {
				a, b = b, a
			}
			if !alike(op(a, b), is) {
				w.next = at.UTC()
			}
		}
	}
	return is
}

// alike reports whether two results of a comparison are equal. All errors are equal.
func alike(a, b ref.Val) bool {
	x, okX := a.(types.Bool)
	y, okY := b.(types.Bool)
	return okX == okY && x == y
}

// movingTime is now or the midnight of today, shifted by a length of time.
type movingTime struct {
	today bool
	shift time.Duration
}

func (m movingTime) value(t time.Time) ref.Val {
	if m.today {
		return local{midnight(t).wall.Add(m.shift)}
	}
	return instant(t.Add(m.shift))
}

func (m movingTime) turns(other ref.Val, loc *time.Location) []time.Time {
	clock, at, ok := m.beside(other)
	if !ok {
		return nil
	}
	turns := clock.shows(at.Add(-m.shift), loc)
	if clock == wallClock { // now + shift has this wall clock, so the zone's changes are shifted too
		turns = clock.shows(at, loc)
		for i := range turns {
			turns[i] = turns[i].Add(-m.shift)
		}
	}
	return turns
}

// beside returns the clock on which it is compared with another time, and the other time on that clock.
func (m movingTime) beside(other ref.Val) (clock, time.Time, bool) {
	t, ok := asTime(other)
	if !ok {
		return 0, time.Time{}, false
	}
	l, isLocal := t.(local)
	switch {
	case m.today && isLocal:
		return calendar, l.wall, true
	case m.today:
		return calendar, wallOf(t.(types.Timestamp).Time), true
	case isLocal:
		return wallClock, l.wall, true
	}
	return universal, t.(types.Timestamp).Time, true
}

// movingLength is the time from base to a clock's present, or back, shifted by a length of time.
type movingLength struct {
	clock clock
	base  time.Time
	back  bool // from the present to base
	plus  time.Duration
}

func (m movingLength) value(t time.Time) ref.Val {
	d := m.clock.read(t).Sub(m.base)
	if m.back {
		d = -d
	}
	return types.Duration{Duration: d + m.plus}
}

func (m movingLength) turns(other ref.Val, loc *time.Location) []time.Time {
	d, ok := other.(types.Duration)
	if !ok {
		return nil
	}
	from, ok := calculateWhole('-', int64(d.Duration), int64(m.plus))
	if !ok {
		return nil // beyond 292 years
	}
	if m.back {
		from = -from
	}
	return m.clock.shows(m.base.Add(time.Duration(from)), loc)
}

// movingDays is the number of days until a date, or since it.
type movingDays struct {
	date  time.Time // midnight, on the wall clock
	since bool
}

func (m movingDays) value(t time.Time) ref.Val {
	n := types.Int(m.date.Sub(midnight(t).wall) / (24 * time.Hour))
	if m.since {
		return -n
	}
	return n
}

// maxDays bounds the days that are counted, because a time.Duration holds up to 292 years.
const maxDays = 106_000

func (m movingDays) turns(other ref.Val, loc *time.Location) []time.Time {
	if !isNumber(other) {
		return nil
	}
	n := float(other)
	if n < -maxDays || n > maxDays {
		return nil
	}
	if !m.since {
		n = -n
	}
	return calendar.shows(m.date.AddDate(0, 0, int(math.Floor(n))), loc)
}

// clock is a way to read the time: as an instant, as the wall clock of a zone, or as a date.
type clock int

const (
	universal clock = iota
	wallClock
	calendar
)

func (c clock) read(t time.Time) time.Time {
	switch c {
	case wallClock:
		return wallOf(t)
	case calendar:
		return midnight(t).wall
	case universal:
	}
	return t
}

// shows returns the instants at which the clock can reach or pass the reading at.
func (c clock) shows(at time.Time, loc *time.Location) []time.Time {
	switch c {
	case wallClock:
		return wallTurns(at, loc)
	case calendar:
		day := at.Truncate(24 * time.Hour)
		return append(wallTurns(day, loc), wallTurns(day.Add(24*time.Hour), loc)...)
	case universal:
	}
	return []time.Time{at}
}

// wallTurns returns the instants at which a wall clock shows a time or jumps near it. No zone is further from UTC than a day, and no
// clock is put forward or back by more than a day.
func wallTurns(wall time.Time, loc *time.Location) []time.Time {
	const near = 48 * time.Hour
	var turns []time.Time
	at := wall.Add(-near)
	for {
		offset, end := civil.OffsetAt(at, loc)
		turns = append(turns, wall.Add(-offset))
		if end.IsZero() || end.After(wall.Add(near)) {
			return turns
		}
		turns = append(turns, end)
		at = end
	}
}

// moved is arithmetic with a moving value, for the operators + and -.
func moved(op byte, a, b ref.Val) ref.Val {
	w := watcher(a, b)
	is := arithmetic(op, still(a), still(b))
	if types.IsError(is) {
		if _, tooLong := still(a).(types.Duration); tooLong {
			return w.giveUp(is)
		}
		return is // the result is no time
	}
	x, first := a.(*moving)
	y, second := b.(*moving)
	var m motion
	switch {
	case first && second || op != '+' && op != '-':
	case first:
		m = plus(x.motion, b, op == '-')
	case op == '+':
		m = plus(y.motion, a, false)
	default:
		m = takenFrom(y.motion, a)
	}
	if m == nil {
		return w.giveUp(is)
	}
	return w.moving(m)
}

// plus returns m shifted by a length of time, forward or back, or the length from a time to m. nil: by is neither.
func plus(m motion, by ref.Val, less bool) motion {
	if d, ok := by.(types.Duration); ok {
		length := d.Duration
		if less {
			length = -length
		}
		switch m := m.(type) {
		case movingTime:
			if shift, ok := calculateWhole('+', int64(m.shift), int64(length)); ok {
				m.shift = time.Duration(shift)
				return m
			}
		case movingLength:
			if total, ok := calculateWhole('+', int64(m.plus), int64(length)); ok {
				m.plus = time.Duration(total)
				return m
			}
		}
		return nil
	}
	if m, ok := m.(movingTime); ok && less {
		return m.since(by)
	}
	return nil
}

// takenFrom returns a constant value minus m.
func takenFrom(m motion, from ref.Val) motion {
	switch m := m.(type) {
	case movingTime:
		if length, ok := m.since(from).(movingLength); ok {
			return length.negative()
		}
	case movingLength:
		if d, ok := from.(types.Duration); ok {
			return plus(m.negative(), d, false)
		}
	}
	return nil
}

// since returns the length from a time to m; nil if from is not a time.
func (m movingTime) since(from ref.Val) motion {
	clock, at, ok := m.beside(from)
	if !ok || clock == wallClock && m.shift != 0 { // the wall clock of another instant than now is not analysed
		return nil
	}
	return movingLength{clock: clock, base: at, plus: m.shift}
}

func (m movingLength) negative() movingLength {
	m.back, m.plus = !m.back, -m.plus
	return m
}

// turned returns -m.
func turned(m *moving) ref.Val {
	switch of := m.motion.(type) {
	case movingLength:
		return m.watch.moving(of.negative())
	case movingDays:
		of.since = !of.since
		return m.watch.moving(of)
	}
	return m.watch.giveUp(negate(m.Val))
}
