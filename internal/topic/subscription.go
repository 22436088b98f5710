package topic

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Immediate is the frequency of those who get each item when it is published.
const Immediate = "immediate"

// SubscriptionID is the row id of a subscription.
type SubscriptionID int64

// Subscription says that a contact follows a topic, and how often the contact wants to hear of it. It never begins again: a contact who comes back, or
// chooses another frequency, has another one.
type Subscription struct {
	ID        SubscriptionID
	Contact   subject.ContactID
	Topic     subject.TopicID
	Frequency string
	Source    Source
	// Since is when the contact began to follow the topic: that of the one before, if the frequency was changed (R22).
	Since     time.Time
	StartedAt time.Time
	EndedAt   time.Time // zero: it goes on
	EndReason EndReason
	// Covered is covered_through: the number of a match. The contact is covered for the matches of the topic up to it: each of them was sent to them, or is
	// not for them.
	Covered int64
	// StartedBy and EndedBy are the runs over many people that began and ended it; 0: none did.
	StartedBy, EndedBy int64
}

// Active reports whether the subscription goes on.
func (s Subscription) Active() bool { return s.EndedAt.IsZero() }

// Source says how a subscription began.
type Source string

// The sources of subscriptions.
const (
	SourceAPI              Source = "api"
	SourceImport           Source = "import"
	SourceFrequencyChanged Source = "frequency_changed"
	SourceMerged           Source = "merged"      // it was that of a contact who was merged into this one
	SourceManage           Source = "manage_link" // its contact began it by their link
	SourceBulk             Source = "bulk"        // a run over many people began it
	SourceBulkUndone       Source = "bulk_undone" // it is one that a run had ended, which was undone
)

// EndReason says why a subscription ended.
type EndReason string

// The reasons for the end of a subscription.
const (
	EndUnsubscribed     EndReason = "unsubscribed"
	EndFrequencyChanged EndReason = "frequency_changed"
	EndMerged           EndReason = "merged"
	EndBounced          EndReason = "bounced"    // their address takes no messages
	EndComplained       EndReason = "complained" // they have called a message unwanted
	EndBulkUnsubscribed EndReason = "bulk_unsubscribed"
	EndBulkMigrated     EndReason = "bulk_migrated"
	EndBulkUndone       EndReason = "bulk_undone" // a run had begun it, which was undone
)

// EndReasons returns all reasons for the end of a subscription.
func EndReasons() []EndReason {
	return []EndReason{EndUnsubscribed, EndFrequencyChanged, EndMerged, EndBounced, EndComplained, EndBulkUnsubscribed, EndBulkMigrated, EndBulkUndone}
}

// Moved names what runs have ended of a contact.
type Moved struct {
	Contact subject.ContactID
	Run     int64           // 0: any
	Topic   subject.TopicID // 0: any
}

// Forgets returns what runs have ended, and counts for nothing any more because the subscription has ended: of who leaves a topic, what was before in its place,
// and of who bounces or complains everything.
func (s Subscription) Forgets() []Moved {
	switch s.EndReason {
	case EndUnsubscribed:
		list := []Moved{{Contact: s.Contact, Topic: s.Topic}}
		if s.StartedBy != 0 {
			list = append(list, Moved{Contact: s.Contact, Run: s.StartedBy})
		}
		return list
	case EndBounced, EndComplained:
		return []Moved{{Contact: s.Contact}}
	case EndFrequencyChanged, EndMerged, EndBulkMigrated, EndBulkUnsubscribed, EndBulkUndone:
	}
	return nil
}

// Status says whether a subscription goes on.
type Status string

// The statuses of a subscription.
const (
	StatusActive Status = "active"
	StatusEnded  Status = "ended"
	// StatusPending is that of one that waits until its contact confirms it.
	StatusPending Status = "pending"
)

// Status returns the status of the subscription.
func (s Subscription) Status() Status {
	if s.Active() {
		return StatusActive
	}
	return StatusEnded
}

