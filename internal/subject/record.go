package subject

import (
	"cmp"
	"slices"
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
	Owner      Owner
	Parents    []Parent    // ordered by name, type and id, each once
	Children   []RecordRef // only of a record of ChildrenType
}

// MaxParents bounds the parents of a record, which every evaluation of it may read.
const MaxParents = 100

// MaxChildren bounds the children of a record that one evaluation, text or audience reads. A record may have more; what reads them then fails.
const MaxChildren = 500

// ChildrenType stands in place of a type of record where a record depends on the children of another one, TYPE/ID: on which they are, and on
// their fields. No type of record has this name.
const ChildrenType = "@children"

// ChildrenOf names the children of a record.
func ChildrenOf(r RecordRef) RecordRef { return RecordRef{Type: ChildrenType, ExtID: r.String()} }

// Parent is a record that another one names as its parent.
type Parent struct {
	Name string
	RecordRef
}

// ParentsNamed returns the parents of a name, in their order.
func (r Record) ParentsNamed(name string) []Parent {
	from := slices.IndexFunc(r.Parents, func(p Parent) bool { return p.Name == name })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(r.Parents) && r.Parents[to].Name == name {
		to++
	}
	return r.Parents[from:to]
}

// Compare orders parents by name, type and id, for slices.SortFunc.
func (p Parent) Compare(o Parent) int {
	return cmp.Or(strings.Compare(p.Name, o.Name), p.RecordRef.Compare(o.RecordRef))
}

// Owner is whose a record is: contact/ID, group/NAME or place/NAME. An empty one is none.
type Owner string

// Kinds of owners.
const (
	OwnerContact = "contact"
	OwnerGroup   = "group"
	OwnerPlace   = "place"
)

// OwnerKinds lists the kinds of owners.
func OwnerKinds() []string { return []string{OwnerContact, OwnerGroup, OwnerPlace} }

// Split returns the kind of an owner, and its id or name.
func (o Owner) Split() (kind, id string) {
	kind, id, _ = strings.Cut(string(o), "/")
	return kind, id
}

// Ref names the record.
func (r Record) Ref() RecordRef { return RecordRef{r.Type, r.ExtID} }

// RecordRef names a record as the caller knows it.
type RecordRef struct{ Type, ExtID string }

// String returns TYPE/ID.
func (r RecordRef) String() string { return r.Type + "/" + r.ExtID }

// ParseRecordRef reads TYPE/ID.
func ParseRecordRef(text string) RecordRef {
	typ, id, _ := strings.Cut(text, "/")
	return RecordRef{typ, id}
}

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
