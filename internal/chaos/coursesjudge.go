package chaos

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/key"
)

// courseRow is a message of a course as the engine has it at the end.
type courseRow struct {
	workflow, record, event, key string
	due, planned, over           time.Time // planned, over: when it was made and when it ended, by the engine's clock
	created                      time.Time // its delivery, by the clock at which its fan-out began
	arrived                      time.Time // its delivery, at the provider; zero: it has not
	read                         int       // the state of its record that its fan-out read; -1: it has none
	message, crashes             int
	status, hold, reason         string
	sent, why, sentAs            string // status, reason and idempotency key of its delivery; empty: it has none
}

// judge compares what was written of each record and posted, what arrived, and what the rows say.
func (c *courses) judge(ctx context.Context, report *Report) error {
	report.count("freezes", c.frozen)
	report.count("ended in a fan-out", c.crashed)
	report.count("gave up waiting", c.gaveUp)
	for _, what := range c.beside {
		report.violate("two wait", "beside %s", what)
	}
	report.count("looked at", c.looks)
	rows, err := c.rows(ctx)
	if err != nil {
		return err
	}
	of, at := map[string][]arrived{}, map[string]time.Time{}
	for _, q := range c.provider.requests(report) {
		if q.accepted {
			kind, id, state, rest := partsOf(q.Text)
			of[id] = append(of[id], arrived{text: q.Text, kind: kind, state: state, rest: rest, sentAs: q.IdempotencyKey, at: q.at})
			at[q.IdempotencyKey] = q.at
		}
	}
	byRecord, byEvent := map[string][]courseRow{}, map[string][]courseRow{}
	for _, row := range rows {
		row.arrived = at[row.sentAs]
		byRecord[row.record], byEvent[row.event] = append(byRecord[row.record], row), append(byEvent[row.event], row)
		report.count("crashed with an instance", b2i(row.crashes > 0))
		report.count("closed while waiting", b2i(row.reason == "record_closed"))
		report.count("off while waiting", b2i(row.reason == "condition_cleared"))
		report.count("over before their end", b2i(row.reason == "course_over"))
	}
	for _, p := range c.patients {
		c.judgeRecord(report, p, of[p.id], byRecord[p.id])
	}
	for _, b := range c.batches {
		for _, e := range b.events {
			if _, acked := c.poster.acked[e.ID]; acked {
				judgeWelcome(report, e.ID, of[e.ID], byEvent[e.ID])
			}
		}
	}
	return nil
}

// rows reads the messages of all courses, in the order in which they are due.
func (c *courses) rows(ctx context.Context) (all []courseRow, err error) {
	const query = `SELECT i.workflow, COALESCE(r.ext_id, ''), COALESCE(e.ext_id, ''), i.key, i.message, i.crashes, i.due_at, COALESCE(d.created_at, 0), i.status, i.hold, i.reason,
  COALESCE(d.status, ''), COALESCE(d.reason, ''), COALESCE(d.key, ''), COALESCE(e.payload, ''), i.created_at, i.completed_at
FROM instance i LEFT JOIN record r ON r.ws = i.ws AND r.id = i.record_id LEFT JOIN event e ON e.ws = i.ws AND e.id = i.event_id
LEFT JOIN delivery d ON d.ws = i.ws AND d.instance_id = i.id ORDER BY i.due_at, i.id`
	err = c.db.each(ctx, query, func(r *sql.Rows) error {
		var row courseRow
		var due, created, planned, over int64
		var sentAs, payload string
		err := r.Scan(&row.workflow, &row.record, &row.event, &row.key, &row.message, &row.crashes, &due, &created, &row.status, &row.hold, &row.reason, &row.sent, &row.why, &sentAs, &payload, &planned, &over)
		row.due, row.created, row.planned, row.over = time.UnixMicro(due).UTC(), time.UnixMicro(created), time.UnixMicro(planned), time.UnixMicro(over)
		row.sentAs = key.Delivery(sentAs).Idempotency(1)
		if row.read = stateRead(payload); row.record != "" && payload != "" && row.read < 0 {
			err = errors.Join(err, fmt.Errorf("the event of %s holds no state of its record: %s", row.key, payload))
		}
		all = append(all, row)
		return err
	})
	return all, err
}

