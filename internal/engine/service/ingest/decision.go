package ingest

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/audience"
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

// latest returns the instant of a group's latest request.
func latest(group []*batch) (at time.Time) {
	for _, b := range group {
		if b.now.After(at) {
			at = b.now
		}
	}
	return at
}

// facts are what a group is decided by: the stored rows that it meets, and where ids and zones come from.
type facts struct {
	occasions  store.Occasions
	recipients []delivery.Person // of all batches that are not out, in their order
	stops      admission.Stops   // of their addresses
	zones      *civil.Zones
	ids        func(time.Time) int64
	calls      *expr.Calls
}

// decision is one call of decide: the stored rows and the rows to write. It belongs to one batch; rows of earlier batches of the group count as if
// they were stored.
type decision struct {
	*batch
	facts
	people []delivery.Person         // of the batch
	made   map[string]InstanceResult // by planned key, of this group
	traces map[*definition.Trigger]string
	ledger *admission.Ledger
	meter  *expr.Meter // of the batch
	writes store.OccasionWrites
	later  []later // of courses, of the group
}

// decide compares the plans of a group with the stored rows. It returns the rows to write and the answers to keep, and sets the results and entries
// of each batch, and whether it repeats another request. Such a batch writes no rows: it gets the answer of that request, or is decided after the
// group.
func decide(group []*batch, f facts) (writes store.OccasionWrites, following []later, answers []store.KeptAnswer, err error) {
	d := decision{facts: f, made: map[string]InstanceResult{}, traces: map[*definition.Trigger]string{}, ledger: admission.NewLedger(f.zones, latest(group))}
	kept := map[string]store.KeptAnswer{} // of this group
	people := f.recipients
	d.ledger.Heed(f.stops)
	steps := uint64(0) // of the group
	for _, b := range group {
		if b.out() {
			b.results, b.entries = nil, nil
			if b.repeat.of != nil {
				first, ok := kept[b.idempotent.Key]
				if b.repeat.answer, b.repeat.again = nil, !ok; ok {
					b.repeat.answer = first.Again(b.idempotent.AnswerKey)
				}
			}
			continue
		}
		d.batch, d.people, people = b, people[:len(b.people)], people[len(b.people):]
		if b.repeat.again = steps > expr.PageLimit; b.repeat.again {
			b.results, b.entries = nil, nil
			continue
		}
		d.meter = &expr.Meter{Calls: f.calls}
		if err := d.all(); err != nil {
			return writes, nil, nil, err
		}
		steps += d.meter.Steps
		b.entries = append(b.entries, d.ledger.PassedOver(b.now)...)
		if b.idempotent == nil || !b.changed() {
			continue
		}
		answer, err := b.idempotent.Answer(b.results)
		if err != nil {
			return writes, nil, nil, fmt.Errorf("make the answer: %w", err)
		}
		one := store.KeptAnswer{AnswerKey: b.idempotent.AnswerKey, Answer: answer}
		kept[one.Key] = one
		answers = append(answers, one)
	}
	return d.writes, d.later, answers, nil
}

// all decides the events of the batch.
func (d *decision) all() error {
	d.results = make([]Result, len(d.items))
	d.entries = nil
	for i, item := range d.items {
		if item.Err != nil {
			d.results[i] = Result{Outcome: Failed, Reason: item.Err.Reason, Error: item.Err}
			d.entries = append(d.entries, journal.Entry{At: d.now, What: journal.Rejected, Workspace: d.ws.ID, Reason: item.Err.Reason, Error: item.Err.Error()})
			continue
		}
		if d.meter.Full() { // the other requests of the group get another transaction
			d.results[i] = d.tooMuch()
			continue
		}
		result, err := d.event(item, d.planned[i])
		if err != nil {
			return err
		}
		d.results[i] = result
	}
	return nil
}

// tooMuch refuses an event of a request that needs more evaluation than one transaction may do.
func (d *decision) tooMuch() Result {
	d.entries = append(d.entries, journal.Entry{At: d.now, What: journal.Rejected, Workspace: d.ws.ID, Reason: reason.CostExceeded})
	return Result{Outcome: Failed, Reason: reason.CostExceeded, Error: &ItemError{
		Reason: reason.CostExceeded, Message: fmt.Sprintf("the conditions that the events of this request evaluate, and the messages that are overdue of their courses, take more than %d steps together", uint64(expr.PageLimit)),
		Hint: "send fewer events in one request, or make the where of the audience cheaper",
	}}
}

