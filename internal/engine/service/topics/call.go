package topics

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// call is what one call changes of the subscriptions of a workspace, in one transaction. Its requests are applied in their order; one sees the changes of the
// earlier ones.
type call struct {
	*Writer
	ws     store.Workspace
	list   []Request
	now    time.Time
	source topic.Source // of those that begin
	ends   bool         // it may end some
	actor  string       // of the audit entry; empty: none is written
	action string

	known     map[string]subject.ContactRow
	topics    map[string]store.TopicRow
	followed  map[subject.ContactID][]string // the topics of those all of whose subscriptions end, by name
	active    map[subscribed]topic.Subscription
	requested map[subscribed]topic.Request
	moved     map[subject.ContactID][]topic.Subscription // what runs have ended
	// last is the last match of the workspace, and waiting the first one of those who get each item at once that they have not got yet.
	last    int64
	waiting map[store.Following]int64

	changes         []topic.Change
	forgotten       []topic.Moved
	dropped, wanted map[subscribed]topic.Request
}

// subscribed is a contact and a topic.
type subscribed struct {
	contact subject.ContactID
	topic   subject.TopicID
}

// step is the transaction. It locks the deliveries of the contacts before the contacts, as a suppression does: what is being sent was committed before.
func (c *call) step(tx *store.Tx) ([]Subscribed, error) {
	list, err := c.read(tx)
	if err != nil {
		return nil, err
	}
	results := make([]Subscribed, len(list))
	for i, r := range list {
		if r.All {
			results[i] = c.endAll(r)
		} else {
			results[i] = c.apply(r)
		}
	}
	if err := c.warn(tx, c.ws, list, results); err != nil {
		return nil, err
	}
	return results, c.save(tx)
}

// read reads what the requests are about, and locks it.
func (c *call) read(tx *store.Tx) ([]Request, error) {
	list, err := found(tx, c.ws, c.list)
	if err != nil {
		return nil, err
	}
	var contacts, names []string
	for _, r := range list {
		if r.Err == nil {
			contacts, names = append(contacts, r.Contact), append(names, r.Topic)
		}
	}
	if c.ends {
		if _, err := tx.LockDeliveriesOf(c.ws.ID, contacts); err != nil {
			return nil, err
		}
	}
	if c.known, err = tx.LockContacts(c.ws.ID, contacts); err != nil {
		return nil, err
	}
	for _, r := range list {
		if r.Address != "" && r.Err == nil && c.known[r.Contact].Claimant != "" {
			return nil, store.ErrAgain // the address was claimed meanwhile
		}
	}
	if err := c.restore(tx, list); err != nil {
		return nil, err
	}
	if c.topics, err = tx.TopicsByName(c.ws.ID, slices.Compact(slices.Sorted(slices.Values(names)))); err != nil {
		return nil, err
	}
	if err := c.readSubscriptions(tx, list); err != nil {
		return nil, err
	}
	return list, c.readFollowed(tx, list)
}

// restore writes the addresses of those who sign up again after theirs were blanked.
func (c *call) restore(tx *store.Tx, list []Request) error {
	blank := map[delivery.PersonRef]string{}
	for _, r := range list {
		if of, ok := c.known[r.Contact]; ok && r.Err == nil && r.Frequency != "" && r.Address != "" && of.Address == "" && strings.HasPrefix(of.ExtID, subject.MadePrefix) {
			blank[delivery.PersonRef{Workspace: c.ws.ID, ID: of.ID}] = strings.TrimSpace(r.Address)
		}
	}
	return tx.RestoreAddresses(blank)
}

