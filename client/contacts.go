package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// MaxContacts is how many contacts one request may hold.
const MaxContacts = 1000

// ContactInput is a contact as a request gives it.
type ContactInput struct {
	ID         string            `json:"id,omitempty" maxLength:"256" doc:"Your id of the person, as events name them by customer_ref."`
	Name       string            `json:"name,omitempty" maxLength:"256" doc:"Their name."`
	Locale     string            `json:"locale,omitempty" doc:"The language they read, such as ar or en-GB."`
	Timezone   string            `json:"timezone,omitempty" doc:"A name of the tz database, such as Europe/Berlin."`
	Persona    string            `json:"persona,omitempty" doc:"The name of a persona that is defined; its limits are theirs."`
	Place      string            `json:"place,omitempty" doc:"The place where they are: the id of a record of the type place, which may be written later."`
	Cadence    *Cadence          `json:"cadence,omitempty" doc:"Limits of their own, in a persona's keys; each goes before the persona's."`
	Addresses  map[string]string `json:"addresses,omitempty" doc:"By kind of channel: email, sms, whatsapp, push, inbox, webhook."`
	Attributes map[string]any    `json:"attributes,omitempty" doc:"Fields of your own, up to 16 KiB."`
}

// Contact is a person or an address who can be messaged.
type Contact struct {
	ID             string            `json:"id" doc:"Your id of the person; addr:… for one that an event named by an address alone."`
	Name           string            `json:"name,omitempty" doc:"Their name."`
	Locale         string            `json:"locale,omitempty" doc:"The language they read, such as ar or en-GB."`
	Timezone       string            `json:"timezone,omitempty" doc:"A name of the tz database, such as Europe/Berlin."`
	Persona        string            `json:"persona,omitempty" doc:"The name of their persona. If the persona was removed since, it has no limits."`
	Place          string            `json:"place,omitempty" doc:"The place where they are: the id of a record of the type place."`
	Groups         []string          `json:"groups,omitempty" doc:"The names of the groups to which they belong, sorted; in answers that read contacts."`
	Cadence        *Cadence          `json:"cadence,omitempty" doc:"Limits of their own."`
	Address        string            `json:"address,omitempty" doc:"The address by which the first event named them."`
	Addresses      map[string]string `json:"addresses,omitempty" doc:"By kind of channel, normalised."`
	Attributes     map[string]any    `json:"attributes,omitempty" doc:"Fields of your own."`
	MergedInto     string            `json:"merged_into,omitempty" doc:"The id of the contact into which it was merged, by a merge or because that one has the address for which this one was made. What it had belongs to that contact."`
	Suppressed     bool              `json:"suppressed" doc:"They get no messages."`
	SuppressReason string            `json:"suppress_reason,omitempty" doc:"Why they get no messages."`
	SuppressedAt   time.Time         `json:"suppressed_at,omitzero" doc:"Since when they get no messages."`
	Stopped        []StoppedKind     `json:"stopped,omitempty" doc:"The kinds of channels on which nothing is sent to their address; in the answer that reads one contact."`
	CreatedAt      time.Time         `json:"created_at" doc:"When it was made."`
	UpdatedAt      time.Time         `json:"updated_at,omitzero" doc:"When it was last changed."`
}

// StoppedKind is a kind of channel on which nothing is sent to a contact.
type StoppedKind struct {
	Kind   string    `json:"kind" doc:"The kind of channel, such as sms."`
	Reason string    `json:"reason" enum:"opted_out,address_stopped" doc:"opted_out: they want nothing there. address_stopped: nothing arrives there."`
	Since  time.Time `json:"since" doc:"Since when."`
}

// Cadence is limits: how often somebody may be messaged. 0 or nothing is no limit.
type Cadence struct {
	Limits
	Total    TotalLimits       `json:"total,omitzero" doc:"Limits over all kinds of channels together, beside those of each kind."`
	Channels map[string]Limits `json:"channels,omitempty" doc:"By kind of channel: limits that replace the others there."`
}

