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

const (
	// instanceQuiet holds for an instance that will not change by itself.
	instanceQuiet = `i.status <> ` + sqlPending + ` AND i.hold = '' AND i.ready_at = 0 AND i.lease_until <= $1`

	// retainedInstance tells, in two bits, whether an instance is over: it will not change by itself, and has not changed since its cutoff ($2, or $3 of
	// digests); and whether it is one of digests: made because of an item, or a run. The last run of a digest is kept: it tells how far the next one looks back.
	retainedInstance = `
  CASE WHEN EXISTS (SELECT 1 FROM digest_run AS g WHERE g.ws = i.ws AND g.instance_id = i.id)
      OR EXISTS (SELECT 1 FROM item AS m WHERE m.ws = i.ws AND m.id = i.event_id)
    THEN 2 + CASE WHEN ` + instanceQuiet + ` AND i.created_at < $3 AND i.completed_at < $3
        AND NOT EXISTS (SELECT 1 FROM digest_run AS g
          WHERE g.ws = i.ws AND g.instance_id = i.id AND NOT EXISTS (SELECT 1 FROM digest_run AS l
            WHERE l.workflow = g.workflow AND l.trigger = g.trigger AND l.ws = g.ws AND l.start_at > g.start_at)) THEN 1 ELSE 0 END
    ELSE CASE WHEN ` + instanceQuiet + ` AND i.created_at < $2 AND i.completed_at < $2 THEN 1 ELSE 0 END END`
)

const oldInstances = `
SELECT i.id, i.key, i.event_id, i.forgotten, i.deleted_at, ` + retainedInstance + `
FROM instance AS i
WHERE i.ws = $4 AND i.id > $5 AND i.id < $6
ORDER BY i.id
LIMIT $7`

const lockOccasions = `
SELECT i.id, i.key, i.event_id, i.forgotten, i.deleted_at, ` + retainedInstance + `
FROM /*ROWS $4 (ws bigint, key text)*/ AS r CROSS JOIN instance AS i
WHERE i.ws = r.ws AND i.key = r.key AND ` + notDeletedInstance + `
ORDER BY i.id
/*LOCK i*/`

// How many deliveries instances have, each up to a limit ($1).
const sizesOfInstances = `
SELECT r.id, (SELECT COUNT(*) FROM (SELECT 1 FROM delivery AS d WHERE +d.ws = r.ws AND d.instance_id = r.id LIMIT $1) AS a)
FROM /*ROWS $2 (ws bigint, id bigint)*/ AS r`

// The next key of a range, by one lookup for each row. For a join, PostgreSQL assumes that each range holds one of 200 keys and
// reads the whole table once for the batch (measured: 2 s for a batch of 200 with 177,000 instances).
const nextRepetitions = `
SELECT r.key, COALESCE((SELECT i.key FROM instance AS i
  WHERE /*BY NAME*/i.ws = r.ws AND i.key > r.low AND i.key < r.high
  ORDER BY i.key LIMIT 1), '')
FROM /*ROWS $1 (ws bigint, key text, low text, high text)*/ AS r`