// readFollowed reads the topics of those all of whose subscriptions end.
func (c *call) readFollowed(tx *store.Tx, list []Request) error {
	c.followed = map[subject.ContactID][]string{}
	for _, r := range list {
		if r.All && r.Err == nil {
			c.followed[c.known[r.Contact].ID] = nil
		}
	}
	if len(c.followed) == 0 {
		return nil
	}
	follows := map[subject.TopicID][]subject.ContactID{}
	for at := range c.active {
		follows[at.topic] = append(follows[at.topic], at.contact)
	}
	for at := range c.requested {
		if _, also := c.active[at]; !also {
			follows[at.topic] = append(follows[at.topic], at.contact)
		}
	}
	rows, err := tx.TopicsByID(c.ws.ID, sortedKeys(follows))
	if err != nil {
		return err
	}
	for id, row := range rows {
		c.topics[row.Name] = row
		for _, contact := range follows[id] {
			if _, all := c.followed[contact]; all {
				c.followed[contact] = append(c.followed[contact], row.Name)
			}
		}
	}
	return nil
}

// endAll ends all subscriptions of a contact.
func (c *call) endAll(r Request) Subscribed {
	result := Subscribed{Contact: r.Contact, Outcome: upsert.Failed}
	if _, result.Error = c.check(r); result.Error != nil {
		return result
	}
	result.Outcome = upsert.Unchanged
	if contact := c.known[r.Contact].ID; len(c.moved[contact]) > 0 {
		c.forgotten, result.Outcome = append(c.forgotten, topic.Moved{Contact: contact}), upsert.Changed
		delete(c.moved, contact)
	}
	for _, name := range slices.Sorted(slices.Values(c.followed[c.known[r.Contact].ID])) {
		if one := c.apply(Request{Contact: r.Contact, Topic: name}); one.Outcome == upsert.Changed {
			result.Outcome, result.Topics = upsert.Changed, append(result.Topics, name)
		}
	}
	return result
}

// readSubscriptions reads the subscriptions of the contacts, and what waits to be confirmed. A request that confirms gets its frequency from that.
func (c *call) readSubscriptions(tx *store.Tx, list []Request) error {
	ids := make([]subject.ContactID, 0, len(c.known))
	for _, contact := range c.known {
		ids = append(ids, contact.ID)
	}
	active, err := tx.ActiveSubscriptions(c.ws.ID, ids)
	if err != nil {
		return err
	}
	if c.moved, err = tx.MovedOfContacts(c.ws.ID, ids, time.Time{}); err != nil {
		return err
	}
	requests, err := tx.SubscriptionRequests(c.ws.ID, ids)
	if err != nil {
		return err
	}
	c.active, c.requested, c.changes, c.forgotten = map[subscribed]topic.Subscription{}, map[subscribed]topic.Request{}, nil, nil
	c.dropped, c.wanted = map[subscribed]topic.Request{}, map[subscribed]topic.Request{}
	for _, s := range slices.Concat(slices.Collect(maps.Values(active))...) {
		c.active[subscribed{s.Contact, s.Topic}] = s
	}
	for _, q := range requests {
		c.requested[subscribed{q.Contact, q.Topic}] = q
	}
	for i, r := range list {
		if q, ok := c.requested[c.at(r)]; ok && r.confirms && c.now.Before(q.Expires()) {
			list[i].Frequency, list[i].Confirmed = q.Frequency, true
		}
	}
	if c.last, err = tx.LastMatch(c.ws.ID); err != nil {
		return err
	}
	c.waiting, err = tx.WaitingMatches(c.ws.ID, c.leaveImmediate(list), c.now.Add(-digest.Horizon))
	return err
}

func (c *call) at(r Request) subscribed {
	return subscribed{c.known[r.Contact].ID, c.topics[r.Topic].ID}
}

// leaveImmediate returns the subscriptions of those who get each item at once, and will not by the call.
func (c *call) leaveImmediate(list []Request) []store.Following {
	var of []store.Following
	for _, r := range list {
		if s, ok := c.present(c.at(r)); r.Err == nil && ok && s.Frequency == topic.Immediate && r.Frequency != "" && r.Frequency != topic.Immediate {
			of = append(of, store.Following{Contact: s.Contact, Topic: s.Topic})
		}
	}
	return slices.Compact(of)
}

