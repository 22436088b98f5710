package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// deliverySpec is what delivery.Row holds; lost_intent is the store's own.
const deliverySpec = `ws bigint, id bigint, key text, instance_id bigint, event_id bigint, contact_id bigint, workflow text,
  workflow_version bigint, definitions bigint, type text, trigger text, channel text, address text, locale text, customer_ref text,
  status text, not_before bigint, send_at bigint, slot bigint, deferred_by text, lease_until bigint, version bigint, step bigint,
  attempt_no bigint, intent_at bigint, retry_count bigint, reminders_remaining bigint, last_sent_at bigint, expires_at bigint, reason text,
  stop_reason text, trace text, created_at bigint, completed_at bigint, doubt_at bigint, due_at bigint, eligible_at bigint,
  fallback_of bigint, folded_into bigint, own_address bigint, own_at text`

func deliveryRow(rows *rowset, d delivery.Row) {
	rows.row().int(int64(d.Workspace)).int(int64(d.ID)).text(d.Key).int(int64(d.Instance)).int(int64(d.Event)).int(int64(d.Contact)).
		text(d.Workflow).int(d.WorkflowVersion).int(d.Definitions).text(d.Type).text(d.Trigger).text(d.Channel).text(d.Address).
		text(d.Locale).text(d.CustomerRef).text(string(d.Status)).time(d.NotBefore).int(dueMicros(d.SendAt)).int(dueMicros(d.Slot)).
		text(string(d.DeferredBy)).time(d.LeaseUntil).int(d.Version).int(int64(d.Step)).int(int64(d.AttemptNo)).time(d.IntentAt).
		int(int64(d.RetryCount)).int(int64(d.RemindersRemaining)).time(d.LastSentAt).int(dueMicros(d.ExpiresAt)).text(string(d.Reason)).
		text(string(d.StopReason)).text(d.Trace).time(d.CreatedAt).time(d.CompletedAt).
		time(d.UnknownSince).int(dueMicros(d.DueAt)).int(eligibleMicros(d)).int(int64(d.FallbackOf)).int(int64(d.FoldedInto)).flag(d.OwnAddress).text(d.OwnAt)
}

func scanDelivery(rows *sql.Rows) (delivery.Row, error) { return scanDeliveryAnd(rows) }

func scanDeliveryAnd(rows *sql.Rows, after ...any) (d delivery.Row, err error) {
	return d, rows.Scan(append([]any{
		&d.Workspace, &d.ID, &d.Key, &d.Instance, &d.Event, &d.Contact, &d.Workflow,
		&d.WorkflowVersion, &d.Definitions, &d.Type, &d.Trigger, &d.Channel, &d.Address, &d.Locale, &d.CustomerRef,
		&d.Status,
		instant{&d.NotBefore},
		instant{&d.SendAt},
		instant{&d.Slot},
		&d.DeferredBy,
		instant{&d.LeaseUntil},
		&d.Version, &d.Step,
		&d.AttemptNo,
		instant{&d.IntentAt},
		&d.RetryCount, &d.RemindersRemaining,
		instant{&d.LastSentAt},
		instant{&d.ExpiresAt},
		&d.Reason,
		&d.StopReason, &d.Trace,
		instant{&d.CreatedAt},
		instant{&d.CompletedAt},
		instant{&d.UnknownSince},
		instant{&d.DueAt},
		instant{&d.EligibleAt},
		&d.FallbackOf, &d.FoldedInto, &d.OwnAddress, &d.OwnAt,
	}, after...)...)
}

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
	send, expire := planned(d.Status, dueMicros(d.SendAt), dueMicros(d.ExpiresAt))
	if send != dueMicros(d.SendAt) || expire != dueMicros(d.ExpiresAt) {
		return fmt.Errorf("%w: delivery %q is %s: send_at or expires_at does not go with that", ErrInvalid, d.Key, d.Status)
	}
	return nil
}

// parted reports whether a text would fall apart in the list of a person's slots.
func parted(s string) bool { return strings.IndexByte(s, ' ') >= 0 || strings.IndexByte(s, ';') >= 0 }

