package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/subject"
)

// The names of the sets of columns of a delivery.
const (
	deliverySpec    = "delivery"
	newDeliverySpec = "new_delivery"
)

// deliveryColumns are what delivery.Row holds; lost_intent is the store's own.
var deliveryColumns = named(deliverySpec, columnsOf[delivery.Row]{
	{"ws", func(d *delivery.Row) field { return integer(&d.Workspace) }},
	{"id", func(d *delivery.Row) field { return integer(&d.ID) }},
	{"key", func(d *delivery.Row) field { return text(&d.Key) }},
	{"instance_id", func(d *delivery.Row) field { return integer(&d.Instance) }},
	{"event_id", func(d *delivery.Row) field { return integer(&d.Event) }},
	{"record_id", func(d *delivery.Row) field { return integer(&d.Record) }},
	{"contact_id", func(d *delivery.Row) field { return integer(&d.Contact) }},
	{"workflow", func(d *delivery.Row) field { return text(&d.Workflow) }},
	{"workflow_version", func(d *delivery.Row) field { return integer(&d.WorkflowVersion) }},
	{"definitions", func(d *delivery.Row) field { return integer(&d.Definitions) }},
	{"survey_set", func(d *delivery.Row) field { return integer(&d.SurveySet) }},
	{"type", func(d *delivery.Row) field { return text(&d.Type) }},
	{"trigger", func(d *delivery.Row) field { return text(&d.Trigger) }},
	{"message", func(d *delivery.Row) field { return integer(&d.Message) }},
	{"channel", func(d *delivery.Row) field { return text(&d.Channel) }},
	{"address", func(d *delivery.Row) field { return text(&d.Address) }},
	{"locale", func(d *delivery.Row) field { return text(&d.Locale) }},
	{"customer_ref", func(d *delivery.Row) field { return text(&d.CustomerRef) }},
	{"status", func(d *delivery.Row) field { return text(&d.Status) }},
	{"not_before", func(d *delivery.Row) field { return moment{&d.NotBefore} }},
	{"send_at", func(d *delivery.Row) field { return dueMoment{moment{&d.SendAt}} }},
	{"hold", func(d *delivery.Row) field { return text(&d.Hold) }},
	{"slot", func(d *delivery.Row) field { return dueMoment{moment{&d.Slot}} }},
	{"deferred_by", func(d *delivery.Row) field { return text(&d.DeferredBy) }},
	{"lease_until", func(d *delivery.Row) field { return moment{&d.LeaseUntil} }},
	{"version", func(d *delivery.Row) field { return integer(&d.Version) }},
	{"step", func(d *delivery.Row) field { return integer(&d.Step) }},
	{"attempt_no", func(d *delivery.Row) field { return integer(&d.AttemptNo) }},
	{"intent_at", func(d *delivery.Row) field { return moment{&d.IntentAt} }},
	{"retry_count", func(d *delivery.Row) field { return integer(&d.RetryCount) }},
	{"reminders_remaining", func(d *delivery.Row) field { return integer(&d.RemindersRemaining) }},
	{"last_sent_at", func(d *delivery.Row) field { return moment{&d.LastSentAt} }},
	{"expires_at", func(d *delivery.Row) field { return dueMoment{moment{&d.ExpiresAt}} }},
	{"reason", func(d *delivery.Row) field { return text(&d.Reason) }},
	{"stop_reason", func(d *delivery.Row) field { return text(&d.StopReason) }},
	{"resent", func(d *delivery.Row) field { return boolean{&d.Resent} }},
	{"trace", func(d *delivery.Row) field { return text(&d.Trace) }},
	{"created_at", func(d *delivery.Row) field { return moment{&d.CreatedAt} }},
	{"completed_at", func(d *delivery.Row) field { return moment{&d.CompletedAt} }},
	{"unknown_since", func(d *delivery.Row) field { return moment{&d.UnknownSince} }},
	{"due_at", func(d *delivery.Row) field { return dueMoment{moment{&d.DueAt}} }},
	{"eligible_at", func(d *delivery.Row) field { return eligible{d} }},
	{"fallback_of", func(d *delivery.Row) field { return integer(&d.FallbackOf) }},
	{"fold", func(d *delivery.Row) field { return text(&d.Fold) }},
	{"folded_into", func(d *delivery.Row) field { return integer(&d.FoldedInto) }},
	{"own_address", func(d *delivery.Row) field { return boolean{&d.OwnAddress} }},
	{"topic_id", func(d *delivery.Row) field { return integer(&d.Topic) }},
	{"own_at", func(d *delivery.Row) field { return text(&d.OwnAt) }},
	{"priority", func(d *delivery.Row) field { return integer(&d.Priority) }},
	{"session_turn", func(d *delivery.Row) field { return integer(&d.Turn) }},
	{"says", func(d *delivery.Row) field { return text(&d.Says) }},
	{"asks", func(d *delivery.Row) field { return text(&d.Asks) }},
	{"reported_step", func(d *delivery.Row) field { return integer(&d.ReportedStep) }},
})

