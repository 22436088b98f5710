package conversation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	words "github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

// Reply is what somebody wrote to whom a session is open, or was.
type Reply struct {
	Contact subject.Contact
	Kind    string // of the channel
	Text    string
	At      time.Time     // when it was written
	Keyword words.Keyword // that it is; empty: none
	Silent  bool          // a stop that another contact with the same address is answered
}

// Heard is what became of a reply.
type Heard struct {
	Reason   reason.Reason // why it answers nothing; empty: it answers Question
	Question string
}

// Replies applies replies to the sessions of their people, in one transaction in which the deliveries of these people are locked.
type Replies struct {
	tx       *store.Tx
	catalog  *catalog.Catalog
	ws       store.Workspace
	now      time.Time
	newID    func(time.Time) int64
	last     map[delivery.PersonKind]delivery.Session // open, or the last one
	open     []delivery.PersonKind
	answered bool // a workflow answers replies, so that a stop is not answered here
	talks    map[delivery.PersonKind]*talk
	events   map[store.EventRef]store.EventRow // of their deliveries
	// cancelled says when the instances of open sessions were cancelled, of those that were.
	cancelled map[instance.ID]time.Time
}

// talk is one session while replies are applied to it.
type talk struct {
	asked
	session delivery.Session
	rows    []delivery.Row // of its instance and contact, as they were read
	heard   bool           // a reply was applied to it
	changed map[delivery.ID]delivery.Row
	made    []delivery.Row
	replies []store.SessionReply
	gone    bool // its definitions are
}

// Listen locks the deliveries of the open sessions of people on a kind of channel. The caller locks the people then, and calls Open.
func Listen(tx *store.Tx, c *catalog.Catalog, ws store.Workspace, set *definition.Set, of []delivery.PersonKind, newID func(time.Time) int64, now time.Time) (*Replies, error) {
	h := &Replies{tx: tx, catalog: c, ws: ws, now: now, newID: newID, answered: len(set.ByEvent(definition.ReplyReceived)) > 0, talks: map[delivery.PersonKind]*talk{}}
	var err error
	if h.last, err = tx.LastSessions(of); err != nil {
		return nil, err
	}
	var open []delivery.Session
	var instances []instance.ID
	for ref, s := range h.last {
		if s.Status == delivery.SessionOpen {
			open, instances, h.open = append(open, s), append(instances, s.Instance), append(h.open, ref)
		}
	}
	if _, err = tx.LockDeliveriesOfSessions(open); err != nil {
		return nil, err
	}
	h.cancelled, err = tx.CancelledAt(ws.ID, instances)
	return h, err
}

// Talks reports whether a session with a contact is open.
func (h *Replies) Talks(of delivery.PersonKind) bool { return slices.Contains(h.open, of) }

// Open locks the open sessions, and reads what they are about. One that has begun since Listen has the transaction run again.
func (h *Replies) Open() error {
	if len(h.open) == 0 {
		return nil
	}
	sessions, err := h.tx.LockOpenSessions(h.open)
	if err != nil {
		return err
	}
	for ref, s := range sessions {
		if s.Delivery != h.last[ref].Delivery {
			return store.ErrAgain
		}
		h.talks[ref] = &talk{session: s, changed: map[delivery.ID]delivery.Row{}}
	}
	return h.read(slices.Collect(maps.Values(sessions)))
}

// read reads the deliveries of sessions, and their events.
func (h *Replies) read(sessions []delivery.Session) error {
	rows, err := h.tx.DeliveriesOfSessions(sessions)
	if err != nil {
		return err
	}
	type occasion struct {
		instance instance.ID
		contact  subject.ContactID
	}
	by := map[occasion][]delivery.Row{}
	for _, r := range rows {
		of := occasion{r.Instance, r.Contact}
		by[of] = append(by[of], r.Shown(h.cancelled[r.Instance]))
	}
	var firsts []delivery.Row
	for _, t := range h.talks {
		t.rows = by[occasion{t.session.Instance, t.session.Contact}]
		if first, found := t.first(); found {
			firsts = append(firsts, first)
			t.rows = slices.DeleteFunc(slices.Clone(t.rows), func(r delivery.Row) bool { return r.Channel != first.Channel || r.Topic != first.Topic }) // of another session
		}
	}
	h.events, err = events(h.tx, firsts...)
	return err
}