// event decides one event.
func (d *decision) event(item Item, p planned) (Result, error) {
	ev := item.Event
	var result Result
	traces := make([]string, 0, len(p.occasions))
	if ev.ID == 0 { // else it is stored
		ev.ID = subject.EventID(d.ids(d.now))
	}
	var contact subject.Contact
	if p.person >= 0 {
		contact = d.people[p.person].Contact
	}
	p.occasions = plan.Placed(p.occasions, ev.ID, contact, d.zones)
	for _, o := range p.occasions {
		note, err := d.trace(o)
		if err != nil {
			return Result{}, err
		}
		traces = append(traces, note)
		if !o.Matched() {
			if o.Reason == reason.DedupMissing {
				result.Instances = append(result.Instances, d.refused(o, reason.DedupMissing))
			}
			continue
		}
		result.Warnings = append(result.Warnings, warnings(o)...)
		one, err := d.occasion(ev, o, note, p.person)
		if err != nil {
			return Result{}, err
		}
		result.Instances = append(result.Instances, one)
	}
	result.Outcome, result.Reason = summarize(p.occasions, result.Instances)
	if result.Outcome == Skipped {
		return result, nil
	}
	if result.Outcome == Failed {
		// Nothing was made of the event, and its answer says so. When the caller corrects it and sends it again, it must count as new.
		result.Error = &ItemError{Reason: result.Reason, Field: failedField(p.occasions, result.Reason), Message: result.Reason.Sentence()}
		d.entries = append(d.entries, journal.Entry{At: d.now, What: journal.Rejected, Workspace: d.ws.ID, Reason: result.Reason})
		return result, nil
	}
	if result.Outcome == NoMatch {
		d.entries = append(d.entries, journal.Entry{At: d.now, What: journal.NoMatch, Workspace: d.ws.ID, Event: ev.ID, Kind: ev.Kind, Reason: result.Reason})
	}
	result.Event = ev.ID
	row, err := eventRow(ev, item.payload, traces)
	if err != nil {
		return Result{}, err
	}
	d.writes.Events = append(d.writes.Events, row)
	return result, nil
}

func eventRow(ev subject.Event, payload string, traces []string) (store.EventRow, error) {
	row := store.EventRow{Event: ev, PayloadJSON: payload}
	var err error
	if payload == "" {
		written := ev.Payload
		if written == nil {
			written = map[string]any{}
		}
		if row.PayloadJSON, err = encode(written); err != nil {
			return row, fmt.Errorf("encode the payload: %w", err)
		}
	}
	if len(traces) > 0 {
		row.Trace = trace.List(traces...)
	}
	return row, nil
}

// summarize gives an event one outcome (C13): created if any occasion was created, else skipped, else failed, else no match.
func summarize(occasions []plan.Occasion, made []InstanceResult) (Outcome, reason.Reason) {
	best := map[Outcome]reason.Reason{}
	for _, one := range made {
		if _, ok := best[one.Outcome]; !ok {
			best[one.Outcome] = one.Reason
		}
	}
	for _, outcome := range []Outcome{Created, Skipped, Failed} {
		if why, ok := best[outcome]; ok {
			return outcome, why
		}
	}
	why := reason.NoWorkflow
	for _, o := range occasions {
		why = o.Reason
		break
	}
	return NoMatch, why
}

func failedField(occasions []plan.Occasion, why reason.Reason) string {
	if why == reason.NoRecipient {
		return "recipient"
	}
	for _, o := range occasions {
		if o.Reason == why {
			return o.Field
		}
	}
	return ""
}

func (d *decision) refused(o plan.Occasion, why reason.Reason) InstanceResult {
	return InstanceResult{
		Workflow: o.Workflow.Name, WorkflowExtID: o.Workflow.ExtID, Trigger: o.Trigger.ID, Outcome: Failed, Reason: why,
	}
}

// occasion makes the instance of a matched occasion, or finds the stored one.
func (d *decision) occasion(ev subject.Event, o plan.Occasion, note string, person int) (InstanceResult, error) {
	planned := string(o.Key)
	if first, ok := d.made[planned]; ok {
		return d.duplicate(ev, o, first)
	}
	if old, ok := d.occasions.Instances[planned]; ok {
		existing := InstanceResult{ID: old.ID, Key: old.Key}
		for _, one := range old.Deliveries {
			existing.Deliveries = append(existing.Deliveries, DeliveryResult{ID: one.ID, Channel: one.Channel, Status: one.Status})
		}
		return d.duplicate(ev, o, existing)
	}
	if person < 0 && toRecipient(o) {
		return d.refused(o, reason.NoRecipient), nil
	}
	actual := o.Key
	if n := d.occasions.Forgotten[planned]; n > 0 {
		actual = o.Key.Retry(n)
	}
	row := d.instance(ev, o, note, actual)
	result := InstanceResult{
		Workflow: o.Workflow.Name, WorkflowExtID: o.Workflow.ExtID, Trigger: o.Trigger.ID,
		Outcome: Created, ID: row.ID, Key: row.Key,
	}
	send := true
	if o.Course != nil {
		var err error
		if send, err = d.course(&row, o, actual); err != nil {
			return result, err
		}
	}
	if send {
		d.entries = append(d.entries, d.entry(journal.Created, row, o))
	}
	later := false
	for _, entry := range o.Trigger.Audience {
		switch {
		case !send:
		case !entry.EventRecipient:
			later = true
		default:
			result.Deliveries = append(result.Deliveries, d.deliveries(ev, o, row, entry, d.people[person])...)
		}
	}
	if len(result.Deliveries) > 0 {
		row.Recipients = 1
	}
	switch {
	case !send:
		result.Reason = row.Reason
	case later:
		row.Status, row.CompletedAt, row.Reason = instance.Pending, time.Time{}, ""
	case len(result.Deliveries) == 0:
		row.Reason, result.Reason = reason.NoRecipient, reason.NoRecipient
	}
	d.writes.Instances = append(d.writes.Instances, row)
	d.made[planned] = result
	return result, nil
}