// newDeliveryColumns are what a delivery can have before anything was tried. The others, triedDeliveryColumns, begin with their defaults.
var (
	newDeliveryColumns = named(newDeliverySpec, deliveryColumns.without(triedDelivery...))
	triedDelivery      = []string{
		"hold", "lease_until", "version", "step", "attempt_no", "intent_at", "retry_count", "last_sent_at", "expires_at", "stop_reason", "resent",
		"unknown_since", "due_at", "survey_set", "reported_step",
	}
	triedDeliveryColumns = deliveryColumns.only(triedDelivery...)
)

func deliveryRow(rows *rowset, d delivery.Row) { deliveryColumns.put(rows, &d) }

func scanDelivery(rows *sql.Rows) (delivery.Row, error) { return deliveryColumns.scan(rows) }

// eligibleMicros is the column eligible_at of a row. Its index is what the backlog is counted from, so it is 0 for every row that
// waits for nothing, or that send_at says it of.
func eligibleMicros(d delivery.Row) int64 {
	if !d.Delayed() {
		return 0
	}
	return dueMicros(d.EligibleAt)
}

// sendable reports whether a row of that status may have something to send; the schema lists the same states
// (C27), so that a new state is never polled by accident.
func sendable(s delivery.Status) bool {
	return s == delivery.Scheduled || s == delivery.Sent || s == delivery.Opened
}

// planned keeps the rule between the three columns that say what comes next: only a sendable row is sent again,
// and only one for which nothing more is planned, or whose outcome is unknown, waits for its end.
func planned(status delivery.Status, sendAt, expiresAt int64) (send, expire int64) {
	if !sendable(status) {
		sendAt = 0
	}
	if sendAt != 0 || !sendable(status) && status != delivery.Unknown {
		expiresAt = 0
	}
	return sendAt, expiresAt
}

// check refuses a row that could not be found again.
func checkDelivery(d delivery.Row, ws subject.WorkspaceID) error {
	switch {
	case d.Workspace != ws, d.ID == 0, d.Key == "":
		return fmt.Errorf("%w: delivery %q lacks its id or belongs to another workspace", ErrInvalid, d.Key)
	case parted(d.Type), parted(d.Channel):
		return fmt.Errorf("%w: type %q or channel %q of a delivery contains a blank or semicolon", ErrInvalid, d.Type, d.Channel)
	}
	if d.Hold != "" && (!sendable(d.Status) || d.SendAt.IsZero() != (d.Hold == delivery.HoldNoChannel)) {
		return fmt.Errorf("%w: delivery %q is %s: hold %s does not go with that", ErrInvalid, d.Key, d.Status, d.Hold)
	}
	send, expire := planned(d.Status, dueMicros(d.SendAt), dueMicros(d.ExpiresAt))
	if send != dueMicros(d.SendAt) || expire != dueMicros(d.ExpiresAt) {
		return fmt.Errorf("%w: delivery %q is %s: send_at or expires_at does not go with that", ErrInvalid, d.Key, d.Status)
	}
	return nil
}

