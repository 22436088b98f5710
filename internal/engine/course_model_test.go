package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// naiveCourse is a course as its description reads: it lists every message from the start on, whatever that costs.
type naiveCourse struct {
	every, rounds int // days; 0: no bound
	days          []int
	clocks        []int // minutes after midnight of each message
	dated         bool
	backlog       string
	loc           *time.Location
	person        bool // the zone is that of the person

	// The record.
	on, closed bool
	from       time.Time // the date of the record
	visit      int
	until      int // days after the beginning of the test; 0: no bound

	begun  bool
	start  time.Time // the first midnight
	opened time.Time // when it began; none: it counts from a date
	seen   int       // the visit with which it began
	resets int
	waits  string            // the key of the message that waits; empty: none
	due    time.Time         // of it
	ended  map[string]bool   // by key
	had    map[string]string // the keys of messages that have ended, by what they are called whatever their round
	sent   []string
	paused time.Time // since when the workflow is; none: it is not
	parked string    // the key of the message that waits for the end of that

	broken  bool                 // the audience cannot be computed, and what is due is put on hold
	held    map[string]time.Time // what is on hold: when it is due, by key
	givenUp time.Time            // the database is a copy that was accepted then: what was due by then is not sent; none: it is the original
}

// clone copies what changes in the life of a course.
func (n *naiveCourse) clone() *naiveCourse {
	c := *n
	c.ended, c.had, c.held, c.sent = maps.Clone(n.ended), maps.Clone(n.had), maps.Clone(n.held), slices.Clone(n.sent)
	return &c
}

type naiveMessage struct {
	key   string
	due   time.Time
	date  string // with the round
	name  string // date and number on it, and how many times the course has begun again
	place int    // in the list of the round
}

func (n *naiveCourse) midnight(at time.Time) time.Time {
	y, m, d := at.In(n.loc).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, n.loc)
}

// all lists the messages, with their instants. Its start is fixed, so that every round counts. What would be due before it began is none of it,
// but for what waits or is on hold, and what follows that: another time of day or zone has moved it there.
func (n *naiveCourse) all() (list []naiveMessage) {
	reached := false
	for k := 0; k < 90 && (n.rounds == 0 || k < n.rounds); k++ {
		numbers := map[int]int{} // of the messages of a day
		for e, day := range n.days {
			numbers[day]++
			date := n.start.AddDate(0, 0, k*n.every+day)
			due := time.Date(date.Year(), date.Month(), date.Day(), 0, n.clocks[e], 0, 0, n.loc)
			if n.until > 0 && !due.Before(ten.Truncate(24*time.Hour).AddDate(0, 0, n.until)) {
				continue
			}
			name := n.start.AddDate(0, 0, k*n.every).Format("2006-01-02") + ":0"
			if n.resets > 0 {
				name += fmt.Sprintf(":r%d", n.resets)
			}
			if day > 0 {
				name += ":d" + date.Format(time.DateOnly)
			}
			if numbers[day] > 1 {
				name += fmt.Sprintf(":e%d", numbers[day])
			}
			_, held := n.held[name]
			if reached = reached || held || name == n.waits; reached || !due.Before(n.opened) {
				list = append(list, naiveMessage{name, due.UTC(), fmt.Sprint(k, date), fmt.Sprint(date.Format(time.DateOnly), " ", numbers[day], " ", n.resets), e})
			}
		}
	}
	return list
}

// move takes the person to another zone. Of a course that has begun the first day keeps its date.
func (n *naiveCourse) move(loc *time.Location) {
	y, m, d := n.start.Date()
	n.loc = loc
	n.start = time.Date(y, m, d, 0, 0, 0, 0, loc)
}

func (n *naiveCourse) runs() bool { return n.on && !n.closed }

// begin finds where a course starts that begins now: on the first day on which a message of the first round is not past.
func (n *naiveCourse) begin(now time.Time) {
	n.start, n.opened = n.midnight(n.from), time.Time{}
	if n.dated {
		return
	}
	n.opened = now
	for n.start = n.midnight(now); ; n.start = n.start.AddDate(0, 0, 1) {
		for e, day := range n.days {
			if date := n.start.AddDate(0, 0, day); !time.Date(date.Year(), date.Month(), date.Day(), 0, n.clocks[e], 0, 0, n.loc).Before(now) {
				return
			}
		}
	}
}

