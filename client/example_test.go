package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/config"
)

// serverForExample starts a server of its own, and makes a key for it.
func serverForExample(ctx context.Context) (server, key string, stop func()) {
	a, err := app.Start(ctx, app.Config{Server: config.Server{
		Database: config.Database{DB: ":memory:"}, Listen: "127.0.0.1:0", Migrate: true,
	}})
	if err != nil {
		panic(err)
	}
	if key, err = app.CreateKey(ctx, a.Store(), a.Workspace(), "example", []string{"admin"}, a.Engine().Now()); err != nil {
		panic(err)
	}
	return a.URL(), key, func() { _ = a.Stop(ctx) }
}

const welcome = `
workflow: welcome
type: custom
triggers:
  - id: signed-up
    event: signed-up
audience:
  - to: event.recipient
channel: inbox
message:
  inbox:
    text: "Welcome, {{ event.name }}"
---
channel: inbox:default
provider: inbox
`

// Definitions are put in force, an event is taken in, and what it caused is read back.
func Example() {
	ctx := context.Background()
	server, key, stop := serverForExample(ctx)
	defer stop()

	c, err := client.New(server, key, client.WithRetries(3))
	if err != nil {
		panic(err)
	}
	if _, err := c.Apply(ctx, []client.File{{Name: "welcome.yaml", Text: welcome}}); err != nil {
		panic(err)
	}
	answer, err := c.PostEvents(ctx, client.Event{
		ID: "sign-up-7", Kind: "signed-up", Payload: map[string]any{"name": "Ada"},
		Recipient: &client.Recipient{Address: "ada@example.org"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Items[0].Outcome)

	if _, err := c.Tick(ctx); err != nil { // a server that works by itself needs no tick
		panic(err)
	}
	for d, err := range c.AllDeliveries(ctx, client.DeliveryQuery{To: "ada@example.org"}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Channel, d.Status)
	}
	// Output:
	// created
	// inbox:default sent
}

// One bad event of a list fails no other one. Err names it, by its place in the request.
func ExampleEventsAnswer_Err() {
	ctx := context.Background()
	server, key, stop := serverForExample(ctx)
	defer stop()

	c, err := client.New(server, key)
	if err != nil {
		panic(err)
	}
	answer, err := c.PostEvents(ctx, client.Event{ID: "1", Kind: "signed-up"}, client.Event{ID: "2", Payload: map[string]any{"name": "Ada"}})
	if err != nil {
		panic(err) // nothing is known of any of them
	}
	fmt.Println(answer.Err())
	var first *client.ItemError
	if errors.As(answer.Err(), &first) {
		fmt.Println(first.Index, first.Reason)
	}
	// Output:
	// item 1: kind: the kind of the event is missing (such as "service-visit-closed")
	// 1 invalid_event
}

// What the server refuses is a *Problem: programs branch on its code.
func ExampleProblem() {
	ctx := context.Background()
	server, key, stop := serverForExample(ctx)
	defer stop()

	c, err := client.New(server, key)
	if err != nil {
		panic(err)
	}
	_, err = c.Delivery(ctx, "d_unknown")
	var p *client.Problem
	if errors.As(err, &p) && p.Code == client.CodeNotFound {
		fmt.Println(p.Status, p.Detail)
	}
	// Output:
	// 404 there is no such delivery
}
