package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Session is a conversation with a contact on a kind of channel: a survey that is asked by messages, one question each.
type Session struct {
	ID        string         `json:"id" doc:"The id of the delivery that began it."`
	Workflow  string         `json:"workflow" doc:"The name of the workflow."`
	Contact   string         `json:"contact" doc:"The id of the contact."`
	Channel   string         `json:"channel" doc:"Where it takes place, as kind:name."`
	Address   string         `json:"address" doc:"The address of the person."`
	Status    string         `json:"status" enum:"waiting,open,ending,ended" doc:"waiting: its first message has not been sent; open: it takes replies; ending: it takes none any more, and its answers are handed on next; ended."`
	Reason    string         `json:"reason,omitempty" doc:"Why it ends or has ended; see GET /v1/reasons."`
	Message   string         `json:"message,omitempty" doc:"The reason in words."`
	Question  string         `json:"question" doc:"The question that stands, or stood at its end, by its id."`
	Answers   map[string]any `json:"answers" doc:"The answers so far, by the id of the question."`
	Turns     int            `json:"turns" doc:"Messages after the first one."`
	OpenedAt  time.Time      `json:"opened_at" doc:"When its first message was sent."`
	ExpiresAt time.Time      `json:"expires_at,omitzero" doc:"Until when it takes replies; absent once it takes none."`
	EndedAt   time.Time      `json:"ended_at,omitzero" doc:"When it ended."`
}

// SessionDetail is a session with what was said in it.
type SessionDetail struct {
	Session
	Lines []SessionLine `json:"lines" doc:"What was said, in its order."`
}

// SessionLine is a message of a session, or a reply.
type SessionLine struct {
	At       time.Time `json:"at" doc:"When the message was sent, or the reply came. Of a message that has not left: when it was made."`
	By       string    `json:"by" enum:"carillon,person" doc:"Who says it."`
	Text     string    `json:"text" doc:"What is said; empty of a message that has not left."`
	Delivery string    `json:"delivery,omitempty" doc:"Of a message: the id of its delivery."`
	Step     int       `json:"step,omitempty" doc:"Of a message: 1 is the first of its delivery, 2 its first reminder."`
	Says     string    `json:"says,omitempty" enum:"question,invalid,closing,stopped" doc:"Of a message: what it says."`
	Question string    `json:"question,omitempty" doc:"The question that a message asks, or that stood when a reply came, by its id."`
	Status   string    `json:"status,omitempty" doc:"Of a message that has not left: the status of its delivery."`
	Keyword  string    `json:"keyword,omitempty" doc:"Of a reply: stop, start or help, if it is one of these keywords and no answer."`
	Reason   string    `json:"reason,omitempty" doc:"Why a reply answers nothing, or a message has not left; see GET /v1/reasons."`
	Message  string    `json:"message,omitempty" doc:"The reason in words."`
}

// SessionQuery narrows a list of sessions.
type SessionQuery struct {
	Status  string // waiting, open, ending or ended
	Contact string
	Limit   int
	Cursor  string
}

func (q SessionQuery) values() url.Values {
	v := values{}
	v.set("status", q.Status)
	v.set("contact", q.Contact)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Sessions gives a page of sessions, the newest first.
func (c *Client) Sessions(ctx context.Context, q SessionQuery) (Page[Session], error) {
	return get[Page[Session]](ctx, c, "/v1/sessions", q.values())
}

// Session reads a session with what was said in it, by the id of any of its deliveries.
func (c *Client) Session(ctx context.Context, id string) (d SessionDetail, err error) {
	return d, c.call(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(id), nil, &d)
}
