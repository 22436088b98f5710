package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	contactsPath = "/v1/contacts"
	// topContactsPath is no part of contactsPath: any text may be the id of a contact.
	topContactsPath = "/v1/top-contacts"
)

type listContacts struct {
	Q       string `query:"q" maxLength:"256" doc:"Whose id or address this is, then whose name or id begins with it. The answer is one page."`
	Persona string `query:"persona" maxLength:"200" doc:"Only those with this persona."`
	Place   string `query:"place" maxLength:"256" doc:"Only those in this place, without the places below it."`
	Limit   int    `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"How many items a page holds, at most."`
	Cursor  string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before."`
}

type topContacts struct {
	Since string `query:"since" default:"1d" maxLength:"40" doc:"Of deliveries made at this instant or later: RFC 3339, or how long ago, such as 1d."`
	Limit int    `query:"limit" default:"20" minimum:"1" maximum:"100" doc:"How many contacts, at most."`
}

// byContact is the input of a route to one contact, by the caller's own id.
type byContact struct {
	ID string `path:"id" maxLength:"256" doc:"Your id of the person."`
}

type suppressContact struct {
	ID   string `path:"id" maxLength:"256" doc:"Your id of the person."`
	Body struct {
		Reason string `json:"reason" doc:"Why, in your words, such as complained." minLength:"1" maxLength:"256"`
		Kind   string `json:"kind,omitempty" enum:"email,sms,whatsapp,push,webhook" doc:"On this kind of channel alone, as if they had replied STOP there. Default: everywhere."`
	}
}

type unsuppressContact struct {
	ID   string `path:"id" maxLength:"256" doc:"Your id of the person."`
	Kind string `query:"kind" enum:"email,sms,whatsapp,push,webhook" doc:"What was stopped on this kind of channel alone, by them or by you. Default: the suppression everywhere."`
}

type mergeContact struct {
	ID   string `path:"id" maxLength:"256" doc:"The id of the contact that is merged."`
	Body struct {
		Into string `json:"into" doc:"The id of the contact into which it is merged, the survivor." minLength:"1" maxLength:"256"`
	}
}

