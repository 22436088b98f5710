package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// The names of the sets of columns of an instance.
const (
	instanceSpec    = "instance"
	newInstanceSpec = "new_instance"
)

// instanceColumns are what instance.Row holds; ready_at and forgotten are the store's own.
var instanceColumns = named(instanceSpec, columnsOf[instance.Row]{
	{"ws", func(i *instance.Row) field { return integer(&i.Workspace) }},
	{"id", func(i *instance.Row) field { return integer(&i.ID) }},
	{"key", func(i *instance.Row) field { return text(&i.Key) }},
	{"workflow", func(i *instance.Row) field { return text(&i.Workflow) }},
	{"workflow_version", func(i *instance.Row) field { return integer(&i.WorkflowVersion) }},
	{"definitions", func(i *instance.Row) field { return integer(&i.Definitions) }},
	{"type", func(i *instance.Row) field { return text(&i.Type) }},
	{"trigger", func(i *instance.Row) field { return text(&i.Trigger) }},
	{"source", func(i *instance.Row) field { return text(&i.Source) }},
	{"event_id", func(i *instance.Row) field { return integer(&i.Event) }},
	{"status", func(i *instance.Row) field { return text(&i.Status) }},
	{"hold", func(i *instance.Row) field { return text(&i.Hold) }},
	{"held_at", func(i *instance.Row) field { return moment{&i.HeldAt} }},
	{"delay", func(i *instance.Row) field { return text(&i.Delay) }},
	{"due_at", func(i *instance.Row) field { return moment{&i.DueAt} }},
	{"next_retry_at", func(i *instance.Row) field { return moment{&i.NextRetryAt} }},
	{"lease_until", func(i *instance.Row) field { return moment{&i.LeaseUntil} }},
	{"version", func(i *instance.Row) field { return integer(&i.Version) }},
	{"attempts", func(i *instance.Row) field { return integer(&i.Attempts) }},
	{"retry_count", func(i *instance.Row) field { return integer(&i.RetryCount) }},
	{"crashes", func(i *instance.Row) field { return integer(&i.Crashes) }},
	{"reason", func(i *instance.Row) field { return text(&i.Reason) }},
	{"input_hash", func(i *instance.Row) field { return text(&i.InputHash) }},
	{"trace", func(i *instance.Row) field { return text(&i.Trace) }},
	{"created_at", func(i *instance.Row) field { return moment{&i.CreatedAt} }},
	{"completed_at", func(i *instance.Row) field { return moment{&i.CompletedAt} }},
	{"record_id", func(i *instance.Row) field { return integer(&i.Record) }},
	{"episode", func(i *instance.Row) field { return integer(&i.Episode) }},
	{"context", func(i *instance.Row) field { return text(&i.Context) }},
	{"expand_cursor", func(i *instance.Row) field { return integer(&i.ExpandCursor) }},
	{"local_date", func(i *instance.Row) field { return text(&i.LocalDate) }},
	{"timezone", func(i *instance.Row) field { return text(&i.Timezone) }},
	{"retry_of", func(i *instance.Row) field { return integer(&i.RetryOf) }},
	{"head_id", func(i *instance.Row) field { return integer(&i.Head) }},
	{"round", func(i *instance.Row) field { return integer(&i.Round) }},
	{"message", func(i *instance.Row) field { return integer(&i.Message) }},
	{"message_date", func(i *instance.Row) field { return text(&i.MessageDate) }},
	{"message_number", func(i *instance.Row) field { return integer(&i.MessageNumber) }},
	{"start_date", func(i *instance.Row) field { return text(&i.StartDate) }},
	{"contact_id", func(i *instance.Row) field { return integer(&i.Contact) }},
	{"cancelled_at", func(i *instance.Row) field { return dueMoment{moment{&i.CancelledAt}} }},
	{"effective_at", func(i *instance.Row) field { return moment{&i.EffectiveAt} }},
	{"opened_at", func(i *instance.Row) field { return moment{&i.OpenedAt} }},
	{"recipients", func(i *instance.Row) field { return integer(&i.Recipients) }},
	{"unbraked_at", func(i *instance.Row) field { return moment{&i.UnbrakedAt} }},
})

