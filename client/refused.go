package client

import (
	"errors"
	"fmt"
)

// outcomeFailed is the outcome of an item that was refused.
const outcomeFailed = "failed"

// ItemError is one item of a request that was refused, while others of the request were taken. Correct it and send it
// again; the others need not be sent again.
type ItemError struct {
	Index   int    // its place in the request, from 0
	Item    string // the id of a contact, the type/id of a record; empty for an event and where the id was not understood
	Reason  string // for programs, such as invalid_event
	Field   string // the field of the item that is wrong; empty: the whole
	Message string // what is wrong
	Hint    string // what to do; may be empty
}

// Error names the item, its field and what is wrong.
func (e *ItemError) Error() string {
	text := e.Message
	if text == "" {
		text = e.Reason
	}
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	if e.Item != "" {
		return fmt.Sprintf("item %d (%s): %s", e.Index, e.Item, text)
	}
	return fmt.Sprintf("item %d: %s", e.Index, text)
}

// Err is nil when every event was taken. Otherwise it joins one *ItemError for each event that was refused, a line each:
// errors.As finds the first, and Items holds the rest of what the server said.
func (a EventsAnswer) Err() error {
	var refused []error
	for i, r := range a.Items {
		if r.Outcome == outcomeFailed {
			refused = append(refused, &ItemError{Index: i, Reason: r.Reason, Field: r.Field, Message: r.Message, Hint: r.Hint})
		}
	}
	return errors.Join(refused...)
}

// Err is nil when every contact was taken. Otherwise it joins one *ItemError for each contact that was refused.
func (a ContactsAnswer) Err() error {
	var refused []error
	for i, r := range a.Items {
		if r.Outcome == outcomeFailed {
			refused = append(refused, &ItemError{Index: i, Item: r.ID, Reason: r.Reason, Field: r.Field, Message: r.Message, Hint: r.Hint})
		}
	}
	return errors.Join(refused...)
}

// Err is nil when every record was taken. Otherwise it joins one *ItemError for each record that was refused.
func (a RecordsAnswer) Err() error {
	var refused []error
	for i, r := range a.Items {
		if r.Outcome == outcomeFailed {
			item := r.ID
			if r.Type != "" {
				item = r.Type + "/" + r.ID
			}
			refused = append(refused, &ItemError{Index: i, Item: item, Reason: r.Reason, Field: r.Field, Message: r.Message, Hint: r.Hint})
		}
	}
	return errors.Join(refused...)
}

// Err is nil when every item was taken. Otherwise it joins one *ItemError for each item that was refused.
func (a ItemsAnswer) Err() error {
	var refused []error
	for i, r := range a.Items {
		if r.Outcome == outcomeFailed {
			refused = append(refused, &ItemError{Index: i, Item: r.ID, Reason: r.Reason, Field: r.Field, Message: r.Message, Hint: r.Hint})
		}
	}
	return errors.Join(refused...)
}

// Err is nil when every subscription was taken. Otherwise it joins one *ItemError for each that was refused.
func (a SubscriptionsAnswer) Err() error {
	var refused []error
	for i, r := range a.Items {
		if r.Outcome == outcomeFailed {
			refused = append(refused, &ItemError{Index: i, Item: r.Contact + " " + r.Topic, Reason: r.Reason, Field: r.Field, Message: r.Message, Hint: r.Hint})
		}
	}
	return errors.Join(refused...)
}
