package evaluator

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/admission"
	"github.com/carillonhq/carillon/internal/engine/audience"
	"github.com/carillonhq/carillon/internal/engine/catalog"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// run is one attempt of a step; its functions may be called again from the beginning.
type run struct {
	*Evaluator
	now     time.Time
	live    map[subject.WorkspaceID]*definition.Set // in force
	records []*seen
	state   store.EvaluateState
	related map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record // what the records depend on
	entries []journal.Entry
	meter   expr.Meter // of what look, admit or decide evaluates
}

// seen is a record with what its triggers see.
type seen struct {
	store.DueRecord
	set    *definition.Set
	ws     catalog.Workspace
	states condition.States
	looks  []*evaluation
	wanted []wanted // what needs people, in the order of its audiences
	faded  []fading
	err    error // why nothing can be decided about it now
}

// fading is an episode that goes on, with other issues than some of its alerts tell of.
type fading struct {
	*evaluation
	state store.Episode
}

// evaluation is what one trigger sees, and what gate 1 makes of it.
type evaluation struct {
	plan.Evaluation
	next    time.Time // the earliest instant at which it has to look again
	verdict verdict
	free    time.Time // when its context may fire again, where it has fired at this very instant
}

// verdict is the answer of gate 1.
type verdict struct {
	why   reason.Reason // empty: it may fire
	stamp store.Throttle
	until time.Time // when it is tried again
}

// wanted is one occasion before its people are known.
type wanted struct {
	*evaluation
	audience audience.Plan
	cleared  bool          // it tells that the condition is over
	state    store.Episode // cleared: what was made in it
	late     bool          // the people are found when it is due, or by somebody who can try again
	instance instance.Row
	event    store.EventRow
}

// floor says how far back the slots of people matter, by the set in force of their workspace.
func (r *run) floor() store.Floor {
	floors := admission.NewFloors(&r.catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors.Of(r.live[ws], c) }
}

// relate says which records have to be read that the due ones depend on.
func (r *run) relate(due []store.DueRecord, read store.Related) (more []store.RelatedRef) {
	r.related = read.ByWorkspace()
	for _, d := range due {
		set, err := r.catalog.Loaded(d.Workspace, d.InForce)
		if err != nil || d.Err != nil || d.Closed || d.Deleted {
			continue // the look tells of it
		}
		for _, ref := range plan.Related(r.related[d.Workspace]).Unread(set.Relations(d.Type), d.Record) {
			more = append(more, store.RelatedRef{Workspace: d.Workspace, RecordRef: ref})
		}
	}
	return more
}

// links are the records on which a record depends now.
func (r *run) links(s *seen) []subject.RecordRef {
	if s.Closed || s.Deleted {
		return nil
	}
	return plan.Related(r.related[s.Workspace]).Links(s.set.Relations(s.Type), s.Record)
}

// evaluation judges the records, as many as one transaction may evaluate, and says what has to be known before anything is decided.
func (r *run) evaluation(due []store.DueRecord) (needs store.EvaluateNeeds, err error) {
	r.records, r.live, r.meter = make([]*seen, 0, len(due)), map[subject.WorkspaceID]*definition.Set{}, expr.Meter{}
	for _, d := range due {
		if r.meter.Full() {
			break
		}
		s := &seen{DueRecord: d, err: d.Err}
		r.records = append(r.records, s)
		if s.set, err = r.catalog.Loaded(d.Workspace, d.InForce); err != nil {
			return needs, err
		}
		r.live[d.Workspace] = s.set
		if s.ws, err = r.catalog.Workspace(d.Workspace); err != nil {
			return needs, err
		}
		if s.err == nil {
			s.states, s.err = condition.Parse(d.State)
		}
		if s.err != nil {
			continue
		}
		glance := plan.Observation{Now: r.now, EvaluateAt: d.EvaluateAt, EvaluatedAt: d.EvaluatedAt, Meter: &r.meter}
		for _, l := range plan.Record(s.set, d.Record, r.related[d.Workspace], s.states, glance, &r.catalog.Zones) {
			l := &evaluation{Evaluation: l, next: l.EvaluateAt}
			s.looks = append(s.looks, l)
			if l.Fires() {
				needs.Throttles = append(needs.Throttles, s.throttle(l, l.Context))
			}
			for _, lapsed := range l.Lapsed {
				needs.Throttles = append(needs.Throttles, s.throttle(l, lapsed.Context))
			}
			if l.over() || l.faded() {
				needs.Episodes = append(needs.Episodes, s.episode(l))
			}
		}
		s.looks = append(s.looks, s.orphans()...)
		for _, l := range s.looks {
			if s.replans(l) {
				if needs.Plans == nil {
					needs.Plans = map[store.PlanRef][]key.Instance{}
				}
				needs.Plans[s.planRef(l)] = keys(l)
			}
		}
	}
	return needs, nil
}

