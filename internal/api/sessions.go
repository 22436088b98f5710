package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// maxNamed is how many contacts of a search are read to find the one with an id or address: those come first.
const maxNamed = 10

type listSessions struct {
	Status  string `query:"status" enum:"waiting,open,ending,ended" doc:"In this state."`
	Contact string `query:"contact" maxLength:"256" doc:"With this person: your id of them, or one of their addresses."`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor  string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type bySession struct {
	ID string `path:"id" maxLength:"100" doc:"The id of the delivery that began it, or of another one of its messages."`
}

// sessions lists and shows conversations.
func (a *API) sessions() {
	tags := []string{"sessions"}
	route(a, http.MethodGet, "/v1/sessions", ScopeRead, huma.Operation{
		OperationID: "list-sessions", Summary: "Conversations with people, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listSessions) (*body[client.Page[client.Session]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindDelivery, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		contact, err := a.contactNamed(ctx, c, in.Contact)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Sessions(ctx, c.Workspace.ID, store.SessionFilter{Status: delivery.SessionStatus(in.Status), Contact: contact}, page)
		if err != nil {
			return nil, err
		}
		return &body[client.Page[client.Session]]{pageOf(rows, in.Limit, x.wireSession, func(s store.ListedSession) string { return x.delivery(s.Delivery) })}, nil
	})
	route(a, http.MethodGet, "/v1/sessions/{id}", ScopeRead, huma.Operation{
		OperationID: "get-session", Summary: "A conversation, with what was said in it", Tags: tags,
	}, func(ctx context.Context, c Caller, in *bySession) (*body[client.SessionDetail], error) {
		x := a.idsOf(c.Workspace)
		id, err := x.sessionID(in.ID)
		if err != nil {
			return nil, err
		}
		s, err := a.Store.Conversation(ctx, c.Workspace.ID, id)
		if err != nil {
			return nil, err
		}
		detail := client.SessionDetail{Session: x.wireSession(s.ListedSession), Lines: make([]client.SessionLine, len(s.Lines))}
		for i, l := range s.Lines {
			detail.Lines[i] = x.wireLine(l)
		}
		return &body[client.SessionDetail]{detail}, nil
	})
}

// contactNamed is the caller's id of the contact who has that id, or else that address; a text that is neither stays as it is.
func (a *API) contactNamed(ctx context.Context, c Caller, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	rows, err := a.Store.FindContacts(ctx, c.Workspace.ID, a.idsOf(c.Workspace).whom(text), maxNamed)
	if err != nil {
		return "", fmt.Errorf("find a person: %w", err)
	}
	return subject.Named(rows, text), nil
}

func (x ids) wireSession(s store.ListedSession) client.Session {
	wire := client.Session{
		ID: x.delivery(s.Delivery), Workflow: s.Workflow, Contact: s.ExtID, Channel: s.Channel, Address: s.Address, Status: string(s.Status),
		Reason: string(s.Reason), Message: sentence(s.Reason), Question: s.Question, Answers: s.Answers, Turns: s.Turns, OpenedAt: s.OpenedAt, EndedAt: s.EndedAt,
	}
	if s.Status == delivery.SessionOpen {
		wire.ExpiresAt = s.ExpiresAt
	}
	return wire
}

func (x ids) wireLine(l store.Line) client.SessionLine {
	if r := l.Reply; r != nil {
		return client.SessionLine{At: l.At, By: "person", Text: l.Text, Question: r.Question, Keyword: r.Keyword, Reason: string(r.Reason), Message: sentence(r.Reason)}
	}
	d := l.Message
	says, _ := d.Spoken()
	wire := client.SessionLine{At: l.At, By: "carillon", Text: l.Text, Delivery: x.delivery(d.ID), Step: l.Step, Says: string(says), Question: d.Asks}
	if l.Text == "" {
		wire.Status, wire.Reason, wire.Message = string(d.Status), string(d.Reason), sentence(d.Reason)
	}
	return wire
}