// newInstanceColumns are what an instance can have before anything was tried. The others, triedInstanceColumns, begin with their defaults.
var (
	newInstanceColumns   = named(newInstanceSpec, append(instanceColumns.without(triedInstance...), readyColumn))
	triedInstance        = []string{"hold", "held_at", "next_retry_at", "lease_until", "version", "attempts", "retry_count", "crashes", "cancelled_at", "opened_at", "unbraked_at"}
	triedInstanceColumns = instanceColumns.only(triedInstance...)
)

// readyColumn is the column ready_at.
var readyColumn = columnOf[instance.Row]{"ready_at", func(i *instance.Row) field { at := readyAt(*i); return computed{integer(&at)} }}

func scanInstance(rows *sql.Rows) (instance.Row, error) { return instanceColumns.scan(rows) }

// readyAt is from when a worker may take the instance: µs, 0 = never.
func readyAt(i instance.Row) int64 {
	if i.Status != instance.Pending || i.Held() {
		return 0
	}
	return max(dueMicros(i.DueAt), dueMicros(i.NextRetryAt), 1)
}

// fresh reports whether a row holds nothing but what newInstanceColumns write.
func fresh(i *instance.Row) bool { return triedInstanceColumns.isZero(i) }

const insertInstances = `
INSERT INTO instance (/*NAMES (` + newInstanceSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + newInstanceSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, key) DO NOTHING`

// insertInstances inserts new rows in the order of their keys. A key that exists already has the whole done again.
func (t *Tx) insertInstances(ws subject.WorkspaceID, list []instance.Row) error {
	sorted := make([]*instance.Row, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, func(a, b *instance.Row) int { return strings.Compare(a.Key, b.Key) })
	var rows rowset
	for n, i := range sorted {
		if i.Workspace != ws || i.ID == 0 || i.Key == "" {
			return fmt.Errorf("insert instances: %w: %q lacks its id or belongs to another workspace", ErrInvalid, i.Key)
		}
		if n > 0 && sorted[n-1].Key == i.Key {
			return fmt.Errorf("insert instances: %w: key %q twice in one batch", ErrInvalid, i.Key)
		}
		if !fresh(i) {
			return fmt.Errorf("insert instances: %w: %q is new and was tried already", ErrInvalid, i.Key)
		}
		newInstanceColumns.put(&rows, i)
		t.due(WorkInstances, readyAt(*i))
	}
	t.newInstances += int64(len(list))
	return t.insertNew("insert instances", insertInstances, &rows)
}

// The row that stands for the occasion: since its key was freed (product decision 64) that is key:retry:n. Of an occasion that
// was deleted, the table spent knows it.
// The first row is the number of the definition set in force: one round trip for both.
const existingInstances = `
SELECT '', w.definitions, 0, '', '', '', 0, 0
FROM workspace AS w
WHERE w.id = $1
UNION ALL
SELECT r.key, COALESCE(b.forgotten, s.forgotten), COALESCE(i.id, 0), COALESCE(i.key, ''), COALESCE(i.status, ''), COALESCE(i.input_hash, ''),
  COALESCE(s.instance_id, 0), COALESCE(s.retries, 0)
FROM /*ROWS $2 (ws bigint, key text, hash text)*/ AS r
LEFT JOIN instance AS b ON /*BY NAME*/b.ws = r.ws AND b.key = r.key AND b.deleted_at = 0
LEFT JOIN spent AS s ON s.ws = r.ws AND s.hash = r.hash
LEFT JOIN instance AS i
  ON /*BY NAME*/i.ws = r.ws AND i.key = CASE WHEN COALESCE(b.forgotten, s.forgotten) = 0 THEN r.key
    ELSE r.key || '` + retryMark + `' || CAST(COALESCE(b.forgotten, s.forgotten) AS text) END AND i.deleted_at = 0
