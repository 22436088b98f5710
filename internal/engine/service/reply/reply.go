// Package reply takes in what people write back.
//
//	reply ─▶ who has the address ─▶ event reply.received ─▶ triggers that listen to it
//	            │ nobody: unknown_sender
//	            ├─ an open session ─▶ an answer to its question (package conversation)
//	            └─ stop, start ─▶ opted out, or in, on this kind of channel; what waits there ends
//
// Invariants:
//   - A reply counts once, however often its channel hands it in: its id is noted in the transaction that takes it in.
//   - Nothing leaves on a kind of channel after a stop was committed but what was on its way (P5): the deliveries are locked first, as for a suppression.
package reply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/conversation"
	"github.com/carillonhq/carillon/internal/engine/plumbing/optout"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	words "github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// MaxText is how many characters of a reply are kept.
const MaxText = 10_000

// Reply is a message that somebody wrote back.
type Reply struct {
	ID   string    // the provider's, the same however often it is handed in
	From string    // the address of who wrote it
	Text string    // may hold anything
	At   time.Time // when it was written; zero: not known
}

// Taken is what became of a reply.
type Taken struct {
	// Reason is why it answers nothing. With duplicate and unknown_sender it was not taken in; else it is an event. Empty: it answers Question, or is a keyword.
	Reason   reason.Reason
	Keyword  words.Keyword // empty: it is a text
	Contact  string        // who wrote it; empty: not known
	Question string        // of the conversation with them, that it was written to; empty: none stood
	Stopped  int           // messages that waited
}

// TakenIn reports whether the reply is an event now.
func (t Taken) TakenIn() bool {
	return t.Reason != reason.Duplicate && t.Reason != reason.UnknownSender
}

// Store is what the package needs of the store.
type Store interface {
	WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error
	NewID(now time.Time) int64
}

// Events stores events and makes their occasions in a transaction; package ingest has it.
type Events interface {
	Within(tx *store.Tx, ws store.Workspace, set *definition.Set, events []subject.Event, now time.Time, calls *expr.Calls) ([]journal.Entry, error)
}

// Writer takes replies in.
type Writer struct {
	store   Store
	catalog *catalog.Catalog
	events  Events
	journal journal.Writer
}

// New makes a Writer.
func New(s Store, c *catalog.Catalog, e Events, w journal.Writer) *Writer {
	return &Writer{s, c, e, w}
}

