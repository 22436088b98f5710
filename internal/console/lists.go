package console

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/trace"
)

// instantOf is an instant that knows how it is written.
type instantOf struct {
	scale
	at time.Time
}

// chip is one choice of a filter.
type chip struct {
	name string
	href string
	on   bool
	n    int64 // of the whole workspace; 0 = not shown
}

type deliveryLine struct {
	id       string
	href     string
	state    badge
	to       string
	workflow string
	channel  string
	sent     time.Time
	next     time.Time
	why      string
}

type deliveryList struct {
	scale
	filter
	rows   []deliveryLine
	newest string
	older  string
}

func (c *console) deliveries(ctx context.Context, v visit) (view, error) {
	f := store.DeliveryFilter{
		Workflow: v.query.Get("workflow"), To: v.whom(v.query.Get("to")), Channel: v.query.Get("channel"),
		Reason: reason.Reason(v.query.Get("reason")), Status: delivery.Status(v.query.Get("status")),
	}
	list := deliveryList{
		scale: v.scale, newest: v.newest("/deliveries"),
		filter: v.filterOf([]string{"to", "workflow"}, []string{"channel", "reason", "since", "until"}, []string{"status"}),
	}
	var rows []delivery.Row
	var err error
	if f.Made = v.made(&list.filter); list.refusal == "" {
		if rows, err = c.Store.Deliveries(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1}); err != nil {
			return view{}, err
		}
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/deliveries", int64(rows[len(rows)-1].ID))
	}
	counts, err := c.count(ctx, v)
	if err != nil {
		return view{}, err
	}
	list.chips = chips("/deliveries", v.query, deliveryCounts(counts))
	if list.rows, err = c.deliveryLines(ctx, v, rows); err != nil {
		return view{}, err
	}
	return view{title: "Deliveries", section: "/deliveries", body: deliveriesPage(list), live: v.before() == 0}, nil
}

// deliveryLines are rows of a list, with what keeps them from leaving.
func (c *console) deliveryLines(ctx context.Context, v visit, rows []delivery.Row) ([]deliveryLine, error) {
	circumstances, err := c.Definitions.Circumstances(ctx, v.workspace.ID)
	if err != nil {
		return nil, err
	}
	lines := make([]deliveryLine, len(rows))
	for i, d := range rows {
		ahead, _ := admission.Ahead(d, circumstances(d))
		lines[i] = v.deliveryLine(d, ahead)
	}
	return lines, nil
}

func (v visit) deliveryLine(d delivery.Row, ahead admission.Outlook) deliveryLine {
	l := deliveryLine{
		id: v.delivery(d.ID), href: v.delivery(d.ID), state: deliveryBadge(d, ahead, v.now), to: to(d), workflow: d.Workflow,
		channel: d.Channel, sent: d.LastSentAt, next: d.LeavesAt(),
	}
	if ahead.Reason == reason.WorkflowPaused {
		l.next, l.why = time.Time{}, strings.TrimSpace(ahead.Reason.Sentence()+" "+limitOf(d))
		return l
	}
	if d.Reason != reason.Delivered || trace.WaitsFor(d) != "" {
		l.why = why(d)
	}
	return l
}

// limitOf is the sentence about the limit that a delivery waits for; empty where it waits for none.
func limitOf(d delivery.Row) string {
	if trace.WaitsFor(d) == "" {
		return ""
	}
	return why(d)
}

type instanceLine struct {
	id       string
	href     string
	state    badge
	key      string
	workflow string
	trigger  string
	due      time.Time
	local    string // of an occasion that is due by the zone of each person, instead
	zones    string
	made     time.Time
	why      string
	held     time.Time // since when; none: it is not, or that is not known
}

type instanceList struct {
	scale
	filter
	rows   []instanceLine
	newest string
	older  string
}

func (c *console) instances(ctx context.Context, v visit) (view, error) {
	f := store.InstanceFilter{
		Workflow: v.query.Get("workflow"), Status: instance.Status(v.query.Get("status")), Key: v.query.Get("key"),
		Held: v.query.Get("held") == "true", Reason: reason.Reason(v.query.Get("reason")), Once: v.query.Get("zones") != "true",
	}
	list := instanceList{
		scale: v.scale, newest: v.newest("/instances"),
		filter: v.filterOf([]string{"workflow"}, []string{"reason", "since", "until"}, []string{"status", "held", "zones"}),
	}
	var rows []instance.Row
	var err error
	if f.Made = v.made(&list.filter); list.refusal == "" {
		if rows, err = c.Store.Instances(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1}); err != nil {
			return view{}, err
		}
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/instances", int64(rows[len(rows)-1].ID))
	}
	counts, err := c.count(ctx, v)
	if err != nil {
		return view{}, err
	}
	list.chips = chips("/instances", v.query, instanceCounts(counts))
	if counts.Held > 0 || f.Held {
		list.chips[0].on = list.chips[0].on && !f.Held
		list.chips = slices.Insert(list.chips, 1, chip{"held", "/instances?held=true", f.Held, counts.Held}) // seen on a telephone too
	}
	if list.rows, err = c.instanceLines(ctx, v, rows); err != nil {
		return view{}, err
	}
	list.chips = append(list.chips, v.zonesChip(list.rows)...)
	return view{title: "Instances", section: "/instances", body: instancesPage(list), live: v.before() == 0}, nil
}

