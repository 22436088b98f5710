package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/store"
)

type migrateCmd struct {
	config.Database
	Status bool `name:"status" xor:"what" help:"Only show the versions of the schema."`
	DryRun bool `name:"dry-run" xor:"what" help:"Only print the statements that would run."`
	jsonOnly
}

// Help is the long help.
func (migrateCmd) Help() string {
	return `carillon serve does this by itself at its start; with --no-migrate it refuses to start instead. Processes that
migrate at once wait for each other. A newer schema than this program knows stays as it is.

Exit status: 1 also when --status finds a schema that is not this program's.`
}

// Run migrates, or shows what it would do.
func (c *migrateCmd) Run(s *session) (err error) {
	if c.Status || c.DryRun {
		if err := present(c.DB); err != nil {
			return err
		}
	}
	db, err := store.Open(s.ctx, c.DB, store.Options{MaxConns: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	have, want, err := db.SchemaVersion(s.ctx)
	if err != nil {
		return err
	}
	pending, err := db.Pending(s.ctx)
	if err != nil {
		return err
	}
	if c.DryRun {
		for _, m := range pending {
			fmt.Fprintf(s.Out, "-- %s\n%s", m.Name, m.SQL)
		}
		return nil
	}
	if !c.Status {
		if err := db.Migrate(s.ctx); err != nil {
			return err
		}
		have = want
	}
	if c.JSON {
		err = printJSON(s.Out, map[string]any{"database": db.Dialect(), "schema": have, "program": want})
	} else {
		fmt.Fprintf(s.Out, "%s: schema %d, this program's %d\n", db.Dialect(), have, want)
	}
	if err == nil && have != want {
		return exit(ExitFailed)
	}
	return err
}

// present refuses a file that is not there: opening it would make it.
func present(db string) error {
	if store.IsPostgres(db) {
		return nil
	}
	_, err := os.Stat(db)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no database %s\n    --db or CARILLON_DB names it, as for carillon serve", db)
	}
	return err
}

type backupCmd struct {
	config.Database
	File string `arg:"" help:"The copy to make."`
}

// Help is the long help.
func (backupCmd) Help() string {
	return `Copies a SQLite database as it is at one moment; the server may go on. The copy is one file, readable for its owner
only, because it holds secrets and addresses. Its integrity has been checked.

PostgreSQL has its own tools: pg_dump --format=custom --file=FILE "$CARILLON_DB"`
}

const postgresBackup = `this is PostgreSQL, which has its own tools
    pg_dump --format=custom --file=FILE "$CARILLON_DB"`

const postgresRestore = `this is PostgreSQL, which has its own tools
    pg_restore --clean --if-exists --single-transaction --dbname="$CARILLON_DB" FILE`

// Run copies the database.
func (c *backupCmd) Run(s *session) error {
	if store.IsPostgres(c.DB) {
		return errors.New(postgresBackup)
	}
	if err := present(c.DB); err != nil {
		return err
	}
	if err := store.Backup(s.ctx, c.DB, c.File); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "copied", c.DB, "to", c.File)
	return nil
}

type restoreCmd struct {
	config.Database
	File  string `arg:"" help:"The copy, made by carillon backup."`
	Force bool   `name:"force" help:"Replace a database that is there. It is kept under another name."`
}

// Help is the long help.
func (restoreCmd) Help() string {
	return `Puts a copy in the place of a SQLite database, after checking it. The server must be stopped.

The copy does not know what was sent since it was made. A server that is started with it sends nothing before you say
what becomes of what has been due since: carillon accept-restore`
}

// Run puts the copy in place.
func (c *restoreCmd) Run(s *session) error {
	if store.IsPostgres(c.DB) {
		return errors.New(postgresRestore)
	}
	done, err := store.Restore(s.ctx, c.File, c.DB, c.Force, (&clock.System{}).Now())
	switch {
	case errors.Is(err, store.ErrExists) && !c.Force:
		return fmt.Errorf("%w\n    --force replaces it; it is kept under another name", err)
	case errors.Is(err, store.ErrInUse):
		return fmt.Errorf("%w\n    stop the server first", err)
	case err != nil:
		return err
	}
	fmt.Fprintln(s.Out, "restored", c.DB, "from", c.File)
	if done.Previous != "" {
		fmt.Fprintln(s.Out, "the former database is", done.Previous)
	}
	s.note("nothing is sent from it before carillon accept-restore")
	return nil
}

type acceptRestoreCmd struct {
	config.Database
	Send bool `name:"send" xor:"overdue" help:"Send what has been due since, as far as catch_up allows."`
	Skip bool `name:"skip" xor:"overdue" help:"Give up what has been due since; what is due from now on is sent."`
}

// Help is the long help.
func (acceptRestoreCmd) Help() string {
	return `A database that was restored, cloned or moved does not know what was sent since the copy was made. Nothing is sent from
it before you say what becomes of what has been due since. Without --send or --skip this only lists it.

--skip    when the former database went on sending until now: nothing is sent twice
--send    when it was not at work, as after a move: nothing is missed

Post the events since the copy again before --skip: what they make is given up too. An event that is posted later is new to this
database, and its message is sent, a second time where the former database has sent it.

A second copy, to try things out, is served with --no-work; or accepted with --skip, and served with --only-to.`
}

// Run lists what is overdue, or accepts the copy.
func (c *acceptRestoreCmd) Run(s *session) error {
	if err := present(c.DB); err != nil {
		return err
	}
	now := (&clock.System{}).Now()
	return withStore(s, c.DB, true, func(db *store.Store, _ store.Workspace) error {
		found, err := db.Recognise(s.ctx, now)
		if err != nil {
			return err
		}
		if !found.Restored() {
			return fmt.Errorf("%s is the database that was at work before: there is nothing to accept", c.DB)
		}
		overdue, err := db.Overdue(s.ctx, now)
		if err != nil {
			return err
		}
		if !c.Send && !c.Skip {
			return c.report(s, found, overdue)
		}
		detail, err := json.Marshal(map[string]any{"why": found.Why, "skip": c.Skip})
		if err != nil {
			return err
		}
		a := store.Audit{Actor: "accept-restore", Action: "database.accept", Target: db.Dialect(), Detail: detail}
		if err := db.AcceptRestore(s.ctx, now, c.Skip, a); err != nil {
			return err
		}
		what := "sent, as far as catch_up allows"
		if c.Skip {
			what = "given up, with the reason restored"
		}
		fmt.Fprintln(s.Out, "accepted. What was due until", c.at(now), "is", what)
		return nil
	})
}

func (acceptRestoreCmd) at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// report prints why the database counts as a copy, and what is overdue.
func (c *acceptRestoreCmd) report(s *session, found store.Copied, overdue []store.Overdue) error {
	fmt.Fprintln(s.Out, "This database is a copy:", found.Why+".")
	if !found.AliveAt.IsZero() {
		fmt.Fprintln(s.Out, "It was last at work", c.at(found.AliveAt)+".")
	}
	rows := make([][]string, len(overdue))
	for i, o := range overdue {
		rows[i] = []string{o.Workspace, o.Workflow, strconv.FormatInt(o.Instances, 10), strconv.FormatInt(o.Deliveries, 10)}
	}
	if len(rows) > 0 {
		s.title("Overdue")
		s.table([]string{"workspace", "workflow", "instances", "deliveries"}, rows)
	} else {
		fmt.Fprintln(s.Out, "Nothing is overdue.")
	}
	s.note("carillon accept-restore --skip gives this up; --send sends it, also what the former database may have sent")
	return exit(ExitFailed)
}
