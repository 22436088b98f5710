// Package digest decides which items a digest holds for whom, once.
//
//	matches of the topics that a person follows ─▶ Compose ─▶ sections of the message, and what is covered when it has left
//
// A person has a cursor in each topic, covered_through: what is up to it is not sent again. A digest takes the items after it that arrived before the
// end of its window. Items are numbered in the order in which they were matched, which is not that of their arrival; so the cursor stops before the
// first item that waits, and the matches beyond it that are covered, too, are remembered one by one.
//
// It is not the engine: it reads no store and no clock.
package digest

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/subject"
)

// Rules are the rules of a workflow for its digests.
type Rules struct {
	Bundle     Bundle
	Duplicates Duplicates
	CatchUp    CatchUp
	MaxItems   int // of a message; the others are counted
}

// Bundle says what one message is about.
type Bundle string

// The values of Bundle.
const (
	BundleContact      Bundle = "contact"      // all topics of a person
	BundleSubscription Bundle = "subscription" // one topic of a person
)

// Duplicates says what becomes of an item that belongs to several topics of a message.
type Duplicates string

// The values of Duplicates.
const (
	DuplicatesOnce Duplicates = "once" // it stands in the first of its sections, and the others refer to it
	DuplicatesEach Duplicates = "each" // it stands in each of its sections
)

// CatchUp says what becomes of the window of a run that was missed.
type CatchUp string

// The values of CatchUp.
const (
	CatchUpMerge CatchUp = "merge" // the next run tells what arrived in it
	CatchUpSkip  CatchUp = "skip"  // nobody gets them
	CatchUpSend  CatchUp = "send"  // it gets a run of its own, late
)

// DefaultMaxItems is how many items a message holds if its workflow says nothing.
const DefaultMaxItems = 100

// Horizon is how long an item may go into a digest after it arrived, or two periods of its schedule if that is longer: nobody gets news of last year, and
// who cannot be reached does not have them heaped up.
const Horizon = 31 * 24 * time.Hour

// Reach is how long before its due instant a run with windows of a length looks at most. Two days are for the time between the end of a window and the run.
func Reach(length civil.Duration) time.Duration {
	const day = 24 * time.Hour
	window := time.Duration(length.Months)*31*day + time.Duration(length.Days)*day + length.Clock
	return max(Horizon, 2*window) + 2*day
}

// Window is the time [From, End) whose items a digest tells, by their arrival.
type Window struct{ From, End time.Time }

// State says what is known of an item and a person besides the digests that have left.
type State string

// The values of State.
const (
	New  State = ""     // nothing
	Open State = "open" // another message tells it, and has not ended
	Told State = "told" // another message has told it
)

// Match is an item that belongs to a topic.
type Match struct {
	Seq        int64 // ascending in the order in which items were matched
	Item       subject.EventID
	Content    string // the caller's id of the item, the same for all its versions
	ReceivedAt time.Time
	State      State
}

// Followed is a topic that a person follows with the frequency of the digest.
type Followed struct {
	Topic   subject.TopicID
	Title   string // orders the sections
	Name    string // orders those of the same title
	Since   time.Time
	Covered int64   // covered_through: matches up to it are not told
	Ahead   []int64 // matches after it that are not told either
	Matches []Match // those after Covered, ascending; with Again all that may be in the window
	Again   bool    // tells what the person is covered for, too, and moves Covered nowhere
}

// Section is what a message tells of one topic.
type Section struct {
	Topic subject.TopicID   `json:"topic"`
	Items []subject.EventID `json:"items,omitempty"`
	See   []subject.EventID `json:"see,omitempty"` // they stand in an earlier section
	More  int               `json:"more,omitempty"`
}

// Covered is how far a person is covered in a topic.
type Covered struct {
	Topic   subject.TopicID `json:"topic"`
	Through int64           `json:"through"`
	Ahead   []int64         `json:"ahead,omitempty"` // matches after Through that are covered, too
}

// Contents is what one message tells. It is fixed when the message leaves for the first time.
type Contents struct {
	Sections []Section `json:"sections,omitempty"`
	More     int       `json:"more,omitempty"` // items that found no room
	// Covered is what is covered once the message has left.
	Covered []Covered `json:"covered,omitempty"`
}