// look is what an evaluation of the record leads to: what is overdue is left to take, and otherwise the first message from now on waits.
func (n *naiveCourse) look(now time.Time) {
	if !n.runs() {
		n.waits, n.parked = "", ""
		clear(n.held)
		return
	}
	again, date := false, n.start.Format(time.DateOnly)
	switch {
	case !n.begun:
		n.begun, n.seen = true, n.visit
		n.begin(now)
	case n.seen != n.visit:
		n.seen = n.visit
		n.resets++
		n.begin(now)
	case n.dated:
		n.start = n.midnight(n.from)
		again = n.start.Format(time.DateOnly) != date
	}
	due := map[string]time.Time{}
	for _, m := range n.all() {
		due[m.key] = m.due
	}
	for k := range n.held { // it stays on hold, and may have moved, or it is withdrawn
		if n.held[k] = due[k]; due[k].IsZero() {
			delete(n.held, k)
		}
	}
	for _, m := range n.all() {
		if late := m.due.Before(now.Add(-time.Minute)) || m.due.Before(n.opened); m.key == n.waits && late && !n.displaced(m, now) { // it is overdue: it stays, and may have moved
			n.due = m.due
			return
		}
	}
	from := now.Add(-time.Minute)
	if from.Before(n.opened) {
		from = n.opened
	}
	today := now.In(n.loc).Format(time.DateOnly)
	n.nextBut(from, func(m naiveMessage) bool { // an edit may have made it one of another round
		k := n.had[m.name]
		return !again && k != "" && k != m.key && m.name[:len(today)] <= today
	})
}

// end notes that a message has ended.
func (n *naiveCourse) end(k string) {
	n.ended[k] = true
	for _, m := range n.all() {
		if m.key == k {
			n.had[m.name] = k
		}
	}
}

// displaced reports whether a message was put in before the one that waits, on its date: that keeps its instant, as the message after it.
func (n *naiveCourse) displaced(waits naiveMessage, now time.Time) bool {
	return n.due.After(now) && slices.ContainsFunc(n.all(), func(m naiveMessage) bool { return m.date == waits.date && m.due.Equal(n.due) })
}

// next makes the first message wait that is due at an instant or later, has not ended and is not on hold.
func (n *naiveCourse) next(from time.Time) {
	n.nextBut(from, func(naiveMessage) bool { return false })
}

func (n *naiveCourse) nextBut(from time.Time, not func(naiveMessage) bool) {
	list, waited := n.all(), n.waits
	n.waits = ""
	defer func() {
		if n.waits != waited {
			n.parked = ""
		}
	}()
	for _, m := range list {
		if _, held := n.held[m.key]; !m.due.Before(from) && !n.ended[m.key] && !held && !not(m) {
			n.waits, n.due = m.key, m.due
			return
		}
	}
}

// take handles what is due at an instant. While the workflow is paused it waits for the end of that, but for what was a backlog when the pause began: an
// edit has moved it there.
func (n *naiveCourse) take(now time.Time) {
	if n.paused.IsZero() {
		n.takeSince(now, now)
		return
	}
	for n.waits != "" && !n.due.After(now) && n.parked != n.waits {
		overdue, send := []naiveMessage(nil), 0
		if !n.due.After(n.paused) {
			overdue, send = n.backlogAt(n.paused, n.paused)
		}
		if send == 0 {
			n.parked = n.waits
			return
		}
		n.end(n.waits)
		n.leave(overdue, send)
	}
}

// resume handles what is due when a pause ends. What waited for that is as late as it was when the pause began (R2).
func (n *naiveCourse) resume(now time.Time) {
	since := n.paused
	n.paused, n.parked = time.Time{}, ""
	n.takeSince(now, since)
}

func (n *naiveCourse) takeSince(now, since time.Time) {
	for n.waits != "" && !n.due.After(now) {
		overdue, send := n.backlogAt(now, since)
		last := len(overdue) - 1
		if n.end(n.waits); send != 0 {
			n.leave(overdue, send)
			continue
		}
		n.deliver(n.waits, n.due, now)
		if n.backlog == "first" && last > 0 {
			n.end(overdue[1].key)
			n.next(overdue[last].due.Add(time.Microsecond))
			continue
		}
		n.next(n.due.Add(time.Microsecond))
	}
}

