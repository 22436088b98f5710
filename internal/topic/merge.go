package topic

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Merge gives the subscriptions of a contact who is merged to the survivor: those that go on, and those that a run has ended. Of two to one topic that go
// on, the more frequent one does (GOV.UK), and the survivor's own of two that are as frequent. It goes on from where either of the two was when a run ended theirs.
// of and own are all subscriptions that the two have or had. newID makes the ids of those that begin.
func Merge(of []Subscription, survivor subject.ContactID, own []Subscription, newID func() SubscriptionID, now time.Time) []Change {
	var changes []Change
	begins := func(s Subscription) *Subscription {
		s.ID, s.Contact = newID(), survivor
		if s.Active() {
			s.Source, s.StartedAt = SourceMerged, now
		}
		return &s
	}
	for _, s := range of {
		if followsUp(s, of) {
			s.EndedBy = 0
			changes = append(changes, Change{Started: begins(s)}) // an undo finds that they have changed it
		}
	}
	for _, id := range topicsOf(of) {
		theirs, has := standingTo(of, id), standingTo(own, id)
		if theirs.active != nil {
			changes = append(changes, Unsubscribe(theirs.active, EndMerged, now))
		}
		if before, ok := theirs.before(of); ok && has.moved == nil && (has.active == nil || has.active.StartedBy == before.EndedBy) {
			if _, known := has.before(own); !known {
				changes = append(changes, Change{Started: begins(before)}) // an undo finds it
			}
		}
		if next, changed := has.merge(theirs); changed || has.active != nil && has.active.Frequency != Immediate && hadAtOnce(of, id) {
			change := Unsubscribe(has.active, EndMerged, now)
			change.Started, change.Beyond, change.Rest, change.Waited, change.Resumes = begins(next.Subscription), next.beyond, next.rest, next.waited, has.moved != nil
			changes = append(changes, change)
		}
	}
	return changes
}

// followsUp reports whether a run has begun the subscription, which has ended since, and has ended another one.
func followsUp(s Subscription, of []Subscription) bool {
	return !s.Active() && !s.Moved() && s.StartedBy != 0 && slices.ContainsFunc(of, func(o Subscription) bool { return o.Moved() && o.EndedBy == s.StartedBy })
}

// hadAtOnce reports whether messages about items of a topic alone may have reached a contact. They count for digests of a subscription that begins later.
func hadAtOnce(of []Subscription, id subject.TopicID) bool {
	return slices.ContainsFunc(of, func(s Subscription) bool { return s.Topic == id && s.Frequency == Immediate })
}

