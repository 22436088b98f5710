package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/subject"
)

func comparePaceRef(a, b delivery.PaceRef) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Channel, b.Channel))
}

const insertPaces = `
INSERT INTO pace (ws, channel, next_at, urgent_tail_at, transactional_tail_at, immediate_tail_at, tail_at)
SELECT r.ws, r.channel, 0, 0, 0, 0, 0 FROM /*ROWS $1 (ws bigint, channel text)*/ AS r
WHERE true
ON CONFLICT (ws, channel) DO NOTHING`

const lockPaces = `
SELECT p.ws, p.channel, p.next_at, p.urgent_tail_at, p.transactional_tail_at, p.immediate_tail_at, p.tail_at
FROM /*ROWS $1 (ws bigint, channel text)*/ AS r CROSS JOIN pace AS p
WHERE p.ws = r.ws AND p.channel = r.channel
ORDER BY p.ws, p.channel
/*LOCK p*/`

const updatePaces = `
UPDATE pace SET next_at = r.next_at, urgent_tail_at = r.urgent_tail_at, transactional_tail_at = r.transactional_tail_at,
  immediate_tail_at = r.immediate_tail_at, tail_at = r.tail_at
FROM /*ROWS $1 (ws bigint, channel text, next_at bigint, urgent_tail_at bigint, transactional_tail_at bigint, immediate_tail_at bigint,
  tail_at bigint)*/ AS r
WHERE pace.ws = r.ws AND pace.channel = r.channel`

// LockPaces locks the paces of channels, after the persons and in one order everywhere, and reads them. Those that do
// not exist yet are made.
func (t *Tx) LockPaces(refs []delivery.PaceRef) (map[delivery.PaceRef]flow.Pace, error) {
	slices.SortFunc(refs, comparePaceRef)
	refs = slices.Compact(refs)
	found := make(map[delivery.PaceRef]flow.Pace, len(refs))
	for range 2 {
		var rows rowset
		for _, ref := range refs {
			rows.row().int(int64(ref.Workspace)).text(ref.Channel)
		}
		_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
			var ref delivery.PaceRef
			var p flow.Pace
			err = rows.Scan(&ref.Workspace, &ref.Channel, instant{&p.NextAt}, instant{&p.Tails[0]}, instant{&p.Tails[1]}, instant{&p.Tails[2]}, instant{&p.Tails[3]})
			found[ref] = p
			return v, err
		}, lockPaces, &rows)
		if err != nil {
			return nil, fmt.Errorf("lock the paces of channels: %w", err)
		}
		if len(found) == len(refs) {
			return found, nil
		}
		if _, err := t.exec(insertPaces, &rows); err != nil {
			return nil, fmt.Errorf("make the paces of channels: %w", err)
		}
	}
	return nil, ErrAgain
}

func (t *Tx) updatePaces(paces map[delivery.PaceRef]flow.Pace) error {
	var rows rowset
	for _, ref := range slices.SortedFunc(maps.Keys(paces), comparePaceRef) {
		p := paces[ref]
		rows.row().int(int64(ref.Workspace)).text(ref.Channel).time(p.NextAt).time(p.Tails[0]).time(p.Tails[1]).time(p.Tails[2]).time(p.Tails[3])
	}
	if _, err := t.exec(updatePaces, &rows); err != nil {
		return fmt.Errorf("write the paces of channels: %w", err)
	}
	return nil
}

const shortenLine = `
UPDATE pace SET urgent_tail_at = 0, transactional_tail_at = 0, immediate_tail_at = 0, tail_at = 0, next_at = CASE WHEN pace.next_at > $3 THEN $3 ELSE pace.next_at END
WHERE ws = $1 AND channel = $2`

// The conditions of the index of what is due stand there word for word: SQLite has it by them alone.
const advancePaced = `
UPDATE delivery SET send_at = $1, version = delivery.version + 1
FROM (
  SELECT ws, id FROM delivery
  WHERE +ws = $2 AND channel = $3 AND send_at > 0 AND send_at > $1 AND hold <> ` + sqlHoldPaused + ` AND hold = ` + sqlHoldRate + ` AND lease_until <= $1
  ORDER BY send_at, id
  LIMIT $4
  /*SKIP LOCKED*/) AS d
WHERE delivery.ws = d.ws AND delivery.id = d.id`

// hurryBatch is how many messages are moved in one transaction.
const advanceBatch = 1000

// BringForwardPaced makes the messages due at now that wait for the rate of a channel: their places in the line were given
// out at a rate that holds no longer. The next free instant is not after next. It returns how many messages there were.
// When it fails midway, those that are left keep their places.
func (s *Store) BringForwardPaced(ctx context.Context, ws subject.WorkspaceID, channel string, now, next time.Time) (moved int64, err error) {
	for n := int64(advanceBatch); n == advanceBatch; moved += n {
		err = s.Write(ctx, func(t *Tx) error {
			if _, err := t.exec(shortenLine, int64(ws), channel, micros(next)); err != nil {
				return err
			}
			n, err = t.exec(advancePaced, dueMicros(now), int64(ws), channel, int64(advanceBatch))
			if n > 0 {
				t.due(WorkDeliveries, dueMicros(now))
			}
			return err
		})
		if err != nil {
			return moved, fmt.Errorf("move what waits for the rate of channel %s: %w", channel, err)
		}
	}
	return moved, nil
}