// stateRead returns which state of its record a fan-out read, by the event that it made of it; -1: the event is of no record.
func stateRead(payload string) int {
	var event struct {
		Record struct{ Props struct{ State string } }
	}
	if json.Unmarshal([]byte(payload), &event) != nil {
		return -1
	}
	if n, err := strconv.Atoi(event.Record.Props.State); err == nil {
		return n
	}
	return -1
}

// arrived is a message that the provider accepted.
type arrived struct {
	text, kind, state, rest, sentAs string
	at                              time.Time
}

// judgeWelcome looks at the course after an event: all of its messages, and nothing that waits.
func judgeWelcome(report *Report, id string, came []arrived, rows []courseRow) {
	n := map[string]int{}
	for _, a := range came {
		n[a.rest]++
	}
	for i := range welcomes {
		once(report, fmt.Sprintf("welcome %s %d", id, i+1), n[strconv.Itoa(i+1)])
	}
	if len(rows) != welcomes || slices.ContainsFunc(rows, func(row courseRow) bool { return row.status != "completed" }) {
		report.violate("stopped", "the course after event %s has %d rows: %+v", id, len(rows), rows)
	}
}

// once judges a message that has to arrive.
func once(report *Report, what string, n int) {
	report.count("messages", 1)
	switch {
	case n == 0:
		report.violate("lost", "%s", what)
	case n > 1:
		report.violate("doubled", "%s arrived %d times", what, n)
	}
}

// judgeRecord looks at both courses of a record.
func (c *courses) judgeRecord(report *Report, p *patient, came []arrived, rows []courseRow) {
	times := map[string]int{} // that a message arrived, by its workflow and what follows the state in its text
	for _, a := range came {
		which := a.kind + " " + a.rest
		if times[which]++; times[which] == 2 {
			report.violate("doubled", "%s", a.text)
		}
		i, err := strconv.Atoi(a.state)
		if err != nil || i >= len(p.states) {
			report.violate("unasked", "%s is of no state of its record", a.text)
			continue
		}
		due, ok := c.dueOf(p, i, a, rows)
		s := p.states[i]
		switch {
		case !ok || a.kind == "steps" && !s.wants() || a.kind == "course" && !s.has(due):
			report.violate("unasked", "%s: its record does not ask for it: %+v", a.text, s)
		case !s.until.IsZero() && due.After(s.until):
			report.violate("unasked", "%s was due at %s, and its record asked for it until %s", a.text, due, s.until)
		case a.at.Before(due):
			report.violate("early", "%s came at %s and was due at %s", a.text, a.at, due)
		}
		if a.kind == "course" {
			times[fmt.Sprint("course ", s.episode, " at ", due.UnixMicro())]++
			report.count("messages of later rounds", b2i(!strings.HasPrefix(a.rest, fmt.Sprint(s.episode, " 1 "))))
			report.count("begun again", b2i(s.number > 1))
			report.count("moved", b2i(s.days < int(oneRound/oneDay)))
			report.count("went on", b2i(p.interrupted(s.episode, i)))
		}
	}
	for episode := 1; episode <= p.last().episode; episode++ {
		judgeEpisode(report, p, episode, times, rows)
	}
	judgeSteps(report, p, times, rows)
	judgeRest(report, p, rows)
	c.judgeOrder(report, p, rows)
}

// dueOf returns when a message was due that was made of a state of its record: that of the course from the moment on by its row, as only the engine
// knows that moment. ok is whether the state has such a message.
func (c *courses) dueOf(p *patient, i int, a arrived, rows []courseRow) (due time.Time, ok bool) {
	s := p.states[i]
	var episode, iteration, message, number int
	if a.kind == "course" {
		n, err := fmt.Sscan(a.rest, &episode, &iteration, &message)
		if err != nil || n != 3 || episode != s.episode || message < 1 || message > len(c.offsets) {
			return due, false
		}
		return s.begins().Add(time.Duration(iteration-1)*oneRound + c.offsets[message-1]), true
	}
	if n, err := fmt.Sscan(a.rest, &number, &message); err != nil || n != 2 || number != s.number {
		return due, false
	}
	if n := slices.IndexFunc(rows, func(row courseRow) bool { return row.sentAs == a.sentAs }); n >= 0 {
		return rows[n].due, true
	}
	return due, false
}

