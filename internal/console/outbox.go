package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Outbox is what the pages about sinks and outbox events read.
type Outbox interface {
	OutboxEvents(ctx context.Context, ws subject.WorkspaceID, f store.OutboxFilter, p store.Page) ([]outbox.Event, error)
	OutboxEvent(ctx context.Context, ws subject.WorkspaceID, id int64) (outbox.Event, error)
	Dispatches(ctx context.Context, ws subject.WorkspaceID, events []int64) (map[int64][]outbox.Row, error)
	DispatchAttempts(ctx context.Context, ws subject.WorkspaceID, event int64) ([]outbox.Attempt, error)
	SinkHealth(ctx context.Context, ws subject.WorkspaceID) (map[string]outbox.Health, error)
	SinksOf(ctx context.Context, ws subject.WorkspaceID) ([]store.SinkState, error)
}

func dispatchTone(s outbox.Status) tone {
	switch s {
	case outbox.Pending:
		return wait
	case outbox.Dispatched:
		return good
	case outbox.Dead:
		return bad
	}
	return quiet
}

func dispatchBadge(s outbox.Status) badge { return badge{dispatchTone(s), string(s)} }

// wholeBadge is the state of an event over all its sinks.
func wholeBadge(rows []outbox.Row) badge {
	states := make([]outbox.Status, len(rows))
	for i, r := range rows {
		states[i] = r.Status
	}
	whole := dispatchBadge(outbox.Whole(states))
	if len(rows) == 0 {
		whole.tone = quiet // it goes nowhere
	}
	return whole
}

func tryTone(o outbox.Outcome) tone {
	switch o {
	case outbox.Accepted:
		return good
	case outbox.Temporary:
		return hold
	case outbox.Permanent, outbox.Gone:
		return bad
	}
	return quiet
}

// healths are the sinks that events wait for, by name.
type healths map[string]outbox.Health

// healths reads how sinks are, if one of the rows waits.
func (c *console) healths(ctx context.Context, v visit, rows map[int64][]outbox.Row) (healths, error) {
	waits := func(r outbox.Row) bool { return r.Status == outbox.Pending }
	for _, at := range rows {
		if slices.ContainsFunc(at, waits) {
			return c.Store.SinkHealth(ctx, v.workspace.ID)
		}
	}
	return healths{}, nil
}

// stopped reports whether an event waits until somebody enables its sink.
func (h healths) stopped(r outbox.Row) bool { return r.Status == outbox.Pending && !h[r.Sink].Sends() }

// rests reports whether an event that could be tried waits for a sink that rests.
func (h healths) rests(r outbox.Row) bool {
	return r.Status == outbox.Pending && h[r.Sink].NextTry(r.NextAt).After(r.NextAt)
}

// waitsFor is why an event does not leave at a sink now; empty: it does, or has.
func (v visit) waitsFor(r outbox.Row, h healths) string {
	switch {
	case h.stopped(r):
		return "sink " + string(h[r.Sink].State)
	case h.rests(r) && h[r.Sink].RestUntil.After(v.now):
		return "sink rests until " + v.short(h[r.Sink].RestUntil)
	}
	return ""
}

// outboxLine is an outbox event with its state as a whole and at each sink.
type outboxLine struct {
	id       string
	href     string
	at       time.Time
	state    badge
	kind     string
	workflow string
	about    string
	row      string // address of what it is about; empty: that was deleted
	sinks    []mark
}

type outboxList struct {
	scale
	filter
	lists  []chip
	rows   []outboxLine
	newest string
	older  string
}

// outboxFilter reads the filter of outbox events from the address. What cannot be read is said in shown; ok is false where nothing fits.
func (v visit) outboxFilter(shown *filter) (f store.OutboxFilter, ok bool) {
	f = store.OutboxFilter{
		Type: v.query.Get("type"), Workflow: v.query.Get("workflow"), Sink: v.query.Get("sink"), Status: outbox.Status(v.query.Get("status")), Made: v.made(shown),
	}
	if text := v.query.Get("delivery"); text != "" {
		kind, ws, id, known := v.ids.Decode(text)
		if !known || kind != key.KindDelivery || ws != int64(v.workspace.ID) {
			return f, false
		}
		f.Delivery = delivery.ID(id)
	}
	if f.Type != "" && !slices.Contains(definition.Outcomes(), f.Type) && shown.refusal == "" {
		shown.refusal = fmt.Sprintf("%q is no type of outcome: give one of %s.", f.Type, strings.Join(definition.Outcomes(), ", "))
	}
	return f, shown.refusal == ""
}

