package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// lookAhead is how many occurrences of one trigger are computed beyond those that are asked for, to find its last one.
const lookAhead = 400

// OutlookFacts is what an outlook is computed from. What they were read from must not change in between.
type OutlookFacts struct {
	Set      *definition.Set
	Workflow *definition.Workflow
	Now      time.Time
	Zones    *civil.Zones
	Limit    int              // how many occurrences are wanted in all
	Contact  *subject.Contact // whose zone counts where each contact has its own; nil: the zone of contacts without one
	Record   *RecordFacts     // nil: none is asked for
	Events   []EventFacts     // the events after which messages wait: those that name the contact, or all
	IfCame   *subject.Event   // what it would cause if it arrived now is asked for, and nothing else; nil: that is not asked for
}

// RecordFacts is a record as it is stored, with what evaluates it.
type RecordFacts struct {
	subject.Record
	Related Related
	States  condition.States
	Observation
	Waiting []instance.Row // all pending instances of the workflow about the record
	Err     error          // why the record or its state cannot be read
}

// StoredRows is what is stored of one trigger.
type StoredRows struct {
	Rows  []instance.Row
	Last  Place                // of a series: the latest occasion that has ended or is on hold
	Freed map[key.Instance]int // as in a plan
	Spent map[key.Instance]bool
	// People have courses of their own, by their names in keys.
	People map[string]Person
	Dated  []instance.Row // as in a plan
	Fired  Firing         // of a condition: the last firing of the context that is met
}

// Outlook finds the next occurrences of a workflow: those that wait, and those that will be made when these end, if nothing changes. It starts
// from what is stored, and decides as the stages do.
//
//	o := NewOutlook(facts)
//	o.Stored(what is stored of o.Needs())
//	for keys := o.Keys(); len(keys) > 0; keys = o.Keys() {
//		o.Found(what is stored under keys)
//	}
//	o.Upcoming()
type Outlook struct {
	OutlookFacts
	lines []*outlookLine
}

// outlookLine is the outlook of one trigger.
type outlookLine struct {
	TriggerOutlook
	facts  *OutlookFacts
	series *Series
	there  *Series // as it is in the zone of the contact; nil: it does not depend on contacts
	eval   *Evaluation
	before condition.State
	after  map[instance.ID]instance.Row // the rows that the next evaluation of the record changes, as it leaves them

	own       bool       // single people have courses of their own
	candidate *candidate // of a course: the message that is looked up before the others; nil: none
	// overdue is the occasion of a schedule by the zones of contacts that is to be taken up now; no ID: none is.
	overdue instance.Row
	found   []*occurrence // in the order in which they were found
	seen    map[key.Instance]bool
	room    int // how many occurrences are computed
}

// occurrence is an occurrence that may come: what is stored under its key decides.
type occurrence struct {
	Occurrence
	key     key.Instance // under which it would be stored now
	zoneKey key.Instance // of the row for the zone; empty: it has none
	first   time.Time    // when its occasion is due in the first zone; none: it is not due by zones
	asked   bool         // what is stored is known
	// beforeKey is the key of the row for the zone of the occasion before it, which may decide about it; empty: none does. Before is that row.
	beforeKey key.Instance
	before    instance.Row
	gone      bool // it has ended
}

// Need is what must be read of one trigger.
type Need struct {
	Trigger string
	Series  bool // its rows and its last place
	Plan    bool // its rows about the record
	Course  bool // with Plan: only those that are pending
	Own     bool // with Plan: the people who have courses of their own beside the course that has begun again Resets times
	Resets  int
	Since   string         // with Plan: the messages of a course from that date on that have ended or begun
	Keys    []key.Instance // with Plan: the occasions that may be inserted
	Context string         // of a condition: whose last firing is wanted; with Fires
	Fires   bool
}

