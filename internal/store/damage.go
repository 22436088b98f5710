package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Scenarios test how the engine repairs a database that a person has changed by hand. A scenario has an empty store of its
// own. Only such a store can be damaged.

// errNotDisposable is returned for a store that was not opened with Options.Disposable.
var errNotDisposable = errors.New("only the store of a scenario can be damaged")

const loseDeliveries = `
DELETE FROM delivery
WHERE ws = $1 AND instance_id IN (SELECT r.id FROM /*ROWS $2 (id bigint)*/ AS r)`

const loseInstances = `
DELETE FROM instance
WHERE ws = $1 AND id IN (SELECT r.id FROM /*ROWS $2 (id bigint)*/ AS r)`

// Lose deletes instances and their deliveries without a trace, as a person with a database client would.
func (s *Store) Lose(ctx context.Context, ws subject.WorkspaceID, ids []instance.ID) error {
	return s.damage(ctx, "lose instances", func(t *Tx) error {
		rows := rowsOf(ids)
		if _, err := t.exec(loseDeliveries, int64(ws), rows); err != nil {
			return err
		}
		_, err := t.exec(loseInstances, int64(ws), rows)
		return err
	})
}

const alterInputs = `
UPDATE instance SET input_hash = $2
WHERE ws = $1 AND id IN (SELECT r.id FROM /*ROWS $3 (id bigint)*/ AS r)`

// AlterInputs replaces the inputs by which instances were planned, as if another version of this program had planned them.
func (s *Store) AlterInputs(ctx context.Context, ws subject.WorkspaceID, ids []instance.ID, inputs string) error {
	return s.damage(ctx, "alter inputs", func(t *Tx) error {
		if err := t.KeepInputs(ws, []string{inputs}); err != nil {
			return err
		}
		_, err := t.exec(alterInputs, int64(ws), key.Hash(inputs), rowsOf(ids))
		return err
	})
}

func (s *Store) damage(ctx context.Context, what string, do func(*Tx) error) error {
	err := errNotDisposable
	if s.disposable {
		err = s.Write(ctx, do)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func rowsOf(ids []instance.ID) *rowset {
	var rows rowset
	for _, id := range ids {
		rows.row().int(int64(id))
	}
	return &rows
}