func topicsOf(of []Subscription) (ids []subject.TopicID) {
	for _, s := range of {
		ids = append(ids, s.Topic)
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// standing is what counts of the subscriptions of a contact to a topic: the one that goes on, and what a run has ended. Either may be nil.
type standing struct{ active, moved *Subscription }

func standingTo(of []Subscription, id subject.TopicID) (at standing) {
	for _, s := range of {
		if s.Topic == id && s.Active() {
			at.active = &s
		}
	}
	if moved, ok := MovedOf(of, id); ok {
		at.moved = &moved
	}
	return at
}

// before returns the subscription in whose place a run has begun the one that goes on.
func (at standing) before(of []Subscription) (s Subscription, ok bool) {
	i := slices.IndexFunc(of, func(s Subscription) bool {
		return at.active != nil && s.Topic == at.active.Topic && s.EndReason == EndFrequencyChanged && s.EndedBy != 0 && s.EndedBy == at.active.StartedBy
	})
	if i < 0 {
		return s, false
	}
	return of[i], true
}

// joined is a subscription that takes the place of several ones.
type joined struct {
	Subscription
	beyond []Beyond
	rest   time.Time
	waited string
}

// merge returns the subscription of a person who turns out to be another one, too. changed is false if it is as it was: then the messages that the other one
// got do not matter for its digests.
func (at standing) merge(theirs standing) (next joined, changed bool) {
	switch {
	case at.active != nil && theirs.active != nil:
		next, changed = at.active.join(*theirs.active)
	case at.active != nil:
		next.Subscription = *at.active
	case theirs.active != nil:
		next.Subscription, changed = *theirs.active, true
	case at.moved != nil && theirs.moved != nil:
		return bothMoved(*at.moved, *theirs.moved), true
	case theirs.moved != nil:
		next.Subscription = *theirs.moved
		next.StartedAt = next.EndedAt // a message that the survivor has may be about what it waits for
		return next, true
	default:
		return next, false
	}
	for _, moved := range []*Subscription{at.moved, theirs.moved} {
		if moved != nil {
			next.resume(*moved)
		}
	}
	return next, changed || theirs.moved != nil
}

// bothMoved returns what counts of two subscriptions that a run has ended each: for what waits for a digest, as often as the more frequent one had digests.
func bothMoved(own, theirs Subscription) (next joined) {
	if own.Frequency == Immediate && theirs.Frequency != Immediate {
		own, theirs = theirs, own
	}
	next.Subscription = own
	next.resume(theirs)
	if theirs.Frequency != Immediate && CompareFrequencies(theirs.Frequency, own.Frequency) < 0 {
		next.Frequency = theirs.Frequency
	}
	if theirs.EndedAt.After(own.EndedAt) {
		next.EndedAt, next.EndReason, next.EndedBy = theirs.EndedAt, theirs.EndReason, theirs.EndedBy
	}
	next.StartedAt = next.EndedAt
	return next
}

// resume has the subscription go on from where another one was when a run ended it. What was published after that end was not for that one.
func (s *joined) resume(moved Subscription) {
	switch {
	case moved.Covered > s.Covered:
		s.beyond = append(s.beyond, Beyond{Through: moved.Covered, Since: earlier(moved.Since, s.EndedAt), Until: moved.EndedAt})
	case s.awaits(moved, s.Subscription):
		last := &s.beyond[len(s.beyond)-1]
		last.Since = earlier(last.Since, moved.EndedAt)
		s.Since = moved.Since
	}
	if moved.Frequency == Immediate && s.Frequency == Immediate { // its message may wait to be tried again
		s.Since = earlier(s.Since, moved.Since)
	}
}

// earlier returns the earlier one of two instants; zero: there is none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// join returns the subscription of one person who had two to the same topic, this one and that of a contact who is merged into this one's. changed is
// false if it is this one as it is.
func (s Subscription) join(of Subscription) (both joined, changed bool) {
	both.Subscription = s
	if rank(of.Frequency) < rank(s.Frequency) {
		both.Frequency = of.Frequency
	}
	both.Since = earlier(s.Since, of.Since)
	if of.StartedBy == 0 { // they asked for it, so the undo of a run does not end it
		both.StartedBy = 0
	}
	near, far := s, of
	if near.Covered > far.Covered {
		near, far = far, near
	}
	// The person was sent what the one that has come further was sent. That is not what was published before it began: it may wait for the other one's digest.
	both.Covered = far.Covered
	both.awaits(near, far)
	return both, both.Frequency != s.Frequency || both.Covered != s.Covered || len(both.beyond) > 0 || both.StartedBy != s.StartedBy
}

// awaits has the subscription await what waits for the digest of one, and was published before another one began that is covered further. It reports whether
// there may be any. If that one goes on with each item at once, so does what waits.
func (s *joined) awaits(near, far Subscription) bool {
	if near.Frequency == Immediate || near.Covered >= far.Covered || !near.Since.Before(far.Since) {
		return false
	}
	s.Covered, s.beyond = near.Covered, append(s.beyond, Beyond{Through: far.Covered, Since: far.Since, Until: far.EndedAt})
	if far.Active() && far.Frequency == Immediate && s.rest.IsZero() {
		s.rest, s.waited = far.StartedAt, near.Frequency
	}
	return true
}
