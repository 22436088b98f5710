package store

import (
	"database/sql"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// A delivery of a marked instance is shown as cancelled before a job has ended its row. Lists, filters and counts agree about that. A row
// with an open intent is shown as it is: its message is on its way, or its outcome is not known.
//
// countsAsCancelled is a condition on deliveries d. It holds for those that delivery.Row.Shown changes (TestShownDeliveries).
const (
	countsAsCancelled = `d.intent_at = 0 AND ` + mayCancel + ` AND NOT ` + notCancelled

	shownStatus = `CASE WHEN ` + countsAsCancelled + ` THEN ` + sqlCancelled + ` ELSE d.status END`
	shownReason = `CASE WHEN ` + countsAsCancelled + ` THEN ` + sqlCancelledByPerson + ` ELSE d.reason END`
)

const selectShown = `
SELECT /*NAMES d (` + deliverySpec + `)*/, ` + shownCancelled + `
FROM delivery AS d`

func scanShown(rows *sql.Rows) (delivery.Row, error) {
	var cancelled time.Time
	d, err := deliveryColumns.scan(rows, instant{&cancelled})
	return d.Shown(cancelled), err
}

// ofStatus narrows a list of deliveries d to those that are shown with a status.
func (l *listing) ofStatus(status delivery.Status) {
	switch {
	case status == delivery.Cancelled:
		l.and("(d.status = ? OR "+countsAsCancelled+")", string(status))
	case status.Final():
		l.and("d.status = ?", string(status))
	default:
		l.and("d.status = ? AND NOT ("+countsAsCancelled+")", string(status))
	}
}

// forReason narrows a list of deliveries d to those that are shown with a reason.
func (l *listing) forReason(why reason.Reason) {
	switch why {
	case reason.CancelledByPerson:
		l.and("(d.reason = ? OR "+countsAsCancelled+")", string(why))
	case reason.WorkflowPaused: // also what is not parked yet
		l.and("(d.reason = ? OR d.send_at > 0 AND EXISTS (SELECT 1 FROM pause AS p WHERE p.ws = d.ws AND p.workflow = d.workflow AND p.resumed_at = 0)) AND NOT ("+countsAsCancelled+")", string(why))
	default:
		l.and("d.reason = ? AND NOT ("+countsAsCancelled+")", string(why))
	}
}
