// Package subject holds what messages are about and who they are for: events, recipients and contacts.
//
// They are plain values as the source systems gave them. The only rules here are those of addresses: the normal form by
// which a person is recognised (R20), and which of their addresses serves a channel.
package subject

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// WorkspaceID is the row id of a tenant; it is the first part of every key and the first argument of every call.
type WorkspaceID int64

// ContactID is the row id of a contact.
type ContactID int64

// TopicID is the row id of a topic.
type TopicID int64

// EventID is the row id of an event; 0 means that there is none. An item has the id of its event.
type EventID int64

// Event is a fact that happened in another system; it never changes.
type Event struct {
	ID            EventID        // 0 until it is stored
	ExtID         string         // the caller's id of the event; may be empty
	Kind          string         // what happened, such as service-visit-closed
	OccurredAt    time.Time      // UTC; the time of receipt when the caller gave none (product decision 38)
	OccurredGiven bool           // whether the caller gave OccurredAt
	ReceivedAt    time.Time      // UTC
	Payload       map[string]any // JSON values; numbers are json.Number, so that their digits are kept (C8)
	Recipient     *Recipient     // nil when the event names nobody
}

// Recipient is the person as the event names them.
type Recipient struct {
	Address     string `json:"address"`
	Locale      string `json:"locale,omitempty"`
	CustomerRef string `json:"customer_ref,omitempty"`
}

// Spellings returns an address, normalised, and how else it may have been written: providers give a telephone number with a plus, with 00 or with neither.
func Spellings(address string) []string {
	normal := NormalizeAddress(address)
	digits := strings.TrimPrefix(normal, "+")
	if len(digits) < 5 || strings.Trim(digits, "0123456789") != "" {
		return []string{normal}
	}
	list := []string{normal}
	bare := digits
	if normal == digits {
		bare = strings.TrimPrefix(digits, "00")
	}
	for _, one := range []string{"+" + bare, bare, "00" + bare} {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// NormalizeAddress returns the canonical form of an address, which identifies the person: e-mail addresses
// without case, telephone numbers without blanks, dots, dashes and brackets, anything else without outer blanks.
func NormalizeAddress(address string) string {
	address = strings.TrimSpace(address)
	if strings.Contains(address, "@") {
		return strings.ToLower(address)
	}
	var digits strings.Builder
	for i, r := range address {
		switch {
		case r == '+' && i == 0, r >= '0' && r <= '9':
			digits.WriteRune(r)
		case unicode.IsSpace(r), strings.ContainsRune("-.()/", r):
		default:
			return address
		}
	}
	if digits.Len() < 5 {
		return address
	}
	return digits.String()
}