func (a *API) contacts() {
	tags := []string{"contacts"}
	a.plain(http.MethodPost, contactsPath, ScopeIngest, a.postContacts)
	a.plain(http.MethodPut, contactsPath+"/{id}", ScopeIngest, a.writeContact(upsert.Replace))
	a.plain(http.MethodPatch, contactsPath+"/{id}", ScopeIngest, a.writeContact(upsert.Change))
	route(a, http.MethodGet, contactsPath, ScopeRead, huma.Operation{
		OperationID: "list-contacts", Summary: "Contacts, newest first", Tags: tags,
	}, func(ctx context.Context, c Caller, in *listContacts) (*body[client.Page[client.Contact]], error) {
		x := a.idsOf(c.Workspace)
		page, err := x.page(key.KindContact, in.Limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		if in.Q != "" {
			if in.Persona != "" || in.Place != "" || in.Cursor != "" {
				return nil, invalid("query.q", "it cannot be combined with persona, place or cursor", "leave them out, or leave q out")
			}
			rows, err := a.Store.FindContacts(ctx, c.Workspace.ID, x.whom(in.Q), in.Limit)
			if err != nil {
				return nil, fmt.Errorf("find persons: %w", err)
			}
			return a.contactPage(ctx, c, rows, in.Limit)
		}
		rows, err := a.Store.Contacts(ctx, c.Workspace.ID, store.ContactFilter{Persona: in.Persona, Place: in.Place}, page)
		if err != nil {
			return nil, fmt.Errorf("a page of the list: %w", err)
		}
		return a.contactPage(ctx, c, rows, in.Limit)
	})
	route(a, http.MethodGet, topContactsPath, ScopeRead, huma.Operation{
		OperationID: "top-contacts", Summary: "Who got most messages", Tags: tags,
		Description: "Counts deliveries that were made since the instant and of which a message has left; the newest 200,000 deliveries are read.",
	}, func(ctx context.Context, c Caller, in *topContacts) (*body[client.TopContacts], error) {
		now := a.Clock.Now()
		made, err := Period{Since: in.Since}.read(now)
		if err != nil {
			return nil, err
		}
		rows, err := a.Store.Top(ctx, c.Workspace.ID, made.Since, in.Limit)
		if err != nil {
			return nil, fmt.Errorf("who got most: %w", err)
		}
		top := client.TopContacts{Since: made.Since, Items: make([]client.TopContact, len(rows))}
		for i, r := range rows {
			top.Items[i] = client.TopContact{ID: r.Contact.ExtID, Name: r.Contact.Name, Address: r.Contact.Address, Deliveries: r.N, Channels: r.Channels}
		}
		return &body[client.TopContacts]{top}, nil
	})
	route(a, http.MethodGet, contactsPath+"/{id}", ScopeRead, huma.Operation{
		OperationID: "get-contact", Summary: "A contact, by your id", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byContact) (*body[client.Contact], error) {
		row, err := a.Store.ContactRow(ctx, c.Workspace.ID, in.ID)
		if err != nil {
			return nil, fmt.Errorf("a person: %w", err)
		}
		of, err := a.Engine.GroupsOf(ctx, c.Workspace.ID, []subject.ContactRow{row})
		if err != nil {
			return nil, fmt.Errorf("the groups of a person: %w", err)
		}
		stops, err := a.Engine.StopsOf(ctx, c.Workspace, row.Contact)
		if err != nil {
			return nil, err
		}
		one := wireContact(row)
		one.Groups = of[0]
		for _, s := range stops {
			one.Stopped = append(one.Stopped, client.StoppedKind{Kind: s.Kind, Reason: string(s.Reason), Since: s.At})
		}
		return &body[client.Contact]{one}, nil
	})
	route(a, http.MethodGet, contactsPath+"/{id}/limits", ScopeRead, huma.Operation{
		OperationID: "contact-limits", Summary: "How far the limits of a contact are used up, and what waits for them", Tags: tags,
	}, func(ctx context.Context, c Caller, in *byContact) (*body[client.ContactLimits], error) {
		limits, err := a.Engine.Limits(ctx, c.Workspace.ID, in.ID)
		if err != nil {
			return nil, fmt.Errorf("a person: %w", err)
		}
		return &body[client.ContactLimits]{a.idsOf(c.Workspace).limits(limits)}, nil
	})
	route(a, http.MethodPost, contactsPath+"/{id}/merge", ScopeOperate, huma.Operation{
		OperationID: "merge-contact", Summary: "Merge a contact into another one", Tags: tags,
	}, func(ctx context.Context, c Caller, in *mergeContact) (*body[client.MergedContact], error) {
		wire := func(m contact.Merged) client.MergedContact {
			return client.MergedContact{Changed: m.Changed, Contact: wireContact(m.Contact), Survivor: wireContact(m.Survivor)}
		}
		merged, err := a.Engine.MergeContact(ctx, c.Workspace, contact.Merger{Contact: in.ID, Into: in.Body.Into, Actor: c.Name}, once(a, c, wire))
		if errors.Is(err, contact.ErrNoSurvivor) {
			p := newProblem(http.StatusNotFound, client.CodeNotFound, "there is no contact "+in.Body.Into)
			p.Field, p.Hint = "body.into", "write the survivor first, or name another one"
			return nil, p
		}
		if err != nil {
			return nil, refusedIn(err)
		}
		return &body[client.MergedContact]{wire(merged)}, nil
	})
	route(a, http.MethodPost, contactsPath+"/{id}/suppress", ScopeOperate, huma.Operation{
		OperationID: "suppress-contact", Summary: "Have a contact get no more messages", Tags: tags,
	}, func(ctx context.Context, c Caller, in *suppressContact) (*body[client.Suppressed], error) {
		if err := contact.CheckReason(in.Body.Reason); err != nil {
			return nil, invalid("body."+err.Field, err.Message, err.Hint)
		}
		return a.stopContact(ctx, c, contact.Suppression{Contact: in.ID, Suppress: true, Kind: in.Body.Kind, Reason: in.Body.Reason, Actor: c.Name})
	})
	route(a, http.MethodPost, contactsPath+"/{id}/unsuppress", ScopeOperate, huma.Operation{
		OperationID: "unsuppress-contact", Summary: "End the suppression of a contact; what it cancelled stays cancelled", Tags: tags,
	}, func(ctx context.Context, c Caller, in *unsuppressContact) (*body[client.Suppressed], error) {
		return a.stopContact(ctx, c, contact.Suppression{Contact: in.ID, Kind: in.Kind, Actor: c.Name})
	})
}

// contactPage answers with contacts and their groups.
func (a *API) contactPage(ctx context.Context, c Caller, rows []subject.ContactRow, limit int) (*body[client.Page[client.Contact]], error) {
	of, err := a.Engine.GroupsOf(ctx, c.Workspace.ID, rows)
	if err != nil {
		return nil, fmt.Errorf("the groups of contacts: %w", err)
	}
	x := a.idsOf(c.Workspace)
	page := pageOf(rows, limit, wireContact, func(r subject.ContactRow) string { return x.contact(r.ID) })
	for i := range page.Items {
		page.Items[i].Groups = of[i]
	}
	return &body[client.Page[client.Contact]]{page}, nil
}

func (a *API) stopContact(ctx context.Context, c Caller, w contact.Suppression) (*body[client.Suppressed], error) {
	x := a.idsOf(c.Workspace)
	wire := func(s contact.Stopped) client.Suppressed {
		return client.Suppressed{Changed: s.Changed, Contact: wireContact(s.Contact), Deliveries: x.deliveries(s.Deliveries)}
	}
	stopped, err := a.Engine.StopContact(ctx, c.Workspace, w, once(a, c, wire))
	if errors.Is(err, contact.ErrNoAddress) {
		return nil, invalid("kind", "contact "+w.Contact+" has no address for "+w.Kind, "name a kind for which it has one")
	}
	if err != nil {
		return nil, err
	}
	return &body[client.Suppressed]{wire(stopped)}, nil
}

// postContacts takes a batch in. One bad contact fails no other one; the answer says what became of each.
func (a *API) postContacts(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBatchBody)
	if err != nil {
		return err
	}
	fields, err := object(raw, "contacts")
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["contacts"], &list) != nil || list == nil {
		return invalid("body.contacts", "it is not a list", `write {"contacts": [{"id": "…"}]}`)
	}
	if len(list) > client.MaxContacts {
		return invalid("body.contacts", fmt.Sprintf("it holds more than %d contacts", client.MaxContacts), "send them in parts")
	}
	items := make([]contact.Item, len(list))
	for i, one := range list {
		items[i] = parseContact(one, "")
	}
	results, err := a.Engine.WriteContacts(r.Context(), c.Workspace, upsert.Merge, items, once(a, c, wireContacts))
	if err != nil {
		return fmt.Errorf("take contacts in: %w", err)
	}
	return writeJSON(w, http.StatusOK, "application/json", wireContacts(results))
}