// present is the subscription of a contact to a topic that goes on, or that a run has ended.
func (c *call) present(at subscribed) (topic.Subscription, bool) {
	if s, ok := c.active[at]; ok {
		return s, true
	}
	return topic.MovedOf(c.moved[at.contact], at.topic)
}

// covered returns the match up to which a contact is covered in a topic, once they follow it with another frequency or begin to.
func (c *call) covered(active *topic.Subscription) int64 {
	if active == nil {
		return c.last
	}
	if first := c.waiting[store.Following{Contact: active.Contact, Topic: active.Topic}]; first > 0 {
		return first - 1
	}
	return c.last
}

// apply applies one request.
func (c *call) apply(r Request) Subscribed {
	result := Subscribed{Contact: r.Contact, Topic: r.Topic, Outcome: upsert.Failed}
	var of *definition.Topic
	if of, result.Error = c.check(r); result.Error != nil {
		return result
	}
	at := c.at(r)
	var active *topic.Subscription
	if s, ok := c.active[at]; ok {
		active, result.Subscription = &s, s
	}
	q, waits := c.requested[at]
	var made topic.Change
	forgets := false
	switch {
	case r.Frequency != "":
		source := c.source
		if r.confirms {
			source = q.Source
		}
		wanted := topic.Subscription{ID: topic.SubscriptionID(c.store.NewID(c.now)), Contact: at.contact, Topic: at.topic, Frequency: r.Frequency, Source: source}
		if moved, ok := topic.MovedOf(c.moved[at.contact], at.topic); ok && active == nil {
			wanted.Covered = c.covered(&moved)
			made = topic.Resume(moved, wanted, c.now)
		} else {
			wanted.Covered = c.covered(active)
			made = topic.Subscribe(active, wanted, c.now)
		}
	case !r.confirms:
		made = topic.Unsubscribe(active, topic.EndUnsubscribed, c.now)
		forgets = c.forget(at)
	}
	switch {
	case made.Started != nil && of.Confirm && !r.Confirmed:
		if result.Outcome = upsert.Pending; !waits || q.Frequency != r.Frequency {
			c.request(at, r.Frequency)
		}
		return result
	case waits && !r.confirms || r.Confirmed:
		c.drop(at)
	}
	switch {
	case !made.Changed():
		if result.Outcome = upsert.Unchanged; (waits || forgets) && r.Frequency == "" {
			result.Outcome = upsert.Changed // what was to be confirmed is gone, or what a run had left to tell
		}
		return result
	case made.Ended == nil:
		result.Outcome = upsert.Created
	default:
		result.Outcome, result.Subscription = upsert.Changed, *made.Ended
		delete(c.active, at)
	}
	if made.Started != nil {
		c.active[at], result.Subscription = *made.Started, *made.Started
	}
	c.changes = append(c.changes, made)
	return result
}

// forget has a contact get nothing more of what a run has ended, of the topic that they end themselves. It reports whether there was any.
func (c *call) forget(at subscribed) bool {
	_, ended := topic.MovedOf(c.moved[at.contact], at.topic)
	if ended {
		c.forgotten = append(c.forgotten, topic.Moved{Contact: at.contact, Topic: at.topic})
	}
	c.moved[at.contact] = slices.DeleteFunc(c.moved[at.contact], func(s topic.Subscription) bool { return s.Topic == at.topic })
	return ended
}

// check returns the topic of a request, or what is wrong with the request.
func (c *call) check(r Request) (*definition.Topic, *upsert.Error) {
	contact, known := c.known[r.Contact]
	row, exists := c.topics[r.Topic]
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Address != "" && !known && !r.All: // no contact was made for it, since it cannot begin
		if _, problem := c.offered(row, exists, r); problem != nil {
			return nil, problem
		}
		fallthrough
	case !known:
		return nil, wrong("contact", "there is no contact "+r.Contact, "write the contact first, by POST /v1/contacts")
	case contact.Claimant != "":
		return nil, wrong("contact", "contact "+r.Contact+" was merged into "+contact.Claimant, "name that one")
	case r.All:
		return nil, nil
	}
	return c.offered(row, exists, r)
}

