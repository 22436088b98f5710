package intake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Bounds of one event. They are generous for facts and far below what would hurt a batch.
const (
	MaxEvent = 256 << 10 // bytes of JSON
	MaxDepth = 32        // nested objects and lists
	maxName  = 256       // bytes of an id, a kind, an address or a reference
)

// ItemError says why an event was refused, where, and what to do.
type ItemError struct {
	Reason  reason.Reason
	Field   string // path inside the event; empty = the whole
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

// Item is one event of a request, or why it was refused; it keeps its place in the answer.
type Item struct {
	Event subject.Event
	Err   *ItemError
}

// Parse reads one event: {id, kind, occurred_at, payload, recipient: {address, locale, customer_ref}}. Unknown
// and doubled keys, invalid UTF-8, U+0000 and anything beyond the bounds are refused. Numbers keep their spelling.
func Parse(raw json.RawMessage, now time.Time) Item {
	value, err := decode(raw)
	if err != nil {
		return Item{Err: err}
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return Item{Err: invalid("", "an event is a JSON object", `{"kind": "…", "payload": {…}}`)}
	}
	ev, err := event(fields)
	if err != nil {
		return Item{Err: err}
	}
	return Accept(ev, now)
}

// Accept checks an event that was put together by another route than Parse and completes its instants.
func Accept(ev subject.Event, now time.Time) Item {
	ev.ReceivedAt = now
	if !ev.OccurredGiven {
		ev.OccurredAt = now
	}
	if err := check(ev); err != nil {
		return Item{Err: err}
	}
	return Item{Event: ev}
}

func check(ev subject.Event) *ItemError {
	if ev.Kind == "" {
		return invalid("kind", "the kind of the event is missing", `such as "service-visit-closed"`)
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
		if name.value != "" && strings.TrimSpace(name.value) == "" {
			return invalid(name.field, "is blank", "write it out, or leave it out")
		}
		if len(name.value) > maxName {
			return invalid(name.field, fmt.Sprintf("is longer than %d bytes", maxName), "")
		}
		for _, r := range name.value {
			if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
				return invalid(name.field, "holds a control or an invalid character", "")
			}
		}
	}
	if y := ev.OccurredAt.Year(); y < 1970 || y > 2200 {
		return invalid("occurred_at", "lies outside the years 1970 to 2200", "")
	}
	return nil
}

func event(fields map[string]any) (ev subject.Event, err *ItemError) {
	for name, value := range fields {
		switch name {
		case "id":
			ev.ExtID, err = text(name, value)
		case "kind":
			ev.Kind, err = text(name, value)
		case "occurred_at":
			ev.OccurredAt, err = instant(name, value)
			ev.OccurredGiven = value != nil
		case "payload":
			if value == nil {
				continue
			}
			payload, ok := value.(map[string]any)
			if !ok {
				return ev, invalid(name, "is not an object", "")
			}
			ev.Payload = payload
		case "recipient":
			ev.Recipient, err = recipient(value)
		default:
			return ev, invalid(name, "unknown key", "an event has id, kind, occurred_at, payload and recipient; fields of your own go into payload")
		}
		if err != nil {
			return ev, err
		}
	}
	return ev, nil
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

// decode reads one JSON value strictly.
func decode(raw []byte) (any, *ItemError) {
	if len(raw) > MaxEvent {
		return nil, &ItemError{Reason: reason.RequestTooLarge, Message: fmt.Sprintf("the event is larger than %d KiB", MaxEvent>>10), Hint: "keep large documents elsewhere and send their address"}
	}
	if !utf8.Valid(raw) {
		return nil, invalid("", "the event is not valid UTF-8", "")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := decodeValue(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, end := d.Token(); !errors.Is(end, io.EOF) {
		return nil, invalid("", "there is text after the event", "")
	}
	return value, nil
}

func decodeValue(d *json.Decoder, path string, depth int) (any, *ItemError) {
	token, err := d.Token()
	if err != nil {
		return nil, malformed(path, err)
	}
	switch token := token.(type) {
	case json.Delim:
		if depth >= MaxDepth {
			return nil, invalid(path, fmt.Sprintf("is nested deeper than %d levels", MaxDepth), "")
		}
		if token == '{' {
			return decodeObject(d, path, depth+1)
		}
		return decodeList(d, path, depth+1)
	case string:
		if strings.ContainsRune(token, 0) {
			return nil, invalid(path, "holds the character U+0000", "")
		}
		return token, nil
	}
	return token, nil
}

func decodeObject(d *json.Decoder, path string, depth int) (any, *ItemError) {
	fields := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, malformed(path, err)
		}
		name, ok := token.(string)
		if !ok {
			return nil, malformed(path, fmt.Errorf("a key is not a text"))
		}
		below := name
		if path != "" {
			below = path + "." + name
		}
		if _, twice := fields[name]; twice {
			return nil, invalid(below, "stands twice", "")
		}
		if strings.ContainsRune(name, 0) {
			return nil, invalid(path, "a key holds the character U+0000", "")
		}
		value, bad := decodeValue(d, below, depth)
		if bad != nil {
			return nil, bad
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(path, err)
	}
	return fields, nil
}

func decodeList(d *json.Decoder, path string, depth int) (any, *ItemError) {
	list := []any{}
	for d.More() {
		value, bad := decodeValue(d, fmt.Sprintf("%s[%d]", path, len(list)), depth)
		if bad != nil {
			return nil, bad
		}
		list = append(list, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(path, err)
	}
	return list, nil
}

func malformed(path string, err error) *ItemError {
	return invalid(path, "is not valid JSON: "+strings.TrimPrefix(err.Error(), "invalid "), "")
}