// Hear applies one reply, and keeps it with its session.
func (h *Replies) Hear(r Reply) (Heard, error) {
	ref := delivery.PersonKind{PersonRef: delivery.PersonRef{Workspace: h.ws.ID, ID: r.Contact.ID}, Kind: r.Kind}
	t := h.talks[ref]
	if t == nil {
		if last, had := h.last[ref]; had && last.Status != delivery.SessionWaiting {
			return Heard{Reason: reason.SessionOver}, nil
		}
		return Heard{Reason: reason.NoSession}, nil
	}
	if !t.heard {
		if err := h.know(t, r.Contact); err != nil {
			return Heard{}, err
		}
	}
	kept := store.SessionReply{Session: t.session.Delivery, ID: h.newID(h.now), At: h.now, Text: r.Text, Keyword: string(r.Keyword), Question: t.session.Question}
	heard := h.decide(t, r)
	kept.Reason = heard.Reason
	t.replies = append(t.replies, kept)
	return heard, nil
}

// decide applies a reply to a session that was open when the call began.
func (h *Replies) decide(t *talk, r Reply) Heard {
	switch {
	case t.session.Status != delivery.SessionOpen:
		return Heard{Reason: reason.SessionOver}
	case r.Keyword == words.Stop:
		h.stop(t, r.Silent)
		return Heard{}
	case r.Keyword != "": // it is no answer, and the question stands
		return Heard{}
	case t.over(h.now):
		return Heard{Reason: reason.SessionOver}
	}
	if why := t.session.Hears(r.At); why != "" {
		return Heard{Reason: why}
	}
	return h.answer(t, r)
}

// know finds what a session asks of its contact.
func (h *Replies) know(t *talk, contact subject.Contact) error {
	t.heard = true
	first, found := t.first()
	if !found {
		t.gone = true
		return nil
	}
	var ok bool
	var err error
	t.asked, ok, err = of(h.catalog, first, delivery.Person{Contact: contact}, h.events[eventOf(first)].Event, h.now)
	t.gone = !ok
	return err
}

// first returns the delivery that began the session, as it is now.
func (t *talk) first() (delivery.Row, bool) {
	if row, ok := t.changed[t.session.Delivery]; ok {
		return row, true
	}
	i := slices.IndexFunc(t.rows, func(r delivery.Row) bool { return r.ID == t.session.Delivery })
	if i < 0 {
		return delivery.Row{}, false
	}
	return t.rows[i], true
}

// over ends a session whose time is over, or whose delivery has ended otherwise: by a person, or by an answer on its page.
func (t *talk) over(now time.Time) bool {
	first, found := t.first()
	why, ended := first.SessionOver()
	switch {
	case t.gone || !found:
		t.session.End(reason.WorkflowInactive, now)
	case ended:
		t.session.End(why, now)
	case !now.Before(t.session.ExpiresAt):
		t.session.End(reason.NoResponse, now)
	default:
		return false
	}
	return true
}

// stop ends a session whose person wants no more messages, and says so once.
func (h *Replies) stop(t *talk, silent bool) {
	t.made = nil
	t.session.End(reason.OptedOut, h.now)
	if !h.answered && !silent {
		h.say(t, delivery.SaysStopped, "")
	}
}

