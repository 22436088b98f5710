package fanout

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/engine/plumbing/optout"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// outcome is the result of one due instance.
type outcome struct {
	instance.Patch
	deliveries []delivery.Row
	ended      []delivery.Row  // of Person.Waiting: those that are superseded, with their new values
	event      *store.EventRow // when it begins: its record at that instant
	evaluate   bool            // request an evaluation of its record
	successors []successor     // the next occasions of the calendar
	members    []store.CourseMember
	apart      bool // somebody has their messages from a course of their own
}

// decide makes the deliveries of the instances whose people were read, for as many as one transaction may evaluate.
func (r *run) decide(list []due, people [][]store.People) (writes store.InstanceWrites, successors []successor) {
	r.entries, r.meter = make([]journal.Entry, 0, 2*len(people)), expr.Meter{Calls: r.calls}
	ledger := admission.NewLedger(r.zones, r.now)
	ledger.Heed(r.stops)
	writes.Events = map[subject.WorkspaceID][]store.EventRow{}
	for i := range people {
		if i > 0 && r.meter.Full() {
			break
		}
		in := list[i]
		if at := r.planned[i].place; at != nil {
			in.Round, in.Message = at.Round+1, at.Message
		}
		o := r.outcome(ledger, r.planned[i], in, people[i][0])
		if r.planned[i].place != nil {
			o.Round, o.Message = in.Round, in.Message
		}
		if o.event != nil {
			o.Event = o.event.ID
			writes.Events[in.Workspace] = append(writes.Events[in.Workspace], *o.event)
		}
		if o.evaluate {
			writes.Evaluate = append(writes.Evaluate, store.RecordKey{Workspace: in.Workspace, ID: in.Record})
		}
		writes.Patches = append(writes.Patches, store.InstancePatch{Row: in.Row, Patch: o.Patch})
		writes.Deliveries, writes.Ended = append(writes.Deliveries, o.deliveries...), append(writes.Ended, o.ended...)
		writes.Members = append(writes.Members, o.members...)
		successors = append(successors, o.successors...)
	}
	return writes, successors
}

// stopped reads to whom of the people nothing is sent.
func (r *run) stopped(tx *store.Tx, list []due, people [][]store.People) (admission.Stops, error) {
	var of []admission.Address
	for i := range people {
		if p := &r.planned[i]; p.err == nil && p.over == nil && p.trigger != nil && len(people[i]) > 0 {
			of = append(of, p.audience.Addresses(list[i].Workspace, p.trigger, people[i][0])...)
		}
	}
	return optout.Stops(tx, func(ws subject.WorkspaceID) (key.Keyed, error) { return r.addresses[ws], nil }, of)
}

// outcome decides about one instance.
func (r *run) outcome(ledger *admission.Ledger, p planned, in due, people store.People) (o outcome) {
	from := len(r.entries)
	switch {
	case p.lease > 0:
		return r.take(p, in)
	case p.err == nil && p.over != nil:
		o = *p.over
		r.entries = append(r.entries, r.overEntry(in, o, p.count))
	case p.err == nil:
		if p.err = guarded(func() (err error) { o, err = r.expand(ledger, p, in, people); return err }); p.err == nil {
			return o
		}
		r.entries = r.entries[:from]
	}
	if p.err != nil {
		o = r.fail(&p, in, p.err)
	}
	o.successors = p.follows(o)
	return o
}

// expand makes the deliveries of one instance.
func (r *run) expand(ledger *admission.Ledger, p planned, in due, people store.People) (outcome, error) {
	var result outcome
	if p.digest != nil && p.digest.waits {
		return outcome{Patch: instance.Patch{Status: instance.Pending, Cursor: subject.ContactID(in.ExpandCursor), NextRetryAt: r.now.Add(matchedAgain)}}, nil
	}
	list, after, held := r.choose(&result, p, in, people)
	if held && len(list) == 0 && in.Event == 0 { // nobody has heard of it, so it has not begun
		p.event, after = nil, subject.ContactID(in.ExpandCursor)
	}
	people.After = after
	result.event, result.Patch = p.event, instance.Patch{Status: instance.Completed, Reason: reason.Expanded, Cursor: people.After, Recipients: len(list)}
	if p.event != nil {
		in.Event = p.event.ID
	}
	begun := (in.ExpandCursor != 0 || people.After != 0) && (p.event != nil || in.Event != 0)
	if begun && in.ExpandCursor == 0 && !p.trigger.Pin {
		in.Definitions, result.Definitions = in.InForce, in.InForce
	}
	for _, one := range list {
		from := len(result.deliveries)
		o := admission.Occasion{Instance: in.Row, Trigger: p.trigger, Set: p.live, Now: r.now, Begun: begun, Late: one.late, About: one.topic}
		if !one.due.IsZero() {
			o.Instance.DueAt = one.due
		}
		result.deliveries = ledger.Deliveries(result.deliveries, o, one.Recipient, func() delivery.ID { return delivery.ID(r.newID()) })
		ended := ledger.Ended()
		result.ended = append(result.ended, ended...)
		for _, row := range slices.Concat(result.deliveries[from:], ended) {
			r.entries = append(r.entries, admission.Entry(row, one.Person.ExtID, r.now))
		}
	}
	p.brake.take(len(list))
	if p.zones != nil && p.zones.opens {
		result.successors = r.successors(in, p.zones)
	}
	switch {
	case held:
		result.Status, result.Hold, result.Reason = instance.Pending, instance.HoldMany, reason.TooManyRecipients
	case p.zones != nil && p.zones.opens && result.Cursor == 0: // until it is over everywhere
		result.Status, result.Reason, result.NextRetryAt, result.OpenedAt = instance.Pending, "", p.zones.ends, r.now
		result.successors = append(result.successors, p.successors...)
	case result.Cursor != 0: // the audience goes on: another chunk
		result.Status, result.Reason = instance.Pending, ""
	case len(result.deliveries) == 0 && in.ExpandCursor == 0 && (in.recipient() != nil || !audience.OfEvent(p.trigger)) && (p.zones == nil || p.zones.row != "" || len(people.Zones) == 0):
		if result.Reason = nobody(in, result); p.digest != nil {
			result.Reason = reason.NothingNew
		}
	}
	if p.members != nil && result.Status == instance.Completed {
		result.members = append(result.members, p.members.mark(r.now)...)
	}
	if p.begins && (p.event != nil || in.FollowsEvent()) { // later pages know its event, and not the course
		result.successors = append(result.successors, p.successors...)
	} else {
		result.successors = append(result.successors, p.follows(result)...)
	}
	r.entries = append(r.entries, ledger.PassedOver(r.now)...)
	switch {
	case held:
		r.entries = append(r.entries, p.brake.entry(in, result, r.now))
	case result.Status == instance.Completed:
		r.entries = append(r.entries, entry(journal.Expanded, in, result, r.now))
	}
	return result, nil
}

// follows returns what is ensured with the result of an occasion: nothing while it continues.
func (p *planned) follows(result outcome) []successor {
	if result.Status == instance.Pending && result.Hold == "" {
		return nil
	}
	return p.successors
}

func entry(what journal.What, in due, result outcome, now time.Time) journal.Entry {
	return journal.Entry{
		At: now, What: what, Workspace: in.Workspace, Workflow: in.Workflow, WorkflowVersion: in.WorkflowVersion,
		Trigger: in.Trigger, Key: in.Key, Event: in.Event, Instance: in.ID, Reason: result.Reason, Due: in.DueAt,
	}
}