// offered returns the topic that a request begins, or why it cannot begin; nil for one that ends.
func (w *Writer) offered(row store.TopicRow, exists bool, r Request) (*definition.Topic, *upsert.Error) {
	switch {
	case !exists || r.Frequency != "" && !row.RemovedAt.IsZero():
		return nil, wrong("topic", "there is no topic "+r.Topic, "GET /v1/topics lists the topics")
	case r.Frequency == "":
		return nil, nil
	}
	of, err := w.topics.Compiled(row)
	if err != nil {
		return nil, wrong("topic", err.Error(), "")
	}
	if !of.Offers(r.Frequency) {
		return nil, wrong("frequency", fmt.Sprintf("topic %s offers no frequency %s", r.Topic, r.Frequency), "it offers "+strings.Join(of.Frequencies, ", "))
	}
	return of, nil
}

// request has a contact asked to confirm a subscription. It takes the place of what they were asked before.
func (c *call) request(at subscribed, frequency string) {
	c.drop(at)
	q := topic.Request{
		ID: c.store.NewID(c.now), Contact: at.contact, Topic: at.topic, Frequency: frequency, Source: c.source, RequestedAt: c.now, NextAt: c.now,
	}
	c.requested[at], c.wanted[at] = q, q
}

// drop has nothing wait to be confirmed any more.
func (c *call) drop(at subscribed) {
	if q, ok := c.requested[at]; ok {
		c.dropped[at] = q
	}
	delete(c.requested, at)
	delete(c.wanted, at)
}

// save writes what was decided.
func (c *call) save(tx *store.Tx) error {
	changes := net(c.changes)
	if err := tx.WriteSubscriptions(c.ws.ID, changes); err != nil {
		return err
	}
	if err := tx.ForgetMoved(c.ws.ID, c.forgotten); err != nil {
		return err
	}
	if len(c.dropped)+len(c.wanted) > 0 {
		if err := tx.WriteSubscriptionRequests(c.ws.ID, slices.Collect(maps.Values(c.dropped)), slices.Collect(maps.Values(c.wanted))); err != nil {
			return err
		}
	}
	if err := digests.TellRest(tx, c.catalog.Loaded, c.ws.ID, changes, func() int64 { return c.store.NewID(c.now) }, c.now); err != nil {
		return err
	}
	return c.audit(tx, changes)
}

// audit notes what a person without a key has done to their own subscriptions.
func (c *call) audit(tx *store.Tx, changes []topic.Change) error {
	if c.actor == "" || len(changes) == 0 {
		return nil
	}
	names := map[subject.TopicID]string{}
	for name, row := range c.topics {
		names[row.ID] = name
	}
	ids := map[subject.ContactID]string{}
	for id, row := range c.known {
		ids[row.ID] = id
	}
	var of subject.ContactID
	now := map[string]string{}
	for _, change := range changes {
		switch {
		case change.Started != nil:
			of, now[names[change.Started.Topic]] = change.Started.Contact, change.Started.Frequency
		default:
			of, now[names[change.Ended.Topic]] = change.Ended.Contact, ""
		}
	}
	detail, err := json.Marshal(map[string]any{"topics": now})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return tx.Audit(c.ws.ID, c.now, store.Audit{At: c.now, Actor: c.actor, Action: c.action, Target: ids[of], Detail: detail})
}

// net leaves out what a call both begins and ends.
func net(changes []topic.Change) []topic.Change {
	began := map[topic.SubscriptionID]*topic.Change{}
	var net []*topic.Change
	for _, c := range changes {
		if c.Ended != nil {
			if before := began[c.Ended.ID]; before != nil {
				before.Started, c.Ended = nil, nil
			}
		}
		kept := &c
		if c.Started != nil {
			began[c.Started.ID] = kept
		}
		net = append(net, kept)
	}
	var list []topic.Change
	for _, c := range net {
		if c.Changed() {
			list = append(list, *c)
		}
	}
	return list
}
