package carillon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/sink"
)

// Sink is a function that is handed the outcomes which workflows route to it. It returns nil once it is responsible for the event.
//
//   - An event comes at least once: again after an error, and after a crash also when the function had returned nil. All its tries have one
//     ID; a function whose effect must not come twice keeps the IDs, or passes them on as an idempotency key (C37).
//   - It is called from several goroutines at once. Events with the same Group come one after the other, in their order.
//   - It returns when ctx is done: its time is up then, or the process stops. What it returns after that counts as an error.
//   - An error is a failure that may pass, and the event comes again as the sink's retry says; Permanent, RetryAfter and Gone say
//     otherwise. The text of an error is kept with the try and people read it: no secrets, and nothing of the answers.
//   - A panic is such a failure too. It does not end the process.
type Sink func(ctx context.Context, e Event) error

// Event is an outcome: what became of an occasion or a message.
type Event struct {
	// ID is the same in every try. Printable ASCII without blanks.
	ID string
	// Type is response.completed, delivery.sent, delivery.failed, delivery.unknown, delivery.expired, instance.completed or instance.held;
	// more may come, so a function leaves alone what it does not know.
	Type string
	// At is when it happened.
	At time.Time
	// Workspace is the name of the workspace whose outcome it is.
	Workspace string
	// Group is the same for events that come in order: those of one delivery.
	Group string
	// Body is the whole event: a CloudEvent (version 1.0) as a JSON object. The function may keep and change it.
	Body []byte
}

// Data decodes the data of the event, the part of Body that says what happened, into a value as json.Unmarshal does.
func (e Event) Data(into any) error {
	var event struct {
		Data json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(e.Body, &event)
	if err == nil && len(event.Data) > 0 {
		err = json.Unmarshal(event.Data, into)
	}
	if err != nil {
		return fmt.Errorf("decode the data of event %s: %w", e.ID, err)
	}
	return nil
}

// failure is an error of a function that says what follows. It reads like the error in it.
type failure struct {
	retry sink.Retry
	after time.Duration
	err   error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Permanent says that this event is refused for good: no further try follows at this sink. Nil stays nil.
func Permanent(err error) error { return failed(sink.Permanent, 0, err) }

// RetryAfter says that the event is not to come again sooner than after that time; how often it comes is still for the sink's retry to
// say. A time of 0 or less is none. Nil stays nil.
func RetryAfter(after time.Duration, err error) error {
	return failed(sink.Temporary, max(after, 0), err)
}

// Gone says that no event is wanted any more: the sink is disabled, and its events are kept until a person enables it. Nil stays nil.
func Gone(err error) error { return failed(sink.Gone, 0, err) }

func failed(retry sink.Retry, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &failure{retry: retry, after: after, err: err}
}
