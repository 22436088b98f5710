// Package bulk changes the subscriptions of many people by one run: who follows some topics follows another one too, or instead, or none; and what a run has
// done is taken back.
//
//	request ─▶ Preview: counts and samples
//	        └▶ Begin: item, job ─▶ page of people ─▶ page ─▶ … ─▶ done
//	                                                 └─ Undo: job ─▶ page ─▶ … ─▶ done
//
// A page is one transaction, which also advances the job. Each subscription says which run began or ended it, so that an undo finds them. What a run has
// ended counts, for what was published before, as one that goes on: the item that a run publishes first reaches those whose subscriptions the run ends, and a
// digest still tells what waited for it.
package bulk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Bounds of a request.
const (
	MaxTopics   = 100
	MaxContacts = 10_000 // of those who subscribe, and of those who are left out
	// previewPages is how many pages of people are read while a caller waits for the answer: about a second.
	previewPages = 80
	// samples is how many people an answer shows.
	samples = 10
)

// Store is what the package needs of the store.
type Store interface {
	jobs.Store
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	Read(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Publish publishes an item in a transaction. created is false if it is known already; the error may be an *upsert.Error.
type Publish func(tx *store.Tx, ws subject.WorkspaceID, fields map[string]any, now time.Time) (id subject.EventID, created bool, err error)

// Runner begins runs, and does their work.
type Runner struct {
	store   Store
	catalog *catalog.Catalog
	topics  *topics.Topics
	publish Publish
	jobs    *jobs.Worker
}

// New makes a Runner.
func New(s Store, c *catalog.Catalog, t *topics.Topics, publish Publish) *Runner {
	r := &Runner{store: s, catalog: c, topics: t, publish: publish}
	r.jobs = jobs.New(s, jobs.Kind{Kinds: []job.Kind{job.Subscribe, job.Migrate, job.Unsubscribe, job.Undo}, Page: r.page})
	return r
}

// Work does one page of the oldest run; more reports whether there is another one.
func (r *Runner) Work(ctx context.Context, now time.Time) (done int, more bool, err error) {
	return r.jobs.Step(ctx, now)
}

// Request is what a caller wants.
type Request struct {
	topic.Bulk                // Except and Contacts may hold addresses
	Confirmed  bool           // the people are known to want it: also where the topic demands a confirmation
	Item       map[string]any // published first, to the people of the topics; nil: none is
}

// Found is what a request is about, and of a run what it began.
type Found struct {
	People      int // who were found
	ByVerdict   map[topic.Verdict]int
	ByFrequency map[string]int // of those who are changed, or get the item, by the frequency of what they follow now
	Samples     []Sample       // of those who are changed, the first ones
	More        bool           // counting has stopped early: the numbers are lower bounds
	Item        subject.EventID
	Run         job.Row // its ID is 0 if there is none
}

// Sample is what a run makes of one contact.
type Sample struct {
	Contact       string
	Ended, Begins []Followed
}

// Followed is a topic that is followed with a frequency.
type Followed struct{ Topic, Frequency string }

func invalid(field, message, hint string) *upsert.Error {
	return &upsert.Error{Reason: reason.InvalidSubscription, Field: field, Message: message, Hint: hint}
}

// Check returns what is wrong with a request, as far as it can be seen without the database; nil: nothing is.
func (q Request) Check() *upsert.Error {
	message := q.Action == topic.ActMessage
	switch {
	case !slices.Contains(topic.Actions(), q.Action):
		return invalid("action", fmt.Sprintf("there is no action %q", q.Action), "it is subscribe, migrate, unsubscribe or message")
	case len(q.Topics) == 0 && q.Action != topic.ActSubscribe:
		return invalid("topics", "is missing", "name the topics of the people who are meant")
	case len(q.Topics) == 0 && len(q.Contacts) == 0:
		return invalid("topics", "is missing", "name the topics of the people who are meant, or contacts")
	case len(q.Topics) > MaxTopics:
		return invalid("topics", fmt.Sprintf("it holds more than %d topics", MaxTopics), "do it in several runs")
	case len(q.Contacts) > 0 && q.Action != topic.ActSubscribe:
		return invalid("contacts", "goes with subscribe alone", "name topics")
	case len(q.Contacts) > 0 && len(q.Topics) > 0:
		return invalid("contacts", "cannot be combined with topics", "leave one of them out")
	case len(q.Contacts) > MaxContacts:
		return invalid("contacts", fmt.Sprintf("it holds more than %d contacts", MaxContacts), "do it in several runs")
	case len(q.Except) > MaxContacts:
		return invalid("except", fmt.Sprintf("it holds more than %d contacts", MaxContacts), "name fewer")
	case q.To == "" && (q.Action == topic.ActSubscribe || q.Action == topic.ActMigrate):
		return invalid("to", "is missing", "the topic that they are to follow")
	case q.To != "" && (q.Action == topic.ActUnsubscribe || message):
		return invalid("to", "goes with subscribe and migrate alone", "leave it out")
	case q.To != "" && slices.Contains(q.Topics, q.To):
		return invalid("to", "is one of the topics", "name another one")
	case q.Frequency != "" && q.To == "":
		return invalid("frequency", "goes with subscribe and migrate alone", "leave it out")
	case q.Frequency == "" && len(q.Contacts) > 0:
		return invalid("frequency", "is missing", "immediate, or a frequency that a trigger serves")
	case q.Frequency != "" && key.Slug(q.Frequency) != nil:
		return invalid("frequency", key.Slug(q.Frequency).Error(), "such as immediate or daily")
	case q.Confirmed && q.Action != topic.ActSubscribe:
		return invalid("confirmed", "goes with subscribe alone", "leave it out")
	case message && q.Item == nil:
		return invalid("item", "is missing", "what they get: an item, with an id of its own")
	case q.Item != nil && (q.Item[topic.FieldID] == nil || q.Item[topic.FieldID] == ""):
		return invalid("item.id", "is missing", "your own id of the item, under which it is published once")
	case q.Item != nil && len(q.Contacts) > 0:
		return invalid("item", "goes to the people of topics", "leave it out")
	}
	for _, name := range []string{topic.FieldTopics, topic.FieldTo, topic.FieldExcept} {
		if q.Item[name] != nil {
			return invalid("item."+name, "is given by the run", "leave it out: the item goes to the people of the run")
		}
	}
	return nil
}

// plan is a request whose names were found.
type plan struct {
	topic.Bulk
	from  []subject.TopicID
	into  *definition.Topic
	id    subject.TopicID // of into
	names map[subject.TopicID]string
}

// ErrNoTopic means that a request names a topic that does not exist. It wraps store.ErrNotFound.
type ErrNoTopic struct{ Name string }

func (e *ErrNoTopic) Error() string { return "there is no topic " + e.Name }

// Unwrap makes it a store.ErrNotFound.
func (e *ErrNoTopic) Unwrap() error { return store.ErrNotFound }

// find finds the topics of a run. One that was removed can be left, and not be followed.
func (r *Runner) find(tx *store.Tx, ws subject.WorkspaceID, b topic.Bulk) (p plan, err error) {
	p = plan{Bulk: b, names: map[subject.TopicID]string{}}
	rows, err := tx.TopicsByName(ws, slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(b.Topics), b.To)))))
	if err != nil {
		return p, err
	}
	for _, name := range b.Topics {
		row, ok := rows[name]
		if !ok {
			return p, &ErrNoTopic{name}
		}
		p.from, p.names[row.ID] = append(p.from, row.ID), name
	}
	if b.To == "" {
		return p, nil
	}
	row, ok := rows[b.To]
	if !ok || !row.RemovedAt.IsZero() {
		return p, &ErrNoTopic{b.To}
	}
	p.id, p.names[row.ID] = row.ID, b.To
	p.into, err = r.topics.Compiled(row)
	return p, err
}

