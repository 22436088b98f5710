package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/store"
)

// The watch is a trigger that writes down every change of a delivery that the fence should have refused: a step
// that was over is open again, or what was complete is not, has something to send, or is tried again. The engine knows nothing of it.
const (
	watchTable = `CREATE TABLE chaos_watch (delivery_id bigint NOT NULL, what text NOT NULL)`
	watchWhen  = `NEW.step < OLD.step OR (OLD.completed_at > 0 AND
  (NEW.completed_at <> OLD.completed_at OR NEW.status <> OLD.status OR NEW.send_at > 0 OR NEW.attempt_no > OLD.attempt_no))`
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
	key   string  // of the API, for posting events and starting runs

	workspace store.Workspace
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
	r.db.workspace = ws
	if r.db.key, err = app.CreateKey(ctx, r.db.store, ws, "poster", []string{string(api.ScopeIngest), string(api.ScopeOperate)}, r.clock.Now()); err != nil {
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

// each reads the rows of a query one by one.
func (d *database) each(ctx context.Context, query string, row func(*sql.Rows) error) error {
	found, err := d.raw.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		if err := row(found); err != nil {
			return err
		}
	}
	return found.Err()
}

// find violates a verdict for every row of the queries, which say in words what is wrong.
func (r *run) find(ctx context.Context, report *Report, verdict string, queries ...string) error {
	for _, query := range queries {
		if err := r.db.each(ctx, query, func(rows *sql.Rows) error {
			what := ""
			if err := rows.Scan(&what); err != nil {
				return err
			}
			report.violate(verdict, "%s", what)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