// NewOutlook begins the outlook of a workflow.
func NewOutlook(f OutlookFacts) (*Outlook, error) {
	o := &Outlook{OutlookFacts: f}
	for _, t := range f.Workflow.Trigger {
		if f.IfCame != nil && (t.OnEvent() == nil || t.OnEvent().Kind != f.IfCame.Kind) {
			continue
		}
		l := &outlookLine{TriggerOutlook: TriggerOutlook{Trigger: t}, facts: &o.OutlookFacts, seen: map[key.Instance]bool{}, room: f.Limit + lookAhead}
		o.lines = append(o.lines, l)
		if err := l.begin(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// begin finds out what is asked of a trigger.
func (l *outlookLine) begin() error {
	f, t := l.facts, l.Trigger
	m := definition.Match{Workflow: f.Workflow, Trigger: t}
	l.Waits = waits(t)
	switch watched := t.Watch().Record; {
	case watched != "":
		l.Record = watched
		if f.Record == nil || f.Record.Type != watched {
			l.off()
			return nil
		}
		r := f.Record
		if r.Err != nil && !l.off() {
			l.Reason, l.Error, l.Until = reason.EvaluationFailed, r.Err.Error(), r.EvaluateAt
			return nil
		}
		l.before = r.States[condition.Name(f.Workflow.Name, t.ID)]
		eval := Due(f.Set, m, r.Record, r.Related, r.States, r.Observation, f.Zones)
		l.eval = &eval
		l.off()
	case f.IfCame != nil:
		if l.Listens = t.OnEvent().Kind; !l.off() {
			l.ifItCame(*f.IfCame)
		}
	case t.OnEvent() != nil:
		l.Listens = t.OnEvent().Kind
		l.off()
		l.byEvents()
	case l.off():
	case t.OnSchedule() != nil && f.Record == nil:
		var err error
		if l.series, err = SeriesOf(f.Set, m, f.Zones); err != nil {
			return err
		}
		l.Zone = l.series.Zone
		if l.ByContact = l.series.ByContact(); !l.ByContact {
			break
		}
		l.Zone = l.series.Elsewhere()
		if f.Contact != nil {
			l.Zone = ZoneOf(*f.Contact, l.Zone, f.Zones)
		}
		l.there, err = l.series.In(l.Zone, f.Zones)
		return err
	}
	return nil
}

// off reports whether a trigger or its workflow is switched off, and says so.
func (l *outlookLine) off() bool {
	switch {
	case !l.facts.Workflow.Enabled:
		l.Reason = reason.WorkflowInactive
	case !l.Trigger.Enabled:
		l.Reason = reason.TriggerDisabled
	default:
		return false
	}
	return true
}

// Needs returns what must be read before the outlook goes on.
func (o *Outlook) Needs() (needs []Need) {
	for _, l := range o.lines {
		n := Need{Trigger: l.Trigger.ID}
		switch {
		case l.series != nil:
			n.Series = true
		case l.eval == nil:
			continue
		case l.changesPlan():
			n.Plan, n.Course = true, l.eval.Ahead.Continues
			if c := l.eval.Ahead.Course; c != nil {
				n.Since, n.Own, n.Resets = c.DatesFrom(), c.Fresh(), c.Resets()
			}
			for _, i := range l.eval.Ahead.Desired {
				n.Keys = append(n.Keys, i.Key)
			}
		case l.eval.Fires():
			n.Fires, n.Context = true, l.eval.Context
		default:
			continue
		}
		needs = append(needs, n)
	}
	return needs
}

// Stored continues with what is stored of each trigger.
func (o *Outlook) Stored(stored map[string]StoredRows) {
	for _, l := range o.lines {
		switch s := stored[l.Trigger.ID]; {
		case l.there != nil:
			l.byZone(s)
		case l.series != nil:
			l.bySeries(s)
		case l.eval != nil:
			l.byRecord(s)
		}
	}
}

// Keys returns the keys to look up next. None: the outlook is complete.
func (o *Outlook) Keys() (keys []key.Instance) {
	for _, l := range o.lines {
		if l.candidate != nil {
			keys = append(keys, l.candidate.key)
		}
		for _, c := range l.found {
			if c.asked {
				continue
			}
			if c.beforeKey != "" {
				keys = append(keys, c.beforeKey)
			}
			if keys = append(keys, c.key); c.zoneKey != "" {
				keys = append(keys, c.zoneKey)
			}
		}
	}
	return keys
}

// Found continues with what is stored under the keys.
func (o *Outlook) Found(stored map[key.Instance]instance.Stored) {
	for _, l := range o.lines {
		for _, c := range l.found {
			if c.asked {
				continue
			}
			at := stored[c.key]
			if at.Forgotten > 0 { // the key was freed: the occasion is made again under the next one
				c.key = c.key.Retry(at.Forgotten)
				continue
			}
			c.asked = true
			if c.zoneKey == "" {
				l.settle(c, at)
			} else {
				l.settleZone(c, at, stored[c.zoneKey], stored[c.beforeKey])
			}
		}
		if l.candidate != nil { // it may add others, which have not been looked up
			l.tried(stored[l.candidate.key])
		}
	}
}

// settle decides about an occurrence by what is stored under its key, as instance.Successors does.
func (l *outlookLine) settle(c *occurrence, at instance.Stored) {
	row, gone := l.ended(at)
	if c.gone = gone; row.ID == 0 || row.Status != instance.Pending {
		return
	}
	if c.Row = row; !gone {
		l.place(c)
	}
}

// ended returns a stored row as the next evaluation leaves it, and whether its occasion is over or under way.
func (l *outlookLine) ended(at instance.Stored) (row instance.Row, gone bool) {
	row = at.Row
	if changed, ok := l.after[row.ID]; ok {
		row = changed
	}
	switch {
	case row.ID == 0:
		return row, at.Spent
	case row.Status == instance.Pending:
		return row, underWay(row)
	}
	return row, row.Status != instance.Deactivated
}

// place takes the instant and the state of an occurrence from its row.
func (l *outlookLine) place(c *occurrence) {
	row, now := c.Row, l.facts.Now
	c.At, c.Reason = row.DueAt, row.Reason
	switch {
	case row.Parked():
		c.Status = OccurrencePaused
	case row.Held():
		c.Status = OccurrenceHeld
	case row.NextRetryAt.After(now) && !row.NextRetryAt.Before(row.DueAt):
		c.At, c.Status = row.NextRetryAt, OccurrenceDelayed
	case !row.DueAt.After(now):
		c.Status = OccurrenceOverdue
	default:
		c.Status, c.Reason = OccurrenceWaiting, ""
	}
}

// Upcoming returns the outlook.
func (o *Outlook) Upcoming() Upcoming {
	var u Upcoming
	var all []*occurrence
	for _, l := range o.lines {
		l.found = slices.DeleteFunc(l.found, func(c *occurrence) bool { return c.gone })
		slices.SortStableFunc(l.found, func(a, b *occurrence) int { return a.At.Compare(b.At) })
		all = append(all, l.found...)
	}
	slices.SortStableFunc(all, func(a, b *occurrence) int { return a.At.Compare(b.At) })
	shown := map[*occurrence]bool{}
	for _, c := range all[:min(len(all), o.Limit)] {
		shown[c] = true
		u.Occurrences = append(u.Occurrences, c.Occurrence)
	}
	for _, l := range o.lines {
		for _, c := range l.found {
			if l.Coming++; !shown[c] {
				l.More++
			}
		}
		if n := len(l.found); n > 0 && !l.Endless && !l.own { // of each person's own course only the next message is known
			l.Last = l.found[n-1].At
		}
		u.Triggers = append(u.Triggers, l.TriggerOutlook)
	}
	u.changes(o.Now, o.Zones)
	return u
}

// add adds an occurrence, unless it was found before.
func (l *outlookLine) add(c *occurrence) {
	if l.seen[c.Key] && c.Row.ID == 0 {
		return
	}
	c.Trigger = l.Trigger.ID
	l.seen[c.Key] = true
	l.found = append(l.found, c)
}

// full reports whether enough occurrences were found.
func (l *outlookLine) full() bool { return len(l.found) >= l.room }

// waiting adds an occurrence whose row is known to wait.
func (l *outlookLine) waiting(i Desired, row instance.Row) {
	if underWay(row) {
		return
	}
	c := &occurrence{Occurrence: Occurrence{Desired: i, Row: row}, key: i.Key, asked: true}
	l.place(c)
	l.add(c)
}

// planned adds an occurrence that is made later, or revived, or waits.
func (l *outlookLine) planned(i Desired) {
	c := &occurrence{Occurrence: Occurrence{Desired: i, At: i.Due, Status: OccurrencePlanned}, key: i.Key}
	if !i.Due.After(l.facts.Now) {
		c.Status = OccurrenceOverdue
	}
	l.add(c)
}

// waits returns what a trigger waits for whose messages have no time that is known ahead: a condition, or thresholds of a metric.
func waits(t *definition.Trigger) string {
	plan, alert := t.OnPlan(), t.OnCondition()
	switch {
	case alert != nil && len(alert.Issues) > 0:
		var names []string
		for _, issue := range alert.Issues {
			names = append(names, issue.Name)
		}
		return strings.Join(names, ", ")
	case alert == nil && (plan == nil || t.Anchor != nil || plan.Course != nil):
		return ""
	case plan != nil && plan.Metric != nil:
		var names []string
		for _, at := range plan.Metric.Thresholds {
			names = append(names, at.Name)
		}
		return plan.Metric.Name + " >= " + strings.Join(names, ", ")
	}
	return strings.ReplaceAll(t.When.Source(), "\n", " and ")
}

// MostWaiting is how many pending instances of a record an outlook takes up.
const MostWaiting = 1000

// Outside reports whether the contact of the outlook is in no trigger's audience now, as far as that follows from personas, groups, places and `where` alone.
// Entries that name people by an expression may name the contact.
func (o *Outlook) Outside(u Upcoming) bool {
	for _, l := range o.lines {
		in := Input(o.Set, o.Workflow, nil, o.Now)
		for _, i := range u.Occurrences {
			if l.series != nil && i.Trigger == l.Trigger.ID {
				in = l.series.Input(l.series.Payload(i.Desired), o.Now)
				break
			}
		}
		in.Home = o.Contact.Within
		in.Contact = WithGroups(ContactFields(*o.Contact), o.Set, *o.Contact, nil)
		place := func(entry definition.Audience) bool {
			return slices.ContainsFunc(entry.Places, func(name string) bool { return o.Contact.In(name, entry.Below, entry.PlaceTypes) })
		}
		group := func(name string) bool { g := o.Set.Group(name); return g != nil && g.Has(o.Contact.ExtID, in) }
		for _, form := range l.Trigger.Forms() {
			for _, entry := range form.Audience {
				switch named := entry.Persona == "" && entry.Group == "" && len(entry.Places) == 0 && !entry.Everyone; {
				case named, l.series == nil && entry.Where != nil:
					return false
				case (entry.Everyone || entry.Persona != "" && entry.Persona == o.Contact.Persona || entry.Group != "" && group(entry.Group) || place(entry)) && (entry.Where == nil || entry.Where.Holds(in)):
					return false
				}
			}
		}
	}
	return true
}