// Empty reports whether there is nothing to tell.
func (c Contents) Empty() bool { return len(c.Sections) == 0 }

// Topics are the topics of the sections, in their order.
func (c Contents) Topics() []subject.TopicID {
	topics := make([]subject.TopicID, len(c.Sections))
	for i, s := range c.Sections {
		topics[i] = s.Topic
	}
	return topics
}

// Compose decides what a digest tells a person who follows some topics. passed is what is covered without any message: the person will not get it, or has
// got it already.
func Compose(follows []Followed, w Window, rules Rules) (c Contents, passed []Covered) {
	follows = slices.SortedFunc(slices.Values(follows), func(a, b Followed) int {
		return cmp.Or(cmp.Compare(a.Title, b.Title), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Topic, b.Topic))
	})
	stands := map[subject.EventID]bool{}
	room := cmp.Or(rules.MaxItems, DefaultMaxItems)
	for _, f := range follows {
		d := f.decide(w)
		if d.through > f.Covered {
			passed = append(passed, Covered{Topic: f.Topic, Through: d.through})
		}
		if len(d.news) == 0 {
			continue
		}
		s := Section{Topic: f.Topic}
		for _, m := range d.news {
			switch {
			case stands[m.Item] && rules.Duplicates != DuplicatesEach:
				s.See = append(s.See, m.Item)
			case room == 0:
				s.More++
			default:
				room--
				s.Items = append(s.Items, m.Item)
				stands[m.Item] = true
			}
		}
		c.More += s.More
		c.Sections, c.Covered = append(c.Sections, s), append(c.Covered, d.covered)
	}
	return c, passed
}

// decision is what a digest makes of one topic.
type decision struct {
	news    []Match // in the order of their arrival
	covered Covered // once the message has left
	through int64   // up to here the person is covered without it
}

// decide looks at each match once. A match that waits is not covered: it is open in another message, or belongs to a later window.
func (f Followed) decide(w Window) decision {
	from := w.From
	if f.Since.After(from) {
		from = f.Since
	}
	d := decision{covered: Covered{Topic: f.Topic, Through: f.Covered}, through: f.Covered}
	newest := map[string]int64{}
	waits := false
	for _, m := range f.Matches {
		switch {
		case !f.Again && m.Seq <= f.Covered:
			continue
		case !f.Again && slices.Contains(f.Ahead, m.Seq), m.ReceivedAt.Before(from), m.State == Told:
			if f.Again {
				continue
			}
			if len(d.news) == 0 && !waits {
				d.through = m.Seq
			}
		case m.State == Open, !m.ReceivedAt.Before(w.End):
			waits = true
			continue
		default:
			d.news, newest[m.Content] = append(d.news, m), m.Seq
		}
		if f.Again && m.Seq <= f.Covered {
			continue
		}
		if waits || f.Again { // what lies between is for the next digest
			d.covered.Ahead = append(d.covered.Ahead, m.Seq)
		} else {
			d.covered.Through = m.Seq
		}
	}
	d.news = slices.DeleteFunc(d.news, func(m Match) bool { return newest[m.Content] != m.Seq }) // a later version replaces it
	slices.SortStableFunc(d.news, func(a, b Match) int { return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.Seq, b.Seq)) })
	return d
}

// Only leaves the sections of some topics: a person may have left the others since the contents were fixed.
func (c Contents) Only(topics []subject.TopicID) Contents {
	left, stands := Contents{}, map[subject.EventID]bool{}
	for i, s := range c.Sections {
		if !slices.Contains(topics, s.Topic) {
			continue
		}
		kept := Section{Topic: s.Topic, Items: slices.Clone(s.Items), More: s.More}
		for _, item := range s.See {
			if stands[item] {
				kept.See = append(kept.See, item)
			} else { // the section in which it stood is gone
				kept.Items = append(kept.Items, item)
			}
		}
		for _, item := range kept.Items {
			stands[item] = true
		}
		left.Sections, left.Covered = append(left.Sections, kept), append(left.Covered, c.Covered[i])
		left.More += s.More
	}
	return left
}
