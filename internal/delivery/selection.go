package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
)

// Selection selects the deliveries to retry or cancel together. An empty field excludes none; at least one field is set. Without
// Statuses a retry takes failed deliveries and those that a retry, their channel or a missing channel delays; a cancel takes
// deliveries that still have a message to send. Neither touches deliveries that were or may have been sent, unless Statuses names them.
type Selection struct {
	Workflow string        `json:"workflow,omitempty"`
	Channel  string        `json:"channel,omitempty"` // kind:name
	Reason   reason.Reason `json:"reason,omitempty"`
	Statuses []Status      `json:"status,omitempty"`
	Since    time.Time     `json:"since,omitzero"` // planned for this instant or later
	Until    time.Time     `json:"until,omitzero"` // planned for earlier than this instant
	// Removed says that the workflow is no longer defined and all its pending deliveries are withdrawn. No caller can set it by name.
	Removed bool `json:"removed,omitempty"`
	// Instance says that a person has cancelled this occasion, and its deliveries are ended in pages. No caller can set it by name.
	Instance instance.ID `json:"instance,omitempty"`
}

// Any reports whether the selection excludes anything.
func (s Selection) Any() bool {
	return s.Workflow != "" || s.Channel != "" || s.Reason != "" || len(s.Statuses) > 0 || !s.Since.IsZero() || !s.Until.IsZero()
}

// String writes the selection for people, as the flags of the command line.
func (s Selection) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	add("workflow", s.Workflow)
	add("channel", s.Channel)
	add("reason", string(s.Reason))
	for _, status := range s.Statuses {
		add("status", string(status))
	}
	add("since", at(s.Since))
	add("until", at(s.Until))
	if s.Removed {
		parts = append(parts, "deleted")
	}
	return strings.Join(parts, ", ")
}

// Check returns what is wrong with the selection, or "".
func (s Selection) Check() (field, message string) {
	switch {
	case !s.Any():
		return "", "name at least one of workflow, channel, reason, status, since and until"
	case !s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until):
		return "until", "until is not after since"
	}
	for _, status := range s.Statuses {
		if !slices.Contains(Statuses(), status) {
			return "status", fmt.Sprintf("%q is no status of a delivery", status)
		}
	}
	return "", ""
}

// ToRetry reports whether a retry by this selection takes a delivery.
func (s Selection) ToRetry(r Row) bool {
	return s.includes(r) && !r.Resent && s.status(r, r.Status == Failed || r.Delayed())
}

// ToCancel reports whether a cancel by this selection takes a delivery.
func (s Selection) ToCancel(r Row) bool {
	return s.includes(r) && s.status(r, r.Status == Scheduled || !r.SendAt.IsZero())
}

func (s Selection) includes(r Row) bool {
	switch {
	case s.Workflow != "" && r.Workflow != s.Workflow, s.Channel != "" && r.Channel != s.Channel, s.Reason != "" && r.Reason != s.Reason:
		return false
	}
	return (s.Since.IsZero() || !r.NotBefore.Before(s.Since)) && (s.Until.IsZero() || r.NotBefore.Before(s.Until))
}

func (s Selection) status(r Row, otherwise bool) bool {
	if len(s.Statuses) == 0 {
		return otherwise
	}
	return slices.Contains(s.Statuses, r.Status)
}
