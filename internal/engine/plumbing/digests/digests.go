// Package digests reads what a digest has to tell to whom; package digest decides it.
//
//	people of a page, or claims of a step ─▶ Read: subscriptions, matches, what other messages tell ─▶ digest.Compose ─▶ contents
//
// The fan-out asks who gets a message at all, and the intent asks again and fixes the contents: a change of a subscription in between wins.
package digests

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Tx is what Read needs of a store.Tx.
type Tx interface {
	Matches(ws subject.WorkspaceID, asked []store.MatchesAfter) (map[subject.TopicID][]digest.Match, error)
	InstancesOfItems(ws subject.WorkspaceID, items []subject.EventID) (map[subject.EventID][]store.ItemInstance, error)
	Notified(pairs []store.Pair) (map[store.Pair]digest.State, error)
	CoveredAhead(ws subject.WorkspaceID, contacts []subject.ContactID) (map[store.Following][]int64, error)
	OpenDigests(ws subject.WorkspaceID, contacts []subject.ContactID) ([]store.DigestRow, error)
}

// Question asks what a digest tells a contact.
type Question struct {
	Contact       subject.ContactID
	Delivery      delivery.ID          // whose own contents are not those of another message; 0: it does not exist yet
	Subscriptions []topic.Subscription // those that the digest serves
	Window        digest.Window
	Rules         digest.Rules
	Again         bool // with what the contact is covered for
}

// Answer is what a digest tells a contact.
type Answer struct {
	Contents digest.Contents
	Passed   []digest.Covered // covered without a message
}

// Titles orders the sections of messages: it returns the title of a topic and its name. nil: the order does not matter.
type Titles func(subject.TopicID) (title, name string)

// windowOf returns the items of which a run tells: [from, end), by their arrival. first is the start of the first window of the trigger; none: this is the
// first.
func windowOf(period digest.Window, first time.Time, rules digest.Rules) digest.Window {
	w := digest.Window{From: first, End: period.End}
	if first.IsZero() || period.From.Before(first) {
		w.From = period.From
	}
	if oldest := period.End.Add(-max(digest.Horizon, 2*period.End.Sub(period.From))); w.From.Before(oldest) {
		w.From = oldest
	}
	if rules.CatchUp == digest.CatchUpSkip && w.From.Before(period.From) {
		w.From = period.From
	}
	return w
}

// Read answers questions of one workspace, in their order: an item that one of them holds is open for the next.
func Read(tx Tx, ws subject.WorkspaceID, set *definition.Set, asked []Question, titles Titles) ([]Answer, error) {
	r := reading{ws: ws, set: set, open: map[told]bool{}, own: map[told][]delivery.ID{}}
	if err := r.read(tx, asked); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(asked))
	for i, q := range asked {
		answers[i] = r.answer(q, titles)
	}
	return answers, nil
}

// told is an item of a topic that a message tells a contact.
type told struct {
	store.Following
	item subject.EventID
}

type reading struct {
	ws        subject.WorkspaceID
	set       *definition.Set
	matches   map[subject.TopicID][]digest.Match
	instances map[subject.EventID][]store.ItemInstance
	notified  map[store.Pair]digest.State
	ahead     map[store.Following][]int64
	own       map[told][]delivery.ID // open digests that tell it
	open      map[told]bool          // an earlier answer tells it
}

func (r *reading) read(tx Tx, asked []Question) (err error) {
	after := map[subject.TopicID]*store.MatchesAfter{}
	var contacts []subject.ContactID
	for _, q := range asked {
		contacts = append(contacts, q.Contact)
		for _, s := range q.Subscriptions {
			wanted := q.matches(s)
			if a := after[s.Topic]; a != nil {
				wanted.Seq = min(wanted.Seq, a.Seq)
				if a.Since.Before(wanted.Since) {
					wanted.Since = a.Since
				}
			}
			after[s.Topic] = &wanted
		}
	}
	wanted := make([]store.MatchesAfter, 0, len(after))
	for _, id := range slices.Sorted(maps.Keys(after)) {
		wanted = append(wanted, *after[id])
	}
	if r.matches, err = tx.Matches(r.ws, wanted); err != nil {
		return err
	}
	if r.ahead, err = tx.CoveredAhead(r.ws, contacts); err != nil {
		return err
	}
	others, err := tx.OpenDigests(r.ws, contacts)
	if err != nil {
		return err
	}
	for _, d := range others {
		for _, s := range d.Contents.Sections {
			for _, item := range slices.Concat(s.Items, s.See) {
				at := told{store.Following{Contact: d.Contact, Topic: s.Topic}, item}
				r.own[at] = append(r.own[at], d.Delivery)
			}
		}
	}
	var items []subject.EventID
	for _, list := range r.matches {
		for _, m := range list {
			items = append(items, m.Item)
		}
	}
	if r.instances, err = tx.InstancesOfItems(r.ws, items); err != nil {
		return err
	}
	pairs := map[store.Pair]bool{}
	for _, q := range asked {
		for _, s := range q.Subscriptions {
			for _, m := range r.after(q, s) {
				for _, in := range r.instances[m.Item] {
					if r.mayReach(in, s, m) {
						pairs[store.Pair{Instance: in.ID, Contact: q.Contact}] = true
					}
				}
			}
		}
	}
	r.notified, err = tx.Notified(slices.SortedFunc(maps.Keys(pairs), func(a, b store.Pair) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Contact, b.Contact))
	}))
	return err
}

