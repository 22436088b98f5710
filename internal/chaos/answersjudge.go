package chaos

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/key"
)

// surveyed is a delivery as the engine has it at the end, with its response and its outbox events.
type surveyed struct {
	event            string
	id               int64
	public           string
	status, reason   string
	response, stored string // public id; who is in it
	submitted        []submission
	outbox           []outboxRow
	came             []arrival
}

// outboxRow is an outbox event at the sink.
type outboxRow struct {
	typ, message, status string
	open                 int // tries without a result
}

// judge compares what people submitted, the rows, and what the provider and the sink have.
func (a *answers) judge(ctx context.Context, report *Report) error {
	all, err := a.deliveries(ctx)
	if err != nil {
		return err
	}
	if err := a.readOutbox(ctx, all); err != nil {
		return err
	}
	report.count("answers lost", int(a.lost.Load()))
	for _, s := range a.submission {
		d := all[s.delivery]
		if d == nil {
			report.violate("lost", "no delivery is %s, which was answered", s.delivery)
			continue
		}
		d.submitted = append(d.submitted, s)
	}
	a.judgeArrivals(report, all)
	steps := map[string]bool{}
	for _, q := range a.provider.requests(report) {
		if q.accepted {
			steps[q.Text] = true
		}
	}
	of := map[string]int{}
	for _, d := range all {
		of[d.event]++
		judgeAnswers(report, d)
		judgeEnd(report, d, steps)
		judgeOutbox(report, d)
	}
	for event := range a.poster.acked {
		if n := of[event]; n != 1 {
			report.violate("lost", "event %s has %d deliveries", event, n)
		}
	}
	return a.judgeWatch(ctx, report)
}

// deliveries reads the rows, by the ids that people and the sink know.
func (a *answers) deliveries(ctx context.Context) (map[string]*surveyed, error) {
	const query = `SELECT d.id, d.status, d.reason, e.ext_id, COALESCE(r.id, 0), COALESCE(r.answers, '{}') FROM delivery d
JOIN event e ON e.ws = d.ws AND e.id = d.event_id LEFT JOIN response r ON r.ws = d.ws AND r.delivery_id = d.id`
	ids, ws := engine.PublicIDs(a.db.workspace), int64(a.db.workspace.ID)
	all := map[string]*surveyed{}
	err := a.db.each(ctx, query, func(r *sql.Rows) error {
		d := &surveyed{}
		var response int64
		var text string
		if err := r.Scan(&d.id, &d.status, &d.reason, &d.event, &response, &text); err != nil {
			return err
		}
		d.public = ids.Encode(key.KindDelivery, ws, d.id)
		all[d.public] = d
		if response == 0 {
			return nil
		}
		var given map[string]string
		err := json.Unmarshal([]byte(text), &given)
		d.response, d.stored = ids.Encode(key.KindResponse, ws, response), given["who"]
		return err
	})
	return all, err
}

// readOutbox reads the outbox events of deliveries.
func (a *answers) readOutbox(ctx context.Context, all map[string]*surveyed) error {
	const query = `SELECT e.delivery_id, e.type, e.message_id, d.status,
  d.attempt_no - (SELECT count(*) FROM dispatch_attempt t WHERE t.ws = d.ws AND t.event_id = d.event_id AND t.sink = d.sink)
FROM outbox_event e JOIN dispatch d ON d.ws = e.ws AND d.event_id = e.id ORDER BY e.id`
	byID := map[int64]*surveyed{}
	for _, d := range all {
		byID[d.id] = d
	}
	return a.db.each(ctx, query, func(r *sql.Rows) error {
		var id int64
		var row outboxRow
		if err := r.Scan(&id, &row.typ, &row.message, &row.status, &row.open); err != nil {
			return err
		}
		d := byID[id]
		if d == nil {
			return fmt.Errorf("the outbox event %s is about no delivery", row.message)
		}
		d.outbox = append(d.outbox, row)
		return nil
	})
}

// judgeArrivals reads the requests to the sink, and counts what was in them.
func (a *answers) judgeArrivals(report *Report, all map[string]*surveyed) {
	before := map[string]int{}
	for _, got := range a.receiver.arrivals() {
		o, err := got.read()
		d := all[o.Subject]
		if err != nil || d == nil {
			report.violate("disagree", "the sink got what it cannot read: %v: %s", err, got.body)
			continue
		}
		switch got.mood {
		case takenLost:
			report.count("reply_lost", 1)
		case later:
			report.count("later", 1)
		default:
		}
		if got.accepted {
			report.count("came again", b2i(before[got.id] > 0))
			before[got.id]++
		}
		d.came = append(d.came, got)
	}
}