// parted reports whether a text would fall apart in the list of a person's slots.
func parted(s string) bool { return strings.IndexByte(s, ' ') >= 0 || strings.IndexByte(s, ';') >= 0 }

// untried reports whether a row holds nothing but what newDeliveryColumns write.
func untried(d *delivery.Row) bool { return triedDeliveryColumns.isZero(d) }

const insertDeliveries = `
INSERT INTO delivery (/*NAMES (` + newDeliverySpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + newDeliverySpec + `)*/ AS r
WHERE true
ON CONFLICT (instance_id, contact_id, channel, topic_id, session_turn) DO NOTHING`

// insertDeliveries inserts new rows in one order everywhere, so that there is no deadlock, and returns how many did not
// exist. A delivery is one of its instance, person and channel, of which its key is made (P2), and one of its turn in a session.
func (t *Tx) insertDeliveries(list []delivery.Row) (int, error) {
	sorted := make([]*delivery.Row, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	compare := func(a, b *delivery.Row) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Contact, b.Contact), strings.Compare(a.Channel, b.Channel), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Turn, b.Turn))
	}
	slices.SortFunc(sorted, compare)
	var rows rowset
	for n, d := range sorted {
		if n > 0 && compare(sorted[n-1], d) == 0 {
			return 0, fmt.Errorf("insert deliveries: %w: %q twice in one batch", ErrInvalid, d.Key)
		}
		if !untried(d) {
			return 0, fmt.Errorf("insert deliveries: %w: %q is new and was tried already", ErrInvalid, d.Key)
		}
		newDeliveryColumns.put(&rows, d)
		t.dueDelivery(*d)
	}
	n, err := t.insert("insert deliveries", insertDeliveries, &rows)
	t.newDeliveries += int64(len(list))
	return int(n), err
}

// dueDelivery notes when the row is next due.
func (t *Tx) dueDelivery(d delivery.Row) {
	if at := dueMicros(d.SendAt); at > 0 && !d.Parked() {
		t.due(WorkDeliveries, max(at, micros(d.LeaseUntil)))
	}
	t.due(WorkExpiries, dueMicros(d.ExpiresAt))
}

const selectDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM delivery AS d`

const deliveryByID = selectShown + `
WHERE d.ws = $1 AND d.id = $2 AND ` + notDeleted

// DeliveryByID returns one delivery, else ErrNotFound. One of a cancelled occasion is cancelled, whether its row is ended yet or not.
func (s *Store) DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error) {
	return one(ctx, s, "read delivery", scanShown, deliveryByID, int64(ws), int64(id))
}

// Deliveries lists deliveries, the newest first. Those of a cancelled occasion are cancelled, whether their rows are ended yet or not.
func (s *Store) Deliveries(ctx context.Context, ws subject.WorkspaceID, f DeliveryFilter, p Page) ([]delivery.Row, error) {
	p = f.Made.cut(p)
	l := list(selectShown, "d", int64(ws), p)
	l.within("d", "d.created_at", f.Made)
	l.text.WriteString("\n  AND " + notDeleted)
	if f.Workflow != "" {
		l.and("d.workflow = ?", f.Workflow)
	}
	if f.Status != "" {
		l.ofStatus(f.Status)
	}
	if f.Channel != "" {
		l.and("d.channel = ?", f.Channel)
	}
	if f.Reason != "" {
		l.forReason(f.Reason)
	}
	if f.Contact != 0 {
		l.ofPerson(f.Contact)
	}
	if f.To.Text != "" {
		if err := s.to(ctx, ws, l, f.To); err != nil {
			return nil, err
		}
	}
	if f.Instance != 0 {
		l.ofInstance(f.Instance)
	}
	text, args := l.end("d", p)
	return all(ctx, s, "list deliveries", scanShown, text, args...)
}
