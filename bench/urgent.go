package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// urgentLess is how many people have a message in line where an urgent message is compared.
	urgentLess = 1000
	// urgentMessages is how many urgent messages are sent, one each urgentEvery: a fifth of the rate.
	urgentMessages = 200
	urgentEvery    = 100 * time.Millisecond
)

const urgentDefinitions = `
workflow: tip
type: broadcast
priority: digest
triggers: [{id: never, schedule: {from: 2090-01-01, every: 1y, at: "10:00"}}]
timing: {catch_up: forever}
audience: {everyone: true}
channel: inbox
message: {inbox: {text: "Hello {{ contact.name }}, drink clean water."}}
---
workflow: outage
type: alert
priority: urgent
triggers: [{id: outage, event: outage}]
audience: {to: event.recipient}
channel: inbox
limits: {critical: true}
message: {inbox: {text: "{{ event.text }}"}}
---
channel: inbox:default
provider: memory
rate: 50/s
---
workspace: default
timezone: Europe/Berlin
`

// urgentContenders send urgent messages on a channel with a rate, which has a message for each of many people to send, or of few (T25).
func urgentContenders(s settings, b *binary) []contender {
	of := func(name string, people int) contender {
		return onDatabase("Carillon, "+name, []string{"T25"}, func(ctx context.Context, r *round, url string) error {
			return urgentServer(ctx, r, b, url, name, people)
		})
	}
	return []contender{of(urgentFew, urgentLess), of(urgentMany, s.people)}
}

func urgentServer(ctx context.Context, r *round, b *binary, url, name string, people int) error {
	return withPeople(ctx, r, b, url, urgentDefinitions, name, people, func(c *broadcast) error {
		run, err := c.api.RunWorkflow(ctx, "tip", "many")
		if err != nil {
			return err
		}
		err = c.until(ctx, func() (bool, error) {
			in, err := c.api.Instance(ctx, run.Instance)
			return in.Status == "completed", err
		})
		if err != nil {
			return err
		}
		return c.urgent(ctx)
	})
}

// urgent measures how long it takes from the receipt of an event to the answer of the provider.
func (c *broadcast) urgent(ctx context.Context) error {
	system := &clock.System{}
	for n := range urgentMessages {
		next := system.Now().Add(urgentEvery)
		person := fmt.Sprintf("person-%d", 1+n%c.people)
		_, err := c.api.PostEvents(ctx, client.Event{ID: fmt.Sprintf("outage-%d", n), Kind: "outage", Recipient: &client.Recipient{CustomerRef: person, Address: person}, Payload: map[string]any{"text": "No power"}})
		if err != nil {
			return err
		}
		if err := system.Sleep(ctx, next); err != nil {
			return err
		}
	}
	err := c.until(ctx, func() (bool, error) {
		sent, err := c.number(ctx, `SELECT count(*) FROM delivery WHERE workflow = 'outage' AND status = 'sent'`)
		return sent == urgentMessages, err
	})
	if err != nil {
		return err
	}
	waits, err := c.number(ctx, `SELECT count(*) FROM (SELECT FROM delivery WHERE workflow = 'tip' AND status = 'scheduled' LIMIT 1) AS d`)
	if err != nil {
		return err
	}
	if waits == 0 {
		return errors.New("nothing was in line while the urgent messages were sent")
	}
	rows, err := c.pool.Query(ctx, `SELECT a.settled_at - e.received_at FROM delivery AS d JOIN attempt AS a ON a.ws = d.ws AND a.delivery_id = d.id
		JOIN event AS e ON e.ws = d.ws AND e.id = d.event_id WHERE d.workflow = 'outage'`)
	if err != nil {
		return err
	}
	var took []time.Duration
	for rows.Next() {
		var micros int64
		if err := rows.Scan(&micros); err != nil {
			return err
		}
		took = append(took, time.Duration(micros)*time.Microsecond)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return c.lateness(c.name, took)
}