// judgeAnswers compares the replies to the answers of a delivery with the answer that is stored.
func judgeAnswers(report *Report, d *surveyed) {
	mine := false // somebody submitted what is stored
	for _, s := range d.submitted {
		mine = mine || s.who == d.stored
		switch {
		case s.id != "" && s.id != d.response:
			report.violate("lost", "%s: the answer %q was taken as %s, and %q is stored", d.public, s.who, s.id, d.response)
		case s.id != "" && s.who != d.stored:
			report.violate("doubled", "%s: the answers %q and %q were taken", d.public, s.who, d.stored)
		case s.code == client.CodeAnswered && d.response == "":
			report.violate("lost", "%s: the answer %q was refused because of another one, and there is none", d.public, s.who)
		case s.code != "" && s.who == d.stored && !s.forgets:
			report.violate("lost", "%s: the answer %q was taken, and then refused under its key", d.public, s.who)
		case s.code == client.CodeClosed && d.status != "expired":
			report.violate("disagree", "%s: the answer %q came too late, and the delivery is %s", d.public, s.who, d.status)
		}
		report.count("answered twice", b2i(s.code == client.CodeAnswered && s.who != d.stored))
		report.count("came too late", b2i(s.code == client.CodeClosed))
		report.count("refused by itself", b2i(s.code != "" && s.who == d.stored))
	}
	if d.response != "" && !mine {
		report.violate("disagree", "%s: %q is stored, and was never submitted", d.public, d.stored)
	}
}

// judgeEnd holds the end of a delivery against its response, and the messages that reached the person against its end.
func judgeEnd(report *Report, d *surveyed, reached map[string]bool) {
	first, reminder := reached[d.event+" 1"], reached[d.event+" 2"]
	switch {
	case d.response != "" && d.status == "responded" && d.reason == "answered":
		report.count("answered", 1)
		report.count("answered after the reminder", b2i(reminder))
		if !first {
			report.violate("disagree", "%s was answered before anything was sent", d.public)
		}
	case d.response == "" && d.status == "expired":
		report.count("expired", 1)
		if !first || !reminder {
			report.violate("lost", "%s has expired; its message came: %t, its reminder: %t", d.public, first, reminder)
		}
	default:
		report.violate("disagree", "%s is %s (%s) with the response %q", d.public, d.status, d.reason, d.response)
	}
}

// judgeOutbox wants one outbox event for the end of a delivery, and the sink to have it, with one id and one body.
func judgeOutbox(report *Report, d *surveyed) {
	want := definition.OutcomeDeliveryExpired
	if d.response != "" {
		want = definition.OutcomeResponseCompleted
	}
	if len(d.outbox) != 1 {
		report.violate(cmp.Or(map[bool]string{true: "lost"}[len(d.outbox) == 0], "doubled"), "%s has %d outbox events", d.public, len(d.outbox))
		return
	}
	row := d.outbox[0]
	report.count("open tries", row.open)
	if row.typ != want || row.status != "dispatched" {
		report.violate("lost", "%s: the outbox event is a %s, and is %s", d.public, row.typ, row.status)
	}
	accepted := false
	for _, got := range d.came {
		o, err := got.read()
		if err != nil {
			continue // it was said already
		}
		accepted = accepted || got.accepted
		switch {
		case got.id != row.message || got.body != d.came[0].body:
			report.violate("doubled", "%s came to the sink as %s and as %s: %s", d.public, row.message, got.id, got.body)
		case o.Type != want || o.Data.Status != d.status || o.Data.Answers["who"] != d.stored:
			report.violate("disagree", "%s is %s with %q, and the sink got %s", d.public, d.status, d.stored, got.body)
		}
	}
	if !accepted {
		report.violate("lost", "%s: the sink never accepted %s", d.public, row.message)
	}
}

// judgeWatch looks for changes that should have been refused, and for what is still under way.
func (a *answers) judgeWatch(ctx context.Context, report *Report) error {
	return a.find(ctx, report, "unfenced", `SELECT 'delivery ' || delivery_id || ': ' || what FROM chaos_watch`,
		`SELECT 'delivery ' || delivery_id || ': attempt ' || number || ' has ' || count(*) || ' outcomes'
FROM attempt WHERE number > 0 GROUP BY delivery_id, number HAVING count(*) > 1`)
}