func (c *console) outbox(ctx context.Context, v visit) (view, error) {
	list := outboxList{
		scale: v.scale, newest: v.newest("/outbox"), lists: leavingChips("/outbox"),
		filter: v.filterOf([]string{"type", "sink", "workflow"}, []string{"delivery", "since", "until"}, []string{"status"}),
	}
	var choices []choice
	for _, s := range outbox.Statuses() {
		choices = append(choices, choice{name: string(s), always: true})
	}
	list.chips = chips("/outbox", v.query, choices)
	f, ok := v.outboxFilter(&list.filter)
	if ok {
		rows, err := c.Store.OutboxEvents(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1})
		if err != nil {
			return view{}, err
		}
		if len(rows) > pageSize {
			rows = rows[:pageSize]
			list.older = v.older("/outbox", rows[len(rows)-1].ID)
		}
		if list.rows, err = c.outboxLines(ctx, v, rows); err != nil {
			return view{}, err
		}
	}
	return view{title: "Outbox", section: "/channels", body: outboxPage(list), live: v.before() == 0}, nil
}

// outboxLines are rows of a list, with their state at each sink.
func (c *console) outboxLines(ctx context.Context, v visit, rows []outbox.Event) ([]outboxLine, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids, about := make([]int64, len(rows)), []delivery.ID{}
	for i, e := range rows {
		ids[i] = e.ID
		if e.Delivery != 0 {
			about = append(about, e.Delivery)
		}
	}
	at, err := c.Store.Dispatches(ctx, v.workspace.ID, ids)
	if err != nil {
		return nil, err
	}
	deliveries, err := c.Store.DeliveriesByID(ctx, v.workspace.ID, about)
	if err != nil {
		return nil, err
	}
	sinks, err := c.healths(ctx, v, at)
	if err != nil {
		return nil, err
	}
	lines := make([]outboxLine, len(rows))
	for i, e := range rows {
		id := v.public(key.KindOutbox, e.ID)
		l := outboxLine{id: id, href: "/outbox/" + id, at: e.CreatedAt, state: wholeBadge(at[e.ID]), kind: e.Type, workflow: e.Workflow}
		if d, there := deliveries[e.Delivery]; there {
			l.about, l.row = to(d), v.delivery(d.ID)
		} else if e.Delivery == 0 {
			l.about, l.row = "instance", "/instances/"+v.public(key.KindInstance, int64(e.Instance))
		} else {
			l.about = v.public(key.KindDelivery, int64(e.Delivery)) // it was deleted
		}
		for _, r := range at[e.ID] {
			l.sinks = append(l.sinks, mark{dispatchBadge(r.Status), r.Sink, v.waitsFor(r, sinks)})
		}
		lines[i] = l
	}
	return lines, nil
}

// dispatchLine is an outbox event at one sink.
type dispatchLine struct {
	sink  string
	href  string
	state badge
	tries string
	next  time.Time
	ended time.Time
	why   string
}

// tryLine is one try of an outbox event at a sink.
type tryLine struct {
	id    string
	at    time.Time
	sink  string
	state badge
	why   string
	error string // in the sink's words
}

type outboxDetail struct {
	scale
	kind     string
	state    badge
	rows     []dispatchLine
	tries    []tryLine
	facts    []fact
	commands []command
	body     string
}