// writeContact writes one contact, whose id is in the path.
func (a *API) writeContact(mode upsert.Mode) func(http.ResponseWriter, *http.Request, Caller) error {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		raw, err := readBody(w, r, MaxBody)
		if err != nil {
			return err
		}
		item := parseContact(raw, r.PathValue("id"))
		if item.Err != nil {
			return refusedItem(item.Err)
		}
		wire := func(results []upsert.Result[subject.ContactRow]) client.Contact {
			return wireContact(results[0].Row)
		}
		results, err := a.Engine.WriteContacts(r.Context(), c.Workspace, mode, []contact.Item{item}, once(a, c, wire))
		if err != nil {
			return fmt.Errorf("take it in: %w", err)
		}
		if refused := results[0].Error; refused != nil {
			return refusedItem(refused)
		}
		return writeJSON(w, http.StatusOK, "application/json", wire(results))
	}
}

// refusedItem is the error of an item whose call holds it alone.
func refusedItem(e *upsert.Error) error {
	field := "body"
	if e.Field != "" {
		field += "." + e.Field
	}
	return invalid(field, e.Message, e.Hint)
}

// refusedIn answers a call whose only item was refused below as such.
func refusedIn(err error) error {
	var refused *upsert.Error
	if errors.As(err, &refused) {
		return refusedItem(refused)
	}
	return err
}

