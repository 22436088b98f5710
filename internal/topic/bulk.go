package topic

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Action is what a run does to the subscriptions of many people.
type Action string

// The actions.
const (
	ActSubscribe   Action = "subscribe"   // they begin to follow a topic
	ActMigrate     Action = "migrate"     // they follow another topic instead of theirs
	ActUnsubscribe Action = "unsubscribe" // they do not follow their topics any more
	ActMessage     Action = "message"     // they get an item, and nothing else changes
	ActUndo        Action = "undo"        // what a run has done is taken back
)

// Actions returns those that a caller can ask for.
func Actions() []Action { return []Action{ActSubscribe, ActMigrate, ActUnsubscribe, ActMessage} }

// Bulk is a run over many people: those who follow some topics, or some contacts.
type Bulk struct {
	Action    Action   `json:"action"`
	Topics    []string `json:"topics,omitempty"`   // those of the people who are meant, and of the subscriptions that end
	Contacts  []string `json:"contacts,omitempty"` // to subscribe, instead of topics
	To        string   `json:"to,omitempty"`       // the topic that they follow then
	Frequency string   `json:"frequency,omitempty"`
	Except    []string `json:"except,omitempty"` // contacts who are left as they are
	Undoes    int64    `json:"undoes,omitempty"` // the run that is taken back
}

// String names what the run is about.
func (b Bulk) String() string {
	from := strings.Join(b.Topics, ", ")
	if len(b.Topics) == 0 {
		from = "contacts"
	}
	switch b.Action {
	case ActSubscribe, ActMigrate:
		return from + " to " + b.To
	case ActUnsubscribe, ActMessage, ActUndo:
	}
	return from
}

// Verdict says what a run makes of one contact.
type Verdict string

// The verdicts. All but the first leave the contact as they are.
const (
	Changed     Verdict = "changed"
	Already     Verdict = "already"     // it would change nothing
	LeftBefore  Verdict = "left_before" // they have left the topic themselves
	NotOffered  Verdict = "not_offered" // the topic does not offer the frequency that they have
	Excepted    Verdict = "excepted"
	NewerChange Verdict = "newer_change" // to undo: they, or another run, have changed it since
	Unknown     Verdict = "unknown"      // there is no such contact
)

// BulkRules are what a run knows besides the contact.
type BulkRules struct {
	Bulk
	Run  int64
	From []subject.TopicID
	Into subject.TopicID
	// Offers reports whether the topic that they follow then offers a frequency.
	Offers func(frequency string) bool
	// Began is when the run began: who follows a topic since is left alone.
	Began time.Time
	// Last is the last match that there is.
	Last  int64
	NewID func() SubscriptionID
}

// Apply decides what the run makes of a contact. of are all subscriptions that the contact has or had.
func (r BulkRules) Apply(contact subject.ContactID, of []Subscription, now time.Time) ([]Change, Verdict) {
	switch r.Action {
	case ActUndo:
		return r.undo(of, now)
	case ActUnsubscribe:
		changes := r.end(r.ending(of), EndBulkUnsubscribed, now)
		return changes, verdictOf(changes)
	case ActMessage:
		if len(r.ending(of)) == 0 {
			return nil, Already
		}
		return nil, Changed
	case ActSubscribe, ActMigrate:
	}
	from := r.ending(of)
	if len(r.From) > 0 && len(from) == 0 {
		return nil, Already
	}
	frequency := r.Frequency
	if frequency == "" {
		frequency = slices.MinFunc(from, func(a, b Subscription) int { return CompareFrequencies(a.Frequency, b.Frequency) }).Frequency
	}
	var changes []Change
	into, follows, left := present(of, r.Into)
	switch {
	case left:
		return nil, LeftBefore
	case !r.Offers(frequency):
		return nil, NotOffered
	case !follows:
		change := Change{Started: r.begin(contact, frequency, now)}
		if moved, ok := MovedOf(of, r.Into); ok {
			change = Resume(moved, *change.Started, now)
		}
		changes = append(changes, change)
	case r.Action == ActMigrate && CompareFrequencies(frequency, into.Frequency) < 0:
		change := Subscribe(&into, *r.begin(contact, frequency, now), now)
		change.Ended.EndedBy = r.Run
		changes = append(changes, change)
	}
	if r.Action == ActMigrate {
		changes = append(changes, r.end(from, EndBulkMigrated, now)...)
	}
	return changes, verdictOf(changes)
}

func verdictOf(changes []Change) Verdict {
	if len(changes) == 0 {
		return Already
	}
	return Changed
}

// ending returns the subscriptions to the topics of the run that went on when it began.
func (r BulkRules) ending(of []Subscription) (list []Subscription) {
	for _, s := range of {
		began := s.StartedAt
		if s.Source == SourceMerged { // in the place of one that they had before
			began = s.Since
		}
		if s.Active() && slices.Contains(r.From, s.Topic) && s.Topic != r.Into && !began.After(r.Began) {
			list = append(list, s)
		}
	}
	return list
}

func (r BulkRules) end(list []Subscription, why EndReason, now time.Time) []Change {
	changes := make([]Change, len(list))
	for i, s := range list {
		changes[i] = Unsubscribe(&s, why, now)
		changes[i].Ended.EndedBy = r.Run
	}
	return changes
}

func (r BulkRules) begin(contact subject.ContactID, frequency string, now time.Time) *Subscription {
	return &Subscription{
		ID: r.NewID(), Contact: contact, Topic: r.Into, Frequency: frequency, Source: SourceBulk, Since: now, StartedAt: now, Covered: r.Last, StartedBy: r.Run,
	}
}

// present returns the subscription to a topic that goes on, and whether the contact has left it themselves.
func present(of []Subscription, id subject.TopicID) (s Subscription, follows, left bool) {
	for _, one := range of {
		switch {
		case one.Topic != id:
		case one.Active():
			return one, true, false
		case one.ID > s.ID:
			s, left = one, one.EndReason == EndUnsubscribed || one.EndReason == EndComplained
		}
	}
	return s, false, left
}

// undo takes back what a run has done, of a contact for whom nothing else has changed since: what it began ends, and what it ended goes on from where it was.
func (r BulkRules) undo(of []Subscription, now time.Time) ([]Change, Verdict) {
	var ended, began []Change
	for _, s := range of {
		switch at, follows, _ := present(of, s.Topic); {
		case s.StartedBy != r.Undoes:
		case s.Active():
			began = append(began, Unsubscribe(&s, EndBulkUndone, now))
		case s.EndReason == EndMerged && follows && at.StartedBy == r.Undoes: // it goes on as another one
		default:
			return nil, NewerChange
		}
	}
	for _, s := range of {
		if s.EndedBy != r.Undoes {
			continue
		}
		if at, follows, _ := present(of, s.Topic); follows && at.StartedBy != r.Undoes {
			return nil, NewerChange
		}
		again := s
		again.ID, again.Source, again.StartedAt, again.StartedBy = r.NewID(), SourceBulkUndone, now, r.Run
		again.EndedAt, again.EndReason, again.EndedBy = time.Time{}, "", 0
		ended = append(ended, Change{Started: &again, Resumes: true})
	}
	changes := slices.Concat(began, ended)
	return changes, verdictOf(changes)
}