const lockOccasionDeliveries = `
SELECT d.id, d.instance_id, CASE WHEN ` + deliveryQuiet + ` AND ` + slotPassed + ` AND ` + deliveryOld + `
  THEN 1 ELSE 0 END
FROM /*ROWS $3 (ws bigint, id bigint, cutoff bigint)*/ AS r CROSS JOIN delivery AS d
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
	marked    bool // its deletion has begun
	ofDigest  bool // it is a run of a digest, or was made because of an item
}

func scanOccasionInstance(rows *sql.Rows) (m occasionInstance, err error) {
	var deletedAt, bits int64
	err = rows.Scan(&m.id, &m.key, &m.event, &m.forgotten, &deletedAt, &bits)
	m.marked, m.over, m.ofDigest = deletedAt > 0, bits&1 > 0, bits&2 > 0
	return m, err
}

// retainOccasions deletes the next occasions that are over, as many as one transaction may. If the next one is too large, or its deletion
// has begun, the cursor says so.
func (t *Tx) retainOccasions(ws subject.WorkspaceID, now time.Time, before Cutoffs, c *RetainCursor, limit int, r *Retained) (full bool, err error) {
	found, err := query(t, scanOccasionInstance, oldInstances, micros(now), micros(before.Occasions), micros(before.Digests), int64(ws), c.after,
		firstID(latestOf(before.Occasions, before.Digests)), int64(limit))
	if err != nil || len(found) == 0 {
		return false, err
	}
	if m := found[0]; m.marked {
		c.after, c.large = int64(m.id), &largeOccasion{members: []instance.ID{m.id}, marked: true, ofDigest: m.ofDigest}
		return true, nil
	}
	full = len(found) == limit
	if at := slices.IndexFunc(found, func(m occasionInstance) bool { return m.marked }); at > 0 {
		found, full = found[:at], true
	}
	var bases []key.Instance
	for _, m := range found {
		if m.over {
			base, _ := m.key.Base()
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	occasions, err := t.lockOccasions(ws, now, before, slices.Compact(bases))
	if err != nil {
		return false, err
	}
	n, err := t.fitting(ws, occasions, found, limit*pageOfLimit)
	if err != nil {
		return false, err
	}
	if n == 0 {
		base, _ := found[0].key.Base()
		c.after, c.large = int64(found[0].id), &largeOccasion{base: base, ofDigest: found[0].ofDigest}
		for _, m := range occasions[base].members {
			c.large.members = append(c.large.members, m.id)
		}
		return true, nil
	}
	full, c.after = full || n < len(found), int64(found[n-1].id)
	deliveries, err := t.lockTheirDeliveries(ws, now, before, occasions)
	if err != nil {
		return false, err
	}
	return full, t.spend(ws, occasions, deliveries, r)
}

// fitting returns how many of the instances that were found one transaction can take, and leaves out the occasions of the others. 0: the
// first one belongs to an occasion that has too many deliveries itself.
func (t *Tx) fitting(ws subject.WorkspaceID, occasions map[key.Instance]*occasion, found []occasionInstance, most int) (n int, err error) {
	var ids []instance.ID
	for _, base := range sortedKeys(occasions) {
		for _, m := range occasions[base].members {
			if occasions[base].over {
				ids = append(ids, m.id)
			}
		}
	}
	sizes, err := t.sizesOf(ws, ids, most)
	if err != nil {
		return 0, err
	}
	taken, sum := map[key.Instance]bool{}, 0
	for n = range found {
		base, _ := found[n].key.Base()
		o := occasions[base]
		if o == nil || !o.over || taken[base] {
			continue
		}
		for _, m := range o.members {
			sum += sizes[m.id]
		}
		if sum > most {
			for other := range occasions {
				if !taken[other] {
					delete(occasions, other)
				}
			}
			if n == 0 {
				occasions[base] = o
			}
			return n, nil
		}
		taken[base] = true
	}
	return len(found), nil
}

// sizesOf returns how many deliveries instances have, each up to one more than a limit.
func (t *Tx) sizesOf(ws subject.WorkspaceID, ids []instance.ID, most int) (map[instance.ID]int, error) {
	var rows rowset
	for _, id := range ids {
		rows.row().int(int64(ws)).int(int64(id))
	}
	sizes := map[instance.ID]int{}
	_, err := query(t, func(rows *sql.Rows) (none struct{}, err error) {
		var id instance.ID
		var size int
		err = rows.Scan(&id, &size)
		sizes[id] = size
		return none, err
	}, sizesOfInstances, int64(most)+1, &rows)
	return sizes, err
}

// lockOccasions locks the instances of base keys and reads them again, because they may have changed since they were found.
func (t *Tx) lockOccasions(ws subject.WorkspaceID, now time.Time, before Cutoffs, bases []key.Instance) (map[key.Instance]*occasion, error) {
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
		found, err := query(t, scanOccasionInstance, lockOccasions, micros(now), micros(before.Occasions), micros(before.Digests), &rows)
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

func (t *Tx) lockTheirDeliveries(ws subject.WorkspaceID, now time.Time, before Cutoffs, occasions map[key.Instance]*occasion) (map[instance.ID][]int64, error) {
	owner, cutoffs := map[instance.ID]*occasion{}, map[instance.ID]time.Time{}
	for _, o := range occasions {
		for _, m := range o.members {
			if o.over {
				owner[m.id], cutoffs[m.id] = o, before.of(m.ofDigest)
			}
		}
	}
	var rows, ids rowset
	for _, id := range sortedKeys(owner) {
		rows.row().int(int64(ws)).int(int64(id)).time(cutoffs[id])
		ids.row().int(int64(ws)).int(int64(id))
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
	}, lockOccasionDeliveries, micros(now), micros(now.Add(-slotHistory)), &rows)
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
	}, lockUndispatched, &ids)
	return deliveries, err
}
