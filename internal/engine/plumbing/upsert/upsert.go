// Package upsert decides what becomes of the items of a call about rows that callers name: contacts and records.
package upsert

import (
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// Mode is how an item applies to a row that exists, and to one that does not.
type Mode string

// The modes.
const (
	Merge   Mode = "merge"   // change what is mentioned; make the row if there is none
	Replace Mode = "replace" // remove what is not mentioned; make the row if there is none
	Change  Mode = "change"  // change what is mentioned; a row that does not exist is not found
	Delete  Mode = "delete"  // remove the fields; a row that does not exist is not found
)

// Outcome is what happened to an item.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged"
	Deleted   Outcome = "deleted"
	Pending   Outcome = "pending" // it waits for a confirmation
	Failed    Outcome = "failed"
)

// Error explains why an item was refused, where, and how to correct it.
type Error struct {
	Reason  reason.Reason
	Field   string
	Message string
	Hint    string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Result is the answer to one item. Row is the row as it is now.
type Result[R any] struct {
	Outcome Outcome
	Error   *Error
	Row     R
}

// Kind is what differs between the kinds of rows.
type Kind[K comparable, I, R any] interface {
	// Name returns the name of an item's row, or why the item was refused.
	Name(item I) (K, *Error)
	// Exists reports whether callers see a stored row, as they do not see a deleted one.
	Exists(row R) bool
	// Apply returns the row after an item. old is zero if there is no row.
	Apply(old R, exists bool, item I) (R, *Error)
	// Same reports whether an item has changed nothing.
	Same(old, next R) bool
}

// Apply applies items in their order to the rows that are stored; an item sees the changes of the earlier ones. written are the rows that items have
// changed. store.ErrNotFound is for Change and Delete alone.
func Apply[K comparable, I, R any](kind Kind[K, I, R], mode Mode, stored map[K]R, items []I) (results []Result[R], written map[K]R, err error) {
	results, written = make([]Result[R], len(items)), map[K]R{}
	for i, item := range items {
		name, refused := kind.Name(item)
		if refused != nil {
			results[i] = Result[R]{Outcome: Failed, Error: refused}
			continue
		}
		old, found := written[name]
		if !found {
			old, found = stored[name]
		}
		exists := found && kind.Exists(old)
		if !exists && (mode == Change || mode == Delete) {
			return nil, nil, store.ErrNotFound
		}
		next, refused := kind.Apply(old, exists, item)
		switch {
		case refused != nil:
			results[i] = Result[R]{Outcome: Failed, Error: refused}
			continue
		case exists && kind.Same(old, next):
			results[i] = Result[R]{Outcome: Unchanged, Row: old}
			continue
		case mode == Delete:
			results[i].Outcome = Deleted
		case exists:
			results[i].Outcome = Changed
		default:
			results[i].Outcome = Created
		}
		written[name], results[i].Row = next, next
	}
	return results, written, nil
}
