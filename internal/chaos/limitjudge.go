package chaos

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/key"
)

// limitRow is a delivery as the engine has it at the end.
type limitRow struct {
	id                              int64
	key, person, channel, typ       string
	workflow, status, reason, waits string
	event                           string
	occurred, sendAt, slot          time.Time
	unknown                         bool      // an attempt's outcome was
	intent                          time.Time // at which the attempt was decided that was accepted, or the first that may have been
	accepted                        []time.Time
	text                            string
	at                              time.Time     // by which limits see it
	late                            time.Duration // of that, on its way after it was decided: quiet hours see it before
}

// String lists what happened to a message and when, in UTC.
func (m *limitRow) String() string {
	clock := func(t time.Time) string { return t.UTC().Format("05.000000") }
	text := fmt.Sprintf("%s %d %s at %s", m.workflow, m.id, m.status, clock(m.at))
	if len(m.accepted) > 0 {
		text += fmt.Sprintf(" (slot %s, intent %s, accepted %s)", clock(m.slot), clock(m.intent), clock(m.accepted[0]))
	}
	return text
}

func (m *limitRow) kind() string { k, _, _ := strings.Cut(m.channel, ":"); return k }

// judge holds the provider's log against the limits. Of the engine's own rows it takes the place that each message was
// given, within the bounds that the log leaves, and the reason of what was not sent.
func (l *limits) judge(ctx context.Context, report *Report) error {
	all, byKey, err := l.deliveries(ctx)
	if err != nil {
		return err
	}
	for _, q := range l.provider.requests(report) {
		if !q.accepted {
			continue
		}
		if m := byKey[q.IdempotencyKey]; m != nil {
			m.accepted, m.text = append(m.accepted, q.at), q.Text
		} else {
			report.violate("doubled", "key %.12s belongs to no delivery", q.IdempotencyKey)
		}
	}
	if err := l.readAttempts(ctx, byKey); err != nil {
		return err
	}
	l.judgeEvents(report, all)
	l.judgeCopies(report, all)
	l.judgeAlerts(report, all)
	l.judgeLimits(report, all)
	return nil
}

// deliveries reads the rows, and lists them by the key that the provider knows them under, too.
func (l *limits) deliveries(ctx context.Context) (all []*limitRow, byKey map[string]*limitRow, err error) {
	const deliveries = `SELECT d.id, d.key, c.ext_id, d.channel, d.type, d.workflow, d.status, d.reason, d.deferred_by, e.ext_id, e.occurred_at, d.send_at, d.slot
FROM delivery d JOIN contact c ON c.ws = d.ws AND c.id = d.contact_id JOIN event e ON e.ws = d.ws AND e.id = d.event_id ORDER BY d.id`
	byKey = map[string]*limitRow{}
	err = l.db.each(ctx, deliveries, func(r *sql.Rows) error {
		m := &limitRow{}
		var occurred, sendAt, slot int64
		err := r.Scan(&m.id, &m.key, &m.person, &m.channel, &m.typ, &m.workflow, &m.status, &m.reason, &m.waits, &m.event, &occurred, &sendAt, &slot)
		m.occurred, m.sendAt = time.UnixMicro(occurred), time.UnixMicro(sendAt)
		if slot != 0 {
			m.slot = time.UnixMicro(slot)
		}
		all, byKey[key.Delivery(m.key).Idempotency(1)] = append(all, m), m
		return err
	})
	return all, byKey, err
}

// readAttempts completes the rows of what was accepted by what the attempts say.
func (l *limits) readAttempts(ctx context.Context, byKey map[string]*limitRow) error {
	const attempts = `SELECT idempotency_key, outcome, intent_at FROM attempt WHERE number > 0 ORDER BY number`
	return l.db.each(ctx, attempts, func(r *sql.Rows) error {
		var key, outcome string
		var intent int64
		err := r.Scan(&key, &outcome, &intent)
		m := byKey[key]
		if m == nil || m.unknown { // once unknown, it went again in the place that it had
			return err
		}
		m.unknown = outcome == "unknown"
		if at := time.UnixMicro(intent); len(m.accepted) > 0 && !at.After(m.accepted[0]) {
			m.intent = at
		}
		return err
	})
}