// around reports whether an instant is one of the messages around a base. The bases of a record differ by less than whole seconds.
func around(at, base time.Time) bool {
	return at.Sub(base).Abs() <= 2*beside && at.Sub(base)%beside == 0
}

// interrupted reports whether an episode was interrupted before a state: its record asked for messages, and then for none.
func (p *patient) interrupted(episode, before int) bool {
	return slices.ContainsFunc(p.states[:before], func(s state) bool { return s.episode == episode && !s.wants() })
}

// judgeEpisode looks for what did not arrive of the messages that came around the base of an episode. A message arrives if its record asks for it at
// the end. If its record asked for it when it was due and before, it arrives, or its row says that a later write was faster. A row is only missing if
// the message before it was withdrawn, or read what the next write had made of the record, or if the episode was over before anything of it was
// planned: an evaluation sees the record as it is then (A4). What was read is taken from the rows: a fan-out looks at its clock before it reads.
// On a machine that is seconds behind, messages may be due before the course is first planned, and a course may be over before its last message has
// its turn: both are seen by the engine's own instants.
func judgeEpisode(report *Report, p *patient, episode int, times map[string]int, rows []courseRow) {
	first := slices.IndexFunc(p.states, func(s state) bool { return s.episode == episode })
	last, base := p.last(), p.states[first].base
	withdrawn := !slices.ContainsFunc(rows, func(row courseRow) bool { return row.workflow == "course" && around(row.due, base) })
	report.count("over before they were planned", b2i(withdrawn))
	planned := time.Time{} // the first row of the episode
	for _, row := range rows {
		if row.workflow == "course" && row.due.Sub(base)%beside == 0 && (planned.IsZero() || row.planned.Before(planned)) {
			planned = row.planned
		}
	}
	passed := false // the course was over, by the clock
	read := -1      // the state that the message before read when it made the row of this one
	for at := base.Add(-2 * beside); !at.After(base.Add(2 * beside)); at = at.Add(beside) {
		final := last.episode == episode && last.has(at)
		sure := false
		for n, s := range p.states {
			sure = sure || s.episode == episode && s.has(at) && !at.Before(s.acked) && (s.until.IsZero() || at.Before(s.before) && read <= n)
		}
		n := times[fmt.Sprint("course ", episode, " at ", at.UnixMicro())]
		i := slices.IndexFunc(rows, func(row courseRow) bool { return row.workflow == "course" && row.due.Equal(at) })
		what := fmt.Sprintf("the message of %s of episode %d at %s", p.id, episode, at.Format(time.StampMilli))
		switch {
		case n > 1:
			report.violate("doubled", "%s", what)
		case n == 1:
			report.count("messages", 1)
		case i >= 0 && rows[i].ended() && (!final || p.interrupted(episode, len(p.states))): // a write was faster than its delivery
			report.count("unfinished by a change", 1)
		case i < 0 && at.Before(planned), i < 0 && passed:
			report.count("unfinished by the clock", 1)
		case i >= 0 && final && rows[i].reason == "course_over" && !last.ends.IsZero() && !rows[i].over.Before(last.ends):
			passed = true
			report.count("unfinished by the clock", 1)
		case final:
			report.violate("lost", "%s, for which its record asks: %s", what, p.history(rows))
		case i >= 0 && rows[i].status == "deactivated":
			withdrawn = true
			report.count("unfinished by a change", 1)
		case sure && !withdrawn:
			report.violate("lost", "%s was due while its record asked for it, and has no row that says why: %s", what, p.history(rows))
		}
		if i >= 0 {
			read = rows[i].read
		}
	}
}

// history says in short what a record was, and what its course has.
func (p *patient) history(rows []courseRow) string {
	const clock = "05.000"
	text := &strings.Builder{}
	for i, s := range p.states {
		fmt.Fprintf(text, "\n  state %d, episode %d, number %d, off %v, closed %v, deleted %v, around %s, ", i, s.episode, s.number, s.off, s.closed, s.deleted, s.base.Format(clock))
		if !s.ends.IsZero() {
			fmt.Fprintf(text, "ends %s, ", s.ends.Format(clock))
		}
		fmt.Fprintf(text, "written %s to %s", s.from.Format(clock), s.acked.Format(clock))
	}
	for _, row := range rows {
		if row.workflow == "course" {
			fmt.Fprintf(text, "\n  %s at %s planned %s, made %s of state %d: %s %s, %s %s", row.key, row.due.Format(time.StampMilli), row.planned.Format(clock), row.created.Format(clock), row.read, row.status, row.reason, row.sent, row.why)
		}
	}
	return text.String()
}

