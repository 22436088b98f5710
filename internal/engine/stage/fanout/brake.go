package fanout

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// brake is how many people an occasion may take up (max_recipients_per_run). A person more puts it on hold, and the cursor stands before them. The
// rows of zones of one occasion have one brake.
type brake struct {
	most  int // by the definition in force
	taken int // by the occasion, in all of its rows
}

// left is how many people more it lets through. A brake that is nil lets everybody through.
func (b *brake) left(people int) int {
	if b == nil {
		return people
	}
	return max(b.most-b.taken, 0)
}

// take counts people who were taken up.
func (b *brake) take(people int) {
	if b != nil {
		b.taken += people
	}
}

// entry reports that an occasion is held by its brake.
func (b *brake) entry(in due, result outcome, now time.Time) journal.Entry {
	e := entry(journal.Held, in, result, now)
	e.Error = fmt.Sprintf("%d people are taken up, and max_recipients_per_run is %d", b.taken, b.most)
	return e
}

// brakeOf is the brake of an occasion; nil: it has none, or a person has released it. The definition in force says how many people are too many, also for
// an occasion that keeps the version with which it began.
func (r *run) brakeOf(p *planned, in due) *brake {
	t := p.trigger
	if w := p.live.Workflow(in.Workflow); w != nil && w.TriggerByID(in.Trigger) != nil {
		t = w.TriggerOf(in.Trigger, in.Message)
	}
	if t.MaxRecipients == 0 || !in.UnbrakedAt.IsZero() {
		return nil
	}
	if p.zones == nil {
		return &brake{most: t.MaxRecipients, taken: in.Recipients}
	}
	head := in.ID
	if in.OfZone() {
		head = in.Head
	}
	if r.brakes[head] == nil {
		r.brakes[head] = &brake{most: t.MaxRecipients, taken: in.Recipients}
	}
	return r.brakes[head]
}

// readBrakes reads what all the rows of occasions that have rows of zones have taken up, and keeps other transactions from taking up more. If a person
// has released one of the rows, the whole occasion has no brake any more.
func (r *run) readBrakes(tx *store.Tx, list []due) error {
	if len(r.brakes) == 0 {
		return nil
	}
	var heads []store.OccasionRef
	for i, in := range list {
		p := &r.planned[i]
		if p.brake == nil || p.zones == nil {
			continue
		}
		head := in.ID
		if in.OfZone() {
			head = in.Head
		}
		heads = append(heads, store.OccasionRef{Workspace: in.Workspace, ID: head})
	}
	found, err := tx.LockTakenUp(heads)
	if err != nil {
		return err
	}
	for _, of := range found {
		b := r.brakes[of.ID]
		if b.taken = of.Recipients; of.Unbraked {
			b.most = maxPeople
		}
	}
	return nil
}

// maxPeople is more people than any occasion has.
const maxPeople = 1 << 62

// chosen is a person whom an occasion takes up.
type chosen struct {
	admission.Recipient
	due   time.Time       // when their message is due; none: with the occasion
	late  bool            // they have joined the course late
	topic admission.About // of a digest: the topic that the message is about alone
}

// choose selects the people of a page whom the occasion takes up, and returns the cursor after them. held reports that its brake has left somebody out,
// before whom the cursor stands.
func (r *run) choose(result *outcome, p planned, in due, people store.People) (list []chosen, after subject.ContactID, held bool) {
	recipients, after := p.audience.Recipients(people)
	left, taken := p.brake.left(len(recipients)), 0
	for _, recipient := range recipients {
		one := chosen{Recipient: recipient.Recipient, due: p.due}
		if people.Notified[recipient.Person.ID] {
			continue
		}
		if p.members != nil {
			if one.late = p.members.late(recipient.Person.ID); r.elsewhere(result, p, in, recipient.Person) {
				continue
			}
		} else if in.OfPerson() && recipient.Person.ID != in.Own.Contact {
			continue
		}
		if p.zones != nil {
			var theirs bool
			if one.due, theirs = p.zones.due(r, in, recipient.Person, people); !theirs {
				continue
			}
		}
		messages := []chosen{one}
		if p.digest != nil {
			if messages = p.digest.messages(one); len(messages) == 0 {
				continue
			}
		}
		if taken == left {
			return list, recipient.Before, true
		}
		if p.members != nil {
			p.members.founds(result, recipient.Person.ID, r.now)
		}
		taken++
		list = append(list, messages...)
	}
	return list, after, false
}
