package definition

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
)

// The types of outcomes: what goes to sinks (C36, C41). They are also the kinds of the events that the provider workflow makes of them.
const (
	OutcomeResponseCompleted = "response.completed" // a survey was answered
	OutcomeDeliverySent      = "delivery.sent"      // the provider has accepted a message
	OutcomeDeliveryFailed    = "delivery.failed"    // no further try of a message follows
	OutcomeDeliveryUnknown   = "delivery.unknown"   // a message may have arrived
	OutcomeDeliveryExpired   = "delivery.expired"   // no answer came in time
	OutcomeInstanceCompleted = "instance.completed" // the deliveries of an occasion exist
	OutcomeInstanceHeld      = "instance.held"      // an occasion waits for a person
)

// Outcomes returns the types of all outcomes, in the order in which people read them.
func Outcomes() []string {
	return []string{
		OutcomeResponseCompleted, OutcomeDeliverySent, OutcomeDeliveryFailed, OutcomeDeliveryUnknown, OutcomeDeliveryExpired,
		OutcomeInstanceCompleted, OutcomeInstanceHeld,
	}
}

// Sink is a destination of outcomes. It takes those that a workflow routes to it, narrowed by its own Events and When.
type Sink struct {
	Name     string
	Provider string
	Settings map[string]Setting
	Events   []string        // types of outcomes; empty: all that are routed to it
	When     *expr.Condition // nil: always
	Backoff  []time.Duration // waits between tries, the last one repeats; empty = the default
	Attempts int             // 0 = the default
	Jitter   int             // percent; 0 = none
	Raw      json.RawMessage // the document as JSON
}

// Takes reports whether outcomes of that type pass the sink's own Events.
func (s *Sink) Takes(outcome string) bool {
	return len(s.Events) == 0 || slices.Contains(s.Events, outcome)
}

// SinkRef is a route of a workflow: which of its outcomes go to which sink. Several routes may name one sink; they are alternatives.
type SinkRef struct {
	Sink   string
	Events []string        // types of outcomes, at least one
	When   *expr.Condition // nil: always
}

// Sinks returns all sinks in the order of their names.
func (s *Set) Sinks() []*Sink {
	return slices.SortedFunc(maps.Values(s.sinks), func(a, b *Sink) int { return strings.Compare(a.Name, b.Name) })
}

// Sink returns the sink of that name, nil when there is none.
func (s *Set) Sink(name string) *Sink { return s.sinks[name] }