// fires reports whether gate 1 is to be asked: at one instant a context fires once.
func (l *evaluation) fires() bool { return l.Fires() && !l.State.HasFired(l.Context, l.At) }

// over reports whether an episode has ended, and what was made in it is of no use any more. Of a trigger that was switched
// off nobody knows.
func (l *evaluation) over() bool {
	return l.Cleared && (l.Trigger.Resolved != nil || l.Trigger.Limits.Revalidate) && l.Workflow.Enabled && l.Trigger.Enabled
}

// faded reports whether the episode goes on, and alerts of it may tell of what is over.
func (l *evaluation) faded() bool {
	return len(l.Faded) > 0 && l.State.Open && l.Trigger.Limits.Revalidate
}

func (s *seen) throttle(l *evaluation, context string) store.ThrottleRef {
	return store.ThrottleRef{Workspace: s.Workspace, Workflow: l.Workflow.Name, Context: context}
}

func (s *seen) episode(l *evaluation) store.EpisodeRef {
	return store.EpisodeRef{Workspace: s.Workspace, Record: s.ID, Workflow: l.Workflow.Name, Trigger: l.Trigger.ID, Episode: l.State.Episodes}
}

// admit asks gate 1 and names the audiences of what passes, for as many records as one transaction may evaluate. What goes wrong
// with one record concerns no other.
func (r *run) admit(state store.EvaluateState) ([][]store.Audience, error) {
	r.state = state
	audiences := make([][]store.Audience, len(r.records))
	r.meter = expr.Meter{}
	for i, s := range r.records {
		if i > 0 && r.meter.Full() {
			return audiences[:i], nil
		}
		s.wanted, s.faded = nil, nil
		if s.err != nil {
			continue
		}
		for _, l := range s.looks {
			if l.faded() {
				s.faded = append(s.faded, fading{l, state.Episodes[s.episode(l)]})
			}
			if l.Fires() && !l.fires() {
				l.free = stampOf(state.Throttles[s.throttle(l, l.Context)]).FreeAt(l.Cooldown)
			}
			var w wanted
			var err error
			switch {
			case l.fires():
				if l.verdict = r.throttle(s, l, state); l.verdict.why != "" {
					continue
				}
				w, err = r.alert(s, l)
			case l.over():
				w = r.resolved(s, l, state.Episodes[s.episode(l)])
			default:
				continue
			}
			if err != nil {
				return nil, err
			}
			if told := !w.cleared || len(w.audience.Refs) > 0; told {
				w.instance, w.event, s.err = r.instance(s, w)
			}
			if s.err != nil {
				s.wanted, s.faded, audiences[i] = nil, nil, nil
				break
			}
			s.wanted = append(s.wanted, w)
			audiences[i] = append(audiences[i], w.audience.Audience)
		}
	}
	return audiences, nil
}

func stampOf(th store.Throttle) plan.Firing {
	return plan.Firing{FiredAt: th.FiredAt, VoidAt: th.VoidAt, InFlight: th.InFlight}
}