// TotalLimits are limits over all kinds of channels together.
type TotalLimits struct {
	MaxPerDay   int `json:"max_per_day,omitempty" doc:"The most messages a day."`
	MaxPerWeek  int `json:"max_per_week,omitempty" doc:"Monday to Sunday."`
	MaxPerMonth int `json:"max_per_month,omitempty" doc:"The most messages a month."`
}

// Limits are the limits of one kind of channel.
type Limits struct {
	Cooldown    string         `json:"cooldown,omitempty" doc:"The least time between two messages, such as 2h."`
	MaxPerDay   int            `json:"max_per_day,omitempty" doc:"The most messages a day."`
	MaxPerWeek  int            `json:"max_per_week,omitempty" doc:"Monday to Sunday."`
	MaxPerMonth int            `json:"max_per_month,omitempty" doc:"The most messages a month."`
	MaxPerSlot  int            `json:"max_per_slot,omitempty" doc:"How many messages may leave at one instant."`
	TypeLimits  map[string]int `json:"type_limits,omitempty" doc:"By type of message: the most a day."`
	Types       []string       `json:"types,omitempty" doc:"The types that the limits count; nothing: all."`
	QuietHours  string         `json:"quiet_hours,omitempty" doc:"A span of the day without messages, such as 22:00-07:00, in the person's zone."`
	ResumeAt    string         `json:"resume_at,omitempty" doc:"A wait for a new day ends at this time of day."`
	Window      string         `json:"window,omitempty" enum:"calendar,rolling" doc:"Whether days, weeks and months follow the calendar or are rolling windows."`
	Count       string         `json:"count,omitempty" enum:"committed,sent" doc:"Whether messages that wait for their slot count too."`
	SlotGrace   string         `json:"slot_grace,omitempty" doc:"How late a message may leave and still keep its slot."`
}

// ContactsAnswer says what became of each contact of a request, in the same order.
type ContactsAnswer struct {
	Created   int             `json:"created" doc:"Contacts that were made."`
	Changed   int             `json:"changed" doc:"Contacts that were changed."`
	Unchanged int             `json:"unchanged" doc:"Contacts that were like this already."`
	Failed    int             `json:"failed" doc:"Contacts that were refused; nothing of them is kept."`
	Items     []ContactResult `json:"items" doc:"One for each contact, in the order of the request."`
}

// ContactResult is what became of one contact.
type ContactResult struct {
	ID      string `json:"id,omitempty" doc:"Your id of the person; absent where it was not understood."`
	Outcome string `json:"outcome" enum:"created,changed,unchanged,failed" doc:"What became of the contact."`
	Reason  string `json:"reason,omitempty" doc:"Why it was refused; see GET /v1/reasons."`
	Message string `json:"message,omitempty" doc:"What is wrong, in words."`
	Field   string `json:"field,omitempty" doc:"The field of the contact that is wrong."`
	Hint    string `json:"hint,omitempty" doc:"What to do."`
}

// MergedContact says what a merge of two contacts did.
type MergedContact struct {
	Changed  bool    `json:"changed" doc:"false: it was so already."`
	Contact  Contact `json:"contact" doc:"The merged contact. Its id names the survivor from now on."`
	Survivor Contact `json:"survivor" doc:"The contact into which it was merged."`
}

// Suppressed says what suppressing a contact, or the end of that, did.
type Suppressed struct {
	Changed    bool     `json:"changed" doc:"False: it was so already."`
	Contact    Contact  `json:"contact" doc:"The contact, as it is now."`
	Deliveries []string `json:"deliveries" doc:"Deliveries that were stopped."`
}

// ContactLimits says how far the limits of a contact are used up, and what waits for them.
type ContactLimits struct {
	ID          string          `json:"id" doc:"Your id of the person."`
	Persona     string          `json:"persona,omitempty" doc:"The persona whose limits they have."`
	PersonaLost bool            `json:"persona_lost,omitempty" doc:"The persona is not defined any more, and has no limits."`
	Unreadable  string          `json:"unreadable,omitempty" doc:"Why this version cannot read the contact's own limits, which hold no more then: those of the persona do, else the workspace's."`
	Timezone    string          `json:"timezone" doc:"In which their days begin and end."`
	At          time.Time       `json:"at" doc:"The instant that the numbers are of."`
	Channels    []ChannelLimits `json:"channels" doc:"For each kind of channel that may reach them, or has messages for them."`
}

