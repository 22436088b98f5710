// Package trace holds why something was decided: by which version of the rules, from which values and bounds, and what follows.
//
// A trace is stored as JSON with an event (a list, one trace for each trigger), an instance, a delivery and a decision. They are of one type: each
// writer sets the fields that apply. A trace explains and never steers. The API shows the text as it is stored; the API's sentences, the console, the
// command line and the time machine put it into words here.
package trace

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/reason"
)

// Trace is why one thing was decided.
type Trace struct {
	// Of an event that repeats another one.
	Key      string    `json:"key,omitempty"` // of the occasion that it repeats
	EventID  string    `json:"event_id,omitempty"`
	Received time.Time `json:"received_at,omitzero"`

	Workflow string        `json:"workflow,omitempty"`
	At       time.Time     `json:"at,omitzero"`
	Version  int64         `json:"version,omitempty"` // of the workflow
	Trigger  string        `json:"trigger,omitempty"`
	Reason   reason.Reason `json:"reason,omitempty"`
	Field    string        `json:"field,omitempty"` // that was missing
	Tick     *time.Time    `json:"tick,omitempty"`  // nominal, if it is not the instant of the evaluation

	// Of a delivery that does not leave as planned.
	Step    int       `json:"step,omitempty"`
	Due     time.Time `json:"due,omitzero"`      // catch_up counts from it
	Since   time.Time `json:"eligible,omitzero"` // since when the message could have left, if that is earlier
	Late    string    `json:"late,omitempty"`
	CatchUp string    `json:"catch_up,omitempty"`

	// Of an alert that does not fire, or reaches nobody.
	People   *int       `json:"people,omitempty"`
	FiredAt  time.Time  `json:"fired_at,omitzero"`
	Cooldown string     `json:"cooldown,omitempty"`
	VoidAt   *time.Time `json:"void_at,omitempty"` // the alert reached nobody, so the cooldown ends sooner
	Until    time.Time  `json:"until,omitzero"`    // when it is decided again
	Reasons  Reasons    `json:"reasons,omitzero"`  // why it reaches nobody

	// What a trigger evaluated.
	Issues  []string `json:"issues,omitempty"`
	Missing []string `json:"missing,omitempty"` // parts of a context or key without a value
	Clauses []Clause `json:"clauses,omitempty"`

	Limits
	Error string `json:"error,omitempty"`

	// Of an occasion that was planned.
	Failures []Failure `json:"failures,omitempty"` // the last ones, the oldest first
	Planned  *Planned  `json:"planned,omitempty"`
	Skipped  *Skipped  `json:"skipped,omitempty"` // the occasions that it represents
}