// backlogAt returns what is overdue at an instant, and which of it is sent first; -1: nothing is. Late is what was due 48 hours before since.
func (n *naiveCourse) backlogAt(now, since time.Time) (overdue []naiveMessage, send int) {
	for _, m := range n.all() {
		if !m.due.After(now) && (m.key == n.waits || m.due.After(n.due)) {
			overdue = append(overdue, m)
		}
	}
	timely := func(m naiveMessage) bool { return since.Sub(m.due) <= 48*time.Hour }
	send = slices.IndexFunc(overdue, timely) // all: the first that is not too late, and then the next one
	last := len(overdue) - 1
	switch {
	case n.backlog == "latest" && timely(overdue[last]):
		send = last
	case n.backlog == "first" && timely(overdue[0]):
		send = 0
	case n.backlog != "all":
		send = -1
	}
	return overdue, send
}

// leave goes on from what is overdue to what of it is sent, or to what comes after it.
func (n *naiveCourse) leave(overdue []naiveMessage, send int) {
	if send > 0 {
		n.next(overdue[send].due)
		return
	}
	n.next(overdue[len(overdue)-1].due.Add(time.Microsecond))
}

// deliver sends a message, unless it has to wait for a person or is given up.
func (n *naiveCourse) deliver(k string, due, now time.Time) {
	if delete(n.held, k); n.broken {
		n.ended[k], n.held[k] = false, due
		maps.DeleteFunc(n.had, func(_, had string) bool { return had == k })
		return
	}
	if n.end(k); due.After(n.givenUp) {
		n.sent = append(n.sent, k+" "+now.UTC().Format("01-02 15:04")+" "+n.place(k))
	}
}

// place returns where a message is in the list of its round.
func (n *naiveCourse) place(k string) string {
	for _, m := range n.all() {
		if m.key == k {
			return fmt.Sprint(m.place)
		}
	}
	return "nowhere"
}

// live takes what is due at each instant up to an end, when it is due.
func (n *naiveCourse) live(now, end time.Time) {
	for n.waits != "" && !n.due.After(end) && n.paused.IsZero() {
		at := n.due
		if at.Before(now) {
			at = now
		}
		n.take(at)
	}
}

func (n *naiveCourse) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    record: patient\n    when: record.is_on == true\n")
	zone, who := n.loc.String(), "'record.broken == true ? 1 / 0 : record.id'"
	if n.person {
		zone, who = "[contact.timezone, Asia/Tokyo]", "record"
	}
	fmt.Fprintf(&b, "    timing:\n      timezone: %s\n      reset_on: record.visit\n      backlog: %s\n", zone, n.backlog)
	if n.dated {
		b.WriteString("      anchor: record.begins\n")
	}
	b.WriteString("      sequence:\n")
	for i, day := range n.days {
		fmt.Fprintf(&b, "        - {day: %d, at: \"%02d:%02d\"}\n", day, n.clocks[i]/60, n.clocks[i]%60)
	}
	fmt.Fprintf(&b, "      repeat: {every: %dd, until: record.ends", n.every)
	if n.rounds > 0 {
		fmt.Fprintf(&b, ", times: %d", n.rounds)
	}
	return b.String() + "}\naudience: {to: " + who + "}\nchannel: inbox\nmessage: {inbox: {text: x}}\nretry: {backoff: []}\n---\npersona: Manager\n---\nchannel: inbox\nprovider: inbox\n"
}

func (n *naiveCourse) rule(t *rapid.T) {
	n.every = rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "every")
	n.rounds = rapid.SampledFrom([]int{0, 2, 6, 30}).Draw(t, "rounds")
	n.list(t)
	n.backlog = rapid.SampledFrom([]string{"latest", "first", "all"}).Draw(t, "backlog")
}

// list draws the messages of a round: on some of its days, up to three.
func (n *naiveCourse) list(t *rapid.T) {
	n.days, n.clocks = nil, nil
	on := []int{0}
	if n.every > 1 && rapid.Bool().Draw(t, "spread") {
		on = slices.Sorted(maps.Keys(rapid.MapOfN(rapid.IntRange(0, n.every-1), rapid.Just(true), 1, 4).Draw(t, "days")))
	}
	for _, day := range on {
		for _, clock := range slices.Sorted(maps.Keys(rapid.MapOfN(rapid.SampledFrom([]int{0, 90, 480, 540, 1020, 1380}), rapid.Just(true), 1, 3).Draw(t, "clocks"))) {
			n.days, n.clocks = append(n.days, day), append(n.clocks, clock)
		}
	}
}
