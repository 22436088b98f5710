package topics

import (
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// EndAll ends all subscriptions of contacts in a transaction, what runs have ended and still counts, and what they were to confirm, and returns those that have
// ended. It locks the deliveries of the contacts before the contacts: what is being sent was committed before.
func EndAll(tx *store.Tx, ws subject.WorkspaceID, contacts []string, why topic.EndReason, now time.Time) ([]topic.Subscription, error) {
	if _, err := tx.LockDeliveriesOf(ws, contacts); err != nil {
		return nil, err
	}
	known, err := tx.LockContacts(ws, contacts)
	if err != nil {
		return nil, err
	}
	ids := make([]subject.ContactID, 0, len(known))
	for _, c := range known {
		ids = append(ids, c.ID)
	}
	active, err := tx.ActiveSubscriptions(ws, ids)
	if err != nil {
		return nil, err
	}
	requests, err := tx.SubscriptionRequests(ws, ids)
	if err != nil {
		return nil, err
	}
	var ended []topic.Subscription
	var changes []topic.Change
	var left []topic.Moved // what runs have ended
	for _, id := range ids {
		left = append(left, topic.Moved{Contact: id})
		for _, s := range active[id] {
			change := topic.Unsubscribe(&s, why, now)
			changes, ended = append(changes, change), append(ended, *change.Ended)
		}
	}
	if err := tx.WriteSubscriptions(ws, changes); err != nil {
		return nil, err
	}
	if err := tx.ForgetMoved(ws, left); err != nil {
		return nil, err
	}
	if len(requests) > 0 {
		err = tx.WriteSubscriptionRequests(ws, requests, nil)
	}
	return ended, err
}