func (v visit) instanceLine(i instance.Row) instanceLine {
	href := "/instances/" + v.public(key.KindInstance, int64(i.ID))
	l := instanceLine{
		id: href, href: href, state: instanceBadge(i), key: occasion(i), workflow: i.Workflow, trigger: i.Trigger,
		due: i.DueAt, made: i.CreatedAt,
	}
	if i.Reason != "" && i.Reason != reason.Expanded && i.Reason != reason.Matched {
		l.why = i.Reason.Sentence()
	}
	if i.Held() {
		l.why, l.held = i.Hold.Reason().Sentence(), i.HeldAt
	}
	return l
}

// occasion is what a key adds to the type and the workflow, which a row shows already.
func occasion(i instance.Row) string {
	parts := strings.SplitN(i.Key, ":", 3)
	return parts[len(parts)-1]
}

// eventLine is one event, or one occasion that was known already.
type eventLine struct {
	id    string
	href  string
	at    time.Time
	kind  string // empty: it was not kept
	who   string
	marks []mark
}

// mark is what one trigger made of an event.
type mark struct {
	badge    badge
	workflow string
	why      string
}

type eventList struct {
	scale
	filter
	rows   []eventLine
	newest string
	older  string
	known  bool
}

func eventChips(known bool) []chip {
	return []chip{{name: "taken in", href: "/events", on: !known}, {name: "known already", href: "/decisions", on: known}}
}

func (c *console) events(ctx context.Context, v visit) (view, error) {
	list := eventList{scale: v.scale, newest: v.newest("/events"), filter: v.filterOf([]string{"to", "kind"}, []string{"since", "until"}, nil)}
	list.chips = eventChips(false)
	var rows []store.EventRow
	var err error
	if made := v.made(&list.filter); list.refusal == "" {
		f := store.EventFilter{Kind: v.query.Get("kind"), To: v.whom(v.query.Get("to")), Made: made}
		if rows, err = c.Store.Events(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1}); err != nil {
			return view{}, err
		}
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/events", int64(rows[len(rows)-1].ID))
	}
	for _, e := range rows {
		l, err := v.eventLine(e)
		if err != nil {
			return view{}, err
		}
		list.rows = append(list.rows, l)
	}
	return view{title: "Events", section: "/events", body: eventsPage(list), live: v.before() == 0}, nil
}

// decisions lists the occasions that made nothing new, and why.
func (c *console) decisions(ctx context.Context, v visit) (view, error) {
	list := eventList{
		scale: v.scale, newest: v.newest("/decisions"), known: true,
		filter: v.filterOf([]string{"workflow"}, []string{"reason", "since", "until"}, nil),
	}
	list.chips = eventChips(true)
	var rows []store.Decision
	var err error
	f := store.DecisionFilter{Workflow: v.query.Get("workflow"), Reason: reason.Reason(v.query.Get("reason"))}
	if f.Made = v.made(&list.filter); list.refusal == "" {
		if rows, err = c.Store.Decisions(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1}); err != nil {
			return view{}, err
		}
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/decisions", rows[len(rows)-1].ID)
	}
	for _, d := range rows {
		l := eventLine{
			id: strconv.FormatInt(d.ID, 36), at: d.At,
			marks: []mark{{badge{reasonTone(d.Reason), words(string(d.Reason))}, d.Workflow, d.Reason.Sentence()}},
		}
		if d.Instance != 0 {
			l.href = "/instances/" + v.public(key.KindInstance, int64(d.Instance))
		}
		list.rows = append(list.rows, l)
	}
	return view{title: "Events known already", section: "/events", body: eventsPage(list), live: v.before() == 0}, nil
}

// choice is a status and how many rows have it.
type choice struct {
	name   string
	n      int64
	always bool // it is offered though nothing has been counted
}

// chips are the statuses that occur, and the chosen one, with all first. The other fields of the query stay, its
// cursor does not.
func chips(path string, query url.Values, choices []choice) []chip {
	rest := url.Values{}
	for name, values := range query {
		if name != "status" && name != "before" && name != "held" {
			rest[name] = values
		}
	}
	address := func() string {
		if len(rest) == 0 {
			return path
		}
		return path + "?" + rest.Encode()
	}
	chosen := query.Get("status")
	out := []chip{{name: "all", href: address(), on: chosen == ""}}
	for _, one := range choices {
		if one.n > 0 || one.always || one.name == chosen {
			rest.Set("status", one.name)
			out = append(out, chip{one.name, address(), one.name == chosen, one.n})
		}
	}
	return out
}

func deliveryCounts(c store.Counts) (out []choice) {
	for _, s := range delivery.Statuses() {
		out = append(out, choice{name: string(s), n: c.DeliveriesByStatus[s]})
	}
	return out
}

func instanceCounts(c store.Counts) (out []choice) {
	for _, s := range instance.Statuses() {
		out = append(out, choice{name: string(s), n: c.InstancesByStatus[s]})
	}
	return out
}