// duplicate answers with what the first event of this key made (C11).
func (d *decision) duplicate(ev subject.Event, o plan.Occasion, first InstanceResult) (InstanceResult, error) {
	note, err := trace.Trace{Key: first.Key, EventID: ev.ExtID, Received: ev.ReceivedAt}.Encode()
	if err != nil {
		return first, fmt.Errorf("encode the trace: %w", err)
	}
	first.Workflow, first.WorkflowExtID, first.Trigger = o.Workflow.Name, o.Workflow.ExtID, o.Trigger.ID
	first.Outcome, first.Reason = Skipped, reason.Duplicate
	d.writes.Decisions = append(d.writes.Decisions, store.Decision{
		ID: d.ids(d.now), At: d.now, Instance: first.ID, Workflow: o.Workflow.Name,
		WorkflowVersion: o.Workflow.Version, Trigger: o.Trigger.ID, Reason: reason.Duplicate, Trace: note,
	})
	d.entries = append(d.entries, journal.Entry{
		At: d.now, What: journal.Skipped, Workspace: d.ws.ID, Workflow: o.Workflow.Name, WorkflowVersion: o.Workflow.Version,
		Trigger: o.Trigger.ID, Key: first.Key, Instance: first.ID, Reason: reason.Duplicate, Address: addressOf(ev),
	})
	return first, nil
}

func addressOf(ev subject.Event) string {
	if ev.Recipient == nil {
		return ""
	}
	return ev.Recipient.Address
}

// trace writes how a trigger evaluated an event. If the trace holds no value of the event, it is always the same text.
func (d *decision) trace(o plan.Occasion) (string, error) {
	plain := o.Matched() && len(o.Clauses) == 0 && len(o.Missing) == 0
	if note, ok := d.traces[o.Trigger]; plain && ok {
		return note, nil
	}
	note, err := traceOf(o).Encode()
	if err != nil {
		return "", fmt.Errorf("encode the trace: %w", err)
	}
	if plain {
		d.traces[o.Trigger] = note
	}
	return note, nil
}

func (d *decision) instance(ev subject.Event, o plan.Occasion, note string, actual key.Instance) instance.Row {
	return instance.Row{
		Workspace: d.ws.ID, ID: instance.ID(d.ids(d.now)), Key: string(actual),
		Workflow: o.Workflow.Name, WorkflowVersion: o.Workflow.Version, Definitions: d.set.Number, Type: o.Workflow.Type,
		Trigger: o.Trigger.ID, Source: instance.FromEvent, Event: ev.ID, Status: instance.Completed, DueAt: o.NotBefore, Timezone: o.Zone, Reason: reason.Expanded,
		InputHash: o.InputHash, Trace: note, CreatedAt: d.now, CompletedAt: d.now,
	}
}

// deliveries makes the messages for the event's recipient; none if the audience excludes them.
func (d *decision) deliveries(ev subject.Event, o plan.Occasion, in instance.Row, entry definition.Audience, person delivery.Person) []DeliveryResult {
	if entry.Where != nil {
		input := plan.Input(d.set, o.Workflow, plan.EventFields(ev), d.now)
		input.Home = person.Within
		input.Contact, input.Meter = plan.ContactFields(person.Contact), d.meter
		if definition.ReadsGroups(entry.Where.Paths()) {
			plan.WithGroups(input.Contact, d.set, person.Contact, d.meter)
		}
		if !entry.Where.Judge(input).Met {
			return nil
		}
	}
	from := len(d.writes.Deliveries)
	d.writes.Deliveries = d.ledger.Deliveries(d.writes.Deliveries, admission.Occasion{
		Instance: in, Trigger: o.Trigger, Now: d.now, Set: d.set,
	}, audience.OfRecipient(person, *ev.Recipient), func() delivery.ID { return delivery.ID(d.ids(d.now)) })
	made := make([]DeliveryResult, 0, 1)
	for _, row := range d.writes.Deliveries[from:] {
		d.entries = append(d.entries, admission.Entry(row, person.ExtID, d.now))
		made = append(made, DeliveryResult{ID: row.ID, Channel: row.Channel, Status: row.Status})
	}
	return made
}

func (d *decision) entry(what journal.What, row instance.Row, o plan.Occasion) journal.Entry {
	return journal.Entry{
		At: d.now, What: what, Workspace: d.ws.ID, Workflow: row.Workflow, WorkflowVersion: row.WorkflowVersion,
		Trigger: o.Trigger.ID, Key: row.Key, Event: row.Event, Instance: row.ID, Due: row.DueAt,
	}
}