// ChannelLimits are the limits of one kind of channel. A limit counts every message of the kind, whichever provider.
type ChannelLimits struct {
	Kind    string           `json:"kind" doc:"The kind of channel."`
	Limits  []LimitUse       `json:"limits" doc:"In the order in which they are asked; the first that blocks names the reason."`
	Waiting []WaitingMessage `json:"waiting,omitempty" doc:"What is planned for them, the next first; at most 100."`
}

// LimitUse is one limit, and how much of it is used up.
type LimitUse struct {
	Limit  string    `json:"limit" enum:"cooldown,max_per_slot,type_limits,max_per_day,max_per_week,max_per_month,total.max_per_day,total.max_per_week,total.max_per_month,quiet_hours" doc:"Which limit, by its key in a cadence."`
	Type   string    `json:"type,omitempty" doc:"The type of message that a limit by type counts."`
	From   string    `json:"from" enum:"person,persona,workspace,default" doc:"Whose limit it is: the person's own goes before the persona's, and people without any have the workspace's or, where it sets none, the default."`
	Value  string    `json:"value" doc:"As it is set."`
	Used   int       `json:"used" doc:"Messages that were sent, or wait for a slot, in the present window."`
	Max    int       `json:"max,omitempty" doc:"The most that it allows."`
	FreeAt time.Time `json:"free_at,omitzero" doc:"From when it lets one more message pass; none: in no instant of the year to come."`
	Blocks bool      `json:"blocks" doc:"One more message would have to wait for it now."`
	Says   string    `json:"says" doc:"The same in words."`
}

// WaitingMessage is a message that is planned.
type WaitingMessage struct {
	Delivery string    `json:"delivery" doc:"The id of the delivery."`
	Workflow string    `json:"workflow" doc:"The name of the workflow."`
	Type     string    `json:"type" doc:"The type of message, such as alert or survey."`
	Channel  string    `json:"channel" doc:"As kind:name."`
	SendAt   time.Time `json:"send_at" doc:"When it leaves."`
	Reason   string    `json:"reason,omitempty" doc:"What it waits for: a limit, or what else put it off."`
}

// ContactQuery says which page of contacts is wanted.
type ContactQuery struct {
	Q       string // whose id or address this is, then whose name or id begins with it
	Persona string // only those with it
	Place   string // only those in it, without the places below it
	Limit   int
	Cursor  string
}