WHERE b.id IS NOT NULL OR s.hash IS NOT NULL`

const existingDeliveries = `
SELECT d.instance_id, d.id, d.channel, ` + shownStatus + `
FROM /*ROWS $1 (ws bigint, id bigint)*/ AS r CROSS JOIN delivery AS d
WHERE +d.ws = r.ws AND d.instance_id = r.id
ORDER BY d.id`

// inForce makes sure that the definition set of that number is in force.
func (t *Tx) inForce(ws subject.WorkspaceID, number int64) error {
	found, err := query(t, scanInt, definitionsNumber, int64(ws))
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	case found[0] != number:
		return ErrStaleDefinitions
	}
	return nil
}

// Occasions finds the instances that stand for planned keys, with their deliveries. An occasion that was deleted still has
// its instance's id. ErrStaleDefinitions: the definition set in force has another number.
func (t *Tx) Occasions(ws subject.WorkspaceID, number int64, keys []string) (o Occasions, err error) {
	if len(keys) == 0 {
		return o, t.inForce(ws, number)
	}
	o.Instances, o.Forgotten = map[string]ExistingInstance{}, map[string]int{}
	inForce := int64(-1) // no such workspace
	var wanted, ids rowset
	for _, k := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		wanted.row().int(int64(ws)).text(k).text(key.Hash(k))
	}
	planned := map[instance.ID]string{}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var base string
		var n int
		var e ExistingInstance
		var spent spentRow
		if err := rows.Scan(&base, &n, &e.ID, &e.Key, &e.Status, &e.InputHash, &spent.Instance, &spent.Retries); err != nil {
			return struct{}{}, err
		}
		if base == "" {
			inForce = int64(n)
			return struct{}{}, nil
		}
		if n > 0 {
			o.Forgotten[base] = n
		}
		switch {
		case e.ID != 0:
			o.Instances[base] = e
			planned[e.ID] = base
			ids.row().int(int64(ws)).int(int64(e.ID))
		case spent.Instance != 0 && spent.Retries >= n:
			o.Instances[base] = ExistingInstance{ID: spent.Instance, Key: string(key.Instance(base).Retry(n))}
		}
		return struct{}{}, nil
	}, existingInstances, int64(ws), &wanted)
	switch {
	case err != nil:
		return Occasions{}, fmt.Errorf("find existing instances: %w", err)
	case inForce < 0:
		return Occasions{}, fmt.Errorf("workspace %d: %w", ws, ErrNotFound)
	case inForce != number:
		return Occasions{}, ErrStaleDefinitions
	}
	_, err = query(t, func(rows *sql.Rows) (struct{}, error) {
		var id instance.ID
		var d ExistingDelivery
		if err := rows.Scan(&id, &d.ID, &d.Channel, &d.Status); err != nil {
			return struct{}{}, err
		}
		e := o.Instances[planned[id]]
		e.Deliveries = append(e.Deliveries, d)
		o.Instances[planned[id]] = e
		return struct{}{}, nil
	}, existingDeliveries, &ids)
	if err != nil {
		return Occasions{}, fmt.Errorf("find existing deliveries: %w", err)
	}
	return o, nil
}

const selectInstances = `
SELECT /*NAMES i (` + instanceSpec + `)*/
FROM instance AS i`

const instanceByID = selectInstances + `
WHERE i.ws = $1 AND i.id = $2 AND ` + notDeletedInstance

// InstanceByID returns one instance, else ErrNotFound.
func (s *Store) InstanceByID(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (instance.Row, error) {
	return one(ctx, s, "read instance", scanInstance, instanceByID, int64(ws), int64(id))
}

const instanceByKey = selectInstances + `
WHERE /*BY NAME*/i.ws = $1 AND i.key = $2 AND ` + notDeletedInstance

// InstanceByKey returns the instance of exactly that key, else ErrNotFound.
func (s *Store) InstanceByKey(ctx context.Context, ws subject.WorkspaceID, k string) (instance.Row, error) {
	return one(ctx, s, "read instance", scanInstance, instanceByKey, int64(ws), k)
}

// Instances lists instances, the newest first. Where the filter asks for an occasion once, one that is due by the zone of each person
// is there by the first of its rows that fits, the instance of the occasion before the others.
func (s *Store) Instances(ctx context.Context, ws subject.WorkspaceID, f InstanceFilter, p Page) ([]instance.Row, error) {
	p = f.Made.cut(p)
	l := list(selectInstances, "i", int64(ws), p)
	l.fits("i", f)
	if f.Once {
		l.once(f)
	}
	text, args := l.end("i", p)
	return all(ctx, s, "list instances", scanInstance, text, args...)
}

// fits narrows to the instances that a filter is for.
func (l *listing) fits(alias string, f InstanceFilter) {
	l.text.WriteString("\n  AND " + alias + ".deleted_at = 0")
	l.within(alias, alias+".created_at", f.Made)
	if f.Reason != "" {
		l.and(alias+".reason = ?", string(f.Reason))
	}
	if f.Workflow != "" {
		l.and(alias+".workflow = ?", f.Workflow)
	}
	if f.Status != "" {
		l.and(alias+".status = ?", string(f.Status))
	}
	if f.Held {
		l.text.WriteString("\n  AND " + alias + ".hold <> ''") // as its index says it
	}
	if f.Event != 0 {
		l.and(alias+".event_id = ?", int64(f.Event))
	}
	if f.Record != 0 {
		l.and(alias+".record_id = ? AND "+alias+".record_id > 0", int64(f.Record)) // as its index says it
	}
	if f.Key != "" {
		l.and(alias+".key = ?", f.Key)
	}
}

// once keeps one row for each occasion: its own, else the first zone's. The choice is the same on every page.
func (l *listing) once(f InstanceFilter) {
	l.text.WriteString("\n  AND (i.head_id = 0 OR NOT EXISTS (\n  SELECT 1 FROM instance AS h WHERE h.ws = $1 AND h.id = i.head_id")
	l.fits("h", f)
	l.text.WriteString(") AND NOT EXISTS (\n  SELECT 1 FROM instance AS y WHERE y.head_id = i.head_id AND y.head_id > 0 AND y.id < i.id")
	l.fits("y", f)
	l.text.WriteString("))")
}

// ofInstance narrows deliveries to those of an instance, and of its rows of zones. As lookups: by the list's order SQLite would walk
// through every delivery.
func (l *listing) ofInstance(id instance.ID) {
	l.and("d.id IN (SELECT x.id FROM delivery AS x WHERE x.instance_id = ?\n"+
		"    UNION ALL SELECT x.id FROM instance AS z CROSS JOIN delivery AS x WHERE z.head_id = ? AND z.head_id > 0 AND x.instance_id = z.id)", int64(id))
}

const zonesOfOccasions = `
SELECT /*NAMES z (` + instanceSpec + `)*/
FROM /*ROWS $1 (id bigint)*/ AS r CROSS JOIN instance AS z
WHERE z.head_id = r.id AND z.head_id > 0 AND z.deleted_at = 0
ORDER BY z.head_id, z.due_at, z.id`

// ZonesOf are the rows of zones of occasions that have some, by the occasion and in the order in which they are due.
func (s *Store) ZonesOf(ctx context.Context, occasions []instance.ID) (map[instance.ID][]instance.Row, error) {
	zones := map[instance.ID][]instance.Row{}
	if len(occasions) == 0 {
		return zones, nil
	}
	var wanted rowset
	for _, id := range slices.Compact(slices.Sorted(slices.Values(occasions))) {
		wanted.row().int(int64(id))
	}
	rows, err := all(ctx, s, "list the zones of occasions", scanInstance, zonesOfOccasions, &wanted)
	for _, z := range rows {
		zones[z.Head] = append(zones[z.Head], z)
	}
	return zones, err
}