// throttle is gate 1. Stamps are compared by nominal instants (decision 9), and those of this very pass count for nothing:
// what is found at once is told at once.
func (r *run) throttle(s *seen, l *evaluation, state store.EvaluateState) verdict {
	stamp := state.Throttles[s.throttle(l, l.Context)]
	switch until := stampOf(stamp).FreeAt(l.Cooldown); {
	case stamp.FiredAt.IsZero(), stamp.FiredAt.Equal(l.At):
		return verdict{}
	case l.At.Before(until):
		return verdict{why: reason.Throttled, stamp: stamp, until: until}
	case stamp.InFlight:
		return verdict{why: reason.InFlight, stamp: stamp, until: r.now.Add(retryAfter)}
	}
	return verdict{}
}

// alert plans what is said about what fires. An audience that cannot be computed is tried again by the expander.
func (r *run) alert(s *seen, l *evaluation) (wanted, error) {
	w := wanted{evaluation: l, late: l.Due.After(r.now)}
	if w.late {
		return w, nil
	}
	input := plan.Input(s.set, l.Workflow, nil, r.now)
	input.Record, input.Issues, input.Meter = l.Fields(), l.Issues(), &r.meter
	var err error
	w.audience, err = audience.Of(l.Trigger, input, s.ws.Addresses, 0)
	var missing *catalog.Missing
	if errors.As(err, &missing) {
		return w, err
	}
	if err != nil {
		w.audience, w.late = audience.Plan{}, true
	}
	return w, nil
}

// resolved plans what is said once an episode is over: to those to whom one of its alerts was sent, or is just being.
func (r *run) resolved(s *seen, l *evaluation, e store.Episode) wanted {
	w := wanted{evaluation: l, cleared: true, state: e}
	if l.Trigger.Resolved == nil || s.Closed || s.Deleted {
		return w // nobody is told: it is not over, but gone
	}
	w.audience.Fold = admission.Folds(l.Trigger.Limits)
	known := map[subject.ContactID]bool{}
	for _, d := range e.Deliveries {
		if reached(d) && !known[d.Contact] {
			known[d.Contact] = true
			w.audience.Add(store.RecipientRef{ID: d.Contact, Lock: true})
		}
	}
	return w
}

// reached reports whether a message was sent, or may have arrived, also by a worker that died over it.
func reached(d delivery.Row) bool {
	return !d.LastSentAt.IsZero() || d.Reason == reason.FoldedInto || d.Status == delivery.Unknown || d.MayHaveArrived()
}

// withdraw ends what is no longer of use of an episode: what waits and was never sent, of the occasions that are over (R9).
func (d *decision) withdraw(e store.Episode, over func(instance.Row) bool) {
	ended := map[instance.ID]bool{}
	for _, i := range e.Instances {
		if ended[i.ID] = over(i); !ended[i.ID] || i.Status != instance.Pending {
			continue
		}
		i.Status, i.Reason, i.CompletedAt = instance.Deactivated, reason.ConditionCleared, d.now
		d.writes.Withdrawn = append(d.writes.Withdrawn, i)
	}
	for _, row := range e.Deliveries {
		if !ended[row.Instance] || row.Status != delivery.Scheduled || reached(row) {
			continue
		}
		d.book.Requeue(row)
		row.Status, row.Reason, row.CompletedAt = delivery.Skipped, reason.ConditionCleared, d.now
		row.SendAt, row.Slot, row.ExpiresAt, row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
		d.writes.Ended = append(d.writes.Ended, row)
		d.entries = append(d.entries, admission.Entry(row, row.CustomerRef, d.now))
	}
}

// over reports whether none of what an alert tells of is met any more.
func (f fading) over(i instance.Row) bool {
	var told trace
	if json.Unmarshal([]byte(i.Trace), &told) != nil || len(told.Issues) == 0 {
		return false // of another version of the program, or what tells that all is well
	}
	return !slices.ContainsFunc(told.Issues, func(issue string) bool {
		_, met := f.State.Since[issue]
		return met
	})
}
