package topic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Leaving is what an unsubscribe link ends, of one contact: the subscription to a topic, those to the topics of an item, or those of a frequency. A
// subscription that has taken the place of another one is ended as that one would be. One of Topic, Item and Frequency is set.
type Leaving struct {
	Contact   subject.ContactID
	Topic     subject.TopicID
	Item      subject.EventID
	Frequency string
}

// String returns the subject of a link.
func (l Leaving) String() string {
	contact := strconv.FormatInt(int64(l.Contact), 10)
	switch {
	case l.Topic != 0:
		return contact + "/topic/" + strconv.FormatInt(int64(l.Topic), 10)
	case l.Item != 0:
		return contact + "/item/" + strconv.FormatInt(int64(l.Item), 10)
	}
	return contact + "/frequency/" + l.Frequency
}

// ParseLeaving reads the subject of a link. ok is false if String did not write it.
func ParseLeaving(text string) (l Leaving, ok bool) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 {
		return l, false
	}
	contact, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return l, false
	}
	l.Contact = subject.ContactID(contact)
	switch id, err := strconv.ParseInt(parts[2], 10, 64); {
	case parts[1] == "topic" && err == nil:
		l.Topic = subject.TopicID(id)
	case parts[1] == "item" && err == nil:
		l.Item = subject.EventID(id)
	case parts[1] == "frequency" && key.Slug(parts[2]) == nil:
		l.Frequency = parts[2]
	}
	return l, l.String() == text
}

// Ends returns those of the subscriptions of the contact that the link ends. of are all that they have or had, and topics those of the item.
func (l Leaving) Ends(of []Subscription, topics []subject.TopicID) []Subscription {
	had := l.had(of)
	about := func(id subject.TopicID) bool {
		return l.Topic != 0 && id == l.Topic || l.Item != 0 && slices.Contains(topics, id) || had[id]
	}
	moved := map[int64]bool{} // runs that gave them another topic instead of one that the link is about
	for _, s := range of {
		if about(s.Topic) && s.EndReason == EndBulkMigrated && s.EndedBy != 0 {
			moved[s.EndedBy] = true
		}
	}
	var ends []Subscription
	for _, s := range of {
		if s.Active() && (about(s.Topic) || moved[s.StartedBy]) {
			ends = append(ends, s)
		}
	}
	return ends
}

// had returns the topics that the contact has or had a subscription to with the frequency of the link, but for those that ended for good.
func (l Leaving) had(of []Subscription) map[subject.TopicID]bool {
	had := map[subject.TopicID]bool{}
	for _, s := range of {
		switch {
		case l.Frequency == "" || s.Frequency != l.Frequency:
		case s.Active(), s.EndReason == EndFrequencyChanged, s.EndReason == EndMerged, s.EndReason == EndBulkMigrated, s.EndReason == EndBulkUnsubscribed:
			had[s.Topic] = true
		}
	}
	return had
}

// Forgets returns the topics of the link whose subscriptions a run has ended: the contact gets nothing more of them that was published before.
func (l Leaving) Forgets(of []Subscription, topics []subject.TopicID) (list []subject.TopicID) {
	had := l.had(of)
	for _, s := range of {
		if s.EndedBy != 0 && (l.Topic != 0 && s.Topic == l.Topic || l.Item != 0 && slices.Contains(topics, s.Topic) || had[s.Topic]) {
			list = append(list, s.Topic)
		}
	}
	return list
}

// Managing is what a link to the page where people manage what they follow is about.
type Managing struct{ Contact subject.ContactID }

// String returns the subject of a link.
func (m Managing) String() string { return strconv.FormatInt(int64(m.Contact), 10) }

// ParseManaging reads the subject of a link. ok is false if String did not write it.
func ParseManaging(text string) (m Managing, ok bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	m.Contact = subject.ContactID(id)
	return m, err == nil && m.String() == text
}

// Confirming is what a link to confirm a subscription is about.
type Confirming struct {
	Contact subject.ContactID
	Topic   string // its name
}

// String returns the subject of a link.
func (c Confirming) String() string { return strconv.FormatInt(int64(c.Contact), 10) + "/" + c.Topic }

// ParseConfirming reads the subject of a link. ok is false if String did not write it.
func ParseConfirming(text string) (c Confirming, ok bool) {
	contact, name, _ := strings.Cut(text, "/")
	id, err := strconv.ParseInt(contact, 10, 64)
	c = Confirming{subject.ContactID(id), name}
	return c, err == nil && name != "" && c.String() == text
}
