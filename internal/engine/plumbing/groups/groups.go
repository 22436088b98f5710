// Package groups computes which contacts belong to the groups that are defined, when a group is new or has changed.
//
//	apply of a group ─▶ job ─▶ page of contacts ─▶ page ─▶ … ─▶ the groups are computed
//	write of a contact ─▶ its own groups, in the same transaction
//
// A page reads contacts without locks. It locks only those whose groups are not what the definitions in force say, and computes these again. A write
// meanwhile is not lost: it holds the definitions, as the page does, so both follow the same ones; and whichever has the lock last reads what the other
// one wrote. A contact that is made meanwhile has its groups from the beginning.
package groups

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Store is what the package needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
}

// Catalog has the definitions.
type Catalog interface {
	Loaded(ws subject.WorkspaceID, number int64) (*definition.Set, error)
	Supply(ctx context.Context, limit int, try func(limit int) error) error
}

// InForce returns the set in force of a workspace, in a transaction that holds it. Its error is one for which Catalog.Supply loads the set.
func InForce(tx *store.Tx, c Catalog, ws subject.WorkspaceID) (*definition.Set, error) {
	number, err := tx.DefinitionsNumber(ws)
	if err != nil || number == 0 {
		return nil, err
	}
	return c.Loaded(ws, number)
}

// Jobs returns the kind of job that computes the groups of all contacts, in pages of store.MemberPage.
func Jobs(s Store, c Catalog) jobs.Kind {
	return jobs.Kind{Kinds: []job.Kind{job.Groups}, Page: func(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
		err = c.Supply(ctx, 1, func(int) error {
			return s.WriteHoldingDefinitions(ctx, func(tx *store.Tx) (err error) {
				done, err = page(tx, c, now, j)
				return err
			})
		})
		if err != nil {
			return 0, fmt.Errorf("compute groups: %w", err)
		}
		return done, nil
	}}
}

func page(tx *store.Tx, c Catalog, now time.Time, open job.Row) (done int, err error) {
	j, held, err := tx.HoldJob(open)
	if err != nil {
		return 0, err
	}
	if !held {
		return 0, jobs.ErrHeld
	}
	set, err := InForce(tx, c, j.Workspace)
	if err != nil {
		return 0, err
	}
	list, err := tx.GroupedAfter(j.Workspace, subject.ContactID(j.Cursor), store.MemberPage)
	if err != nil {
		return 0, err
	}
	end := len(list) < store.MemberPage
	var meter expr.Meter
	var differ []subject.ContactID
	for i, contact := range list {
		if meter.Full() {
			list, end = list[:i], false
			break
		}
		if have := slices.Sorted(slices.Values(contact.Groups)); !slices.Equal(have, plan.GroupsOf(set, contact.Contact, &meter)) {
			differ = append(differ, contact.ID)
		}
	}
	if err := correct(tx, set, j.Workspace, differ); err != nil {
		return 0, err
	}
	step := job.Step{Cursor: j.Cursor, Done: len(list), Changed: len(differ), End: end}
	if len(list) > 0 {
		step.Cursor = int64(list[len(list)-1].ID)
	}
	if end {
		if err := tx.GroupsComputed(j.Workspace, namesOf(set)); err != nil {
			return 0, err
		}
	}
	return len(list), tx.SaveJobs(now, j.Advance(step, now))
}

// correct writes the groups of contacts as they are once these are locked.
func correct(tx *store.Tx, set *definition.Set, ws subject.WorkspaceID, ids []subject.ContactID) error {
	if len(ids) == 0 {
		return nil
	}
	contacts, err := tx.LockContactsByID(ws, ids)
	if err != nil {
		return err
	}
	memberships := make([]store.Membership, len(contacts))
	for i, contact := range contacts {
		memberships[i] = store.Membership{Contact: contact.ID, Groups: plan.GroupsOf(set, contact, nil)}
	}
	return tx.KeepGroups(ws, memberships)
}

func namesOf(set *definition.Set) []string {
	var names []string
	for _, g := range set.Groups() {
		names = append(names, g.Name)
	}
	return names
}