func (c *console) outboxEvent(ctx context.Context, v visit) (view, error) {
	id, err := v.row(key.KindOutbox)
	if err != nil {
		return view{}, err
	}
	e, err := c.Store.OutboxEvent(ctx, v.workspace.ID, id)
	if err != nil {
		return view{}, err
	}
	at, err := c.Store.Dispatches(ctx, v.workspace.ID, []int64{id})
	if err != nil {
		return view{}, err
	}
	tries, err := c.Store.DispatchAttempts(ctx, v.workspace.ID, id)
	if err != nil {
		return view{}, err
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	sinks, err := c.healths(ctx, v, at)
	if err != nil {
		return view{}, err
	}
	facts, err := c.outboxFacts(ctx, v, e)
	if err != nil {
		return view{}, err
	}
	rows := at[id]
	page := outboxDetail{scale: v.scale, kind: e.Type, state: wholeBadge(rows), facts: facts, body: visible(pretty(e.Body)), commands: redrives(v.id, rows, sinks)}
	for _, r := range rows {
		page.rows = append(page.rows, newDispatchLine(r, set.Sink(r.Sink), sinks))
	}
	for _, t := range tries {
		page.tries = append(page.tries, tryLine{
			id: fmt.Sprintf("%s %d", t.Sink, t.Number), at: t.BeganAt, sink: t.Sink, state: badge{tryTone(t.Outcome), string(t.Outcome)},
			why: t.Reason.Sentence(), error: visible(t.Error),
		})
	}
	return view{title: e.Type + " of " + e.Workflow, section: "/channels", body: outboxEventPage(page), live: true}, nil
}

func newDispatchLine(r outbox.Row, def *definition.Sink, sinks healths) dispatchLine {
	l := dispatchLine{
		sink: r.Sink, href: listAt("/outbox", "sink", r.Sink), state: dispatchBadge(r.Status), tries: fmt.Sprint(r.Attempts), next: sinks[r.Sink].NextTry(r.NextAt),
		ended: r.EndedAt,
	}
	if def != nil && r.Status == outbox.Pending {
		l.tries = fmt.Sprintf("%d of %d", r.Attempts, cmp.Or(def.Attempts, outbox.DefaultAttempts))
	}
	switch {
	case sinks.stopped(r):
		l.why = "The sink is " + string(sinks[r.Sink].State) + ": it waits until somebody enables it."
	case sinks.rests(r):
		l.why = "The sink fails and rests: one event at a time finds out whether it is back."
	case r.Reason != "":
		l.why = r.Reason.Sentence()
	case r.Status == outbox.Pending:
		l.why = "It waits for its first try."
	}
	return l
}

// redrives are the commands by which a person lets an event go on; none where it goes on by itself.
func redrives(id string, rows []outbox.Row, sinks healths) (list []command) {
	var dead []string
	for _, r := range rows {
		if r.Status == outbox.Dead {
			dead = append(dead, r.Sink)
		}
		if sinks.stopped(r) {
			list = append(list, command{enableSink(r.Sink), "lets the events of the sink leave again"})
		}
	}
	if len(dead) > 0 {
		list = append(list, command{"carillon outbox redrive " + id, "has it tried again, with all its tries, where it is dead: " + strings.Join(dead, ", ")})
	}
	return list
}

func (c *console) outboxFacts(ctx context.Context, v visit, e outbox.Event) ([]fact, error) {
	facts := []fact{{name: "workflow", value: e.Workflow, href: listAt("/outbox", "workflow", e.Workflow)}}
	if e.Delivery != 0 {
		there, err := c.Store.DeliveriesByID(ctx, v.workspace.ID, []delivery.ID{e.Delivery})
		if err != nil {
			return nil, err
		}
		about := fact{name: "delivery", value: v.public(key.KindDelivery, int64(e.Delivery)), code: true}
		if d, ok := there[e.Delivery]; ok {
			about = fact{name: "delivery", value: to(d), href: v.delivery(d.ID)}
		}
		facts = append(facts, about)
	}
	in := v.public(key.KindInstance, int64(e.Instance))
	return append(facts,
		fact{name: "instance", value: in, href: "/instances/" + in, code: true},
		fact{name: "made", at: e.CreatedAt},
		fact{name: "id", value: v.id, code: true},
		fact{name: "message id", value: e.MessageID, code: true},
	), nil
}

// visible writes the characters that turn the direction of what follows as escapes of JSON, so that a text looks as it is read by programs.
func visible(text string) string {
	return turning.Replace(text)
}

var turning = func() *strings.Replacer {
	var pairs []string
	for _, r := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()
