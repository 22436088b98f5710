package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/store"
)

// definitions say what is sent: one message for an order, a message and two reminders for a visit. What was not
// answered is tried again under the same key for as long as it takes.
const definitions = `
workspace: default
retry: {backoff: [1s, 2s], jitter: none, then: forever}
cadence: {max_per_day: 0} # no limits
---
channel: sms:provider
provider: http
settings: {url: "%s"}
---
workflow: receipt
type: alert
triggers: [{id: paid, event: order}]
audience: [{to: event.recipient}]
channel: sms:provider
message:
  sms:
    text: "{{ candidate.id }} {{ step }}"
---
workflow: invitation
type: alert
triggers: [{id: closed, event: visit}]
timing: {reminders: [1s, 2s]}
audience: [{to: event.recipient}]
channel: sms:provider
message:
  sms:
    text: "{{ candidate.id }} {{ step }}"
`

// The watch is a trigger that writes down every change of a delivery that the fence should have refused: a step
// that was over is open again, or what was complete is not, or has something to send. The engine knows nothing of it.
const (
	watchTable = `CREATE TABLE chaos_watch (delivery_id bigint NOT NULL, what text NOT NULL)`
	watchWhen  = `NEW.step < OLD.step OR (OLD.completed_at > 0 AND
  (NEW.completed_at <> OLD.completed_at OR NEW.status <> OLD.status OR NEW.send_at > 0))`
	watchWrite = `INSERT INTO chaos_watch VALUES (OLD.id, 'step ' || OLD.step || ' → ' || NEW.step || ', ' || OLD.status || ' → ' || NEW.status)`
)

func watch(dialect string) []string {
	if dialect == "sqlite" {
		return []string{watchTable, `CREATE TRIGGER chaos_watch AFTER UPDATE ON delivery WHEN ` + watchWhen + ` BEGIN ` + watchWrite + `; END`}
	}
	return []string{
		watchTable,
		`CREATE FUNCTION chaos_watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + watchWrite + `; RETURN NULL; END $$`,
		`CREATE TRIGGER chaos_watch AFTER UPDATE ON delivery FOR EACH ROW WHEN (` + watchWhen + `) EXECUTE FUNCTION chaos_watch()`,
	}
}

// database is the driver's own access to what the workers share.
type database struct {
	store *store.Store
	raw   *sql.DB
	lock  *sql.DB // SQLite: tries the write lock without waiting for it
	key   string  // of the API, for posting events
}

// prepare puts the definitions in force and makes an API key.
func prepare(ctx context.Context, o Options, definitions string) (d *database, err error) {
	d = &database{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("prepare the database: %w", err), d.close())
		}
	}()
	system := &clock.System{}
	var ws store.Workspace
	if d.store, ws, err = app.OpenStore(ctx, o.DB, store.Options{}, false, system.Now); err != nil {
		return d, err
	}
	client := outbound.New(outbound.Options{})
	defer client.Close()
	providers := app.Providers(client, system)
	e, err := engine.New(engine.Config{Store: d.store, Clock: system, Definitions: app.DefinitionOptions(providers)})
	if err != nil {
		return d, err
	}
	file := definition.File{Name: "chaos.yaml", Text: []byte(definitions)}
	applied, err := e.Apply(ctx, ws, []definition.File{file}, "chaos")
	if err != nil {
		return d, err
	}
	if definition.HasErrors(applied.Problems) {
		return d, fmt.Errorf("definitions: %v", applied.Problems)
	}
	if d.key, err = app.CreateKey(ctx, d.store, ws, "poster", []string{string(api.ScopeIngest)}, system.Now()); err != nil {
		return d, err
	}
	driver, name := "pgx", o.DB
	if o.Dialect == "sqlite" {
		driver, name = "sqlite", "file:"+o.DB+"?_pragma=busy_timeout(10000)"
		if d.lock, err = sql.Open(driver, "file:"+o.DB+"?_pragma=busy_timeout(0)"); err != nil {
			return d, err
		}
		d.lock.SetMaxOpenConns(1)
	}
	if d.raw, err = sql.Open(driver, name); err != nil {
		return d, err
	}
	for _, statement := range watch(o.Dialect) {
		if _, err := d.raw.ExecContext(ctx, statement); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d *database) close() error {
	var errs []error
	for _, db := range []*sql.DB{d.raw, d.lock} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

// writable reports whether nobody holds the write lock. PostgreSQL: it has none.
func (d *database) writable(ctx context.Context) (bool, error) {
	if d.lock == nil {
		return true, nil
	}
	conn, err := d.lock.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if strings.Contains(err.Error(), "SQLITE_BUSY") {
			return false, nil
		}
		return false, err
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return true, err
}

// attempt is a row of the table of the same name.
type attempt struct {
	delivery         int64
	number, step     int
	key              string
	outcome, reason  string
	intentAt, settle time.Time
}

func (d *database) attempts(ctx context.Context) ([]attempt, error) {
	return rows(ctx, d.raw, `SELECT delivery_id, number, step, idempotency_key, outcome, reason, intent_at, settled_at FROM attempt`,
		func(r *sql.Rows) (a attempt, err error) {
			var intent, settled int64
			err = r.Scan(&a.delivery, &a.number, &a.step, &a.key, &a.outcome, &a.reason, &intent, &settled)
			a.intentAt, a.settle = time.UnixMicro(intent), time.UnixMicro(settled)
			return a, err
		})
}

// deliveryRow is how a delivery ended.
type deliveryRow struct {
	id       int64
	status   string
	attempts int
	done     bool
}

func (d *database) deliveries(ctx context.Context) ([]deliveryRow, error) {
	return rows(ctx, d.raw, `SELECT id, status, attempt_no, completed_at FROM delivery`, func(r *sql.Rows) (v deliveryRow, err error) {
		var completed int64
		err = r.Scan(&v.id, &v.status, &v.attempts, &completed)
		v.done = completed > 0
		return v, err
	})
}

// watched lists what the watch has seen.
func (d *database) watched(ctx context.Context) ([]string, error) {
	return rows(ctx, d.raw, `SELECT delivery_id, what FROM chaos_watch`, func(r *sql.Rows) (s string, err error) {
		var id int64
		err = r.Scan(&id, &s)
		return fmt.Sprintf("delivery %d: %s", id, s), err
	})
}

func rows[T any](ctx context.Context, db *sql.DB, query string, scan func(*sql.Rows) (T, error)) ([]T, error) {
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var all []T
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}
