package store

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
)

// The deliveries are found by the index of their instances.
const tallyOf = `
SELECT a.status, a.reason, a.sent, COUNT(*)
FROM (
  SELECT ` + shownStatus + ` AS status, ` + shownReason + ` AS reason, CASE WHEN d.last_sent_at > 0 THEN 1 ELSE 0 END AS sent
  FROM /*ROWS $3 (id bigint)*/ AS r CROSS JOIN delivery AS d
  WHERE d.instance_id = r.id AND +d.ws = $1
  LIMIT $2) AS a
GROUP BY a.status, a.reason, a.sent`

// Tally counts the deliveries of the occasion of an instance, up to a limit: those of its instance, and those of its rows for single time zones. Those of a
// cancelled occasion are cancelled, whether their rows are ended yet or not.
func (s *Store) Tally(ctx context.Context, in instance.Row, limit int) (delivery.Tally, error) {
	head := cmp.Or(in.Head, in.ID)
	zones, err := s.ZonesOf(ctx, []instance.ID{head})
	if err != nil {
		return delivery.Tally{}, err
	}
	if in.ID != head {
		if in, err = s.InstanceByID(ctx, in.Workspace, head); err != nil {
			return delivery.Tally{}, err
		}
	}
	occasion := append([]instance.Row{in}, zones[head]...)
	var of rowset
	for _, r := range occasion {
		of.row().int(int64(r.ID))
	}
	counted, err := all(ctx, s, "count the deliveries of an instance", func(rows *sql.Rows) (c delivery.Counted, err error) {
		return c, rows.Scan(&c.Status, &c.Reason, &c.Left, &c.N)
	}, tallyOf, int64(in.Workspace), int64(limit)+1, &of)
	if err != nil {
		return delivery.Tally{}, err
	}
	n := 0
	for _, c := range counted {
		n += c.N
	}
	t := delivery.TallyOf(counted, n > limit)
	t.TakingUp = instance.TakingUp(occasion, t.Deliveries)
	return t, nil
}
