// Package related reads the records that others depend on (docs/concepts/reminders.md).
package related

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Record is a record with the relations that are followed from it.
type Record struct {
	Workspace subject.WorkspaceID
	Relations []definition.Relation
	subject.Record
}

// Read reads the records that those of a list depend on, and the records on which these depend, without a lock.
func Read(tx *store.Tx, list []Record) (store.Related, error) {
	read := store.Related{}
	for range store.MaxRelations {
		known := read.ByWorkspace()
		var unread []store.RelatedRef
		for _, r := range list {
			for _, ref := range plan.Related(known[r.Workspace]).Unread(r.Relations, r.Record) {
				unread = append(unread, store.RelatedRef{Workspace: r.Workspace, RecordRef: ref})
			}
		}
		if more, err := tx.ReadRelated(read, unread); err != nil {
			return nil, err
		} else if !more {
			break
		}
	}
	return read, nil
}

// Reader reads from the store.
type Reader interface {
	ReadBatch(ctx context.Context, work func(*store.Tx) error) error
}

// Of is Read for records of one workspace and type, outside of a transaction that writes.
func Of(ctx context.Context, s Reader, ws subject.WorkspaceID, relations []definition.Relation, records []subject.Record) (plan.Related, error) {
	if len(relations) == 0 || len(records) == 0 {
		return nil, nil
	}
	list := make([]Record, len(records))
	for i, r := range records {
		list[i] = Record{ws, relations, r}
	}
	var read store.Related
	err := s.ReadBatch(ctx, func(tx *store.Tx) (err error) {
		read, err = Read(tx, list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read related records: %w", err)
	}
	return read.ByWorkspace()[ws], nil
}
