package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/key"
)

// errNotRestored means that the database is not a copy, so that there is nothing to accept.
var errNotRestored = errors.New("the database is no copy: there is nothing to accept")

// Copied is the result of Recognise: whether the database is the original, or a copy that was restored, cloned or moved. A
// copy does not know which messages were sent after it was made. So nothing is sent from a copy before a person has accepted
// it.
type Copied struct {
	RestoredAt time.Time // when it was found to be a copy; zero: it is the original
	Why        string    // why it was found to be a copy
	AliveAt    time.Time // when it was last found to be the original, at most a minute before its last work
}

// Restored reports whether the database is a copy that no person has accepted.
func (c Copied) Restored() bool { return !c.RestoredAt.IsZero() }

// installation is the row by which the original is distinguished from a copy.
type installation struct {
	Copied
	epoch        int64 // grows each time that the database is found to be the original
	place        string
	givenUpUntil time.Time
}

const lockInstallation = `
INSERT INTO installation (id, epoch, alive_at, place, restored_at, restored_why, given_up_until)
VALUES (1, 0, 0, '', 0, '', 0)
ON CONFLICT (id) DO UPDATE SET epoch = installation.epoch
RETURNING epoch, alive_at, place, restored_at, restored_why, given_up_until`

const updateInstallation = `
UPDATE installation
SET epoch = $1, alive_at = $2, place = $3, restored_at = $4, restored_why = $5, given_up_until = $6
WHERE id = 1`

func scanInstallation(rows *sql.Rows) (i installation, err error) {
	return i, rows.Scan(&i.epoch, instant{&i.AliveAt}, &i.place, instant{&i.RestoredAt}, &i.Why, instant{&i.givenUpUntil})
}

func (t *Tx) writeInstallation(i installation) error {
	_, err := t.exec(updateInstallation, i.epoch, micros(i.AliveAt), i.place, micros(i.RestoredAt), i.Why, micros(i.givenUpUntil))
	return err
}

// Recognise finds out whether the database is the original or a copy. Every process calls it at its start and once a minute.
// Each time that the database is the original, a number grows, in the database and in a file beside a SQLite database. A
// SQLite database is a copy if the file is missing, names another place or machine, or has a higher number. On PostgreSQL,
// where processes share no folder, the database is a copy if its tables were created again, or if its number is lower than the
// one that this process remembers.
func (s *Store) Recognise(ctx context.Context, now time.Time) (Copied, error) {
	if s.memory {
		return Copied{}, nil
	}
	var found installation
	err := s.Write(ctx, func(t *Tx) (err error) {
		if found, err = t.installation(); err != nil || found.Restored() {
			return err
		}
		place, why, err := t.recognise(found)
		if err != nil {
			return err
		}
		if why == "" {
			found.epoch, found.AliveAt, found.place = found.epoch+1, now, place
		} else {
			found.RestoredAt, found.Why = now, why
			if _, err := t.exec(deleteSignIns); err != nil {
				return err
			}
		}
		return t.writeInstallation(found)
	})
	if err == nil && !found.Restored() {
		err = s.known(found)
	}
	if err == nil {
		err = s.mark(ctx)
	}
	if err != nil {
		return Copied{}, fmt.Errorf("recognise the database: %w", unreadable(s.path, err))
	}
	s.givenUp.Store(micros(found.givenUpUntil))
	s.restored.Store(found.Restored())
	return found.Copied, nil
}

func (t *Tx) installation() (installation, error) {
	rows, err := query(t, scanInstallation, lockInstallation)
	if err != nil {
		return installation{}, err
	}
	return rows[0], nil
}

// Restored reports whether Recognise has found the database to be a copy that no person has accepted.
func (s *Store) Restored() bool { return s.restored.Load() }

// GivenUpUntil returns the instant up to which due messages are not sent, because a copy was accepted then with skip: the
// original may have sent them. Zero: there is no such instant.
func (s *Store) GivenUpUntil() time.Time { return fromMicros(s.givenUp.Load()) }