// Skipped is the number of unsent occasions of a series that one row represents.
type Skipped struct {
	Count int       `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// Clause is one evaluated line of a condition.
type Clause struct {
	Issue  string        `json:"issue,omitempty"`
	Line   string        `json:"line"`
	Met    bool          `json:"met"`
	Reason reason.Reason `json:"reason,omitempty"`
	Field  string        `json:"field,omitempty"`
	Value  any           `json:"value,omitempty"`
	// Detail says why the line could not be evaluated, or why a pattern from the data is none.
	Detail string `json:"detail,omitempty"`
	// Also are further fields that the line reads, if it was evaluated just now.
	Also []expr.Reading `json:"-"`
}

// Planned is how an occasion was planned.
type Planned struct {
	DueAt     time.Time `json:"due_at,omitzero"`
	Iteration *int      `json:"iteration,omitempty"`
	Target    string    `json:"target,omitempty"` // the date or instant that the occasion is about
	Offset    string    `json:"offset,omitempty"` // from the target
	Zone      string    `json:"timezone,omitempty"`
	Threshold string    `json:"threshold,omitempty"`
	Metric    *float64  `json:"metric,omitempty"`
}

// Failure is one of the last failures of an occasion.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Limits are the limits of a contact that kept a message from leaving, as they were at the decision.
type Limits struct {
	Zone   string        `json:"zone,omitempty"` // of the contact's days
	Limits []Limit       `json:"limits,omitempty"`
	Last   reason.Reason `json:"last,omitempty"` // the limit whose end the message waits for; it may come after the others
}

// Limit is one of these limits.
type Limit struct {
	Limit   cadence.Limit `json:"limit"`
	Type    string        `json:"type,omitempty"`
	Used    int           `json:"used,omitempty"`
	Max     int           `json:"max,omitempty"`
	Rolling bool          `json:"rolling,omitempty"`
	FreeAt  *time.Time    `json:"free_at,omitempty"`
	From    cadence.Layer `json:"from,omitempty"` // empty: of the workflow, such as its send window
}

// Encode returns the trace as it is stored.
func (t Trace) Encode() (string, error) {
	text, err := json.Marshal(t)
	return string(text), err
}

// String is Encode for a trace that may be left out: it is empty when an instant is after the year 9999, which has no JSON form.
func (t Trace) String() string {
	text, err := t.Encode()
	if err != nil {
		return ""
	}
	return text
}

// Read reads a stored trace; false: there is none, or it is of another version of the program.
func Read(text string) (t Trace, ok bool) { return t, text != "" && decode(text, &t) == nil }

// ReadList reads the traces of an event.
func ReadList(text string) (list []Trace, err error) {
	if text == "" {
		return nil, nil
	}
	return list, decode(text, &list)
}

// List returns the traces of an event as they are stored.
func List(traces ...string) string { return "[" + strings.Join(traces, ",") + "]" }

// decode keeps numbers as they are written, because some traces are written again.
func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// maxFailures is how many of the last failures are stored, and maxError how much of each: rows stay small (B11).
const (
	maxFailures = 3
	maxError    = 300
)

// Failed adds a failure to the trace of an occasion.
func Failed(text string, cause error, now time.Time) string {
	t, ok := Read(text)
	if !ok { // there is none yet
		t = Trace{}
	}
	message := cause.Error()
	if len(message) > maxError {
		message = strings.ToValidUTF8(message[:maxError], "") + "…"
	}
	t.Failures = append(t.Failures, Failure{At: now, Error: message})
	t.Failures = t.Failures[max(0, len(t.Failures)-maxFailures):]
	if failed, err := t.Encode(); err == nil {
		return failed
	}
	return text
}

// Failures returns the failures in a trace, the oldest first.
func Failures(text string) []Failure {
	t, _ := Read(text)
	return t.Failures
}

// Deciding names the field, with its value, of the line that decided against; empty if no single line did.
func (t Trace) Deciding() string {
	for _, c := range t.Clauses {
		if says := c.Says(); !c.Met && says != "" {
			return says
		}
	}
	return ""
}

// Says names the fields that the line reads, with their values, and what is wrong with them: event.amount is 3.
func (c Clause) Says() string {
	says := c.reads()
	if says == "" || c.Detail == "" {
		return says + c.Detail
	}
	return says + ": " + c.Detail
}

func (c Clause) reads() string {
	if c.Field == "" {
		return ""
	}
	var said []string
	for _, r := range append([]expr.Reading{{Field: c.Field, Value: c.Value}}, c.Also...) {
		text, err := json.Marshal(r.Value)
		if err != nil {
			return ""
		}
		said = append(said, r.Field+" is "+string(text))
	}
	return strings.Join(said, ", ")
}

// Sentence says why, with the value that decided where one line did.
func (t Trace) Sentence() string {
	sentence := t.Reason.Sentence()
	if says := t.Deciding(); says != "" {
		sentence += " " + strings.ToUpper(says[:1]) + says[1:] + "."
	}
	return sentence
}

// Line is the workflow and the reason, with the value that decided where one line did: for lists.
func (t Trace) Line() string {
	text := strings.TrimSpace(t.Workflow + " " + string(t.Reason))
	if says := t.Deciding(); says != "" {
		text += " (" + says + ")"
	}
	return text
}