// judgeEvents looks for what is neither sent nor has a reason.
func (l *limits) judgeEvents(report *Report, all []*limitRow) {
	known := map[string]bool{}
	for _, m := range all {
		known[m.event] = true
		sent := m.status == "sent"
		switch {
		case m.status == "scheduled" && m.sendAt.After(l.until):
			report.count("waiting", 1)
			report.count("waits for "+cmp.Or(m.waits, m.reason, "?"), 1)
			if m.waits == "" && m.reason == "" {
				report.violate("lost", "%s waits for nothing until %s", m.key, m.sendAt)
			}
		case sent && len(m.accepted) == 0:
			report.violate("lost", "%s is called sent and never came", m.key)
		case len(m.accepted) > 0 && !sent && m.status != "unknown":
			report.violate("lost", "%s came and is %s (%s)", m.key, m.status, m.reason)
		case !sent && m.reason == "", m.status == "scheduled":
			report.violate("lost", "%s is %s without a reason", m.key, m.status)
		default:
			report.count(strings.TrimSpace("ended "+m.status+" "+m.reason), 1)
		}
	}
	for id := range l.poster.acked {
		if !known[id] {
			report.violate("lost", "event %s has left nothing behind", id)
		}
	}
}

// judgeCopies looks for messages that somebody has twice.
func (l *limits) judgeCopies(report *Report, all []*limitRow) {
	copies := map[string]int{}
	for _, m := range all {
		of := fmt.Sprintf("%s has %q", m.person, m.text)
		if copies[of] += len(m.accepted); len(m.accepted) > 0 && copies[of] > 1 {
			report.violate("doubled", "%s %d times", of, copies[of])
		}
	}
}

// judgeAlerts looks for contexts that fired within their cooldown. The instants are those of the alerts, in whole seconds
// as their messages name them, and exactly as their events do.
func (l *limits) judgeAlerts(report *Report, all []*limitRow) {
	fired := map[string]map[int64]bool{}
	for _, m := range all {
		tank, second, ok := strings.Cut(m.text, "@")
		if !ok {
			continue
		}
		if second != fmt.Sprint(m.occurred.Unix()) {
			report.violate("refired", "an alert of %s says %s and is of %s", tank, second, m.occurred)
		}
		if fired[tank] == nil {
			fired[tank] = map[int64]bool{}
		}
		fired[tank][m.occurred.UnixMicro()] = true
	}
	for tank, instants := range fired {
		var last time.Time
		for _, µs := range slices.Sorted(maps.Keys(instants)) {
			report.count("alerts", 1)
			at := time.UnixMicro(µs)
			if !last.IsZero() && at.Sub(last) < tankCooldown {
				report.violate("refired", "%s fired at %s, %s after it had", tank, at, at.Sub(last))
			}
			last = at
		}
	}
}

// judgeLimits holds every message against the limits of its person.
func (l *limits) judgeLimits(report *Report, all []*limitRow) {
	sent, placed := map[[2]string][]*limitRow{}, map[[2]string][]*limitRow{}
	for _, m := range all {
		of := [2]string{m.person, m.kind()}
		if len(m.accepted) > 0 {
			l.place(report, m)
			sent[of] = append(sent[of], m)
		}
		passed := m.status == "scheduled" && !m.unknown && m.slot.Before(l.until) // it waits, and takes another place for it
		if !m.slot.IsZero() && m.workflow != critical && !passed {
			placed[of] = append(placed[of], &limitRow{key: m.key, channel: m.channel, workflow: m.workflow, typ: m.typ, at: m.slot})
		}
	}
	l.inOrder(sent, func(o oracle, before []*limitRow, m *limitRow) {
		if m.workflow == critical {
			return
		}
		limit, last := o.over(before, m)
		report.count("judged", 1)
		report.count("at_limit", b2i(last))
		if limit != "" {
			report.violate("broken", "%s on %s (%s): %v breaks %s after %v", o.id, m.kind(), o.rules.JSON(), m, limit, before[max(0, len(before)-3):])
		}
	})
	l.inOrder(placed, func(o oracle, before []*limitRow, m *limitRow) {
		if o.policy.Count == cadence.CountSent {
			return // what waits is not counted there
		}
		if limit, _ := o.over(before, m); limit != "" {
			report.violate("overbooked", "%s on %s (%s): the place of %s at %s breaks %s", o.id, m.kind(), o.rules.JSON(), m.key, m.at.In(o.zone), limit)
		}
	})
}

