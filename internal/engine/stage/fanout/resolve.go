package fanout

import (
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// planned is what is known of an instance before its audience is read.
type planned struct {
	live       *definition.Set // in force
	set        *definition.Set // the set that the instance belongs to
	trigger    *definition.Trigger
	audience   audience.Plan
	event      *store.EventRow    // of an occasion planned by a record: that record, as it is now
	over       *outcome           // its result, if it is not expanded
	successors []successor        // of a calendar or a course: made once it has ended or is on hold
	begins     bool               // of a course: with its first deliveries its successors are made
	count      int                // of the calendar: how many skipped occasions it represents
	zones      *zonal             // of an occasion that follows the zones of its contacts
	course     *plan.Course       // that it is a message of, as the record has it now; nil: none
	place      *schedule.Position // of a message of a course that follows its definition: where it is in the list by now; nil: where its row says
	members    *members           // of a course in which it counts when people came; nil: it does not
	due        time.Time          // of a message of a course after an event that an edit has put off; none: the instance says when it is due
	digest     *digestOf          // of a run of a digest: what it tells its people; nil: it is none
	brake      *brake             // nil: it may take up any number of people
	err        error
	lease      time.Duration // the step only takes a lease of this length
}

// resolve returns the audience of each instance, for as many as one transaction may evaluate.
func (r *run) resolve(list []due) [][]store.Audience {
	r.meter = expr.Meter{Calls: r.calls}
	r.planned, r.live, r.types, r.took = make([]planned, len(list)), map[subject.WorkspaceID]*definition.Set{}, []string{}, nil
	r.brakes = map[instance.ID]*brake{}
	audiences := make([][]store.Audience, len(list))
	for i, in := range list {
		if i > 0 && r.meter.Full() {
			return audiences[:i]
		}
		p := &r.planned[i]
		if !slices.Contains(r.types, in.Type) {
			r.types = append(r.types, in.Type)
		}
		p.err = guarded(func() error { return r.evaluation(p, in) })
		audiences[i] = []store.Audience{{}}
		if p.err == nil {
			audiences[i][0] = p.audience.Audience
		}
	}
	return audiences
}

// evaluation finds the result of an instance, or its audience.
func (r *run) evaluation(p *planned, in due) error {
	m, err := r.find(p, in)
	if err == nil && in.PausedAt.IsZero() {
		if taken, err := r.leased(p, in); taken || err != nil {
			return err
		}
	}
	var input expr.Input
	if err == nil {
		input, err = r.prepare(p, in, m)
	}
	if err == nil {
		input = r.resume(p, in, input)
	}
	if err = r.pause(p, in, err); err != nil || p.over != nil {
		return err
	}
	r.live[in.Workspace], input.Meter = p.live, &r.meter
	if err := r.joiners(p, in); err != nil {
		return err
	}
	p.brake = r.brakeOf(p, in)
	sets := audience.Sets{Own: p.set, InForce: p.live, Item: in.Event, Except: in.Except, Stops: p.brake != nil}
	if p.trigger.Digest != nil {
		sets.Since = r.now.Add(-plan.DigestReach(p.trigger))
	}
	p.audience, err = audience.Of(p.trigger, sets, input, r.addresses[in.Workspace], subject.ContactID(in.ExpandCursor), in.recipient())
	if in.ExpandCursor != 0 && p.audience.Names() || p.brake != nil && in.Recipients > 0 { // nobody counts twice
		p.audience.Instance = in.ID
	}
	switch rest, one := digests.RestOf(in.EventRow.Event); {
	case one: // whatever the frequency: they get each item at once by now
		p.audience.Narrow(rest.Contact)
		p.audience.Survivor = true
		p.audience.Topics = []topic.People{{All: true}}
	case p.zones != nil:
		p.zones.narrow(&p.audience)
	case in.OfPerson():
		p.audience.Narrow(in.Own.Contact, in.Own.Name, in.Own.ExtID)
	case in.Attempts > 0 && (in.Source != nil || ofCalendar(in)): // it may have rows of zones, from before an edit
		p.audience.Occasion = key.Instance(in.Key)
	}
	return err
}

// pause parks an occasion whose workflow is paused, even one that fails: it is not retried meanwhile. An occasion that has ended by now, or was too
// late before the pause began, ends.
func (r *run) pause(p *planned, in due, err error) error {
	if in.PausedAt.IsZero() || p.over != nil || errors.Is(err, errGone) {
		return err
	}
	p.over, p.successors = &outcome{Patch: instance.Patch{
		Status: instance.Pending, Hold: instance.HoldPaused, Reason: reason.WorkflowPaused, RetryCount: in.RetryCount, NextRetryAt: in.NextRetryAt,
		Cursor: subject.ContactID(in.ExpandCursor),
	}}, nil
	return nil
}

// comesAt is the instant by which an occasion's lateness is measured: waiting for a paused workflow is no lateness (R2).
func (r *run) comesAt(in due) time.Time {
	switch at := in.PausedAt; {
	case at.IsZero() || at.After(r.now):
		return r.now
	case at.Before(in.DueAt):
		return in.DueAt
	default:
		return at
	}
}

var errGone = errors.New("the trigger is no longer defined")

// find returns the version that an instance belongs to (its own if pinned, else the latest) and the set in force.
func (r *run) find(p *planned, in due) (m definition.Match, err error) {
	p.live = in.live
	set := p.live
	if set.Workflow(in.Workflow) == nil { // a deleted workflow sends nothing, whatever version the row is pinned to
		return m, errGone
	}
	if !in.followsLatest() {
		set = in.own
	}
	w := set.Workflow(in.Workflow)
	if w == nil || w.TriggerByID(in.Trigger) == nil {
		return m, errGone
	}
	if p.trigger = w.TriggerOf(in.Trigger, in.Message); !p.trigger.Pin {
		set = p.live
		if w = set.Workflow(in.Workflow); w == nil || w.TriggerByID(in.Trigger) == nil {
			return m, errGone
		}
		p.trigger = w.TriggerOf(in.Trigger, in.Message)
		if first := in.InCourse() && in.EventRow.Event.ID != 0 && !in.FollowsEvent(); first && w.Version != in.WorkflowVersion && p.trigger.Lists() {
			if at, listed := plan.ListedAt(w.TriggerByID(in.Trigger), in.Row); listed {
				p.at(schedule.Position{Round: in.Round - 1, Message: at}, w, in)
			}
		}
	}
	p.set = set
	return definition.Match{Workflow: w, Trigger: p.trigger}, nil
}

// at takes the audience, channels and texts of the message of a course from where it is in the list by now: an edit may have moved it.
func (p *planned) at(place schedule.Position, w *definition.Workflow, in due) {
	p.place, p.trigger = &place, w.TriggerOf(in.Trigger, place.Message)
}

// prepare returns what the expressions of an instance read. It revalidates an occasion that was planned by a record.
func (r *run) prepare(p *planned, in due, m definition.Match) (input expr.Input, err error) {
	if in.Source != nil {
		return r.revalidate(p, in, m)
	}
	if ofCalendar(in) {
		return r.scheduled(p, in, m)
	}
	ev := in.EventRow.Event
	input = plan.Input(p.set, m.Workflow, plan.EventFields(ev), r.now)
	if record, issues, _, ok := plan.AlertFields(ev); ok {
		input.Event, input.Record, input.Issues = nil, record, issues
	}
	if elsewhere := plan.Elsewhere(ev); elsewhere != "" && p.trigger.OnPlan() != nil {
		p.zones = r.zonesOfRecord(p, in, elsewhere, false)
		cancelled(p, in)
	}
	return input, r.afterEvent(p, in, m)
}

// resume makes an occasion whose first chunk is done continue with the version with which it began, whatever the latest one says of its audience and
// channels (R17). If its trigger was removed, find has ended it already.
func (r *run) resume(p *planned, in due, input expr.Input) expr.Input {
	if in.ExpandCursor == 0 || in.Event == 0 || p.over != nil || p.trigger.Pin {
		return input
	}
	if w := in.own.Workflow(in.Workflow); w != nil && w.TriggerByID(in.Trigger) != nil {
		p.set, p.trigger, input.Vars, input.TemplateID = in.own, w.TriggerOf(in.Trigger, in.Message), w.Vars, w.ExtID
	}
	return input
}

// groups returns the groups to which a contact belongs, by the set in force of its workspace.
func (r *run) groups(ws subject.WorkspaceID, c subject.Contact) []string {
	return plan.GroupsOf(r.live[ws], c, nil)
}

// floor returns how far back the slots of contacts matter, by the set in force of their workspace.
func (r *run) floor() store.Floor {
	floors := admission.NewFloors(r.zones, r.now, r.types)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors.Of(r.live[ws], c) }
}
