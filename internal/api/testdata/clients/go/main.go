// Program generated makes typed calls with what oapi-codegen makes of the document.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	ctx := context.Background()
	withKey := WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	})
	c, err := NewClientWithResponses(os.Args[1], withKey)
	check(err)

	applied, err := c.ApplyDefinitionsWithResponse(ctx, nil, ApplyFilesBody{Files: []File{{Name: "a.yaml", Text: "channel: memory:generated\nprovider: memory\n"}}})
	check(err)

	id, payload, address := "go", map[string]any{"name": "Ada", "tags": []string{"a"}}, "go@example.org"
	event := Event{Id: &id, Kind: "signed-up", Payload: &payload, Recipient: &RecipientInput{Address: &address}}
	var many, one EventsRequest
	check(many.FromEventBatch(EventBatch{Events: []Event{event}}))
	check(one.FromEvent(event))
	posted, err := c.PostEventsWithResponse(ctx, nil, many)
	check(err)
	alone, err := c.PostEventsWithResponse(ctx, nil, one)
	check(err)
	_, err = c.TickWithResponse(ctx)
	check(err)

	delivery, err := c.GetDeliveryWithResponse(ctx, posted.JSON200.Items[0].Instances[0].Deliveries[0].Id)
	check(err)
	surveys, err := c.SurveysIngestWithResponse(ctx, nil, SurveysRequest{EventKind: "service-visit-closed", Items: []SurveysRequestItem{{
		Payload: map[string]any{"wip": 1}, Recipient: SurveysRecipient{Address: address},
	}}})
	check(err)
	missing, err := c.GetDeliveryWithResponse(ctx, "d_none")
	check(err)

	d, p := delivery.JSON200, missing.ApplicationproblemJSON404
	fmt.Println(applied.JSON200.Changes[0].Action, posted.JSON200.Created, alone.JSON200.Skipped, d.Attempts, len(d.AttemptLog), d.AttemptLog[0].Outcome,
		len(surveys.JSON200.Items), p.Status, p.Code)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