// matches are those that a digest may tell of a topic.
func (q Question) matches(s topic.Subscription) store.MatchesAfter {
	if q.Again {
		return store.MatchesAfter{Topic: s.Topic, Since: q.Window.From}
	}
	return store.MatchesAfter{Topic: s.Topic, Seq: s.Covered}
}

// after returns the matches of a topic that a digest may tell.
func (r *reading) after(q Question, s topic.Subscription) []digest.Match {
	list := r.matches[s.Topic]
	i, _ := slices.BinarySearchFunc(list, q.matches(s).Seq+1, func(m digest.Match, seq int64) int { return cmp.Compare(m.Seq, seq) })
	if s.Active() {
		return list[i:]
	}
	return slices.DeleteFunc(slices.Clone(list[i:]), func(m digest.Match) bool { return !s.Before(m.Item, m.ReceivedAt) }) // a run has ended it
}

// mayReach reports whether an instance of an item may have a delivery to a subscriber: not if its audience has another frequency, which the subscriber had
// not at that time either.
func (r *reading) mayReach(in store.ItemInstance, s topic.Subscription, m digest.Match) bool {
	if !s.StartedAt.Before(m.ReceivedAt) {
		return true
	}
	w := r.set.Workflow(in.Workflow)
	if w == nil {
		return true
	}
	t := w.TriggerByID(in.Trigger)
	return t == nil || slices.ContainsFunc(t.Audience, func(a definition.Audience) bool {
		return a.Topics == "" || a.Frequency == "" || a.Frequency == s.Frequency
	})
}

// state says what other messages tell a contact of a match.
func (r *reading) state(q Question, s topic.Subscription, m digest.Match) digest.State {
	at := told{store.Following{Contact: q.Contact, Topic: s.Topic}, m.Item}
	state := digest.New
	if r.open[at] || slices.ContainsFunc(r.own[at], func(id delivery.ID) bool { return id != q.Delivery }) {
		state = digest.Open
	}
	for _, in := range r.instances[m.Item] {
		if !r.mayReach(in, s, m) {
			continue
		}
		switch known := r.notified[store.Pair{Instance: in.ID, Contact: q.Contact}]; {
		case known == digest.Told:
			return digest.Told
		case known == digest.Open || in.Waits:
			state = digest.Open
		}
	}
	return state
}

func (r *reading) answer(q Question, titles Titles) Answer {
	var a Answer
	follows := make([]digest.Followed, 0, len(q.Subscriptions))
	for _, s := range q.Subscriptions {
		f := digest.Followed{Topic: s.Topic, Since: s.Since, Covered: s.Covered, Ahead: r.ahead[store.Following{Contact: q.Contact, Topic: s.Topic}], Again: q.Again}
		if titles != nil {
			f.Title, f.Name = titles(s.Topic)
		}
		for _, m := range r.after(q, s) {
			m.State = r.state(q, s, m)
			f.Matches = append(f.Matches, m)
		}
		follows = append(follows, f)
	}
	a.Contents, a.Passed = digest.Compose(follows, q.Window, q.Rules)
	for _, s := range a.Contents.Sections {
		for _, item := range slices.Concat(s.Items, s.See) {
			r.open[told{store.Following{Contact: q.Contact, Topic: s.Topic}, item}] = true
		}
	}
	return a
}

// PeriodOf returns the window of a run from the fields of its occasion; ok is false if it has none.
func PeriodOf(period map[string]any) (w digest.Window, ok bool) {
	from, isFrom := period["start"].(time.Time)
	end, isEnd := period["end"].(time.Time)
	return digest.Window{From: from.UTC(), End: end.UTC()}, isFrom && isEnd
}

// LeftOut says why a run made no message for a contact: of are all subscriptions that the contact has or had, and people those of its audience, with the topics
// that are meant by each. Empty: it was not about them.
func LeftOut(of []topic.Subscription, people []topic.People, meant []topic.Meant, begun time.Time) reason.Reason {
	why := reason.Reason("")
	for _, s := range of {
		then := s
		then.EndedAt = time.Time{}
		switch {
		case s.StartedAt.After(begun), len(topic.Served([]topic.Subscription{then}, people, meant, 0)) == 0:
		case s.Active() || s.EndedAt.After(begun):
			return reason.NothingNew
		default:
			why = reason.Unsubscribed
		}
	}
	return why
}
