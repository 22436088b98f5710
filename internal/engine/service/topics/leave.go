package topics

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Left is what an unsubscribe link ends, or has ended.
type Left struct {
	Contact subject.Contact // whose link it is; after a merge the survivor
	Ended   []store.ListedSubscription
	Titles  []string // of their topics, in the contact's language
	forgets []topic.Moved
}

// Following returns what an unsubscribe link would end. It changes nothing. store.ErrNotFound: there is no such contact any more.
func (w *Writer) Following(ctx context.Context, ws subject.WorkspaceID, l topic.Leaving) (left Left, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		left, err = w.leaving(tx, ws, l)
		return err
	})
	if err != nil {
		return Left{}, fmt.Errorf("read what a link ends: %w", err)
	}
	return left, nil
}

// Leave ends what an unsubscribe link ends. A link that is used again ends nothing. store.ErrNotFound: there is no such contact any more.
func (w *Writer) Leave(ctx context.Context, ws subject.WorkspaceID, l topic.Leaving, now time.Time) (left Left, err error) {
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		if left, err = w.leaving(tx, ws, l); err != nil || len(left.Ended)+len(left.forgets) == 0 {
			return err
		}
		// As Unsubscribe does: what is being sent was committed before.
		if _, err := tx.LockDeliveriesOf(ws, []string{left.Contact.ExtID}); err != nil {
			return err
		}
		if _, err := tx.LockContacts(ws, []string{left.Contact.ExtID}); err != nil {
			return err
		}
		locked := left.Contact.ID
		if left, err = w.leaving(tx, ws, l); err != nil {
			return err
		}
		if left.Contact.ID != locked {
			return store.ErrAgain // it was merged meanwhile
		}
		if err := tx.ForgetMoved(ws, left.forgets); err != nil || len(left.Ended) == 0 {
			return err
		}
		changes := make([]topic.Change, len(left.Ended))
		names := make([]string, len(left.Ended))
		for i := range left.Ended {
			s := &left.Ended[i]
			changes[i] = topic.Unsubscribe(&s.Subscription, topic.EndUnsubscribed, now)
			s.Subscription, names[i] = *changes[i].Ended, s.TopicName
		}
		if err := tx.WriteSubscriptions(ws, changes); err != nil {
			return err
		}
		detail, err := json.Marshal(map[string]any{"topics": names})
		if err != nil {
			return fmt.Errorf("write the audit entry: %w", err)
		}
		return tx.Audit(ws, now, store.Audit{At: now, Actor: linkActor, Action: "unsubscribe", Target: left.Contact.ExtID, Detail: detail})
	})
	if err != nil {
		return Left{}, fmt.Errorf("unsubscribe by a link: %w", err)
	}
	return left, nil
}

// linkActor is who did it in the audit: the holder of a link.
const linkActor = "unsubscribe link"

// leaving finds the subscriptions that a link ends.
func (w *Writer) leaving(tx *store.Tx, ws subject.WorkspaceID, l topic.Leaving) (left Left, err error) {
	if left.Contact, err = survivor(tx, ws, l.Contact); err != nil {
		return left, err
	}
	of, err := tx.SubscriptionsOfContact(ws, left.Contact.ID)
	if err != nil {
		return left, err
	}
	if l.Contact != left.Contact.ID { // the link tells what they had before they were merged
		before, err := tx.SubscriptionsOfContact(ws, l.Contact)
		if err != nil {
			return left, err
		}
		of = append(slices.DeleteFunc(before, func(s store.ListedSubscription) bool { return s.Active() }), of...)
	}
	l.Contact = left.Contact.ID
	var published []subject.TopicID
	if l.Item != 0 {
		ref := store.EventRef{Workspace: ws, ID: l.Item}
		of, err := tx.TopicsOfItems([]store.EventRef{ref})
		if err != nil {
			return left, err
		}
		published = of[ref].Topics
	}
	all := make([]topic.Subscription, len(of))
	for i, s := range of {
		all[i] = s.Subscription
	}
	for _, id := range l.Forgets(all, published) {
		left.forgets = append(left.forgets, topic.Moved{Contact: l.Contact, Topic: id})
	}
	for _, s := range l.Ends(all, published) {
		left.Ended = append(left.Ended, of[slices.IndexFunc(of, func(listed store.ListedSubscription) bool { return listed.ID == s.ID })])
	}
	return left, w.title(tx, ws, &left)
}

// title reads the titles of the topics.
func (w *Writer) title(tx *store.Tx, ws subject.WorkspaceID, left *Left) error {
	ids := make([]subject.TopicID, len(left.Ended))
	for i, s := range left.Ended {
		ids[i] = s.Topic
	}
	rows, err := tx.TopicsByID(ws, ids)
	if err != nil {
		return err
	}
	left.Titles = make([]string, len(ids))
	for i, id := range ids {
		left.Titles[i] = w.topics.Title(rows[id], left.Contact.Locale)
	}
	return nil
}

// mergers bounds how often a contact was merged into another one in a row.
const mergers = 16
