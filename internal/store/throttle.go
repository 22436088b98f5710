package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// ThrottleFilter narrows a listing; zero fields do not filter.
type ThrottleFilter struct {
	Workflow string
	Record   subject.RecordID
	After    ThrottleRef // the last one of the page before
	Limit    int         // 0 = defaultPage
}

// ThrottleRow is one row of a list of throttles.
type ThrottleRow struct {
	Throttle
	subject.RecordRef           // that fired last; empty when its row is gone
	State             string    // of that record
	Until             time.Time // when it may fire again, which the engine sets; none: no definition has it any more
	Held              int       // how often the record did not fire because of it, which the engine sets
}

const listThrottles = `
SELECT ` + throttleColumns + `, COALESCE(rec.type, ''), COALESCE(rec.ext_id, ''), COALESCE(rec.state, '')
FROM throttle AS th
LEFT JOIN record AS rec ON rec.ws = th.ws AND rec.id = th.record_id
WHERE `

// Each list is read from an index, in the order of the index: all contexts by the primary key, those of a workflow or a record by its own
// index.
const (
	throttlesOfAll = listThrottles + `th.fired_at > 0 AND (th.context, th.workflow) > ($1, $2) AND th.ws = $3
ORDER BY th.context, th.workflow
LIMIT $4`
	throttlesOfWorkflow = listThrottles + `th.fired_at > 0 AND th.workflow = $2 AND th.ws = $3 AND th.context > $1
ORDER BY th.context
LIMIT $4`
	throttlesOfRecord = listThrottles + `th.fired_at > 0 AND th.record_id = $5 AND ($6 = '' OR th.workflow = $6) AND (th.context, th.workflow) > ($1, $2) AND th.ws = $3
ORDER BY th.context, th.workflow
LIMIT $4`
)

// Throttles lists the contexts that have fired, in the order of their texts, without those that were reset.
func (s *Store) Throttles(ctx context.Context, ws subject.WorkspaceID, f ThrottleFilter) ([]ThrottleRow, error) {
	limit := int64(f.Limit)
	if limit <= 0 {
		limit = defaultPage
	}
	text, args := throttlesOfAll, []any{f.After.Context, f.After.Workflow, int64(ws), limit}
	switch {
	case f.Record != 0:
		text, args = throttlesOfRecord, append(args, int64(f.Record), f.Workflow)
	case f.Workflow != "":
		text, args[1] = throttlesOfWorkflow, f.Workflow
	}
	return all(ctx, s, "list throttles", func(rows *sql.Rows) (r ThrottleRow, err error) {
		r.Throttle, err = scanThrottleAnd(rows, &r.Type, &r.ExtID, &r.State)
		return r, err
	}, text, args...)
}