// AcceptRestore accepts a copy, so that messages are sent from it. Messages that were due before now are sent too, as far as
// catch_up allows, unless skip is set. The entry is written to the audit log of every workspace. The error is errNotRestored
// if the database is not a copy.
func (s *Store) AcceptRestore(ctx context.Context, now time.Time, skip bool, a Audit) error {
	var found installation
	err := s.Write(ctx, func(t *Tx) (err error) {
		if found, err = t.installation(); err != nil {
			return err
		}
		if !found.Restored() {
			return errNotRestored
		}
		if found.place, _, err = t.recognise(found); err != nil {
			return err
		}
		beside, err := readBeside(s.path)
		if err != nil {
			return err
		}
		found.epoch = max(found.epoch, beside.Epoch) + 1
		found.AliveAt, found.RestoredAt, found.Why = now, time.Time{}, ""
		if skip {
			found.givenUpUntil = now
		}
		if err := t.writeInstallation(found); err != nil {
			return err
		}
		workspaces, err := query(t, scanWorkspace, workspaces)
		for _, w := range workspaces {
			err = errors.Join(err, t.Audit(w.ID, now, a))
		}
		return err
	})
	if err == nil {
		err = s.known(found)
	}
	if err != nil {
		return fmt.Errorf("accept the copy: %w", err)
	}
	return nil
}

// known stores the number in the process and in the file beside a SQLite database.
func (s *Store) known(i installation) error {
	s.epoch.Store(i.epoch)
	if s.file == nil {
		return nil
	}
	place, err := placeOf(s.path)
	if err != nil {
		return err
	}
	former, err := readBeside(s.path)
	if err != nil {
		return err
	}
	return writeBeside(s.path, beside{Epoch: i.epoch, Place: place, Machine: machine(), Token: former.Token})
}

// recognise returns where the database is, and why it is a copy; empty: it is the original.
func (t *Tx) recognise(i installation) (place, why string, err error) {
	if t.s.epoch.Load() > i.epoch {
		why = "it has gone back to an earlier state while this process was running"
	}
	if t.s.file == nil {
		if place, err = t.placeOnPostgres(); err != nil {
			return "", "", err
		}
		if why == "" && i.place != "" && !samePlace(i.place, place) {
			why = "its tables were created again since it was last in use, as pg_restore does, or by a copy of the database"
		}
		return place, why, nil
	}
	if place, err = placeOf(t.s.path); err != nil {
		return "", "", err
	}
	b, err := readBeside(t.s.path)
	switch {
	case err != nil:
		return "", "", err
	case why != "", i.epoch == 0 && b.Epoch == 0: // the database is new, or of a program that kept no number
	case b.Epoch == 0:
		why = "the file " + filepath.Base(t.s.path) + besideSuffix + " is not with it, so it was copied or moved without that"
	case i.epoch == 0:
		var used []int64
		if used, err = query(t, scanInt, anyEvent); len(used) > 0 { // else a new database has the name of a former one
			why = "it is older than the one that was in use here"
		}
	case b.Place != place:
		why = "it was copied or moved here from " + b.Place
	case b.Machine != "" && machine() != "" && b.Machine != machine():
		why = "it was copied or moved here from another machine"
	case b.Epoch > i.epoch:
		why = "it is older than the one that was in use here"
	}
	return place, why, err
}

const anyEvent = `
SELECT 1
FROM event
LIMIT 1`

// These values change if the tables are created again or the database is copied. A role may lack the right to read the
// server's identity; then only the tables' numbers are compared.
const (
	mayKnowServer = `SELECT has_function_privilege('pg_control_system()', 'execute')::int`
	serverOf      = `SELECT system_identifier::text FROM pg_control_system()`
	tablesOf      = `
SELECT d.oid::text || '/' || 'installation'::regclass::oid::text
FROM pg_database AS d
WHERE d.datname = current_database()`
)

// placeOnPostgres returns the identity of the server, empty if the role may not read it, and the identity of the tables.
func (t *Tx) placeOnPostgres() (string, error) {
	may, err := query(t, scanInt, mayKnowServer)
	if err != nil {
		return "", err
	}
	server := []string{""}
	if may[0] != 0 {
		if server, err = query(t, scanText, serverOf); err != nil {
			return "", err
		}
	}
	tables, err := query(t, scanText, tablesOf)
	if err != nil {
		return "", err
	}
	return server[0] + "/" + tables[0], nil
}

