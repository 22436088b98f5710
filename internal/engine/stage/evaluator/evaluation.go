package evaluator

import (
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// run is one attempt of a step; its functions may be called again from the beginning.
type run struct {
	*Evaluator
	now     time.Time
	live    map[subject.WorkspaceID]*definition.Set // in force
	records []*seen
	state   store.EvaluateState
	related map[subject.WorkspaceID]map[subject.RecordRef]*subject.Record // the records that the evaluated ones depend on
	entries []journal.Entry
	next    []next     // messages of courses to make
	meter   expr.Meter // of what evaluate, admit or decide computes
	calls   *expr.Calls
}

// seen is a record with the evaluations of its triggers.
type seen struct {
	store.DueRecord
	set    *definition.Set
	ws     catalog.Workspace
	states condition.States
	evals  []*evaluation
	wanted []wanted // occasions that need an audience, in the order of their audiences
	faded  []fading
	err    error // why nothing can be decided about the record now
}

// fading is an episode that goes on while some of its alerts name issues that are over.
type fading struct {
	*evaluation
	state store.Episode
}

// evaluation is one trigger applied to one record, with the answer of gate 1.
type evaluation struct {
	plan.Evaluation
	next    time.Time // the earliest instant of the next evaluation
	verdict verdict
	free    time.Time // if the context fired at this very instant: when it may fire again
}

// verdict is the answer of gate 1.
type verdict struct {
	why   reason.Reason // empty: it may fire
	stamp store.Throttle
	until time.Time // when it is tried again
}

// wanted is one occasion whose audience is not known yet.
type wanted struct {
	*evaluation
	audience audience.Plan
	cleared  bool          // the occasion reports that the condition is over
	state    store.Episode // cleared: the rows of the episode
	late     bool          // the audience is computed when the occasion is due, or by the fan-out, which can retry
	instance instance.Row
	event    store.EventRow
}

// floor returns how far back the slots of contacts matter, by the set in force of their workspace.
func (r *run) floor() store.Floor {
	floors := admission.NewFloors(&r.catalog.Zones, r.now, nil)
	return func(ws subject.WorkspaceID, c subject.Contact) time.Time { return floors.Of(r.live[ws], c) }
}

// groups returns the groups to which a contact belongs, by the set in force of its workspace.
func (r *run) groups(ws subject.WorkspaceID, c subject.Contact) []string {
	return plan.GroupsOf(r.live[ws], c, nil)
}

// relate reads the records that the due ones depend on.
func (r *run) relate(tx *store.Tx, due []store.DueRecord) (store.Related, error) {
	read, err := related.Read(tx, withRelations(r.catalog, due))
	r.related = read.ByWorkspace()
	return read, err
}

// withRelations returns the records that are evaluated, with the relations that their definitions follow.
func withRelations(c *catalog.Catalog, due []store.DueRecord) (list []related.Record) {
	for _, d := range due {
		set, err := c.Loaded(d.Workspace, d.InForce)
		if err != nil || d.Err != nil || d.Closed || d.Deleted {
			continue // the evaluation reports the error
		}
		list = append(list, related.Record{Workspace: d.Workspace, Relations: set.Relations(d.Type), Record: d.Record})
	}
	return list
}

// links returns the records on which a record depends now.
func (r *run) links(s *seen) []subject.RecordRef {
	if s.Closed || s.Deleted {
		return nil
	}
	return plan.Related(r.related[s.Workspace]).Links(s.set.Relations(s.Type), s.Record)
}

// needs is what has to be read before anything is decided about records.
type needs struct {
	throttles []store.ThrottleRef
	episodes  []store.EpisodeRef
	plans     map[store.PlanRef][]key.Instance // with the keys that may be inserted
}

// judge judges as many records as one transaction may evaluate, and returns what has to be read before anything is decided.
func (r *run) judge(due []store.DueRecord) (needs needs, err error) {
	r.records, r.live, r.meter = make([]*seen, 0, len(due)), map[subject.WorkspaceID]*definition.Set{}, expr.Meter{Calls: r.calls}
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
		observation := plan.Observation{Now: r.now, EvaluateAt: d.EvaluateAt, EvaluatedAt: d.EvaluatedAt, Meter: &r.meter}
		for _, l := range plan.Record(s.set, d.Record, r.related[d.Workspace], s.states, observation, &r.catalog.Zones) {
			l := &evaluation{Evaluation: l, next: l.EvaluateAt}
			s.evals = append(s.evals, l)
			if l.Fires() {
				needs.throttles = append(needs.throttles, s.throttle(l, l.Context))
			}
			for _, lapsed := range l.Lapsed {
				needs.throttles = append(needs.throttles, s.throttle(l, lapsed.Context))
			}
			if l.over() || l.faded() {
				needs.episodes = append(needs.episodes, s.episode(l))
			}
		}
		s.evals = append(s.evals, s.orphans()...)
		for _, l := range s.evals {
			if s.planChanged(l) {
				if needs.plans == nil {
					needs.plans = map[store.PlanRef][]key.Instance{}
				}
				needs.plans[s.planRef(l)] = keys(l)
			}
		}
	}
	return needs, r.calls.Wanted()
}

// fires reports whether gate 1 has to decide: a context fires once at one instant.
func (l *evaluation) fires() bool { return l.Fires() && !l.State.HasFired(l.Context, l.At) }

