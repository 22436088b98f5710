// Package channel is the port through which messages leave.
//
// A provider (a folder below this one) turns settings into a Channel; a Channel hands one message to one vendor
// and says what became of it. It never retries, never looks at limits and never touches the database: the engine
// does, before and after. One call of Send makes at most one request.
package channel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/reason"
)

// Outgoing is one message on its way to one person.
type Outgoing struct {
	Workspace  string
	DeliveryID string // public id
	Workflow   string
	Channel    string // kind:name
	// IdempotencyKey names this step of this delivery and is the same in every attempt, so that a provider that
	// honours it accepts the message once (P3).
	IdempotencyKey string
	Address        string
	Locale         string
	Step           int // 1 = the message, 2 = its first reminder
	Attempt        int // every try at a provider, counted over all steps (C24)
	Turn           int // of a conversation: number of the message after the first one, which answers what its person has written; 0: it is none
	Subject        string
	Text           string
	HTML           string
	From           string            // empty: the channel's own
	ReplyTo        string            // may be empty
	Headers        map[string]string // further headers of the message; may be nil
	Metadata       map[string]string // of the definition, for the provider; may be nil
	Link           string            // the public link of the delivery; may be empty
	Event          []byte            // the event's payload as JSON; may be empty (C43)
}

// Receipt is what an accepting provider said.
type Receipt struct {
	ProviderID string // the provider's id of the message; may be empty
}

// Channel hands messages to one provider. Send is called from several goroutines at once.
type Channel interface {
	// Send returns nil when the provider accepted the message; a *SendError says what else happened. Any other
	// error counts as temporary, with reason send_threw (C45).
	Send(ctx context.Context, out Outgoing) (Receipt, error)
}

// Verifier is a Channel that can find out what became of a message whose answer never came (on_unknown: verify).
type Verifier interface {
	// Verify looks the message up by its idempotency key. It is found with its receipt, or the provider surely has not
	// got it, or an error as of Send says that the outcome is not known yet.
	Verify(ctx context.Context, out Outgoing) (receipt Receipt, found bool, err error)
}

// Receiver is a Channel whose provider calls back, with what became of messages and with what people write back.
type Receiver interface {
	// Inbound checks that a callback is the provider's, and reads it. The error is ErrNoInbound, a *NotSignedError, or a *CallbackError.
	Inbound(c Callback) (Inbound, error)
}

// Callback is a request of a provider.
type Callback struct {
	Header http.Header
	Query  string // of its address, as it came
	Body   []byte
	At     time.Time // when it came
}

// Inbound is what a callback says.
type Inbound struct {
	ID      string // the provider's id of the request, the same in every try; empty: it has none, but each try says the same
	Reports []feedback.Report
	Replies []Reply
}

// Reply is a message that somebody wrote back.
type Reply struct {
	ID   string    // the provider's, the same in every try
	From string    // the address of who wrote it
	Text string    // as it came: it may hold anything
	At   time.Time // when it was written; zero: not known
}

var (
	// ErrNoInbound: the channel takes no callbacks, or its settings have no secret for them.
	ErrNoInbound = errors.New("the channel takes no callbacks")
	// ErrNotSigned: the callback is not the provider's, or too old.
	ErrNotSigned = errors.New("the callback is not signed as it has to be")
)

// NotSignedError says why the signature of a callback is refused; it is an ErrNotSigned. It says nothing that the caller does not know.
type NotSignedError struct {
	Err  error
	Hint string // how the provider signs
}

func (e *NotSignedError) Error() string { return ErrNotSigned.Error() + ": " + e.Err.Error() }

func (e *NotSignedError) Unwrap() []error { return []error{ErrNotSigned, e.Err} }

// CallbackError says what is wrong with a callback that is the provider's.
type CallbackError struct {
	Field string // such as body.feedback[0].status
	Err   error
	Hint  string // what to write instead; may be empty
}

func (e *CallbackError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *CallbackError) Unwrap() error { return e.Err }

// SendError says why a provider did not accept a message.
type SendError struct {
	Reason reason.Reason // temporary_error, permanent_error, reply_lost …
	Retry  bool          // whether trying again can help
	// Unknown: the request may have been accepted although no answer came. What happens then is the channel's
	// on_unknown.
	Unknown    bool
	RetryAfter time.Duration // the provider's wish; 0 = none
	// Away: the provider cannot be reached or does not work, for any message. Some of these in a row, or of Unknown, and
	// the channel rests. A refusal of this message is not one of them.
	Away bool
	Err  error
}

func (e *SendError) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

func (e *SendError) Unwrap() error { return e.Err }

// Temporary is a definite refusal that may pass.
func Temporary(err error) *SendError {
	return &SendError{Reason: reason.TemporaryError, Retry: true, Err: err}
}

// Away is a definite failure that is the provider's: no connection, or an answer that says that it is out of order.
func Away(err error) *SendError {
	return &SendError{Reason: reason.TemporaryError, Retry: true, Away: true, Err: err}
}

// Permanent is a definite refusal for good.
func Permanent(err error) *SendError { return &SendError{Reason: reason.PermanentError, Err: err} }

// Lost means that the request left and no answer came.
func Lost(err error) *SendError {
	return &SendError{Reason: reason.ReplyLost, Retry: true, Unknown: true, Away: true, Err: err}
}

// AsSendError classifies any error of Send.
func AsSendError(err error) *SendError {
	var known *SendError
	if errors.As(err, &known) {
		return known
	}
	return &SendError{Reason: reason.SendThrew, Retry: true, Err: err}
}

// Setting describes one key of a provider's settings, for checking definitions and for the reference page.
type Setting struct {
	Name     string
	Required bool
	Secret   bool // must be given as {secret: NAME}, {env: NAME} or {file: PATH}
	// Free settings are about the message alone. They decide neither where the channel's secrets go nor how these are
	// protected, so that an author of definitions may change them without the scope secrets.
	Free bool
	Doc  string
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

// Provider makes channels of one vendor.
type Provider struct {
	Name     string
	Doc      string
	Settings []Setting
	// Kinds are the kinds of channels that it serves; nil: all.
	Kinds []string
	// Forgetful: it has no idempotency keys that are known to be honoured, so that the default of on_unknown is hold.
	Forgetful bool
	// Check looks at the settings that are written literally, when definitions are checked; the value of one that is
	// kept elsewhere is empty. A *SettingError lets the place be shown; no error repeats a value. nil: nothing to look at.
	Check func(settings map[string]string) error
	// Verifies names the settings without which its channels cannot Verify; nil: they never can.
	Verifies []string
	// KeepContent: what was rendered is stored with the result, because the store is where people read it.
	KeepContent bool
	// Open makes a channel. Settings hold resolved values only; errors name the setting. A channel that is an
	// io.Closer is closed when its definition has changed and at the stop.
	Open func(settings map[string]string) (Channel, error)
}
