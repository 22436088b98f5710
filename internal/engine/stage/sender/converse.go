package sender

import (
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/conversation"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// A survey may be asked by messages, one question each (package conversation). The intent of the first one opens the session, and the intent of each question notes that it
// is asked.

// conversationTx is what that needs of a transaction.
type conversationTx interface {
	LastSessions(of []delivery.PersonKind) (map[delivery.PersonKind]delivery.Session, error)
	OpenSessions(list []delivery.Session) error
	BeginAgain(list []delivery.Session) error
	AskSessions(now time.Time, list []store.Asked) error
}

// seeSessions notes the claims that would ask a question of a session that is over, or that asks another one by now.
func (r *admitting) seeSessions(tx intentTx, list []admission.Claimed) error {
	var of []delivery.PersonKind
	for _, c := range list {
		if c.Rules.Converses() && asksAgain(c.Row) {
			of = append(of, kindOf(c.Row))
		}
	}
	sessions, err := tx.LastSessions(of)
	for i, c := range list {
		if c.Rules.Converses() && asksAgain(c.Row) {
			s, ok := sessions[kindOf(c.Row)]
			list[i].SessionOver = !ok || s.Status != delivery.SessionOpen || !r.now.Before(s.ExpiresAt) || s.Question != c.Asks || s.Instance != c.Instance
		}
	}
	return err
}

// asksAgain reports whether a message asks a question of a session that is there: each but the first message, and what says something else.
func asksAgain(row delivery.Row) bool {
	return row.Turn > 0 && row.Says.Repeats() || row.Turn == 0 && row.Step > 0
}

func kindOf(row delivery.Row) delivery.PersonKind {
	return delivery.PersonKind{PersonRef: delivery.PersonOf(row), Kind: admission.Kind(row.Channel)}
}

// converse opens the sessions of first messages that leave, and notes which questions of open ones are asked.
func (r *admitting) converse(tx intentTx, d *admission.Decision) error {
	if len(r.conversing) == 0 {
		return nil
	}
	var refs []store.EventRef
	for i := range d.Verdicts {
		if v := &d.Verdicts[i]; v.Send && r.opens(v.Row) && v.Row.Event != 0 {
			refs = append(refs, store.EventRef{Workspace: v.Row.Workspace, ID: v.Row.Event})
		}
	}
	events, err := tx.EventsByID(refs)
	if err != nil {
		return err
	}
	var opened, again []delivery.Session
	var asked []store.Asked
	asks := map[delivery.ID]string{}
	for i := range d.Sent {
		c := &d.Sent[i]
		switch rules, ok := r.conversing[c.ID]; {
		case !ok:
		case c.Turn == 0 && c.Step == 0:
			in := r.readingOf(*c, rules, events[store.EventRef{Workspace: c.Workspace, ID: c.Event}], r.now).Input()
			session, ok := conversation.Open(conversation.Opening{
				Row: c.Row, Address: r.hashOf(c.Row), Person: c.Person, Rules: rules,
			}, in, r.now)
			if !ok {
				continue // it fails when it is written
			}
			if c.Asks != "" { // it was to be asked by an earlier attempt
				session.Question = c.Asks
				again = append(again, session)
			}
			opened, asks[c.ID], c.Asks = append(opened, session), session.Question, session.Question
		case asksAgain(c.Row):
			asked = append(asked, store.Asked{PersonKind: kindOf(c.Row), Instance: c.Instance, Question: c.Asks, AddressHash: r.hashOf(c.Row)})
		}
	}
	for i := range d.Verdicts {
		if question, ok := asks[d.Verdicts[i].Row.ID]; ok {
			d.Verdicts[i].Row.Asks, d.Verdicts[i].Changed = question, true
		}
	}
	if err := tx.OpenSessions(opened); err != nil {
		return err
	}
	if err := tx.BeginAgain(again); err != nil {
		return err
	}
	return tx.AskSessions(r.now, asked)
}

// hashOf is the hash of where a message goes.
func (r *admitting) hashOf(row delivery.Row) string {
	return r.facts.Workspaces[row.Workspace].Addresses.Hash(subject.NormalizeAddress(row.Address))
}

// opens reports whether the first message of a session is about to leave.
func (r *admitting) opens(row delivery.Row) bool {
	_, ok := r.conversing[row.ID]
	return ok && row.Turn == 0 && row.Step == 0
}

// spoken returns what a message of a conversation says, and the options among which its question lets people choose.
func spoken(r admission.Rules, row delivery.Row, locale string) (text message.Text, options []message.Text, err error) {
	says := row.Says
	if row.Step > 0 { // a reminder of the question
		says = delivery.SaysQuestion
	}
	if says == delivery.SaysStopped {
		said, lang := reply.Stopped(locale)
		t, err := message.Parse(said, message.Plain)
		return message.Localized(map[string]*message.Template{lang: t}), nil, err
	}
	if r.Survey == nil {
		return text, nil, &message.RenderError{Reason: reason.CannotRender, Detail: "no survey named " + r.Trigger.Message.Survey}
	}
	talk := r.Survey.Conversation
	switch {
	case says == delivery.SaysClosing:
		return talk.Closing, nil, nil
	case says == delivery.SaysInvalid && !talk.Invalid.IsZero():
		return talk.Invalid, nil, nil
	}
	question := r.Survey.Form.Question(row.Asks)
	if question == nil {
		return text, nil, &message.RenderError{Reason: reason.CannotRender, Detail: "survey " + r.Survey.Name + " asks nothing of this person"}
	}
	for _, o := range question.Options {
		options = append(options, o.Text)
	}
	return question.Text, options, nil
}

// numbered appends options to a question, each with the number by which it is chosen.
func numbered(question string, options []string) string {
	for i, o := range options {
		question += "\n" + strconv.Itoa(i+1) + ". " + o
	}
	return question
}

// textsOf returns the texts for the channel: what a conversation says, a survey's invitation, the texts of the channel's kind, or the default ones.
func textsOf(r admission.Rules, row delivery.Row, kind, locale string) (texts definition.Texts, options []message.Text, err error) {
	m := messageOf(r, kind)
	if m.Converses {
		texts.Text, options, err = spoken(r, row, locale)
		return texts, options, err
	}
	if m.Survey != "" {
		survey := r.Set.Survey(m.Survey)
		if survey == nil {
			return texts, nil, &message.RenderError{Reason: reason.CannotRender, Detail: "no survey named " + m.Survey}
		}
		return survey.Invitation, nil, nil
	}
	if texts, ok := m.ByKind[r.Channel.Kind]; ok {
		return texts, nil, nil
	}
	return m.Default, nil, nil
}
