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

// LimitReport is what came of a storm of limits.
type LimitReport struct {
	Name     string `json:"name"`
	Database string `json:"database"`
	Workers  int    `json:"workers"`
	Seed     uint64 `json:"seed"`

	// The verdict, from the callers' and the provider's logs.
	Events     int `json:"events"`     // acknowledged
	Accepted   int `json:"accepted"`   // messages
	Lost       int `json:"lost"`       // events whose message was not sent, without a reason
	Doubled    int `json:"doubled"`    // messages beyond what on_unknown allows
	Broken     int `json:"broken"`     // limits that an accepted message breaks
	Overbooked int `json:"overbooked"` // limits that the places given out will break
	Refired    int `json:"refired"`    // alerts within the cooldown of their context

	// What the run brought about.
	Judged    int            `json:"judged"`   // messages held against limits
	AtLimit   int            `json:"at_limit"` // places that were taken up to the last one in some window
	Waiting   map[string]int `json:"waiting"`  // by the limit that they wait for
	Endings   map[string]int `json:"endings"`  // by status and reason
	Unknown   int            `json:"unknown"`  // accepted, with an unknown outcome for a while
	Late      int            `json:"late"`     // of these: later than their place
	Repeats   int            `json:"repeats"`
	Alerts    int            `json:"alerts"`
	Kills     int            `json:"kills"`
	Moods     map[string]int `json:"moods"`
	PostsLost int            `json:"posts_broken"`
	Known     int            `json:"posts_known"`

	Violations []string `json:"violations"` // the first of them
	Seconds    float64  `json:"seconds"`
}

func (r *LimitReport) violate(count *int, format string, args ...any) {
	if *count++; len(r.Violations) < maxListed {
		r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
	}
}

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
	at                              time.Time // by which limits see it
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

func (l *limitRun) rows(ctx context.Context) ([]*limitRow, error) {
	const deliveries = `SELECT d.id, d.key, c.ext_id, d.channel, d.type, d.workflow, d.status, d.reason, d.deferred_by, e.ext_id, e.occurred_at, d.send_at, d.slot
FROM delivery d JOIN contact c ON c.ws = d.ws AND c.id = d.contact_id JOIN event e ON e.ws = d.ws AND e.id = d.event_id ORDER BY d.id`
	return rows(ctx, l.db.raw, deliveries, func(r *sql.Rows) (*limitRow, error) {
		m := &limitRow{}
		var occurred, sendAt, slot int64
		err := r.Scan(&m.id, &m.key, &m.person, &m.channel, &m.typ, &m.workflow, &m.status, &m.reason, &m.waits, &m.event, &occurred, &sendAt, &slot)
		m.occurred, m.sendAt, m.slot = instantOf(occurred), instantOf(sendAt), instantOf(slot)
		return m, err
	})
}

func instantOf(µs int64) time.Time {
	if µs == 0 {
		return time.Time{}
	}
	return time.UnixMicro(µs)
}

// judge holds the provider's log against the limits. Of the engine's own rows it takes the place that each message was
// given, within the bounds that the log leaves, and the reason of what was not sent.
func (l *limitRun) judge(ctx context.Context) (report LimitReport, err error) {
	report = LimitReport{
		Name: l.Name, Database: l.Dialect, Workers: l.Workers, Seed: l.Seed, Events: len(l.acked), Waiting: map[string]int{}, Endings: map[string]int{},
		PostsLost: int(l.fates.broken.Load()), Known: int(l.fates.known.Load()), Violations: []string{},
	}
	for _, s := range l.slots {
		report.Kills += s.kills
	}
	all, err := l.rows(ctx)
	if err != nil {
		return report, err
	}
	attempts, err := l.db.attempts(ctx)
	if err != nil {
		return report, err
	}
	l.provider.mu.Lock()
	defer l.provider.mu.Unlock()
	report.Accepted, report.Repeats, report.Moods = len(l.provider.log), l.provider.repeats, l.provider.moods
	byKey := map[string]*limitRow{}
	for _, m := range all {
		byKey[key.Delivery(m.key).Idempotency(1)] = m
	}
	for _, letter := range l.provider.log {
		m := byKey[letter.key]
		if m == nil {
			report.violate(&report.Doubled, "key %.12s belongs to no delivery", letter.key)
			continue
		}
		m.accepted, m.text = append(m.accepted, letter.at), letter.text
	}
	slices.SortFunc(attempts, func(a, b attempt) int { return cmp.Compare(a.number, b.number) })
	for _, a := range attempts {
		m := byKey[a.key]
		if m == nil || a.number == 0 {
			continue
		}
		if m.unknown { // it went again in the place that it had
			continue
		}
		m.unknown = a.outcome == "unknown"
		if len(m.accepted) > 0 && !a.intentAt.After(m.accepted[0]) {
			m.intent = a.intentAt
		}
	}
	l.judgeEvents(&report, all)
	l.judgeCopies(&report, all)
	l.judgeAlerts(&report, all)
	l.judgeLimits(&report, all)
	return report, nil
}

