package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// fact is one line of what is known about a row.
type fact struct {
	name  string
	value string
	at    time.Time // instead of value
	href  string
	code  bool  // a name of machines, set in fixed width
	said  bool  // somebody's own words, in the direction of their language
	state badge // beside value; without a word: none
}

type deliveryDetail struct {
	scale
	title    string
	state    badge
	story    []phrase
	because  []string // what kept it from leaving as planned
	facts    []fact
	moments  []moment
	messages []card
	folded   []deliveryLine // what it is one message with
	answers  []fact         // of its survey
	outbox   []outboxLine   // what sinks get of it
	event    *eventDetail
	trace    string
}

func (c *console) delivery(ctx context.Context, v visit) (view, error) {
	id, err := v.row(key.KindDelivery)
	if err != nil {
		return view{}, err
	}
	d, err := c.Store.DeliveryByID(ctx, v.workspace.ID, delivery.ID(id))
	if err != nil {
		return view{}, err
	}
	in, err := c.Store.InstanceByID(ctx, v.workspace.ID, d.Instance)
	if err != nil {
		return view{}, err
	}
	attempts, err := c.Store.Attempts(ctx, v.workspace.ID, d.ID)
	if err != nil {
		return view{}, err
	}
	receipts, err := c.Store.Receipts(ctx, v.workspace.ID, d.ID)
	if err != nil {
		return view{}, err
	}
	contents, err := c.Store.Contents(ctx, v.workspace.ID, d.ID, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	event, err := c.eventOf(ctx, v, d.Event)
	if err != nil {
		return view{}, err
	}
	answers, err := c.answers(ctx, v, d)
	if err != nil {
		return view{}, err
	}
	person, _, err := c.Store.ContactByID(ctx, v.workspace.ID, d.Contact)
	if err != nil {
		return view{}, err
	}
	folded, err := c.folded(ctx, v, d)
	if err != nil {
		return view{}, err
	}
	circumstances, err := c.Definitions.Circumstances(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	outcomes, err := c.Store.OutboxEvents(ctx, v.workspace.ID, store.OutboxFilter{Delivery: d.ID}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	toSinks, err := c.outboxLines(ctx, v, outcomes)
	if err != nil {
		return view{}, err
	}
	row := d
	ahead, planned := admission.Ahead(d, circumstances(d))
	pause, err := c.pauseOf(ctx, v, d, ahead)
	if err != nil {
		return view{}, err
	}
	d.SendAt = d.LeavesAt()
	page := deliveryDetail{
		scale: v.scale, title: to(d), state: deliveryBadge(d, ahead, v.now), story: story(d, ahead, planned, pause, v.now), because: trace.Explain(row), facts: v.deliveryFacts(d, person, planned),
		moments: timeline(d, in, attempts, receipts, ahead), folded: folded, answers: answers, outbox: toSinks, event: event, trace: d.Trace,
	}
	for _, content := range contents {
		made := v.card(content, d)
		made.href, made.why = "", "" // it is this page
		page.messages = append(page.messages, made)
	}
	return view{title: d.Workflow + " to " + to(d), section: "/deliveries", body: deliveryPage(page), live: true}, nil
}

// pauseOf is the pause that holds a delivery; the zero value where none does.
func (c *console) pauseOf(ctx context.Context, v visit, d delivery.Row, ahead admission.Outlook) (store.Pause, error) {
	if ahead.Reason != reason.WorkflowPaused {
		return store.Pause{}, nil
	}
	pauses, err := c.Store.Pauses(ctx, v.workspace.ID)
	if err != nil {
		return store.Pause{}, err
	}
	for _, p := range pauses {
		if p.Workflow == d.Workflow && p.ResumedAt.IsZero() {
			return p, nil
		}
	}
	return store.Pause{}, nil
}

// answers returns what the contact has answered, by question.
func (c *console) answers(ctx context.Context, v visit, d delivery.Row) ([]fact, error) {
	if d.Status != delivery.Responded {
		return nil, nil
	}
	r, err := c.Store.ResponseTo(ctx, v.workspace.ID, d.ID)
	if errors.Is(err, store.ErrNotFound) { // it was deleted since the delivery was read
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	questions, err := c.answeredIn(ctx, v, r)
	if err != nil {
		return nil, err
	}
	var list []fact
	for _, one := range answersOf(r, questions) {
		list = append(list, fact{name: one.question, value: one.answer, said: true})
	}
	if r.AgentID != "" {
		list = append(list, fact{name: "on their behalf", value: r.AgentID})
	}
	return list, nil
}

// folded returns the deliveries that are one message with d: its fold head, or its fold members.
func (c *console) folded(ctx context.Context, v visit, d delivery.Row) ([]deliveryLine, error) {
	var list []delivery.Row
	var err error
	switch {
	case d.Fold == delivery.FoldHead:
		list, err = c.Store.FoldedInto(ctx, v.workspace.ID, d.ID)
	case d.Together():
		var head delivery.Row
		head, err = c.Store.DeliveryByID(ctx, v.workspace.ID, d.FoldedInto)
		if errors.Is(err, store.ErrNotFound) { // it was deleted before this one
			return nil, nil
		}
		list = []delivery.Row{head}
	}
	if err != nil {
		return nil, fmt.Errorf("read what it is one message with: %w", err)
	}
	return c.deliveryLines(ctx, v, list)
}

func (v visit) deliveryFacts(d delivery.Row, who subject.Contact, planned bool) []fact {
	left := 0
	if planned {
		left = d.RemindersRemaining + 1
	}
	facts := []fact{
		{name: "workflow", value: fmt.Sprintf("%s, version %d", d.Workflow, d.WorkflowVersion), href: "/deliveries?workflow=" + d.Workflow},
		{name: "trigger", value: d.Trigger},
		{name: "instance", value: v.public(key.KindInstance, int64(d.Instance)), href: "/instances/" + v.public(key.KindInstance, int64(d.Instance)), code: true},
		{name: "id", value: v.public(key.KindDelivery, int64(d.ID)), code: true},
		{name: "key", value: d.Key, code: true},
		{name: "channel", value: d.Channel},
		{name: "contact", value: personName(who), href: contactPath(who.ExtID)},
		{name: "address", value: d.Address},
		{name: "locale", value: d.Locale},
		{name: "priority", value: d.Priority.String()},
		{name: "conversation", value: turnOf(d), href: v.sessionOf(d)},
		{name: "customer ref", value: d.CustomerRef},
		{name: "not before", at: d.NotBefore},
		{name: "sends left", value: fmt.Sprint(left)},
		{name: "attempts", value: fmt.Sprint(d.AttemptNo)},
	}
	if d.Definitions != 0 {
		facts = append(facts, fact{name: "pinned to", value: fmt.Sprintf("definition set %d", d.Definitions)})
	}
	return known(facts)
}

// sessionOf is the address of the conversation that a message belongs to; empty if it belongs to none, or none has begun.
func (v visit) sessionOf(d delivery.Row) string {
	if _, ok := d.Spoken(); !ok {
		return ""
	}
	return v.sessionHref(d.ID)
}

// turnOf says what a message is in a conversation.
func turnOf(d delivery.Row) string {
	says, ok := d.Spoken()
	if !ok {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("turn %d: %s %s", d.Turn, says, d.Asks))
}

// known leaves out the facts without a value.
func known(facts []fact) []fact {
	var out []fact
	for _, f := range facts {
		if f.value != "" || !f.at.IsZero() {
			out = append(out, f)
		}
	}
	return out
}

type instanceDetail struct {
	scale
	title      string
	state      badge
	why        string
	hold       *holding // nil: it is not held
	byHand     string
	facts      []fact
	zones      []zoneLine
	counts     []fact
	reasons    []reasonLine
	countNote  string // what the counts leave open
	stop       string // the command that stops it; empty: nothing of it is still to come
	deliveries []deliveryLine
	event      *eventDetail
	trace      string
}

// reasonLine is how many deliveries of an instance have the same state for the same reason.
type reasonLine struct {
	state badge
	why   string
	n     string
}

func (c *console) instance(ctx context.Context, v visit) (view, error) {
	id, err := v.row(key.KindInstance)
	if err != nil {
		return view{}, err
	}
	in, err := c.Store.InstanceByID(ctx, v.workspace.ID, instance.ID(id))
	if err != nil {
		return view{}, err
	}
	rows, err := c.Store.Deliveries(ctx, v.workspace.ID, store.DeliveryFilter{Instance: cmp.Or(in.Head, in.ID)}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	event, err := c.eventOf(ctx, v, in.Event)
	if err != nil {
		return view{}, err
	}
	page := instanceDetail{
		scale: v.scale, title: in.Workflow, state: instanceBadge(in), facts: v.instanceFacts(in), event: event, trace: in.Trace,
	}
	if in.Record != 0 {
		r, err := c.Store.RecordByID(ctx, v.workspace.ID, in.Record)
		if err != nil {
			return view{}, err
		}
		about := fact{name: "record", value: r.Type + " " + r.ExtID, href: recordHref(r.Type, r.ExtID)}
		if r.Deleted {
			about.href = "" // it has no page any more
		}
		page.facts = append([]fact{about}, page.facts...)
		throttles, err := c.Definitions.Throttles(ctx, v.workspace.ID, store.ThrottleFilter{Record: in.Record, Workflow: in.Workflow, Limit: pageSize})
		if err != nil {
			return view{}, err
		}
		for _, th := range throttles {
			if th.Instance == in.ID { // no later one has fired the context
				page.facts = append(page.facts, known([]fact{
					{name: "may fire again", at: th.Until}, {name: "held back", value: v.throttleLine(th).times()},
				})...)
			}
		}
	}
	if in.Reason != "" {
		page.why = in.Reason.Sentence()
	}
	if page.zones, err = c.zoneLines(ctx, v, in); err != nil {
		return view{}, err
	}
	if local := plan.DueLocal(in); local != "" {
		page.facts = v.dueByZone(page.facts, in, local)
	}
	run, err := c.digestRun(ctx, in)
	if err != nil {
		return view{}, err
	}
	page.facts = append(page.facts, run...)
	if page.hold, err = c.holdOf(ctx, v, in); err != nil {
		return view{}, err
	}
	if page.byHand, err = c.byHand(ctx, v, in); err != nil {
		return view{}, err
	}
	if err := c.soFar(ctx, v, in, &page); err != nil {
		return view{}, err
	}
	if page.deliveries, err = c.deliveryLines(ctx, v, rows); err != nil {
		return view{}, err
	}
	return view{title: "Instance of " + in.Workflow, section: "/instances", body: instancePage(page), live: true}, nil
}

// maxCounted bounds the deliveries that a page counts: it is loaded again and again while it is open.
const maxCounted = 100_000

// soFar says what has become of the deliveries of an instance, if it has several.
func (c *console) soFar(ctx context.Context, v visit, in instance.Row, page *instanceDetail) error {
	const several = 2
	t, err := c.Store.Tally(ctx, in, maxCounted)
	if err != nil || t.Deliveries < several && !t.TakingUp {
		return err
	}
	page.counts = []fact{{name: "deliveries", value: atLeast(int64(t.Deliveries), t.More)}, {name: "sent", value: atLeast(int64(t.Sent), t.More)}}
	for _, f := range []struct {
		name string
		n    int
	}{{"waiting", t.Waiting}, {"unknown", t.Unknown}, {"failed", t.Failed}, {"left out", t.LeftOut}} {
		if f.n > 0 {
			page.counts = append(page.counts, fact{name: f.name, value: atLeast(int64(f.n), t.More)})
		}
	}
	if t.TakingUp || t.Waiting > 0 {
		page.stop = "carillon instances cancel " + v.public(key.KindInstance, int64(cmp.Or(in.Head, in.ID)))
	}
	var notes []string
	switch {
	case t.TakingUp && in.Hold == instance.HoldMany:
		notes = append(notes, "Its audience has more people, who are taken up when it is released.")
	case t.TakingUp:
		notes = append(notes, "Its audience has more people, who are still taken up.")
	}
	if t.More {
		notes = append(notes, fmt.Sprintf("It has more deliveries than the %s that are counted here: carillon instances show --count-all counts all of them.", number(maxCounted)))
	}
	page.countNote = strings.Join(notes, " ")
	for _, r := range t.Reasons {
		page.reasons = append(page.reasons, reasonLine{badge{reasonTone(r.Reason), words(string(r.Reason))}, r.Reason.Sentence(), atLeast(int64(r.N), t.More)})
	}
	return nil
}

// placeInCourse says which message of a course an instance is; empty: it is none.
func placeInCourse(in instance.Row) string {
	if in.Round == 0 {
		return ""
	}
	place := fmt.Sprintf("number %d of round %d", in.Message+1, in.Round)
	if person := key.Instance(in.Key).Person(); person != "" {
		place += ", of a course of " + person + " alone"
	}
	return place
}

// whatComesNext says what the next instant of an instance is: the occasion of several zones waits for the end of the last one.
func whatComesNext(in instance.Row) string {
	if !in.OpenedAt.IsZero() && !in.OfZone() && in.RetryCount == 0 {
		return "over everywhere"
	}
	return "next try"
}

func (v visit) instanceFacts(in instance.Row) []fact {
	return known([]fact{
		{name: "workflow", value: fmt.Sprintf("%s, version %d", in.Workflow, in.WorkflowVersion), href: "/instances?workflow=" + in.Workflow},
		{name: "trigger", value: in.Trigger},
		{name: "id", value: v.public(key.KindInstance, int64(in.ID)), code: true},
		{name: "key", value: in.Key, code: true},
		{name: "due", at: in.DueAt},
		{name: "message", value: placeInCourse(in)},
		{name: whatComesNext(in), at: in.NextRetryAt},
		{name: "made", at: in.CreatedAt},
		{name: "people taken up", value: some(in.Recipients)},
		{name: "released from its brake", at: in.UnbrakedAt},
		{name: "completed", at: in.CompletedAt},
		{name: "cancelled", at: in.CancelledAt},
		{name: "definition set", value: fmt.Sprint(in.Definitions)},
	})
}

type eventDetail struct {
	scale
	href      string
	kind      string
	facts     []fact
	payload   string
	verdicts  []trace.Trace
	instances []instanceLine
}

// eventOf reads the event of a row; nil when it has none.
func (c *console) eventOf(ctx context.Context, v visit, id subject.EventID) (*eventDetail, error) {
	if id == 0 {
		return nil, nil
	}
	ref := store.EventRef{Workspace: v.workspace.ID, ID: id}
	events, err := c.Store.EventsByID(ctx, []store.EventRef{ref})
	if err != nil {
		return nil, err
	}
	e, ok := events[ref]
	if !ok {
		return nil, nil // its payload was erased or is no longer kept
	}
	out := &eventDetail{
		scale: v.scale, href: "/events/" + v.public(key.KindEvent, int64(id)), kind: e.Kind, payload: pretty(e.PayloadJSON),
		facts: []fact{
			{name: "id", value: v.public(key.KindEvent, int64(id)), code: true},
			{name: "your id", value: e.ExtID, code: true},
			{name: "occurred", at: e.OccurredAt},
			{name: "received", at: e.ReceivedAt},
		},
	}
	out.facts = known(append(out.facts, fact{name: "recipient", value: strings.Join(recipient(e), ", ")}))
	out.verdicts, err = verdictsOf(e)
	return out, err
}

func verdictsOf(e store.EventRow) ([]trace.Trace, error) {
	verdicts, err := trace.ReadList(e.Trace)
	if err != nil {
		return nil, fmt.Errorf("read the trace of event %d: %w", e.ID, err)
	}
	return verdicts, nil
}

// recipient is whom an event names: address, reference and locale, those that there are.
func recipient(e store.EventRow) (known []string) {
	if r := e.Recipient; r != nil {
		for _, value := range []string{r.Address, r.CustomerRef, r.Locale} {
			if value != "" {
				known = append(known, value)
			}
		}
	}
	return known
}

// event shows what each trigger made of one event.
func (c *console) event(ctx context.Context, v visit) (view, error) {
	id, err := v.row(key.KindEvent)
	if err != nil {
		return view{}, err
	}
	page, err := c.eventOf(ctx, v, subject.EventID(id))
	if err != nil {
		return view{}, err
	}
	if page == nil {
		return view{}, store.ErrNotFound
	}
	made, err := c.Store.Instances(ctx, v.workspace.ID, store.InstanceFilter{Event: subject.EventID(id), Once: true}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	if page.instances, err = c.instanceLines(ctx, v, made); err != nil {
		return view{}, err
	}
	return view{title: "Event " + page.kind, section: "/events", body: eventPage(*page)}, nil
}
