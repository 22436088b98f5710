package fanout

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// zonal is a row of an occasion that is due in the zone of each contact (R15). The occasion's own row makes a row for each zone of its audience when
// it begins, and handles everybody who is left when it ends. The other rows belong to one zone each.
type zonal struct {
	opens     bool         // the occasion begins: nobody is notified yet
	ends      time.Time    // when it is over everywhere
	row       string       // the zone of the row; empty: the occasion's own row
	elsewhere string       // the zone of contacts without one
	key       key.Instance // of the occasion
	trigger   string
	in        func(zone string) (instance.Row, bool) // the row of a zone; not ok: nothing is due there
	joined    func(subject.ContactID) bool           // whether a contact joined after the occasion had begun
	found     map[string]instance.Row                // by zone; a row without a key: nothing is due there
}

// narrow restricts an audience to the contacts that the row may concern, and has the store read who was notified already.
func (z *zonal) narrow(p *audience.Plan) {
	if z.row != "" {
		p.Zone, p.Homeless = z.row, z.row == z.elsewhere
	}
	if !z.opens {
		p.Occasion = z.key
	}
}

// due returns when a contact's message of the occasion is due, and whether this row makes it.
func (z *zonal) due(r *run, in due, person delivery.Person, people store.People) (time.Time, bool) {
	zone := plan.ZoneOf(person.Contact, z.elsewhere, r.zones)
	row, known := z.found[zone]
	if z.row == "" && !known {
		row, _ = z.in(zone)
		z.found[zone] = row
	}
	switch {
	case z.opens:
		return time.Time{}, false
	case z.row != "":
		return in.DueAt, zone == z.row
	}
	// The occasion is over. A contact who joined since it began has missed it (R16). Contacts of a zone whose row is pending, was cancelled by a
	// person or was left out belong to that row.
	var left bool
	switch people.Zones[zone] {
	case instance.Pending, instance.Cancelled, instance.Skipped:
	default:
		left = true
	}
	due := row.DueAt
	if due.After(r.now) { // a person requested it again
		due = in.DueAt
	}
	return due, row.Key != "" && left && !z.joined(person.ID)
}

// successors returns the rows of the zones that were found.
func (r *run) successors(in due, z *zonal) (successors []successor) {
	for _, zone := range slices.Sorted(maps.Keys(z.found)) {
		row := z.found[zone]
		if row.Key == "" {
			continue
		}
		row.Head = in.ID
		until := r.givenUpUntil
		switch {
		case !row.DueAt.After(until) && key.CreatedBy(int64(in.ID), until): // the row in the copied database has notified them
			row.Status, row.Reason, row.CompletedAt = instance.Skipped, reason.Restored, r.now
		case in.HeldUp() && !row.DueAt.After(r.now): // waiting for that is no lateness (R2)
			row.Delay, row.Reason = in.Delay, in.Reason
		}
		successors = append(successors, r.successor(in, z.trigger, func(yield func(instance.Row) bool) { yield(row) }, 0))
	}
	return successors
}

// zonesOf describes an occasion of a series. An occasion that was over in a zone when the series came into force is not due there. One that is taken up
// when it is over everywhere makes the rows of its zones first, too: each of them decides by its own hour whether it is too late.
func (r *run) zonesOf(series *plan.Series, in due) *zonal {
	return &zonal{
		opens: r.now.Before(series.EndsAt(in.Row)) || in.OpenedAt.IsZero(), ends: series.EndsAt(in.Row), elsewhere: series.Elsewhere(), key: key.Instance(in.Key),
		trigger: series.Trigger.ID, found: map[string]instance.Row{},
		in: func(zone string) (row instance.Row, ok bool) {
			there, err := series.In(zone, r.zones)
			if err != nil { // it was loaded when it was found
				return row, false
			}
			i, ok := there.DueIn(in.Row)
			if !ok || i.Due.Before(in.EffectiveAt) {
				return row, false
			}
			return there.ZoneRow(i, r.now), true
		},
		joined: func(id subject.ContactID) bool { return int64(id) > int64(in.Event) && in.Event != 0 },
	}
}

// ofZone decides about the row of a zone of an occasion of a series.
func (r *run) ofZone(p *planned, in due, series *plan.Series) (input expr.Input, err error) {
	if !series.ByContact() { // an edit has removed the zones
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: reason.RuleChanged}}
		return input, nil
	}
	zone := key.Instance(in.Key).Zone()
	there, err := series.In(zone, r.zones)
	if err != nil {
		return input, err
	}
	p.zones = &zonal{row: zone, elsewhere: series.Elsewhere(), key: key.Instance(in.Key).Everywhere()}
	payload := there.Payload(there.OccasionOf(in.Row))
	input = r.input(there, in, payload)
	if in.Event != 0 {
		return input, nil
	}
	o := there.CatchUp(in.Row, r.now)
	switch why := there.Ended(there.OccasionOf(in.Row), r.now); {
	case why != "":
		p.over = &outcome{Patch: instance.Patch{Status: instance.Deactivated, Reason: why}}
	case !o.Send:
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: o.Reason}}
	case in.Behind:
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: reason.Collapsed}}
	case p.trigger.When != nil && !p.trigger.When.Holds(input):
		p.over = &outcome{Patch: instance.Patch{Status: instance.Skipped, Reason: reason.ConditionFalse}}
	default:
		return input, r.begin(p, in, payload)
	}
	return input, nil
}