// Take takes in what came by a channel, in one transaction. The results are in the order of the list.
func (w *Writer) Take(ctx context.Context, ws store.Workspace, channel string, list []Reply, now time.Time, once *store.Idempotent[[]Taken]) ([]Taken, error) {
	var c *call
	calls := &expr.Calls{}
	err := w.catalog.Supply(ctx, len(list), func(int) error {
		return w.store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
			c = &call{Writer: w, tx: tx, ws: ws, channel: channel, list: list, now: now, taken: make([]Taken, len(list))}
			if err := once.Begin(tx, ws.ID); err != nil {
				return err
			}
			if err := c.step(calls); err != nil {
				return err
			}
			return once.Keep(tx, ws.ID, c.taken)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("take in replies: %w", err)
	}
	for _, entry := range c.entries {
		w.journal.Write(entry)
	}
	return c.taken, nil
}

// call is what one call changes, in one transaction.
type call struct {
	*Writer
	tx      *store.Tx
	ws      store.Workspace
	channel string
	list    []Reply
	now     time.Time

	hashes  key.Keyed
	known   map[string]subject.ContactRow // those who are locked
	owners  []subject.Contact             // of the replies, in their order; zero: nobody has the address
	others  [][]subject.Contact           // further contacts who are asked at the address of each reply
	taken   []Taken
	entries []journal.Entry
}

func (c *call) step(calls *expr.Calls) error {
	c.hashes = key.NewKeyed(c.ws.Secret, key.PurposeAddress)
	number, err := c.tx.DefinitionsNumber(c.ws.ID)
	if err != nil {
		return err
	}
	set, err := c.catalog.Loaded(c.ws.ID, number)
	if err != nil {
		return err
	}
	if err := c.find(); err != nil {
		return err
	}
	var own words.Words
	if def := set.Channel(c.channel); def != nil {
		own = def.Keywords
	}
	hashes := make([]string, len(c.list))
	for i, r := range c.list {
		hashes[i] = key.Hash(c.channel + "\n" + r.ID)
	}
	fresh, err := c.tx.NewReplies(c.ws.ID, hashes, c.now)
	if err != nil {
		return err
	}
	for i, r := range c.list {
		t := &c.taken[i]
		switch t.Contact = c.owners[i].ExtID; {
		case !fresh[hashes[i]]:
			t.Reason = reason.Duplicate
			continue
		case t.Contact == "":
			t.Reason = reason.UnknownSender
		}
		fresh[hashes[i]] = false // also when it is there twice
		t.Keyword = words.Find(r.Text, c.localeOf(i, set), own)
	}
	sessions, err := c.lock(set)
	if err != nil {
		return err
	}
	if err := c.stop(); err != nil {
		return err
	}
	entries, err := c.events.Within(c.tx, c.ws, set, c.asEvents(), c.now, calls)
	if err != nil {
		return err
	}
	if err := c.hear(sessions); err != nil {
		return err
	}
	for i, r := range c.list {
		c.entries = append(c.entries, journal.Entry{
			At: c.now, What: journal.Replied, Workspace: c.ws.ID, Kind: definition.ReplyReceived, Channel: c.channel, Contact: c.taken[i].Contact, Address: r.From,
			Reason: c.taken[i].Reason,
		})
	}
	c.entries = append(c.entries, entries...)
	return nil
}

func (c *call) localeOf(i int, set *definition.Set) string {
	if own := c.owners[i].Locale; own != "" {
		return own
	}
	return set.Workspace.Locale
}

// find finds who wrote the replies: the contact who is asked something at the address, of several the one who was asked last, or else whose address it is.
func (c *call) find() error {
	c.owners, c.others = make([]subject.Contact, len(c.list)), make([][]subject.Contact, len(c.list))
	var refs []store.RecipientIn
	var hashes []string
	var of []int
	for i, r := range c.list {
		for _, address := range subject.Spellings(r.From) {
			hash := c.hashes.Hash(address)
			refs, hashes, of = append(refs, store.RecipientIn{Workspace: c.ws.ID, RecipientRef: store.RecipientRef{Address: address, AddressHash: hash}}), append(hashes, hash), append(of, i)
		}
	}
	found, err := c.tx.Contacts(refs)
	if err != nil {
		return err
	}
	for n, contact := range found {
		if c.owners[of[n]].ID == 0 {
			c.owners[of[n]] = contact
		}
	}
	return c.findAsked(hashes, of)
}

// findAsked finds with whom a conversation is open at the addresses of the replies; of has the reply of each hash. Somebody who has another address by now is not meant by what
// comes from their old one, if that has another owner.
func (c *call) findAsked(hashes []string, of []int) error {
	asked, err := c.tx.SessionsTo(c.ws.ID, admission.Kind(c.channel), hashes)
	if err != nil || len(asked) == 0 {
		return err
	}
	contacts, err := c.tx.ContactsByID(slices.Concat(slices.Collect(maps.Values(asked))...))
	if err != nil {
		return err
	}
	people := make([][]subject.Contact, len(c.list))
	for n, hash := range hashes {
		for _, ref := range asked[hash] {
			contact, i := contacts[ref], of[n]
			if contact.ID != 0 && (c.owners[i].ID == 0 || c.has(contact, i)) && !slices.ContainsFunc(people[i], func(p subject.Contact) bool { return p.ID == contact.ID }) {
				people[i] = append(people[i], contact)
			}
		}
	}
	for i, list := range people {
		if len(list) > 0 {
			c.owners[i], c.others[i] = list[0], list[1:]
		}
	}
	return nil
}

// has reports whether a reply comes from the address that a contact has on the kind of the channel.
func (c *call) has(contact subject.Contact, i int) bool {
	own := subject.NormalizeAddress(contact.AddressOn(admission.Kind(c.channel)))
	return own != "" && slices.Contains(subject.Spellings(c.list[i].From), own)
}

// lock locks the people with whom a conversation is open or who ask to stop: their deliveries first, as for a suppression.
func (c *call) lock(set *definition.Set) (*conversation.Replies, error) {
	var of []delivery.PersonKind
	for i, t := range c.taken {
		if !t.TakenIn() {
			continue
		}
		of = append(of, c.person(i))
		for _, other := range c.othersStopped(i) {
			of = append(of, c.on(other))
		}
	}
	sessions, err := conversation.Listen(c.tx, c.catalog, c.ws, set, of, c.store.NewID, c.now)
	if err != nil {
		return nil, err
	}
	var names []string
	for i, t := range c.taken {
		if t.TakenIn() && (t.Keyword == words.Stop || sessions.Talks(c.person(i))) {
			names = append(names, t.Contact)
		}
		for _, other := range c.othersStopped(i) {
			names = append(names, other.ExtID)
		}
	}
	if len(names) > 0 {
		if c.known, err = optout.Lock(c.tx, c.ws.ID, names); err != nil {
			return nil, err
		}
	}
	return sessions, nil
}

// person is who wrote a reply, on the kind of its channel.
func (c *call) person(i int) delivery.PersonKind { return c.on(c.owners[i]) }

func (c *call) on(contact subject.Contact) delivery.PersonKind {
	return delivery.PersonKind{PersonRef: delivery.PersonRef{Workspace: c.ws.ID, ID: contact.ID}, Kind: admission.Kind(c.channel)}
}

// othersStopped are the further contacts whose conversations end with a reply, because it asks for no more messages to the address that they share.
func (c *call) othersStopped(i int) []subject.Contact {
	if t := c.taken[i]; !t.TakenIn() || t.Keyword != words.Stop {
		return nil
	}
	return c.others[i]
}

// hear has the conversations go on, or end.
func (c *call) hear(sessions *conversation.Replies) error {
	if err := sessions.Open(); err != nil {
		return err
	}
	for i, r := range c.list {
		t := &c.taken[i]
		if !t.TakenIn() {
			continue
		}
		heard, err := sessions.Hear(conversation.Reply{
			Contact: c.owners[i], Kind: admission.Kind(c.channel), Text: kept(r.Text), At: c.written(r), Keyword: t.Keyword,
		})
		if err != nil {
			return err
		}
		for _, other := range c.othersStopped(i) {
			if _, err := sessions.Hear(conversation.Reply{
				Contact: other, Kind: admission.Kind(c.channel), Text: kept(r.Text), At: c.written(r), Keyword: t.Keyword, Silent: true,
			}); err != nil {
				return err
			}
		}
		if t.Keyword == "" {
			t.Reason, t.Question = heard.Reason, heard.Question
		}
	}
	return sessions.Write()
}

// written is when a reply was written: now if that is not known, lies ahead, or was never an instant at which anybody sent a message.
func (c *call) written(r Reply) time.Time {
	if r.At.IsZero() || r.At.After(c.now) || r.At.Unix() < 0 {
		return c.now
	}
	return r.At
}

// stop has those get nothing more on the kind of channel who ask for it, and those something again who ask for that. They are locked.
func (c *call) stop() error {
	known := map[string]subject.ContactRow{}
	for i, t := range c.taken {
		if c.fresh(i) && t.Keyword == words.Stop && t.Contact != "" {
			if row, ok := c.known[t.Contact]; ok {
				known[t.Contact] = row
			}
		}
	}
	if len(known) > 0 {
		ended, entries, err := optout.Cancel(c.tx, c.ws.ID, known, admission.Kind(c.channel), c.now)
		if err != nil {
			return err
		}
		c.entries = append(c.entries, entries...)
		for _, d := range ended {
			c.count(d.Contact)
		}
	}
	for i, t := range c.taken {
		if !c.fresh(i) || t.Keyword != words.Stop && t.Keyword != words.Start {
			continue
		}
		changed := false
		for _, address := range c.addressesOf(i) {
			is, err := optout.Mark(c.tx, c.ws.ID, c.hashes, address, admission.Kind(c.channel), t.Keyword == words.Stop, c.now)
			if err != nil {
				return err
			}
			changed = changed || is
		}
		if err := c.audit(t, changed); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) fresh(i int) bool { return c.taken[i].Reason != reason.Duplicate }

// addressesOf returns what is opted out, or in, by a reply: the address that it came from, and that of its contact on this kind of channel.
func (c *call) addressesOf(i int) []string {
	list := []string{c.list[i].From}
	if c.owners[i].ID != 0 {
		if own := c.owners[i].AddressOn(admission.Kind(c.channel)); own != "" {
			list = append(list, own)
		}
	}
	return list
}

// count counts a message that was stopped, at the first reply of its contact that asked for it.
func (c *call) count(contact string) {
	for i := range c.taken {
		if t := &c.taken[i]; c.fresh(i) && t.Contact == contact && t.Keyword == words.Stop {
			t.Stopped++
			return
		}
	}
}

func (c *call) audit(t Taken, changed bool) error {
	if !changed {
		return nil
	}
	detail, err := json.Marshal(map[string]any{"channel": c.channel, "deliveries": t.Stopped})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	action := map[words.Keyword]string{words.Stop: "opt out", words.Start: "opt in"}[t.Keyword]
	return c.tx.Audit(c.ws.ID, c.now, store.Audit{At: c.now, Actor: "reply", Action: action, Target: t.Contact, Detail: detail})
}

// asEvents are the events of those replies whose sender is known.
func (c *call) asEvents() []subject.Event {
	var events []subject.Event
	for i, r := range c.list {
		t := c.taken[i]
		if !t.TakenIn() {
			continue
		}
		events = append(events, subject.Event{
			Kind: definition.ReplyReceived, ExtID: "reply-" + key.Hash(c.channel+"\n"+r.ID), OccurredAt: c.written(r), OccurredGiven: true,
			Recipient: &subject.Recipient{CustomerRef: t.Contact},
			Payload: map[string]any{
				"channel": c.channel, "via": admission.Kind(c.channel), "from": subject.NormalizeAddress(r.From), "text": kept(r.Text), "keyword": string(t.Keyword),
			},
		})
	}
	return events
}

// kept is the text of a reply as it is stored: without what no database keeps, and not longer than MaxText.
func kept(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	n := 0
	for at := range text {
		if n == MaxText {
			return text[:at]
		}
		n++
	}
	return text
}
