package store

import (
	"database/sql"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/subject"
)

// Retention of occasions: which of them are over, found and locked so that they stay over until they are deleted.

// instanceOver is 1 if an instance is over: it will not change by itself, and has not changed since the cutoff ($2).
const instanceOver = `CASE WHEN i.status <> ` + sqlPending + ` AND i.hold = '' AND i.ready_at = 0 AND i.lease_until <= $1 AND i.created_at < $2 AND i.completed_at < $2
  THEN 1 ELSE 0 END`

const oldInstances = `
SELECT i.id, i.key, i.event_id, i.forgotten, ` + instanceOver + `
FROM instance AS i
WHERE i.ws = $3 AND i.id > $4 AND i.id < $5
ORDER BY i.id
LIMIT $6`

const lockOccasions = `
SELECT i.id, i.key, i.event_id, i.forgotten, ` + instanceOver + `
FROM /*ROWS $3 (ws bigint, key text)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.key = r.key
ORDER BY i.id
/*LOCK i*/`

// The next key of a range, by one lookup for each row. For a join, PostgreSQL assumes that each range holds one of 200 keys and
// reads the whole table once for the batch (measured: 2 s for a batch of 200 with 177,000 instances).
const nextRepetitions = `
SELECT r.key, COALESCE((SELECT i.key FROM instance AS i
  WHERE /*BY NAME*/i.ws = r.ws AND i.key > r.low AND i.key < r.high
  ORDER BY i.key LIMIT 1), '')
FROM /*ROWS $1 (ws bigint, key text, low text, high text)*/ AS r`

// A slot is kept for as long as it counts in a person's limits ($3), independently of the cutoff.
const lockOccasionDeliveries = `
SELECT d.id, d.instance_id, CASE WHEN d.send_at = 0 AND d.expires_at = 0 AND d.intent_at = 0 AND d.lease_until <= $1
    AND (d.completed_at > 0 OR d.status NOT IN (` + sqlScheduled + `, ` + sqlSent + `, ` + sqlOpened + `, ` + sqlUnknown + `))
    AND d.created_at < $2 AND d.completed_at < $2 AND d.last_sent_at < $2 AND d.slot < $3
  THEN 1 ELSE 0 END
FROM /*ROWS $4 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE d.ws = r.ws AND d.instance_id = r.id
ORDER BY d.id
/*LOCK d*/`

// An event that a sink has not got yet keeps its occasion. One that is dead can be redriven at this very moment: its rows are locked, so that either the
// redrive is seen here, or it finds no row. One that was dispatched stays so.
const lockUndispatched = `
SELECT e.instance_id, d.status
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN outbox_event AS e CROSS JOIN dispatch AS d
WHERE e.instance_id = r.id AND d.ws = e.ws AND d.event_id = e.id AND d.status IN (` + sqlDispatchPending + `, ` + sqlDispatchDead + `)
ORDER BY d.event_id, d.sink
/*LOCK d*/`

// occasion is one base key with the instances of that key and of its repetitions.
type occasion struct {
	base    key.Instance
	members []occasionInstance
	over    bool
}

type occasionInstance struct {
	id        instance.ID
	key       key.Instance
	event     int64
	forgotten int
	over      bool
}

func scanOccasionInstance(rows *sql.Rows) (m occasionInstance, err error) {
	return m, rows.Scan(&m.id, &m.key, &m.event, &m.forgotten, &m.over)
}

func (t *Tx) retainOccasions(ws subject.WorkspaceID, now, cutoff time.Time, after int64, limit int, r *Retained) (last int64, full bool, err error) {
	found, err := query(t, scanOccasionInstance, oldInstances, micros(now), micros(cutoff), int64(ws), after, firstID(cutoff), int64(limit))
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	last, full = int64(found[len(found)-1].id), len(found) == limit
	var bases []key.Instance
	for _, m := range found {
		if m.over {
			base, _ := m.key.Base()
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	occasions, err := t.lockOccasions(ws, now, cutoff, slices.Compact(bases))
	if err != nil {
		return 0, false, err
	}
	deliveries, err := t.lockTheirDeliveries(ws, now, cutoff, occasions)
	if err != nil {
		return 0, false, err
	}
	return last, full, t.spend(ws, occasions, deliveries, r)
}

// lockOccasions locks the instances of base keys and reads them again, because they may have changed since they were found.
func (t *Tx) lockOccasions(ws subject.WorkspaceID, now, cutoff time.Time, bases []key.Instance) (map[key.Instance]*occasion, error) {
	occasions := map[key.Instance]*occasion{}
	for _, find := range []func() ([]key.Instance, error){
		func() ([]key.Instance, error) { return bases, nil },
		func() ([]key.Instance, error) { return t.repetitions(ws, bases) }, // no repetition is made while the base keys are locked
	} {
		keys, err := find()
		if err != nil {
			return nil, err
		}
		var rows rowset
		for _, k := range keys {
			rows.row().int(int64(ws)).text(string(k))
		}
		found, err := query(t, scanOccasionInstance, lockOccasions, micros(now), micros(cutoff), &rows)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			base, _ := m.key.Base()
			o := occasions[base]
			if o == nil {
				o = &occasion{base: base, over: true}
				occasions[base] = o
			}
			o.members = append(o.members, m)
			o.over = o.over && m.over
		}
	}
	return occasions, nil
}

// repetitions returns the keys of the repetitions of base keys.
func (t *Tx) repetitions(ws subject.WorkspaceID, bases []key.Instance) (keys []key.Instance, err error) {
	type next struct{ base, key key.Instance }
	from := make([]next, len(bases))
	for i, base := range bases {
		from[i] = next{base, base + retryMark}
	}
	for len(from) > 0 {
		var rows rowset
		for _, f := range from {
			rows.row().int(int64(ws)).text(string(f.base)).text(string(f.key)).text(string(f.base + retryEnd))
		}
		found, err := query(t, func(rows *sql.Rows) (n next, err error) {
			return n, rows.Scan(&n.base, &n.key)
		}, nextRepetitions, &rows)
		if err != nil {
			return nil, err
		}
		from = slices.DeleteFunc(found, func(n next) bool { return n.key == "" })
		for _, n := range from {
			if base, _ := n.key.Base(); base == n.base { // else the key only begins like that of a repetition
				keys = append(keys, n.key)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (t *Tx) lockTheirDeliveries(ws subject.WorkspaceID, now, cutoff time.Time, occasions map[key.Instance]*occasion) (map[instance.ID][]int64, error) {
	owner := map[instance.ID]*occasion{}
	for _, o := range occasions {
		for _, m := range o.members {
			if o.over {
				owner[m.id] = o
			}
		}
	}
	var rows rowset
	for _, id := range sortedKeys(owner) {
		rows.row().int(int64(ws)).int(int64(id))
	}
	deliveries := map[instance.ID][]int64{}
	_, err := query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var id int64
		var in instance.ID
		var over bool
		if err := rows.Scan(&id, &in, &over); err != nil {
			return v, err
		}
		deliveries[in] = append(deliveries[in], id)
		owner[in].over = owner[in].over && over
		return v, nil
	}, lockOccasionDeliveries, micros(now), micros(cutoff), micros(now.Add(-slotHistory)), &rows)
	if err != nil {
		return nil, err
	}
	_, err = query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var in instance.ID
		var status outbox.Status
		err = rows.Scan(&in, &status)
		if status == outbox.Pending {
			owner[in].over = false
		}
		return v, err
	}, lockUndispatched, &rows)
	return deliveries, err
}