// inOrder judges what each person has on each kind of channel: every message after those before it.
func (l *limits) inOrder(all map[[2]string][]*limitRow, judge func(o oracle, before []*limitRow, m *limitRow)) {
	for of, messages := range all {
		p := l.person(of[0])
		o := oracle{somebody: p, policy: p.rules.For(of[1])}
		slices.SortStableFunc(messages, func(a, b *limitRow) int { return a.at.Compare(b.at) })
		for i, m := range messages {
			judge(o, messages[:i], m)
		}
	}
}

// place says at which instant limits see a message that was accepted: in its slot, if it came there. It came there
// within the grace and the lease that bounds a request, while this machine ran, or was decided within them and then on its way for as long as a busy
// machine took, or nobody knew whether an earlier try had arrived. What holds no place is decided at its intent, and comes within the lease.
func (l *limits) place(report *Report, m *limitRow) {
	m.at = m.accepted[0]
	report.count("unknown", b2i(m.unknown))
	if m.slot.IsZero() {
		if m.workflow != uncounted {
			report.violate("broken", "%s came and holds no place", m.key)
		}
		if late := m.at.Sub(m.intent); !m.intent.IsZero() && late > 0 && late <= lease+l.stalls.within(m.intent, m.at) {
			m.late = late
		}
		return
	}
	most := l.person(m.person).rules.For(m.kind()).Grace() + lease
	switch late := m.at.Sub(m.slot); {
	case late < 0:
		report.violate("broken", "%s came %s before its place", m.key, -late)
	case late <= most+l.stalls.within(m.slot, m.at), !m.intent.IsZero() && m.intent.Sub(m.slot) <= most:
		m.at = m.slot
	case m.unknown:
		report.count("late", 1)
		m.at = m.slot
	}
}

// oracle knows the limits of a person on a kind of channel. It shares nothing with cadence.Decide.
type oracle struct {
	somebody
	policy cadence.Policy
}

// over names a limit that m breaks beside the messages before it; last says that it has the last place of a window.
func (o oracle) over(before []*limitRow, m *limitRow) (limit string, last bool) {
	p := o.policy
	if clock := m.at.Add(-m.late).In(o.zone).Format("15:04"); !p.Quiet.IsZero() {
		from, to := p.Quiet.From.String(), p.Quiet.To.String()
		if from < to && clock >= from && clock < to || from > to && (clock >= from || clock < to) {
			return "quiet hours", false
		}
	}
	if !p.Counts(m.typ) {
		return "", false
	}
	counted := slices.DeleteFunc(slices.Clone(before), func(b *limitRow) bool {
		// Who asks nobody's leave may come while this one is on its way; so may anybody where this one books nothing.
		unordered := b.workflow == critical || m.workflow == uncounted
		return b.workflow == uncounted || !p.Counts(b.typ) || unordered && len(b.accepted) > 0 && !b.accepted[0].Before(m.intent)
	})
	count := func(in func(*limitRow) bool) (n int) {
		for _, b := range counted {
			n += b2i(in(b))
		}
		return n
	}
	if count(func(b *limitRow) bool { return !b.at.Equal(m.at) && m.at.Sub(b.at) < p.Cooldown }) > 0 {
		return "cooldown", false
	}
	if n := count(func(b *limitRow) bool { return b.at.Equal(m.at) }); p.MaxPerSlot > 0 && n >= p.MaxPerSlot {
		return "max_per_slot", false
	}
	day := func(t time.Time) string { return t.In(o.zone).Format(time.DateOnly) }
	week := func(t time.Time) string {
		t = t.In(o.zone)
		return day(t.AddDate(0, 0, -(int(t.Weekday())+6)%7))
	}
	month := func(t time.Time) string { return t.In(o.zone).Format("2006-01") }
	const aDay = 24 * time.Hour
	for _, w := range []struct {
		name   string
		limit  int
		length time.Duration
		named  func(time.Time) string
		typ    string
	}{
		{"type_limits", p.TypeLimits[m.typ], aDay, day, m.typ},
		{"max_per_day", p.MaxPerDay, aDay, day, ""},
		{"max_per_week", p.MaxPerWeek, 7 * aDay, week, ""},
		{"max_per_month", p.MaxPerMonth, 30 * aDay, month, ""},
	} {
		if w.limit == 0 {
			continue
		}
		n := count(func(b *limitRow) bool {
			if w.typ != "" && b.typ != w.typ {
				return false
			}
			if p.Rolling {
				return m.at.Sub(b.at) < w.length
			}
			return w.named(b.at) == w.named(m.at)
		})
		if n >= w.limit {
			return w.name, false
		}
		last = last || n == w.limit-1 && m.workflow != uncounted
	}
	return "", last
}