func (q ContactQuery) values() url.Values {
	v := values{}
	v.set("q", q.Q)
	v.set("persona", q.Persona)
	v.set("place", q.Place)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

// Contacts gives a page of contacts, newest first.
func (c *Client) Contacts(ctx context.Context, q ContactQuery) (Page[Contact], error) {
	return get[Page[Contact]](ctx, c, "/v1/contacts", q.values())
}

// AllContacts goes through every page, beginning with the query's cursor. It ends after the first error.
func (c *Client) AllContacts(ctx context.Context, q ContactQuery) iter.Seq2[Contact, error] {
	return pages(func(cursor string) (Page[Contact], error) {
		if cursor != "" {
			q.Cursor = cursor
		}
		return c.Contacts(ctx, q)
	})
}

// Contact returns the contact whom you know by this id.
func (c *Client) Contact(ctx context.Context, id string) (Contact, error) {
	return get[Contact](ctx, c, contactPath(id), nil)
}

// ContactLimits returns how far the limits of a contact are used up.
func (c *Client) ContactLimits(ctx context.Context, id string) (ContactLimits, error) {
	return get[ContactLimits](ctx, c, contactPath(id)+"/limits", nil)
}

// PutContact has a contact be what you say, and nothing else; it is made when there is none.
func (c *Client) PutContact(ctx context.Context, in ContactInput) (Contact, error) {
	var answer Contact
	err := c.call(ctx, http.MethodPut, contactPath(in.ID), in, &answer)
	return answer, err
}

// ChangeContact changes what is mentioned of a contact; nil and "" take a value away.
func (c *Client) ChangeContact(ctx context.Context, id string, change map[string]any) (Contact, error) {
	var answer Contact
	err := c.call(ctx, http.MethodPatch, contactPath(id), change, &answer)
	return answer, err
}

// PostContacts changes what is mentioned of each contact, at most MaxContacts, and makes those that there are not. One
// that is refused stops no other one; the answer's Err names it.
func (c *Client) PostContacts(ctx context.Context, contacts ...ContactInput) (ContactsAnswer, error) {
	var answer ContactsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/contacts", map[string]any{"contacts": contacts}, &answer)
	return answer, err
}

// PostRawContacts is PostContacts for contacts that are JSON already; they are sent as they are.
func (c *Client) PostRawContacts(ctx context.Context, contacts []json.RawMessage) (ContactsAnswer, error) {
	var answer ContactsAnswer
	err := c.call(ctx, http.MethodPost, "/v1/contacts", map[string]any{"contacts": contacts}, &answer)
	return answer, err
}

// MergeContact merges a contact into another one, the survivor: its subscriptions, its waiting messages and what counts in its limits.
func (c *Client) MergeContact(ctx context.Context, id, into string) (MergedContact, error) {
	var answer MergedContact
	err := c.call(ctx, http.MethodPost, contactPath(id)+"/merge", map[string]any{"into": into}, &answer)
	return answer, err
}

// SuppressContact has a contact get no more messages. When it returns, nothing leaves that was not on its way.
func (c *Client) SuppressContact(ctx context.Context, id, reason string) (Suppressed, error) {
	var answer Suppressed
	err := c.call(ctx, http.MethodPost, contactPath(id)+"/suppress", map[string]any{"reason": reason}, &answer)
	return answer, err
}

// StopKind has a contact get no more messages on a kind of channel, such as sms, as if they had replied STOP there.
func (c *Client) StopKind(ctx context.Context, id, kind, reason string) (Suppressed, error) {
	var answer Suppressed
	err := c.call(ctx, http.MethodPost, contactPath(id)+"/suppress", map[string]any{"reason": reason, "kind": kind}, &answer)
	return answer, err
}

// StartKind ends that a contact gets no messages on a kind of channel.
func (c *Client) StartKind(ctx context.Context, id, kind string) (Suppressed, error) {
	var answer Suppressed
	err := c.call(ctx, http.MethodPost, contactPath(id)+"/unsuppress?"+url.Values{"kind": {kind}}.Encode(), nil, &answer)
	return answer, err
}

// UnsuppressContact ends a suppression. What it cancelled stays cancelled.
func (c *Client) UnsuppressContact(ctx context.Context, id string) (Suppressed, error) {
	var answer Suppressed
	err := c.call(ctx, http.MethodPost, contactPath(id)+"/unsuppress", nil, &answer)
	return answer, err
}

func contactPath(id string) string { return "/v1/contacts/" + url.PathEscape(id) }

// TopContacts are those who got most messages, the one with most first.
type TopContacts struct {
	Since time.Time    `json:"since" doc:"Deliveries made from this instant on are counted."`
	Items []TopContact `json:"items" doc:"The contacts, the one with most deliveries first."`
}

// TopContact is how many deliveries left for a contact.
type TopContact struct {
	ID         string           `json:"id" doc:"Your id of the person; addr:… for one that an event named by an address alone."`
	Name       string           `json:"name,omitempty" doc:"The person's name."`
	Address    string           `json:"address,omitempty" doc:"The address by which the first event named them."`
	Deliveries int64            `json:"deliveries" doc:"How many deliveries left for them."`
	Channels   map[string]int64 `json:"channels" doc:"The same by channel."`
}

// TopContacts lists who got most of the deliveries made since an instant, or for that long: RFC 3339, or such as 1d.
func (c *Client) TopContacts(ctx context.Context, since string, limit int) (TopContacts, error) {
	v := values{}
	v.set("since", since)
	v.limit(limit)
	return get[TopContacts](ctx, c, "/v1/top-contacts", url.Values(v))
}
