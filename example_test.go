package carillon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/carillonhq/carillon"
)

// openTicket stands for a call of the system that keeps the tickets.
func openTicket(_ context.Context, key, title string) error {
	_, err := fmt.Fprintln(os.Stderr, key, title)
	return err
}

// A binary with a function that opens tickets. A definition uses it with provider: tickets.
func Example() {
	carillon.Main(carillon.Options{
		Sinks: map[string]carillon.Sink{
			"tickets": func(ctx context.Context, e carillon.Event) error {
				var data struct {
					Workflow string         `json:"workflow"`
					Answers  map[string]any `json:"answers"`
				}
				if err := e.Data(&data); err != nil {
					return carillon.Permanent(err) // it will not be better the next time
				}
				// The id of the event is the ticket's idempotency key: the event may come again.
				return openTicket(ctx, e.ID, data.Workflow+": a complaint")
			},
		},
	})
}

func ExamplePermanent() {
	err := carillon.Permanent(errors.New("the project CARS is closed"))
	fmt.Println(err)
	// Output: the project CARS is closed
}

func ExampleRetryAfter() {
	busy := errors.New("busy")
	err := carillon.RetryAfter(5*time.Minute, busy)
	fmt.Println(errors.Is(err, busy))
	// Output: true
}