// over reports whether an episode has ended, so that its rows are no longer needed. A disabled trigger is not evaluated, so its episodes do not end.
func (l *evaluation) over() bool {
	return l.Cleared && (l.Trigger.ResolvedMessage() != nil || l.Trigger.Limits.Revalidate) && l.Workflow.Enabled && l.Trigger.Enabled
}

// faded reports whether the episode goes on and some of its alerts may name issues that are over.
func (l *evaluation) faded() bool {
	return len(l.Faded) > 0 && l.State.Open && l.Trigger.Limits.Revalidate
}

func (s *seen) throttle(l *evaluation, context string) store.ThrottleRef {
	return store.ThrottleRef{Workspace: s.Workspace, Workflow: l.Workflow.Name, Context: context}
}

func (s *seen) episode(l *evaluation) store.EpisodeRef {
	return store.EpisodeRef{Workspace: s.Workspace, Record: s.ID, Workflow: l.Workflow.Name, Trigger: l.Trigger.ID, Episode: l.State.Episodes}
}

// admit applies gate 1 by the state that was read, and returns the audiences of the occasions that pass, for as many records as one transaction may evaluate. An error of one
// record concerns no other.
func (r *run) admit() ([][]store.Audience, error) {
	state := r.state
	audiences := make([][]store.Audience, len(r.records))
	r.meter = expr.Meter{Calls: r.calls}
	for i, s := range r.records {
		if i > 0 && r.meter.Full() {
			audiences = audiences[:i]
			break
		}
		s.wanted, s.faded = nil, nil
		if s.err != nil {
			continue
		}
		for _, l := range s.evals {
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
			if reported := !w.cleared || len(w.audience.Refs) > 0; reported {
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
	return audiences, r.calls.Wanted()
}

func stampOf(th store.Throttle) plan.Firing {
	return plan.Firing{FiredAt: th.FiredAt, VoidAt: th.VoidAt, InFlight: th.InFlight}
}

// throttle is gate 1. Firings are compared by nominal instants (product decision 9). Firings of this very pass do not count: alerts that are found together
// are sent together.
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

// alert plans the occasion of what fires. If its audience cannot be computed, the fan-out retries.
func (r *run) alert(s *seen, l *evaluation) (wanted, error) {
	w := wanted{evaluation: l, late: l.Due.After(r.now)}
	if w.late {
		return w, nil
	}
	input := plan.Input(s.set, l.Workflow, nil, r.now)
	input.Record, input.Issues, input.Meter = l.Fields(), l.Issues(), &r.meter
	var err error
	w.audience, err = audience.Of(l.Trigger, audience.Sets{Own: s.set, InForce: s.set, Stops: l.Trigger.MaxRecipients > 0}, input, s.ws.Addresses, 0, nil)
	var missing *catalog.Missing
	if errors.As(err, &missing) {
		return w, err
	}
	if err != nil {
		w.audience, w.late = audience.Plan{}, true
	}
	return w, nil
}

// resolved plans the notification that an episode is over, for the contacts to whom one of its alerts was sent or is being sent.
func (r *run) resolved(s *seen, l *evaluation, e store.Episode) wanted {
	w := wanted{evaluation: l, cleared: true, state: e}
	if l.Trigger.ResolvedMessage() == nil || s.Closed || s.Deleted {
		return w // nobody is notified: the record is gone, and the condition did not clear
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

// reached reports whether a message was sent, or may have arrived although its worker died.
func reached(d delivery.Row) bool {
	return !d.LastSentAt.IsZero() || d.Fold == delivery.Folded || d.Status == delivery.Unknown || d.MayHaveArrived()
}

// withdraw withdraws the rows of an episode that are no longer needed: unsent messages of occasions that are over (R9).
func (d *decision) withdraw(e store.Episode, over func(instance.Row) bool) {
	ended := map[instance.ID]bool{}
	for _, i := range e.Instances {
		if ended[i.ID] = over(i); !ended[i.ID] || i.Status != instance.Pending {
			continue
		}
		i.Status, i.Delay, i.Reason, i.CompletedAt = instance.Deactivated, "", reason.ConditionCleared, d.now
		d.writes.Withdrawn = append(d.writes.Withdrawn, i)
	}
	for _, row := range e.Deliveries {
		if !ended[row.Instance] || row.Status != delivery.Scheduled || reached(row) {
			continue
		}
		d.ledger.Requeue(row)
		row.Status, row.Reason, row.CompletedAt = delivery.Skipped, reason.ConditionCleared, d.now
		row.Unplan()
		row.Slot, row.ExpiresAt, row.LeaseUntil, row.IntentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		d.writes.Ended = append(d.writes.Ended, row)
		d.entries = append(d.entries, admission.Entry(row, row.CustomerRef, d.now))
	}
}

// over reports whether none of the issues that an alert names is met any more.
func (f fading) over(i instance.Row) bool {
	stored, ok := trace.Read(i.Trace)
	if !ok || len(stored.Issues) == 0 {
		return false // of another version of the program, or a notification that the condition cleared
	}
	return !slices.ContainsFunc(stored.Issues, func(issue string) bool {
		_, met := f.State.Since[issue]
		return met
	})
}