// cancelled ends the row of a zone whose occasion a person has cancelled (R17).
func cancelled(p *planned, in due) bool {
	if in.Occasion == instance.Cancelled {
		p.over = &outcome{Patch: instance.Patch{Status: instance.Cancelled, Reason: reason.CancelledByPerson}}
	}
	return p.over != nil
}

// byZones finds out whether a row of a record is due in the zone of each contact. It returns the occurrence for the texts: if its due instant differs
// between the contacts, the one in the zone of contacts without a zone.
func (r *run) byZones(p *planned, in due, eval *plan.Evaluation, desired plan.Desired) plan.Desired {
	whole := in.Row
	whole.Key = string(key.Instance(in.Key).Everywhere())
	occasion, _ := eval.Ahead.Find(whole)
	if occasion.Elsewhere == "" {
		return desired
	}
	p.zones = r.zonesOfRecord(p, in, occasion.Elsewhere, in.Timezone == "" && !in.DueAt.Equal(occasion.Due))
	if p.zones.row == "" {
		desired.Zone = occasion.Elsewhere
	}
	desired.Elsewhere = occasion.Elsewhere
	return desired
}

// zonesOfRecord describes a row of an occasion of a date of a record. An occasion that a person requested again does not open zones: it takes
// everybody at once.
func (r *run) zonesOfRecord(p *planned, in due, elsewhere string, again bool) *zonal {
	rule := p.trigger.OnPlan().Dates.Rule
	first := plan.Desired{Elsewhere: elsewhere}
	z := &zonal{
		row: key.Instance(in.Key).Zone(), elsewhere: elsewhere, key: key.Instance(in.Key).Everywhere(), ends: first.Ends(in.DueAt),
		trigger: p.trigger.ID, found: map[string]instance.Row{},
		in: func(zone string) (row instance.Row, ok bool) {
			due, date, ok := plan.DueIn(zone, in.DueAt, rule, r.zones)
			if !ok {
				return row, false
			}
			return instance.Row{
				Key: string(key.Instance(in.Key).InZone(zone)), Workflow: in.Workflow, WorkflowVersion: in.WorkflowVersion, Type: in.Type,
				Trigger: in.Trigger, Source: in.Row.Source, Record: in.Record, Status: instance.Pending, DueAt: due, LocalDate: date.String(), Timezone: zone,
				InputHash: in.InputHash, Trace: traceIn(in.Trace, zone),
			}, true
		},
		joined: func(id subject.ContactID) bool { // it begins when it is due, or was planned for an hour that has passed
			return int64(id) > int64(in.ID) && !key.CreatedBy(int64(id), in.DueAt)
		},
	}
	z.opens = z.row == "" && in.Event == 0 && !again && r.now.Before(z.ends)
	return z
}

// traceIn returns the trace of a zone's row: how its occasion was planned.
func traceIn(text, zone string) string {
	t, ok := trace.Read(text)
	if !ok || t.Planned == nil {
		return text
	}
	planned := *t.Planned
	planned.Zone, t.Planned, t.Failures = zone, &planned, nil
	if there, err := t.Encode(); err == nil {
		return there
	}
	return text
}

// backlogs finds out which rows of zones belong to the backlog of the occasion before them in their zone. That matters to a schedule whose oldest
// occasion decides (`backlog: first`): only the calendar knows which one that is, and only its row when it was decided.
func (r *run) backlogs(tx *store.Tx, list []due) error {
	type pair struct{ whole, before instance.KeyRef }
	asked := map[int]pair{}
	var refs []instance.KeyRef
	for i, in := range list {
		if in.Row.Source != instance.FromSchedule || !in.OfZone() || in.live.Workflow(in.Workflow) == nil {
			continue
		}
		w := in.live.Workflow(in.Workflow)
		t := w.TriggerByID(in.Trigger)
		if t == nil || t.OnSchedule() == nil {
			continue
		}
		series, err := plan.SeriesOf(in.live, definition.Match{Workflow: w, Trigger: t}, r.zones)
		if err != nil || !series.ByContact() { // ofZone says so
			continue
		}
		there, err := series.In(key.Instance(in.Key).Zone(), r.zones)
		if err != nil {
			continue
		}
		before, ok := there.Decisive(in.Row)
		if !ok {
			continue
		}
		p := pair{wholeOf(in.Row), instance.KeyRef{Workspace: in.Workspace, Key: string(before.Key.InZone(there.Zone))}}
		asked[i], refs = p, append(refs, p.whole, p.before)
	}
	if len(refs) == 0 {
		return nil
	}
	stored, err := tx.StoredUnder(refs)
	if err != nil {
		return err
	}
	for i, p := range asked {
		list[i].Behind = plan.Behind(list[i].DueAt, stored[p.whole].Row, stored[p.before].Row)
	}
	return nil
}