// answer takes a reply to the question that stands.
func (h *Replies) answer(t *talk, r Reply) Heard {
	s := &t.session
	in := t.reading.Input()
	q := t.survey.Form.Question(s.Question)
	if q == nil { // the set that was asked has it, unless its rows are damaged
		s.End(reason.NoResponse, h.now)
		return Heard{Reason: reason.SessionOver}
	}
	locale := cmp.Or(t.reading.Delivery.Locale, r.Contact.Locale, t.reading.Workflow.Locale, t.reading.Set.Workspace.Locale)
	said := survey.Said{Text: r.Text, Locale: locale, Zone: admission.Zone(&h.catalog.Zones, t.reading.Set, delivery.Person{Contact: r.Contact})}
	said.Today, _ = civil.DateOf(r.At, said.Zone)
	if len(q.Options) > 0 {
		said.Vars = t.reading.Variables()
	}
	value, problem := q.Hear(said, s.Answers, in)
	if problem != nil {
		h.repeat(t)
		return Heard{Reason: reason.InvalidAnswer, Question: q.ID}
	}
	if value != nil {
		s.Answers[q.ID] = value
	}
	h.quieten(t)
	s.Repeats = 0
	if next := t.survey.Form.Next(q.ID, s.Answers, in); next != nil {
		s.Question, s.AskedAt = next.ID, time.Time{}
		h.say(t, delivery.SaysQuestion, next.ID)
		return Heard{Question: q.ID}
	}
	s.End(reason.Answered, h.now)
	if !t.survey.Conversation.Closing.IsZero() {
		h.say(t, delivery.SaysClosing, "")
	}
	return Heard{Question: q.ID}
}

// repeat asks the question again that a reply did not answer, unless it is about to be asked, or was repeated too often.
func (h *Replies) repeat(t *talk) {
	s := &t.session
	if s.Repeats >= survey.MostRepeats || t.speaks() {
		return
	}
	s.Repeats++
	h.quieten(t)
	h.say(t, delivery.SaysInvalid, s.Question)
}

// speaks reports whether a message of the session has not left yet.
func (t *talk) speaks() bool {
	return len(t.made) > 0 || slices.ContainsFunc(t.rows, func(r delivery.Row) bool {
		return r.Turn > 0 && r.Turn == t.session.Turns && r.Status == delivery.Scheduled
	})
}

// quieten leaves nothing more to send of what asked before.
func (h *Replies) quieten(t *talk) {
	t.made = slices.DeleteFunc(t.made, func(r delivery.Row) bool { return r.Says.Repeats() })
	for _, r := range t.rows {
		if was, ok := t.changed[r.ID]; ok {
			r = was
		}
		if r.ID != t.session.Delivery && !r.Says.Repeats() {
			continue
		}
		if next, ok := r.Heard(h.now); ok {
			t.changed[r.ID] = next
		}
	}
}

// say adds the next message of a session. It goes where the session was begun.
func (h *Replies) say(t *talk, what delivery.Says, question string) {
	first, _ := t.first()
	t.session.Turns++
	t.made = append(t.made, delivery.Row{
		Workspace: first.Workspace, ID: delivery.ID(h.newID(h.now)), Key: string(key.Delivery(first.Key).Turn(t.session.Turns)), Instance: first.Instance, Event: first.Event,
		Record: first.Record, Contact: first.Contact, Topic: first.Topic, Workflow: first.Workflow, WorkflowVersion: first.WorkflowVersion, Definitions: first.AskedBy(),
		Type: first.Type, Trigger: first.Trigger, Message: first.Message, Channel: first.Channel, Address: first.Address, OwnAddress: first.OwnAddress, Locale: first.Locale,
		CustomerRef: first.CustomerRef, Status: delivery.Scheduled, NotBefore: h.now, SendAt: h.now, CreatedAt: h.now,
		Priority: min(first.Priority, flow.Transactional), Turn: t.session.Turns, Says: what, Asks: question,
	})
}

// Write writes what the replies have changed.
func (h *Replies) Write() error {
	var sessions []delivery.Session
	var old, changed, made []delivery.Row
	var replies []store.SessionReply
	for _, t := range h.talks {
		if !t.heard {
			continue
		}
		sessions, old, made = append(sessions, t.session), append(old, t.rows...), append(made, t.made...)
		replies = append(replies, t.replies...)
		for _, row := range t.changed {
			changed = append(changed, row)
		}
	}
	if len(sessions) == 0 {
		return nil
	}
	if err := h.tx.UpdateDeliveries(h.now, old, changed); err != nil {
		return err
	}
	if err := h.tx.InsertDeliveries(made); err != nil {
		return err
	}
	if err := h.tx.WriteSessions(sessions); err != nil {
		return err
	}
	return h.tx.AddSessionReplies(h.ws.ID, replies)
}
