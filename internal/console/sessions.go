package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

// Sessions is what the pages about conversations read.
type Sessions interface {
	Sessions(ctx context.Context, ws subject.WorkspaceID, f store.SessionFilter, p store.Page) ([]store.ListedSession, error)
	Conversation(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (store.Conversation, error)
}

// responseChips are the lists of what people answer.
func responseChips(at string) []chip {
	out := []chip{{name: "responses", href: "/responses"}, {name: "conversations", href: "/sessions"}, {name: "open ones", href: "/sessions?status=open"}}
	for i := range out {
		out[i].on = out[i].href == at
	}
	return out
}

type sessionLine struct {
	id       string
	href     string
	state    badge
	why      string
	to       string
	contact  string // address of its page
	ref      string
	workflow string
	channel  string
	question string
	answers  []said
	opened   time.Time
}

type sessionList struct {
	scale
	filter
	contact string
	rows    []sessionLine
	newest  string
	older   string
}

func (c *console) sessions(ctx context.Context, v visit) (view, error) {
	f := store.SessionFilter{Status: delivery.SessionStatus(v.query.Get("status"))}
	at := "/sessions"
	if f.Status != "" {
		at += "?status=" + string(f.Status)
	}
	list := sessionList{scale: v.scale, filter: v.filterOf(nil, nil, []string{"status"}), contact: strings.TrimSpace(v.query.Get("contact")), newest: v.newest("/sessions")}
	list.chips = responseChips(at)
	if f.Status != "" && !slices.Contains(delivery.SessionStatuses(), f.Status) {
		list.refusal = fmt.Sprintf("%q is no status of a conversation: give one of %s.", f.Status, listed(delivery.SessionStatuses()))
	}
	rows, err := c.sessionRows(ctx, v, list, f)
	if err != nil {
		return view{}, err
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/sessions", int64(rows[len(rows)-1].Delivery))
	}
	for _, s := range rows {
		list.rows = append(list.rows, v.sessionLine(s))
	}
	return view{title: "Conversations", section: "/responses", body: sessionsPage(list), live: v.before() == 0}, nil
}

// sessionRows reads a page of conversations; none if the list cannot be narrowed as asked. The contact is named by the caller's id or by an address.
func (c *console) sessionRows(ctx context.Context, v visit, list sessionList, f store.SessionFilter) ([]store.ListedSession, error) {
	if list.refusal != "" {
		return nil, nil
	}
	if list.contact != "" {
		found, err := c.Store.FindContacts(ctx, v.workspace.ID, v.whom(list.contact), maxHits)
		if err != nil {
			return nil, err
		}
		f.Contact = subject.Named(found, list.contact)
	}
	return c.Store.Sessions(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1})
}

func (v visit) sessionHref(id delivery.ID) string {
	return "/sessions/" + v.public(key.KindDelivery, int64(id))
}

func (v visit) sessionLine(s store.ListedSession) sessionLine {
	l := sessionLine{
		id: v.public(key.KindDelivery, int64(s.Delivery)), href: v.sessionHref(s.Delivery), state: sessionBadge(s.Session), to: s.Address, ref: s.ExtID, contact: contactPath(s.ExtID),
		workflow: s.Workflow, channel: s.Channel, question: s.Question, opened: s.OpenedAt, why: s.Reason.Sentence(),
	}
	for _, id := range slices.Sorted(maps.Keys(s.Answers)) {
		l.answers = append(l.answers, said{id, survey.AnswerText(s.Answers[id])})
	}
	return l
}

// listed names the values of a list.
func listed[T ~string](list []T) string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}

// sessionBadge says in a word how a conversation stands.
func sessionBadge(s delivery.Session) badge {
	switch {
	case s.Status == delivery.SessionWaiting:
		return badge{wait, "waiting"}
	case s.Status == delivery.SessionOpen:
		return badge{wait, "open"}
	case s.Reason == reason.Answered:
		return badge{good, "answered"}
	case s.Reason == reason.OptedOut:
		return badge{hold, "stopped"}
	case s.Reason == reason.NoResponse:
		return badge{quiet, "no answer"}
	}
	return badge{quiet, words(cmp.Or(string(s.Reason), string(s.Status)))}
}

