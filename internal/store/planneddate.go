package store

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// Only messages from a day on are read: an index has them by their dates. The predicate equals that of the index.
const datedOfPlans = `
SELECT r.ws, r.record_id, r.workflow, r.trigger, i.key, i.message_date, i.message_number
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text, since text)*/ AS r CROSS JOIN instance AS i
WHERE i.record_id = r.record_id AND i.record_id > 0 AND i.message_date >= r.since AND i.message_date <> ''
  AND +i.ws = r.ws AND i.workflow = r.workflow AND i.trigger = r.trigger AND i.forgotten = 0
  AND i.status <> ` + sqlDeactivated + ` AND (i.status <> ` + sqlPending + ` OR i.event_id > 0)`

// datesOfPlans reads the messages of courses that have ended or begun, after the pending ones are locked: what ends one of them is over then.
func (t *Tx) datesOfPlans(read *plansRead) error {
	var since rowset
	for _, r := range slices.SortedFunc(maps.Keys(read.plans), comparePlans) {
		if r.Since != "" {
			since.row().int(int64(r.Workspace)).int(int64(r.Record)).text(r.Workflow).text(r.Trigger).text(r.Since)
		}
	}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var ws subject.WorkspaceID
		var of PlanRef
		var row instance.Row
		err := rows.Scan(&ws, &of.Record, &of.Workflow, &of.Trigger, &row.Key, &row.MessageDate, &row.MessageNumber)
		of.Workspace = ws
		ref := read.asked[of]
		p := read.plans[ref]
		p.Dated = append(p.Dated, row)
		read.plans[ref] = p
		return struct{}{}, err
	}, datedOfPlans, &since)
	if err != nil {
		return fmt.Errorf("read which dates of courses have had their messages: %w", err)
	}
	return nil
}