// judgeEvents looks for what is neither sent nor has a reason.
func (l *limitRun) judgeEvents(report *LimitReport, all []*limitRow) {
	known := map[string]bool{}
	for _, m := range all {
		known[m.event] = true
		sent := m.status == "sent"
		switch {
		case m.status == "scheduled" && m.sendAt.After(l.until):
			report.Waiting[cmp.Or(m.waits, m.reason, "?")]++
			if m.waits == "" && m.reason == "" {
				report.violate(&report.Lost, "%s waits for nothing until %s", m.key, m.sendAt)
			}
		case sent && len(m.accepted) == 0:
			report.violate(&report.Lost, "%s is called sent and never came", m.key)
		case len(m.accepted) > 0 && !sent && m.status != "unknown":
			report.violate(&report.Lost, "%s came and is %s (%s)", m.key, m.status, m.reason)
		case !sent && m.reason == "", m.status == "scheduled":
			report.violate(&report.Lost, "%s is %s without a reason", m.key, m.status)
		default:
			report.Endings[strings.Trim(m.status+" "+m.reason, " ")]++
		}
	}
	for id := range l.acked {
		if !known[id] {
			report.violate(&report.Lost, "event %s has left nothing behind", id)
		}
	}
}

// judgeCopies looks for messages that somebody has twice.
func (l *limitRun) judgeCopies(report *LimitReport, all []*limitRow) {
	copies := map[string]int{}
	for _, m := range all {
		if copies[m.person+" "+m.text] += len(m.accepted); len(m.accepted) > 0 && copies[m.person+" "+m.text] > 1 {
			report.violate(&report.Doubled, "%s has %q %d times", m.person, m.text, copies[m.person+" "+m.text])
		}
	}
}

// judgeAlerts looks for contexts that fired within their cooldown. The instants are those of the alerts, in whole seconds
// as their messages name them, and exactly as their events do.
func (l *limitRun) judgeAlerts(report *LimitReport, all []*limitRow) {
	fired := map[string]map[int64]bool{}
	for _, m := range all {
		tank, second, ok := strings.Cut(m.text, "@")
		if !ok {
			continue
		}
		if second != fmt.Sprint(m.occurred.Unix()) {
			report.violate(&report.Refired, "an alert of %s says %s and is of %s", tank, second, m.occurred)
		}
		if fired[tank] == nil {
			fired[tank] = map[int64]bool{}
		}
		fired[tank][m.occurred.UnixMicro()] = true
	}
	for tank, instants := range fired {
		var last time.Time
		for _, µs := range slices.Sorted(maps.Keys(instants)) {
			report.Alerts++
			at := time.UnixMicro(µs)
			if !last.IsZero() && at.Sub(last) < tankCooldown {
				report.violate(&report.Refired, "%s fired at %s, %s after it had", tank, at, at.Sub(last))
			}
			last = at
		}
	}
}