// resolve checks a request against what exists, and gives its contacts their ids.
func (r *Runner) resolve(tx *store.Tx, ws store.Workspace, q Request) (p plan, err error) {
	if p, err = r.find(tx, ws.ID, q.Bulk); err != nil {
		return p, err
	}
	switch {
	case p.into != nil && q.Frequency != "" && !p.into.Offers(q.Frequency):
		return p, invalid("frequency", fmt.Sprintf("topic %s offers no frequency %s", q.To, q.Frequency), "it offers "+strings.Join(p.into.Frequencies, ", "))
	case q.Action == topic.ActSubscribe && p.into.Confirm && !q.Confirmed:
		return p, invalid("confirmed", "topic "+q.To+" demands that people confirm", "have them sign up, or say that they are known to want it: \"confirmed\": true")
	}
	ref := store.ItemRef{ExtID: textOf(q.Item[topic.FieldID]), Version: textOf(q.Item[topic.FieldVersion])}
	known, err := tx.ItemsByRef(ws.ID, []store.ItemRef{ref})
	if err != nil {
		return p, err
	}
	if _, published := known[ref]; published && q.Item != nil {
		return p, ErrPublished
	}
	for _, list := range []*[]string{&p.Except, &p.Contacts} {
		if *list, err = named(tx, ws, *list); err != nil {
			return p, err
		}
	}
	return p, nil
}

