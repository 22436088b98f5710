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
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/store"
)

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

// openDatabase puts the definitions in force and makes an API key.
func (r *run) openDatabase(ctx context.Context, definitions string) (err error) {
	r.db = &database{}
	var ws store.Workspace
	if r.db.store, ws, err = app.OpenStore(ctx, r.DB, store.Options{}, false, r.clock.Now); err != nil {
		return err
	}
	r.closers = append(r.closers, r.db.store)
	client := outbound.New(outbound.Options{})
	defer client.Close()
	providers := app.Providers(client, &r.clock)
	e, err := engine.New(engine.Config{Store: r.db.store, Clock: &r.clock, Definitions: app.DefinitionOptions(providers)})
	if err != nil {
		return err
	}
	applied, err := e.Apply(ctx, ws, []definition.File{{Name: "chaos.yaml", Text: []byte(definitions)}}, "chaos")
	if err != nil || definition.HasErrors(applied.Problems) {
		return errors.Join(err, fmt.Errorf("definitions: %v", applied.Problems))
	}
	if r.db.key, err = app.CreateKey(ctx, r.db.store, ws, "poster", []string{string(api.ScopeIngest)}, r.clock.Now()); err != nil {
		return err
	}
	driver, name := "pgx", r.DB
	if r.Dialect == "sqlite" {
		driver, name = "sqlite", "file:"+r.DB+"?_pragma=busy_timeout(10000)"
		r.db.lock = must(sql.Open(driver, "file:"+r.DB+"?_pragma=busy_timeout(0)"))
		r.db.lock.SetMaxOpenConns(1)
		r.closers = append(r.closers, r.db.lock)
	}
	r.db.raw = must(sql.Open(driver, name))
	r.closers = append(r.closers, r.db.raw)
	for _, statement := range watch(r.Dialect) {
		if _, err := r.db.raw.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// writable reports whether nobody holds the write lock. PostgreSQL: it has none.
func (d *database) writable(ctx context.Context) (bool, error) {
	if d.lock == nil {
		return true, nil
	}
	_, err := d.lock.ExecContext(ctx, "BEGIN IMMEDIATE; ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "SQLITE_BUSY") {
		return false, nil
	}
	return err == nil, err
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

// texts reads a query of one column.
func (d *database) texts(ctx context.Context, query string) ([]string, error) {
	return rows(ctx, d.raw, query, func(r *sql.Rows) (text string, err error) { return text, r.Scan(&text) })
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