// turn is a message of a conversation, or a reply.
type turn struct {
	at     time.Time
	theirs bool   // the person has written it
	text   string // empty of a message that has not left
	lang   string
	about  string // what it says or asks, in a few words
	href   string // of a message: its delivery
	state  badge  // of a message that has not left
	why    string // why a reply answers nothing, or a message has not left
}

type sessionDetail struct {
	scale
	title string
	state badge
	why   string
	facts []fact
	said  []fact
	turns []turn
}

func (c *console) session(ctx context.Context, v visit) (view, error) {
	kind, ws, id, known := v.ids.Decode(v.id)
	if !known || kind != key.KindDelivery || ws != int64(v.workspace.ID) {
		return view{}, store.ErrNotFound
	}
	s, err := c.Store.Conversation(ctx, v.workspace.ID, delivery.ID(id))
	if err != nil {
		return view{}, err
	}
	page := sessionDetail{scale: v.scale, title: cmp.Or(s.Address, s.ExtID), state: sessionBadge(s.Session), facts: v.sessionFacts(s.ListedSession)}
	switch s.Status {
	case delivery.SessionWaiting:
		page.why = "Its first message has not been sent yet."
	case delivery.SessionOpen:
	case delivery.SessionEnding, delivery.SessionEnded:
		page.why = s.Reason.Sentence()
	}
	for _, one := range v.sessionLine(s.ListedSession).answers {
		page.said = append(page.said, fact{name: one.question, value: one.answer, said: true})
	}
	for _, l := range s.Lines {
		page.turns = append(page.turns, v.turn(l))
	}
	return view{title: "Conversation with " + page.title, section: "/responses", body: sessionPage(page), live: true}, nil
}

func (v visit) sessionFacts(s store.ListedSession) []fact {
	facts := []fact{
		{name: "workflow", value: s.Workflow, href: "/deliveries?workflow=" + s.Workflow},
		{name: "contact", value: s.ExtID, href: contactPath(s.ExtID)},
		{name: "channel", value: s.Channel},
		{name: "began with", value: v.public(key.KindDelivery, int64(s.Delivery)), href: v.delivery(s.Delivery), code: true},
		{name: "opened", at: s.OpenedAt},
		{name: "ended", at: s.EndedAt},
	}
	if s.Status == delivery.SessionOpen {
		facts = append(facts, fact{name: "asks", value: s.Question}, fact{name: "takes replies until", at: s.ExpiresAt})
	}
	return known(facts)
}

// turn shows one line of a conversation.
func (v visit) turn(l store.Line) turn {
	if r := l.Reply; r != nil {
		t := turn{at: l.At, theirs: true, text: l.Text}
		switch {
		case r.Keyword != "":
			t.about = map[reply.Keyword]string{reply.Stop: "asks for no further messages", reply.Start: "asks for messages again", reply.Help: "asks for help"}[reply.Keyword(r.Keyword)]
		case r.Reason == reason.InvalidAnswer:
			t.about = "no answer to " + r.Question
		case r.Reason != "":
			t.about, t.why = "no answer to "+r.Question, r.Reason.Sentence()
		default:
			t.about = "answers " + r.Question
		}
		return t
	}
	d := l.Message
	says, _ := d.Spoken()
	t := turn{at: l.At, text: l.Text, lang: d.Locale, href: v.delivery(d.ID), about: map[delivery.Says]string{
		delivery.SaysQuestion: "asks " + d.Asks, delivery.SaysInvalid: "asks " + d.Asks + " again", delivery.SaysClosing: "closing", delivery.SaysStopped: "confirms the stop",
	}[says]}
	if l.Step > 1 {
		t.about = fmt.Sprintf("reminder %d of %s", l.Step-1, d.Asks)
	}
	t.about = strings.TrimSpace(t.about)
	if l.Text == "" {
		t.state, t.why = badge{deliveryTone(d.Status), words(string(d.Status))}, d.Reason.Sentence()
	}
	return t
}
