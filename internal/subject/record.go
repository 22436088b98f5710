package subject

import (
	"cmp"
	"strings"
	"time"
)

// RecordID is the row id of a record; 0 means that there is none.
type RecordID int64

// Record is a document of the caller's, such as a kiosk or an invoice, whose present state triggers look at.
type Record struct {
	ID         RecordID
	Type       string
	ExtID      string         // the caller's id, unique in its type
	Props      map[string]any // JSON values; numbers are json.Number
	Closed     bool           // nothing is made of it any more
	Deleted    bool           // its row is kept for what was counted of it
	Rev        int64          // counts the writes, from 1
	CreatedAt  time.Time
	UpdatedAt  time.Time
	ModifiedBy string // name of the API key that wrote it last
}

// RecordRef names a record as the caller knows it.
type RecordRef struct{ Type, ExtID string }

// Compare orders names of records, for slices.SortFunc.
func (r RecordRef) Compare(o RecordRef) int {
	return cmp.Or(strings.Compare(r.Type, o.Type), strings.Compare(r.ExtID, o.ExtID))
}

// Kinds of the events that the engine appends by itself; callers cannot send any that begin like these.
const (
	ConditionMet     = "condition.met"      // a condition on a record is met, and fires
	OccasionDue      = "condition.due"      // what was planned by a record is due
	ConditionCleared = "condition.cleared"  // the condition has cleared, and somebody is notified
	CalendarDue      = "condition.calendar" // an occasion of the calendar is due, or a workflow is run by hand
)

// OwnEvent reports whether a kind of event is the engine's own.
func OwnEvent(kind string) bool { return strings.HasPrefix(kind, "condition.") }
