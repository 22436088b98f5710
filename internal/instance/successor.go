package instance

import (
	"iter"
	"time"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// KeyRef names an occasion: two workspaces may have equal keys.
type KeyRef struct {
	Workspace subject.WorkspaceID
	Key       string
}

// Stored is what is stored under a key.
type Stored struct {
	Row       Row // no ID: there is no row
	Forgotten int // how often the key was freed (product decision 64)
	Spent     bool
}

// Made is a row that has to be written for a successor.
type Made struct {
	Row
	Of      int // the index of the successor
	Revived bool
}

// Successors finds for each of a list of occasions the first row that has not ended. Each of them has to exist: a row that
// is missing is made, a withdrawn one is revived, and one that has ended is passed over.
//
//	for keys := s.Keys(); len(keys) > 0; keys = s.Keys() {
//		s.Found(what is stored under keys)
//	}
type Successors struct {
	open  []*successor
	taken map[KeyRef]bool // keys of rows that are made
	made  []Made
	stops []func()
}

// successor is the progress of one of them.
type successor struct {
	of   int
	next func() (Row, bool)
	row  Row
}

// FindSuccessors begins to search. Each list holds the rows of one occasion, the earliest first.
func FindSuccessors(lists []iter.Seq[Row]) *Successors {
	s := &Successors{taken: map[KeyRef]bool{}}
	for i, rows := range lists {
		next, stop := iter.Pull(rows)
		s.stops = append(s.stops, stop)
		s.advance(&successor{of: i, next: next})
	}
	return s
}

// Close ends the search.
func (s *Successors) Close() {
	for _, stop := range s.stops {
		stop()
	}
}

func (s *Successors) advance(o *successor) {
	row, ok := o.next()
	if o.row = row; ok {
		s.open = append(s.open, o)
	}
}

// Keys returns the keys to look up next, each once. None: the search is over.
func (s *Successors) Keys() (keys []KeyRef) {
	known := map[KeyRef]bool{}
	for _, o := range s.open {
		for _, ref := range []KeyRef{{o.row.Workspace, o.row.Key}, o.row.atPlace()} {
			if !known[ref] {
				known[ref] = true
				keys = append(keys, ref)
			}
		}
	}
	return keys
}

// Found continues with what is stored under the keys.
func (s *Successors) Found(stored map[KeyRef]Stored) {
	open := s.open
	s.open = nil
	for _, o := range open {
		ref := KeyRef{o.row.Workspace, o.row.Key}
		old := stored[ref]
		if before := stored[o.row.atPlace()]; before.Row.ID != 0 && before.Forgotten == 0 && before.Row.MessageDate == "" && before.Row.sameMessage(o.row) {
			ref, old = o.row.atPlace(), before
		}
		exists := old.Row.ID != 0
		switch {
		case exists && o.row.Event != 0 && old.Row.Event != o.row.Event:
			// Of an event whose key was freed, and a person has retried a message of that one: the next number is free.
			base, n := key.Instance(o.row.Key).Base()
			o.row.Key = string(base.Retry(n + 1))
			s.open = append(s.open, o)
			continue
		case exists && !old.Row.sameMessage(o.row) && o.row.dated() != o.row.Key: // the key has no date, and another message had its place
			o.row.Key = o.row.dated()
			s.open = append(s.open, o)
			continue
		case !s.taken[ref] && exists && old.Forgotten == 0 && old.Row.Passed():
			s.advance(o)
			continue
		case s.taken[ref] || exists && old.Forgotten == 0 && old.Row.Status == Pending: // it exists
			continue
		case exists && old.Forgotten > 0:
			o.row.Key = string(key.Instance(o.row.Key).Retry(old.Forgotten))
			s.open = append(s.open, o)
			continue
		case exists && old.Row.Status != Deactivated, !exists && old.Spent: // it has ended
			s.advance(o)
			continue
		}
		if exists {
			o.row = revived(old.Row, o.row)
		}
		s.taken[ref] = true
		s.made = append(s.made, Made{Row: o.row, Of: o.of, Revived: exists})
	}
}

// atPlace names the row that a message had when keys said its place in the round; for any other occasion it is its own name.
func (r Row) atPlace() KeyRef {
	if r.MessageDate == "" {
		return KeyRef{r.Workspace, r.Key}
	}
	return KeyRef{r.Workspace, string(key.Instance(r.Key).AtPlace(r.Message))}
}

// dated returns the key of a message of a course with its date.
func (r Row) dated() string {
	if r.MessageDate == "" {
		return r.Key
	}
	return string(key.Instance(r.Key).Dated(r.MessageDate, r.MessageNumber))
}

// sameMessage reports whether two rows of a round are the same message of it. One from before dates were stored is known by when it is due.
func (r Row) sameMessage(o Row) bool {
	switch {
	case r.MessageDate != "" && o.MessageDate != "":
		return r.MessageDate == o.MessageDate && r.MessageNumber == o.MessageNumber
	case r.LocalDate != "" && o.LocalDate != "":
		return r.LocalDate == o.LocalDate
	}
	return r.DueAt.Sub(o.DueAt).Abs() < 12*time.Hour
}

// revived returns a withdrawn row as it is planned now.
func revived(old, planned Row) Row {
	old.Unhold()
	old.Status, old.Delay, old.Reason, old.CompletedAt = planned.Status, planned.Delay, planned.Reason, planned.CompletedAt
	old.DueAt, old.LocalDate, old.Timezone, old.InputHash = planned.DueAt, planned.LocalDate, planned.Timezone, planned.InputHash
	old.Round, old.Message, old.EffectiveAt = planned.Round, planned.Message, planned.EffectiveAt
	old.WorkflowVersion, old.Definitions, old.RetryCount, old.NextRetryAt = planned.WorkflowVersion, planned.Definitions, 0, time.Time{}
	return old
}

// Made returns the rows to write.
func (s *Successors) Made() []Made { return s.made }