// samePlace compares two results of placeOnPostgres. A server whose identity is empty equals any other.
func samePlace(a, b string) bool {
	serverA, tablesA, _ := strings.Cut(a, "/")
	serverB, tablesB, _ := strings.Cut(b, "/")
	return tablesA == tablesB && (serverA == serverB || serverA == "" || serverB == "")
}

func scanText(rows *sql.Rows) (v string, err error) { return v, rows.Scan(&v) }

// besideSuffix ends the name of the file that is kept beside a SQLite database.
const besideSuffix = "-epoch"

// beside is the content of that file.
type beside struct {
	Epoch   int64  `json:"epoch"`
	Place   string `json:"place"`
	Machine string `json:"machine,omitempty"`
	Token   uint32 `json:"token,omitempty"` // of the database, see dbFile
}

// readBeside reads the file beside a database. If there is none, the result is empty.
func readBeside(path string) (b beside, err error) {
	if path == "" {
		return b, nil
	}
	text, err := os.ReadFile(path + besideSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fmt.Errorf("%s shows whether the database is a copy, and cannot be read; without it the database counts as one: %w", path+besideSuffix, err)
	}
	return b, nil
}

// writeBeside replaces the file in one step: if the machine fails, the former file or the new one is left.
func writeBeside(path string, b beside) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+besideSuffix+".*.part")
	if err != nil {
		return err
	}
	_, err = part.Write(append(text, '\n'))
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = sameOwner(part.Name(), path)
	}
	if err == nil {
		err = os.Rename(part.Name(), path+besideSuffix)
	}
	if err != nil {
		return errors.Join(err, remove(part.Name()))
	}
	return nil
}

func placeOf(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// machine returns a hash of this machine's id; empty: it has none. The id itself must not be published (machine-id(5)).
func machine() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || strings.TrimSpace(string(id)) == "" {
		return ""
	}
	return key.Hash("carillon " + strings.TrimSpace(string(id)))[:16]
}

// markRestored marks a file that is about to replace a database as a copy, and ends its console sessions. A file with an
// older schema has no table for the mark; Recognise then finds the copy by the file beside it.
func markRestored(ctx context.Context, path string, now time.Time) (err error) {
	db, err := sql.Open("sqlite", fileName(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := withoutToken(ctx, db); err != nil {
		return err
	}
	var known int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'installation'`).Scan(&known); err != nil || known == 0 {
		return err
	}
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'console_session'`).Scan(&known); err != nil {
		return err
	}
	if known > 0 {
		if _, err := db.ExecContext(ctx, deleteSignIns); err != nil {
			return err
		}
	}
	_, err = db.ExecContext(ctx, `UPDATE installation SET restored_at = ?, restored_why = 'it was put in place by carillon restore' WHERE epoch > 0`, micros(now))
	return err
}

// Overdue counts the due instances and deliveries of a workflow.
type Overdue struct {
	Workspace  string
	Workflow   string
	Instances  int64 // instances that have not been fanned out
	Deliveries int64
}

const overdue = `
SELECT w.name, o.workflow, SUM(o.instances), SUM(o.deliveries)
FROM (
  SELECT ws, workflow, 1 AS instances, 0 AS deliveries FROM instance WHERE ready_at > 0 AND ready_at <= $1
  UNION ALL
  SELECT ws, workflow, 0, 1 FROM delivery WHERE send_at > 0 AND hold <> ` + sqlHoldPaused + ` AND send_at <= $1
) AS o
JOIN workspace AS w ON w.id = o.ws
GROUP BY w.name, o.workflow
ORDER BY w.name, o.workflow`

// Overdue counts the waiting instances and deliveries that are due at now, by workflow.
func (s *Store) Overdue(ctx context.Context, now time.Time) ([]Overdue, error) {
	return all(ctx, s, "count what is overdue", func(rows *sql.Rows) (o Overdue, err error) {
		return o, rows.Scan(&o.Workspace, &o.Workflow, &o.Instances, &o.Deliveries)
	}, overdue, micros(now))
}

const copied = `
SELECT epoch, alive_at, place, restored_at, restored_why, given_up_until
FROM installation
WHERE id = 1`

// Copied reads the last result of Recognise from the database; it checks nothing itself.
func (s *Store) Copied(ctx context.Context) (Copied, error) {
	found, _, err := first(ctx, s, "read whether it is a copy", scanInstallation, copied)
	return found.Copied, err
}