// ended reports whether a row was expanded, and its delivery ended with a reason before it was sent.
func (r courseRow) ended() bool {
	return r.status == "completed" && (r.sent == "skipped" || r.sent == "cancelled") && r.why != ""
}

// judgeSteps looks for what did not arrive of the course from the moment on, if the record asks for it at the end.
func judgeSteps(report *Report, p *patient, times map[string]int, rows []courseRow) {
	last := p.last()
	if !last.wants() {
		return
	}
	interrupted := slices.ContainsFunc(p.states, func(s state) bool { return s.number == last.number && !s.wants() })
	for m := 1; m <= steps; m++ {
		n := times[fmt.Sprintf("steps %d %d", last.number, m)]
		if n == 0 && interrupted && slices.ContainsFunc(rows, func(row courseRow) bool { return row.workflow == "steps" && row.message == m-1 && row.ended() }) {
			report.count("unfinished by a change", 1)
			continue
		}
		once(report, fmt.Sprintf("steps %s %d %d", p.id, last.number, m), n)
	}
}

// judgeRest looks at what waits when everything is at rest.
func judgeRest(report *Report, p *patient, rows []courseRow) {
	last, waits := p.last(), map[string]int{}
	for _, row := range rows {
		if row.status == "pending" {
			waits[row.workflow]++
		}
		if row.status == "pending" && row.hold != "" || row.status == "failed" {
			report.violate("stopped", "%s is %s %s", row.key, row.hold, row.reason)
		}
	}
	want := map[string]int{"course": b2i(last.wants() && last.ends.IsZero())}
	for _, workflow := range []string{"course", "steps"} {
		switch n := waits[workflow]; {
		case n > 1:
			report.violate("two wait", "%d messages of %s of %s", n, workflow, p.id)
		case n < want[workflow]:
			report.violate("stopped", "no message of %s of %s waits", workflow, p.id)
		case n > want[workflow]:
			report.violate("unasked", "a message of %s of %s waits, for which its record does not ask: %+v", workflow, p.id, last)
		}
	}
}

// judgeOrder looks for messages of a course that arrived before those that come before them were made.
func (c *courses) judgeOrder(report *Report, p *patient, rows []courseRow) {
	before := map[string]courseRow{}
	for _, row := range rows {
		if row.sent == "" {
			continue
		}
		of := row.workflow
		if of == "course" {
			i := slices.IndexFunc(p.states, func(s state) bool { return around(row.due, s.base) })
			if i < 0 {
				report.violate("unasked", "%s is due at %s", row.key, row.due)
				continue
			}
			of = fmt.Sprint(of, p.states[i].episode)
		} else {
			name, _, _ := strings.Cut(row.key, ":e")
			of += name
		}
		if first, ok := before[of]; ok && row.workflow == "steps" && row.due.Sub(first.due) < time.Second {
			report.violate("early", "%s is due at %s, and %s at %s", row.key, row.due, first.key, first.due)
		}
		if first, ok := before[of]; ok && !row.arrived.IsZero() && row.arrived.Before(first.created) {
			report.violate("out of order", "%s arrived at %s, and %s was made at %s", row.key, row.arrived, first.key, first.created)
		}
		before[of] = row
	}
}

// watchWaiting looks while the storm goes on whether two messages of one course wait at once.
func (c *courses) watchWaiting(ctx context.Context) error {
	const query = `SELECT min(i.key) FROM instance i WHERE i.status = 'pending' AND i.record_id > 0 GROUP BY i.record_id, i.workflow HAVING count(*) > 1`
	for ctx.Err() == nil {
		err := c.db.each(ctx, query, func(r *sql.Rows) error {
			var name string
			err := r.Scan(&name)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.beside = append(c.beside, name)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		c.looks++
		c.pause(ctx, 5*beat)
	}
	return nil
}