// newDeliverySpec is what a delivery can have before anything was tried; the other columns begin with their defaults.
const newDeliverySpec = `ws bigint, id bigint, key text, instance_id bigint, event_id bigint, contact_id bigint, workflow text,
  workflow_version bigint, definitions bigint, type text, trigger text, channel text, address text, locale text, customer_ref text,
  status text, not_before bigint, send_at bigint, slot bigint, deferred_by text, reminders_remaining bigint, reason text, trace text,
  created_at bigint, completed_at bigint, fallback_of bigint, folded_into bigint, own_address bigint, own_at text`

func newDeliveryRow(rows *rowset, d *delivery.Row) {
	rows.row().int(int64(d.Workspace)).int(int64(d.ID)).text(d.Key).int(int64(d.Instance)).int(int64(d.Event)).int(int64(d.Contact)).
		text(d.Workflow).int(d.WorkflowVersion).int(d.Definitions).text(d.Type).text(d.Trigger).text(d.Channel).text(d.Address).
		text(d.Locale).text(d.CustomerRef).text(string(d.Status)).time(d.NotBefore).int(dueMicros(d.SendAt)).int(dueMicros(d.Slot)).
		text(string(d.DeferredBy)).int(int64(d.RemindersRemaining)).text(string(d.Reason)).text(d.Trace).time(d.CreatedAt).
		time(d.CompletedAt).int(int64(d.FallbackOf)).int(int64(d.FoldedInto)).flag(d.OwnAddress).text(d.OwnAt)
}

// untried reports whether a row holds nothing but what newDeliveryRow writes.
func untried(d *delivery.Row) bool {
	return d.Version == 0 && d.Step == 0 && d.AttemptNo == 0 && d.RetryCount == 0 && d.StopReason == "" &&
		d.LeaseUntil.IsZero() && d.IntentAt.IsZero() && d.LastSentAt.IsZero() && d.ExpiresAt.IsZero()
}

const insertDeliveries = `
INSERT INTO delivery (/*NAMES (` + newDeliverySpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + newDeliverySpec + `)*/ AS r
WHERE true
ON CONFLICT (instance_id, contact_id, channel) DO NOTHING`

// insertDeliveries inserts new rows in one order everywhere, so that there is no deadlock, and returns how many did not
// exist. A delivery is one of its instance, person and channel, of which its key is made (P2).
func (t *Tx) insertDeliveries(list []delivery.Row) (int, error) {
	sorted := make([]*delivery.Row, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	compare := func(a, b *delivery.Row) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Contact, b.Contact), strings.Compare(a.Channel, b.Channel))
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
		newDeliveryRow(&rows, d)
		t.dueDelivery(*d)
	}
	n, err := t.insert("insert deliveries", insertDeliveries, &rows)
	return int(n), err
}

// dueDelivery notes from when somebody has to look at the row.
func (t *Tx) dueDelivery(d delivery.Row) {
	if at := dueMicros(d.SendAt); at > 0 {
		t.due(max(at, micros(d.LeaseUntil)))
	}
	t.due(dueMicros(d.ExpiresAt))
}

const selectDeliveries = `
SELECT /*NAMES d (` + deliverySpec + `)*/
FROM delivery AS d`

const deliveryByID = selectDeliveries + `
WHERE d.ws = $1 AND d.id = $2`

// DeliveryByID returns one delivery, else ErrNotFound.
func (s *Store) DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error) {
	return one(ctx, s, "read delivery", scanDelivery, deliveryByID, int64(ws), int64(id))
}

// Deliveries lists deliveries, the newest first.
func (s *Store) Deliveries(ctx context.Context, ws subject.WorkspaceID, f DeliveryFilter, p Page) ([]delivery.Row, error) {
	p = f.Made.cut(p)
	l := list(selectDeliveries, "d", int64(ws), p)
	l.within("d", "d.created_at", f.Made)
	if f.Workflow != "" {
		l.and("d.workflow = ?", f.Workflow)
	}
	if f.Status != "" {
		l.and("d.status = ?", string(f.Status))
	}
	if f.Channel != "" {
		l.and("d.channel = ?", f.Channel)
	}
	switch f.Reason {
	case "":
	case reason.WorkflowPaused: // also what has not been put aside yet
		l.and("(d.reason = ? OR d.send_at > 0 AND EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0))", string(f.Reason))
	default:
		l.and("d.reason = ?", string(f.Reason))
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
	return all(ctx, s, "list deliveries", scanDelivery, text, args...)
}