// parseContact reads a contact as strictly as everything else.
func parseContact(raw json.RawMessage, id string) contact.Item {
	if err := checkJSON(raw); err != nil {
		return contact.Item{Err: contact.Malformed(err)}
	}
	return contact.Parse(raw, id)
}

func (x ids) contact(id subject.ContactID) string { return x.encode(key.KindContact, int64(id)) }

func wireContacts(results []upsert.Result[subject.ContactRow]) client.ContactsAnswer {
	answer := client.ContactsAnswer{Items: make([]client.ContactResult, len(results))}
	for i, r := range results {
		item := client.ContactResult{ID: r.Row.ExtID, Outcome: string(r.Outcome)}
		switch r.Outcome {
		case upsert.Created:
			answer.Created++
		case upsert.Changed:
			answer.Changed++
		case upsert.Unchanged:
			answer.Unchanged++
		case upsert.Failed:
			answer.Failed++
			item.Reason, item.Message, item.Field, item.Hint = string(r.Error.Reason), r.Error.Message, r.Error.Field, r.Error.Hint
		case upsert.Deleted, upsert.Pending: // contacts are neither
		}
		answer.Items[i] = item
	}
	return answer
}

func wireContact(r subject.ContactRow) client.Contact {
	return client.Contact{
		ID: r.ExtID, Name: r.Name, Locale: r.Locale, Timezone: r.Timezone, Persona: r.Persona, Place: r.Place, Cadence: wireCadence(r.Cadence), Address: r.Address, Addresses: r.Addresses, Attributes: r.Attributes,
		MergedInto: r.Claimant, Suppressed: r.Suppressed, SuppressReason: r.SuppressReason, SuppressedAt: r.SuppressedAt, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func (x ids) limits(l admission.Limits) client.ContactLimits {
	out := client.ContactLimits{
		ID: l.Contact.ExtID, Persona: l.Contact.Persona, PersonaLost: l.Lost, Timezone: l.Zone.String(), At: l.At,
		Channels: make([]client.ChannelLimits, len(l.Kinds)),
	}
	if l.Unread != nil {
		out.Unreadable = l.Unread.Error()
	}
	for i, k := range l.Kinds {
		kind := client.ChannelLimits{Kind: k.Kind, Limits: make([]client.LimitUse, len(k.Limits))}
		for n, u := range k.Limits {
			kind.Limits[n] = client.LimitUse{
				Limit: string(u.Limit), Type: u.Type, From: string(u.From), Value: u.Value(), Used: u.Used, Max: u.Most,
				FreeAt: u.Free, Blocks: !u.Free.Equal(l.At), Says: u.Sentence(l.At, l.Zone),
			}
		}
		for _, d := range k.Waiting {
			ahead, _ := admission.Ahead(d, admission.Circumstances{})
			kind.Waiting = append(kind.Waiting, client.WaitingMessage{
				Delivery: x.delivery(d.ID), Workflow: d.Workflow, Type: d.Type, Channel: d.Channel, SendAt: d.LeavesAt(), Reason: string(ahead.Reason),
			})
		}
		out.Channels[i] = kind
	}
	return out
}

// wireCadence is a person's own limits as they were written; they were checked then.
func wireCadence(text string) *client.Cadence {
	if text == "" {
		return nil
	}
	var c client.Cadence
	if json.Unmarshal([]byte(text), &c) != nil {
		return nil
	}
	return &c
}
