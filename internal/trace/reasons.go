package trace

import (
	"bytes"
	"encoding/json"

	"github.com/carillonhq/carillon/internal/reason"
)

// Reasons are why an alert reached nobody. One of the fields is set; the stored form is its value alone.
type Reasons struct {
	Messages []reason.Reason       // of the messages that ended unsent, each reason once
	People   map[reason.Reason]int // how many people could not be reached, by reason
}

// IsZero reports whether there are none: the trace then has no field reasons.
func (r Reasons) IsZero() bool { return r.Messages == nil && r.People == nil }

// MarshalJSON writes a list for messages and an object for people.
func (r Reasons) MarshalJSON() ([]byte, error) {
	if r.People != nil {
		return json.Marshal(r.People)
	}
	return json.Marshal(r.Messages)
}

// UnmarshalJSON reads both forms.
func (r *Reasons) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, &r.People)
	}
	return json.Unmarshal(text, &r.Messages)
}