// judgeLimits holds every message against the limits of its person.
func (l *limitRun) judgeLimits(report *LimitReport, all []*limitRow) {
	people := map[string]somebody{}
	for _, p := range l.world.people {
		people[p.id] = p
	}
	sent, placed := map[[2]string][]*limitRow{}, map[[2]string][]*limitRow{}
	for _, m := range all {
		policy := people[m.person].rules.For(m.kind())
		of := [2]string{m.person, m.kind()}
		if len(m.accepted) > 0 {
			l.place(report, m, policy)
			sent[of] = append(sent[of], m)
		}
		passed := m.status == "scheduled" && !m.unknown && m.slot.Before(l.until) // it waits, and takes another place for it
		if !m.slot.IsZero() && m.workflow != critical && !passed {
			placed[of] = append(placed[of], &limitRow{key: m.key, workflow: m.workflow, typ: m.typ, at: m.slot})
		}
	}
	for of, letters := range sent {
		p := people[of[0]]
		o := oracle{policy: p.rules.For(of[1]), zone: p.zone}
		slices.SortStableFunc(letters, func(a, b *limitRow) int { return a.at.Compare(b.at) })
		for i, m := range letters {
			if m.workflow == critical {
				continue
			}
			report.Judged++
			limit, last := o.over(letters[:i], m)
			report.AtLimit += b2i(last)
			if limit != "" {
				report.violate(&report.Broken, "%s on %s (%s): %v breaks %s after %v", of[0], of[1], p.rules.JSON(), m, limit, letters[max(0, i-3):i])
			}
		}
	}
	for of, places := range placed {
		p := people[of[0]]
		o := oracle{policy: p.rules.For(of[1]), zone: p.zone}
		if o.policy.Count == cadence.CountSent {
			continue // what waits is not counted there
		}
		slices.SortStableFunc(places, func(a, b *limitRow) int { return a.at.Compare(b.at) })
		for i, m := range places {
			if limit, _ := o.over(places[:i], m); limit != "" {
				report.violate(&report.Overbooked, "%s on %s (%s): the place of %s at %s breaks %s", of[0], of[1], p.rules.JSON(), m.key, m.at.In(p.zone), limit)
			}
		}
	}
}

// place says at which instant limits see a message that was accepted: in its slot, if it came there. It came there
// within the grace and the lease that bounds a request, or nobody knew whether an earlier try had arrived.
func (l *limitRun) place(report *LimitReport, m *limitRow, policy cadence.Policy) {
	m.at = m.accepted[0]
	report.Unknown += b2i(m.unknown)
	if m.slot.IsZero() {
		if m.workflow != uncounted {
			report.violate(&report.Broken, "%s came and holds no place", m.key)
		}
		return
	}
	switch late := m.at.Sub(m.slot); {
	case late < 0:
		report.violate(&report.Broken, "%s came %s before its place", m.key, -late)
	case late <= policy.Grace()+lease:
		m.at = m.slot
	case m.unknown:
		report.Late++
		m.at = m.slot
	}
}

// oracle knows the limits of a person on a kind of channel. It shares nothing with cadence.Decide.
type oracle struct {
	policy cadence.Policy
	zone   *time.Location
}

// over names a limit that m breaks beside the messages before it; last says that it has the last place of a window.
func (o oracle) over(before []*limitRow, m *limitRow) (limit string, last bool) {
	p := o.policy
	if clock := m.at.In(o.zone).Format("15:04"); !p.Quiet.IsZero() {
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

// manyEvents is from how many on the kills of a run fall into posts too.
const manyEvents = 2000

// Unproven names what did not happen in a run, so that it shows nothing about it.
func (r *LimitReport) Unproven() []string {
	var names []string
	for name, count := range map[string]int{
		"kills": r.Kills, "at_limit": r.AtLimit, "waiting": len(r.Waiting), "unknown": r.Unknown, "repeats": r.Repeats, "alerts": r.Alerts, "posts_broken": r.PostsLost,
	} {
		if name == "posts_broken" && r.Events < manyEvents { // few kills fall into a post
			continue
		}
		if count == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
