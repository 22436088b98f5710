// Package sink is the port through which outbox events leave.
//
// A provider (a folder below this one) turns settings into a Sink; a Sink hands one event to one receiver and says what became of it. It
// never retries and never touches the database: the outbox pass does, before and after. One call of Send makes at most one request.
//
// Events arrive at least once. A repeated event has the same message id, by which receivers drop it (C37).
package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// ContentType is that of a message's body: a CloudEvent in JSON, in structured mode.
const ContentType = "application/cloudevents+json"

// Message is an outbox event as it leaves.
type Message struct {
	// ID is the same in every try; receivers drop a second message with the same id (C37). It is of printable ASCII without blanks and
	// full stops, because a webhook's signature is over "id.timestamp.body".
	ID    string
	Type  string    // such as response.completed
	At    time.Time // when it happened
	Group string    // messages of one group arrive in order: the delivery's public id
	Body  []byte    // a JSON object, see ContentType
	Sink  string    // the name of the sink that it goes to
	// Workspace is the name of the workspace whose outcome it is.
	Workspace string
}

// Sink hands messages to one receiver. Send is called from several goroutines at once, and not after Close.
type Sink interface {
	// Send delivers one message and returns nil when the receiver has accepted it. Any other outcome is an *Error. It returns soon after
	// ctx is done.
	Send(ctx context.Context, m Message) error
	// Close releases connections and files.
	Close() error
}

// Retry says what a failure means for the next try.
type Retry string

// The values of Retry.
const (
	Temporary Retry = "temporary" // the same message may be sent again
	Permanent Retry = "permanent" // the receiver refuses this message for good
	Gone      Retry = "gone"      // the receiver wants no message any more
)

// Error says why a message was not accepted, or that this is not known. Its text holds no secret and nothing of the message.
type Error struct {
	Reason reason.Reason // temporary_error, permanent_error, gone, reply_lost …
	Retry  Retry
	After  time.Duration // the receiver's wish (Retry-After); 0: none
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Failed is a definite failure that may pass.
func Failed(err error) *Error {
	return &Error{Reason: reason.TemporaryError, Retry: Temporary, Err: err}
}

// Lost means that the message left and no answer came: the receiver may have accepted it.
func Lost(err error) *Error { return &Error{Reason: reason.ReplyLost, Retry: Temporary, Err: err} }

// Refused is a definite refusal of this message for good.
func Refused(err error) *Error {
	return &Error{Reason: reason.PermanentError, Retry: Permanent, Err: err}
}

// NotWanted means that the receiver wants no message any more.
func NotWanted(err error) *Error { return &Error{Reason: reason.Gone, Retry: Gone, Err: err} }

// AsError classifies any error of Send. One that is no *Error is temporary, with reason send_threw.
func AsError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return &Error{Reason: reason.SendThrew, Retry: Temporary, Err: err}
}

// Setting describes one key of a provider's settings, for checking definitions.
type Setting struct {
	Name     string
	Required bool
	Secret   bool // must be given as {secret: NAME}, {env: NAME} or {file: PATH}
	Doc      string
}

// SettingError says what is wrong with one setting; it never repeats the value.
type SettingError struct {
	Setting string
	Err     error
}

func (e *SettingError) Error() string { return "setting " + e.Setting + ": " + e.Err.Error() }

func (e *SettingError) Unwrap() error { return e.Err }

// Name returns the name of the setting.
func (e *SettingError) Name() string { return e.Setting }

// Provider makes sinks of one kind.
type Provider struct {
	Name     string
	Doc      string
	Settings []Setting
	// Check looks at the settings that are written literally, when definitions are checked; the value of one that is kept elsewhere is
	// empty. A *SettingError lets the place be shown; no error repeats a value.
	Check func(settings map[string]string) error
	// Open makes a sink. Settings hold resolved values only; errors name the setting. It opens no connection: a receiver that is away
	// is an error of Send.
	Open func(settings map[string]string) (Sink, error)
}
