package ingest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/strictjson"
	"github.com/carillonhq/carillon/internal/subject"
)

// Bounds of one event. They are generous for facts, and far below a size that would hurt a batch.
const (
	MaxEvent = 256 << 10 // bytes of JSON
	MaxDepth = 32        // nested objects and lists
)

// ItemError explains why an event was refused, where, and how to correct it.
type ItemError struct {
	Reason  reason.Reason
	Field   string // path inside the event; empty = the whole event
	Message string
	Hint    string
}

func (e *ItemError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

func invalid(field, message, hint string) *ItemError {
	return &ItemError{Reason: reason.InvalidEvent, Field: field, Message: message, Hint: hint}
}

// Item is one event of a request, or the error for which it was refused; it keeps its position in the answer.
type Item struct {
	Event subject.Event
	Err   *ItemError

	payload string // the payload's original JSON, without blanks; empty: it is encoded again
}

// Parse reads one event: {id, kind, occurred_at, payload, recipient: {address, locale, customer_ref}}. It refuses unknown and duplicate keys, invalid
// UTF-8, U+0000 and anything beyond the bounds. Numbers keep their digits.
func Parse(raw json.RawMessage, now time.Time) Item { return parse(raw, now, check) }

// ParseOutcome is Parse for an outcome that the provider workflow makes an event of.
func ParseOutcome(raw json.RawMessage, now time.Time) Item { return parse(raw, now, checkFields) }

func parse(raw json.RawMessage, now time.Time, check func(subject.Event) *ItemError) Item {
	if len(raw) > MaxEvent {
		return Item{Err: &ItemError{
			Reason: reason.RequestTooLarge, Message: fmt.Sprintf("the event is larger than %d KiB", MaxEvent>>10),
			Hint: "keep large documents elsewhere and send their address",
		}}
	}
	if err := strictjson.UTF8(raw); err != nil {
		return Item{Err: malformed(err)}
	}
	var p parser
	if err := p.read(raw); err != nil {
		return Item{Err: malformed(err)}
	}
	if p.wrong != nil {
		return Item{Err: p.wrong}
	}
	item := accept(p.event, now, check)
	item.payload = string(p.payload)
	return item
}

// parser reads an event. An error of its fields is reported only if its JSON has none.
type parser struct {
	event   subject.Event
	payload []byte // the original JSON, without blanks
	seen    [5]bool
	wrong   *ItemError // the first field error
}

func (p *parser) read(raw []byte) *strictjson.Error {
	r := strictjson.NewReader(raw, MaxDepth)
	if r.Peek() != '{' {
		p.wrong = invalid("", "an event is a JSON object", `{"kind": "…", "payload": {…}}`)
		if _, err := r.Value(); err != nil {
			return err
		}
		return r.End()
	}
	var others map[string]bool
	err := r.Object(func(name string) *strictjson.Error {
		field := slices.Index(eventFields[:], name)
		switch {
		case field < 0 && others[name], field >= 0 && p.seen[field]:
			return &strictjson.Error{Kind: strictjson.Twice}
		case field >= 0:
			p.seen[field] = true
		default:
			if others == nil {
				others = map[string]bool{}
			}
			others[name] = true
		}
		value, text, err := r.Text()
		if err != nil {
			return err
		}
		if wrong := p.field(name, value, text); p.wrong == nil {
			p.wrong = wrong
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.End()
}

// Accept validates an event that did not come through Parse, and completes its instants.
func Accept(ev subject.Event, now time.Time) Item { return accept(ev, now, check) }

// Own is Accept for an event of the engine's own.
func Own(ev subject.Event, now time.Time) Item { return accept(ev, now, checkFields) }

func accept(ev subject.Event, now time.Time, check func(subject.Event) *ItemError) Item {
	ev.ReceivedAt = now
	if !ev.OccurredGiven {
		ev.OccurredAt = now
	}
	if err := check(ev); err != nil {
		return Item{Err: err}
	}
	return Item{Event: ev}
}

// check refuses what a caller may not send. The kind of an outcome is one of those things: such an event would say that somebody has answered, or that
// a message was sent, and could take the id of the true one before that comes.
func check(ev subject.Event) *ItemError {
	if ev.Kind == definition.ItemPublished {
		return invalid("kind", ev.Kind+" is the kind of items, which are published", "publish it by POST /v1/items")
	}
	if ev.Kind == definition.SubscriptionRequested || ev.Kind == definition.LinkRequested {
		return invalid("kind", ev.Kind+" is an event of the engine's own", "begin subscriptions by POST /v1/subscriptions")
	}
	if ev.Kind == definition.ReplyReceived {
		return invalid("kind", ev.Kind+" is an event of the engine's own", "hand replies in by POST /v1/inbound/{channel}")
	}
	if slices.Contains(definition.Outcomes(), ev.Kind) {
		return invalid("kind", ev.Kind+" is the kind of an outcome, which comes from a workflow's sinks alone", "take another name, such as crm."+ev.Kind)
	}
	return checkFields(ev)
}

func checkFields(ev subject.Event) *ItemError {
	if ev.Kind == "" {
		return invalid("kind", "the kind of the event is missing", `such as "service-visit-closed"`)
	}
	if subject.OwnEvent(ev.Kind) {
		return invalid("kind", "kinds that begin with condition. are the engine's own", "take another name")
	}
	names := []struct{ field, value string }{{"kind", ev.Kind}, {"id", ev.ExtID}}
	if r := ev.Recipient; r != nil {
		names = append(names, struct{ field, value string }{"recipient.address", r.Address},
			struct{ field, value string }{"recipient.locale", r.Locale},
			struct{ field, value string }{"recipient.customer_ref", r.CustomerRef})
		if r.Address == "" && r.CustomerRef == "" {
			return invalid("recipient", "the recipient has neither an address nor a customer_ref", "give one, or leave the recipient out")
		}
	}
	for _, name := range names {
		if name.value == "" {
			continue
		}
		if problem, hint := subject.CheckName(name.value); problem != "" {
			return invalid(name.field, problem, hint)
		}
	}
	if y := ev.OccurredAt.Year(); y < 1970 || y > 2200 {
		return invalid("occurred_at", "lies outside the years 1970 to 2200", "")
	}
	return nil
}

var eventFields = [...]string{"id", "kind", "occurred_at", "payload", "recipient"} //nolint:gochecknoglobals // immutable

// field reads one field of the event; raw is the original JSON of its value.
func (p *parser) field(name string, value any, raw []byte) (err *ItemError) {
	switch name {
	case "id":
		p.event.ExtID, err = text(name, value)
	case "kind":
		p.event.Kind, err = text(name, value)
	case "occurred_at":
		p.event.OccurredAt, err = instant(name, value)
		p.event.OccurredGiven = value != nil
	case "payload":
		if value == nil {
			return nil
		}
		payload, ok := value.(map[string]any)
		if !ok {
			return invalid(name, "is not an object", "")
		}
		p.event.Payload, p.payload = payload, raw
	case "recipient":
		p.event.Recipient, err = recipient(value)
	default:
		err = invalid(name, "unknown key", "an event has id, kind, occurred_at, payload and recipient; fields of your own go into payload")
	}
	return err
}

func recipient(value any) (*subject.Recipient, *ItemError) {
	if value == nil {
		return nil, nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("recipient", "is not an object", `{"address": "…", "locale": "en", "customer_ref": "…"}`)
	}
	r := &subject.Recipient{}
	for name, value := range fields {
		var err *ItemError
		field := "recipient." + name
		switch name {
		case "address":
			r.Address, err = text(field, value)
		case "locale":
			r.Locale, err = text(field, value)
		case "customer_ref":
			r.CustomerRef, err = text(field, value)
		case "id":
			err = invalid(field, "unknown key", "your id of the contact is customer_ref")
		default:
			err = invalid(field, "unknown key", "a recipient has address, locale and customer_ref")
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func text(field string, value any) (string, *ItemError) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case json.Number:
		if field == "id" || field == "recipient.customer_ref" {
			return value.String(), nil
		}
	}
	return "", invalid(field, "is not a text", "put it in quotes")
}

func instant(field string, value any) (time.Time, *ItemError) {
	if value == nil {
		return time.Time{}, nil
	}
	s, ok := value.(string)
	if !ok {
		return time.Time{}, invalid(field, "is not a text", "write an instant such as 2026-05-14T05:12:34Z")
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, invalid(field, "is not an instant", "write it like 2026-05-14T05:12:34Z or 2026-05-14T08:12:34+03:00")
	}
	return at.UTC().Truncate(time.Microsecond), nil
}

const surrogates = `a character beyond U+FFFF is written as two \u, or as itself`

// malformed describes an error in the JSON of an event.
func malformed(err *strictjson.Error) *ItemError {
	switch err.Kind {
	case strictjson.NotUTF8:
		return invalid("", "the event is not valid UTF-8", "")
	case strictjson.Twice:
		return invalid(err.Path, "is listed twice", "")
	case strictjson.Zero:
		return invalid(err.Path, "holds the character U+0000", "")
	case strictjson.ZeroKey:
		return invalid(err.Path, "a key holds the character U+0000", "")
	case strictjson.Half:
		return invalid(err.Path, "holds half of a surrogate pair", surrogates)
	case strictjson.HalfKey:
		return invalid(err.Path, "a key holds half of a surrogate pair", surrogates)
	case strictjson.TooDeep:
		return invalid(err.Path, fmt.Sprintf("is nested deeper than %d levels", MaxDepth), "")
	case strictjson.Behind:
		return invalid("", "there is text after the event", "")
	case strictjson.Syntax:
	}
	return invalid(err.Path, "is not valid JSON", "")
}