// textOf returns a field of an item that is a text or a number.
func textOf(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// named returns the ids of contacts of whom some are named by an address. What nobody has stays as it is.
func named(tx *store.Tx, ws store.Workspace, list []string) ([]string, error) {
	hashes := key.NewKeyed(ws.Secret, key.PurposeAddress)
	refs := make([]store.RecipientIn, len(list))
	for i, text := range list {
		refs[i].Workspace = ws.ID
		if refs[i].ExtID = text; subject.CheckSignUp(text) == nil {
			refs[i].RecipientRef = store.RecipientRef{Address: text, AddressHash: hashes.Hash(subject.NormalizeAddress(text))}
		}
	}
	found, err := tx.Contacts(refs)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(list)
	for i, c := range found {
		if c.ExtID != "" {
			ids[i] = c.ExtID
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Preview counts what a request would do, up to a bound, and changes nothing. The error may be an *upsert.Error or an *ErrNoTopic.
func (r *Runner) Preview(ctx context.Context, ws store.Workspace, q Request, now time.Time) (Found, error) {
	if wrong := q.Check(); wrong != nil {
		return Found{}, wrong
	}
	found := Found{ByVerdict: map[topic.Verdict]int{}, ByFrequency: map[string]int{}}
	err := r.store.Read(ctx, func(tx *store.Tx) error {
		found = Found{ByVerdict: map[topic.Verdict]int{}, ByFrequency: map[string]int{}}
		p, err := r.resolve(tx, ws, q)
		if err != nil {
			return err
		}
		return r.count(tx, ws.ID, p, now, &found)
	})
	if err != nil {
		return Found{}, fmt.Errorf("count what a run would do: %w", err)
	}
	return found, nil
}

func (r *Runner) count(tx *store.Tx, ws subject.WorkspaceID, p plan, now time.Time, found *Found) error {
	for cursor, pages := int64(0), 0; ; pages++ {
		if found.More = pages == previewPages; found.More {
			return nil
		}
		people, last, err := r.people(tx, ws, p, cursor)
		if err != nil {
			return err
		}
		if err := r.decide(tx, ws, p, people, job.Row{StartedAt: now}, now, found.add(p)); err != nil {
			return err
		}
		if last == 0 {
			return nil
		}
		cursor = last
	}
}

// add counts the decisions of a page.
func (f *Found) add(p plan) func(person, []topic.Change, topic.Verdict) {
	return func(who person, changes []topic.Change, verdict topic.Verdict) {
		f.People++
		f.ByVerdict[verdict]++
		if verdict != topic.Changed {
			return
		}
		s := Sample{Contact: who.name}
		for _, c := range changes {
			if c.Ended != nil {
				s.Ended = append(s.Ended, Followed{p.names[c.Ended.Topic], c.Ended.Frequency})
			}
			if c.Started != nil {
				s.Begins = append(s.Begins, Followed{p.names[c.Started.Topic], c.Started.Frequency})
			}
		}
		for _, frequency := range who.frequencies(p, changes) {
			f.ByFrequency[frequency]++
		}
		if len(f.Samples) < samples {
			f.Samples = append(f.Samples, s)
		}
	}
}

// person is one of the people of a run.
type person struct {
	id   subject.ContactID // 0: there is none of this name
	name string
	of   []topic.Subscription
}

// frequencies are those with which a person follows what the run is about: before, or of who only begins to follow a topic, then.
func (who person) frequencies(p plan, changes []topic.Change) (list []string) {
	for _, s := range who.of {
		if s.Active() && slices.Contains(p.from, s.Topic) {
			list = append(list, s.Frequency)
		}
	}
	if len(list) == 0 {
		for _, c := range changes {
			if c.Started != nil {
				list = append(list, c.Started.Frequency)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// people returns the next people of a run after a cursor. last is the cursor after them; 0: they are the last.
func (r *Runner) people(tx *store.Tx, ws subject.WorkspaceID, p plan, cursor int64) (people []person, last int64, err error) {
	if len(p.Contacts) > 0 {
		return listed(tx, ws, p.Contacts, cursor)
	}
	var ids []subject.ContactID
	var after subject.ContactID
	if p.Action == topic.ActUndo {
		ids, after, err = tx.ChangedBy(ws, p.Undoes, subject.ContactID(cursor))
	} else {
		ids, after, err = tx.FollowersOf(ws, p.from, subject.ContactID(cursor))
	}
	if err != nil {
		return nil, 0, err
	}
	refs := make([]store.RecipientIn, len(ids))
	for i, id := range ids {
		refs[i] = store.RecipientIn{Workspace: ws, RecipientRef: store.RecipientRef{ID: id}}
	}
	people, err = persons(tx, ws, refs)
	return people, int64(after), err
}

// listed returns the next of the contacts that a run names. The cursor counts them.
func listed(tx *store.Tx, ws subject.WorkspaceID, names []string, cursor int64) (people []person, last int64, err error) {
	names = names[cursor:]
	if len(names) > store.MemberPage {
		names, last = names[:store.MemberPage], cursor+store.MemberPage
	}
	refs := make([]store.RecipientIn, len(names))
	for i, name := range names {
		refs[i] = store.RecipientIn{Workspace: ws, RecipientRef: store.RecipientRef{ExtID: name}}
	}
	if people, err = persons(tx, ws, refs); err != nil {
		return nil, 0, err
	}
	for i := range people {
		if people[i].id == 0 {
			people[i].name = names[i]
		}
	}
	return people, last, nil
}

func persons(tx *store.Tx, ws subject.WorkspaceID, refs []store.RecipientIn) ([]person, error) {
	contacts, err := tx.Contacts(refs)
	if err != nil {
		return nil, err
	}
	people := make([]person, len(refs))
	for i, c := range contacts {
		people[i] = person{id: c.ID, name: c.ExtID}
	}
	return people, nil
}

// excepted returns the names of those of some people whom the run leaves as they are, also if they have another name there, by a merge.
func (p plan) excepted(tx *store.Tx, ws subject.WorkspaceID, people []person) (map[string]bool, error) {
	found := map[string]bool{}
	if len(p.Except) == 0 {
		return found, nil
	}
	has := func(name string) bool { _, has := slices.BinarySearch(p.Except, name); return has }
	names := make([]string, len(people))
	for i, who := range people {
		names[i], found[who.name] = who.name, has(who.name)
	}
	merged, err := tx.Merged(ws, names)
	if err != nil {
		return nil, err
	}
	survivors, err := tx.Survivors(ws, slices.DeleteFunc(merged, func(name string) bool { return !has(name) }))
	for _, name := range survivors {
		found[name] = true
	}
	return found, err
}

// decide decides about a page of people, one after the other.
func (r *Runner) decide(
	tx *store.Tx, ws subject.WorkspaceID, p plan, people []person, j job.Row, now time.Time, each func(person, []topic.Change, topic.Verdict),
) error {
	var ids []subject.ContactID
	for _, who := range people {
		if who.id != 0 {
			ids = append(ids, who.id)
		}
	}
	of, err := tx.EverySubscription(ws, ids)
	if err != nil {
		return err
	}
	rules := topic.BulkRules{
		Bulk: p.Bulk, Run: j.ID, From: p.from, Into: p.id, Began: j.StartedAt, NewID: func() topic.SubscriptionID { return topic.SubscriptionID(r.store.NewID(now)) },
		Offers: func(frequency string) bool { return p.into.Offers(frequency) },
	}
	if rules.Last, err = tx.LastMatch(ws); err != nil {
		return err
	}
	excepted, err := p.excepted(tx, ws, people)
	if err != nil {
		return err
	}
	decided := map[subject.ContactID]bool{} // two of them may have been merged since
	for _, who := range people {
		if who.of = of[who.id]; who.id == 0 {
			each(who, nil, topic.Unknown)
			continue
		}
		if decided[who.id] {
			each(who, nil, topic.Already)
			continue
		}
		decided[who.id] = true
		if excepted[who.name] {
			each(who, nil, topic.Excepted)
			continue
		}
		changes, verdict := rules.Apply(who.id, who.of, now)
		each(who, changes, verdict)
	}
	return nil
}