// Change is what a request makes of the subscription of a contact to a topic: the one that ends and the one that begins. Both may be nil.
type Change struct {
	Ended, Started *Subscription
	// Rest is until when items were published that the contact, who had digests and now gets each item at once, has not got: they leave at once, as one
	// digest. Zero: there are none.
	Rest time.Time
	// Waited is the frequency of the digests that they waited for.
	Waited string
	// Beyond is what else the one that begins is covered for, after its Covered.
	Beyond []Beyond
	// Resumes says that the one that begins goes on from one that a run has ended, which counts for nothing any more.
	Resumes bool
}

// Beyond is what a contact is covered for after the Covered of a subscription: the matches up to a number of items that arrived after an instant, and before
// another one; zero: whenever.
type Beyond struct {
	Through      int64
	Since, Until time.Time
}

// Changed reports whether the request changes anything.
func (c Change) Changed() bool { return c.Ended != nil || c.Started != nil }

// After returns the subscriptions of a contact after changes of them.
func After(of []Subscription, changes []Change) []Subscription {
	of = slices.Clone(of)
	for _, c := range changes {
		for i, s := range of {
			switch {
			case c.Ended != nil && s.ID == c.Ended.ID:
				of[i] = *c.Ended
			case c.Resumes && s.Topic == c.Started.Topic:
				of[i].EndedBy = 0
			}
		}
		if c.Started != nil {
			of = append(of, *c.Started)
		}
	}
	return of
}

// Subscribe makes a contact follow a topic with a frequency. active is the contact's present subscription to it; nil: there is none. The same
// frequency changes nothing; another one goes on from where the present one is. wanted.Covered is the last match that there is, or of a contact who got
// each item when it was published, the last one of which they have got all.
func Subscribe(active *Subscription, wanted Subscription, now time.Time) Change {
	wanted.Since, wanted.StartedAt = now, now
	if active == nil {
		return Change{Started: &wanted}
	}
	if active.Frequency == wanted.Frequency {
		return Change{}
	}
	ended := *active
	ended.EndedAt, ended.EndReason = now, EndFrequencyChanged
	wanted.Since, wanted.Source = active.Since, SourceFrequencyChanged
	if active.Frequency != Immediate || wanted.Covered < active.Covered {
		wanted.Covered = active.Covered
	}
	change := Change{Ended: &ended, Started: &wanted}
	if wanted.Frequency == Immediate {
		change.Rest, change.Waited = now, active.Frequency
	}
	return change
}

// Resume makes a contact follow a topic whose subscription a run has ended: it goes on from where it was, as if there had been no run.
func Resume(moved, wanted Subscription, now time.Time) Change {
	moved.EndedAt, moved.EndReason, moved.EndedBy = time.Time{}, "", 0
	source := wanted.Source
	change := Subscribe(&moved, wanted, now)
	if !change.Changed() {
		wanted.Since, wanted.StartedAt, wanted.Covered = moved.Since, now, moved.Covered
		change.Started = &wanted
	}
	change.Ended, change.Started.Source, change.Resumes = nil, source, true
	return change
}

// Moved reports whether a run has ended the subscription and it still counts for what was published before: nothing has taken its place.
func (s Subscription) Moved() bool { return s.EndedBy != 0 && s.EndReason != EndFrequencyChanged }

// MovedOf returns what a run has ended last of the subscriptions of a contact to a topic, if nothing has become of it since.
func MovedOf(of []Subscription, id subject.TopicID) (moved Subscription, ok bool) {
	for _, s := range of {
		if s.Topic == id && s.Moved() && s.ID > moved.ID {
			moved, ok = s, true
		}
	}
	return moved, ok
}

// CompareFrequencies orders frequencies, the most frequent one first.
func CompareFrequencies(a, b string) int { return cmp.Compare(rank(a), rank(b)) }

// rank orders frequencies, the most frequent one first. Those whose name does not say how often are the last.
func rank(frequency string) int {
	known := []string{Immediate, "hourly", "daily", "weekly", "fortnightly", "monthly", "quarterly", "yearly"}
	if at := slices.Index(known, frequency); at >= 0 {
		return at
	}
	return len(known)
}

// Unsubscribe ends the present subscription of a contact to a topic, if there is one.
func Unsubscribe(active *Subscription, why EndReason, now time.Time) Change {
	if active == nil {
		return Change{}
	}
	ended := *active
	ended.EndedAt, ended.EndReason = now, why
	return Change{Ended: &ended}
}
