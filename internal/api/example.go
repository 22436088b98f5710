package api

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// examples makes bodies that a schema accepts, for the description and its page.
type examples struct{ registry huma.Registry }

// maxExample bounds how deep an example goes.
const maxExample = 6

// of is an example of a schema: its own, or what its fields need at least.
func (x examples) of(s *huma.Schema, depth int) any {
	if s == nil || depth > maxExample {
		return nil
	}
	if s.Ref != "" {
		return x.of(x.registry.SchemaFromRef(s.Ref), depth)
	}
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return x.of(s.OneOf[0], depth+1)
	}
	switch s.Type {
	case huma.TypeObject:
		out := map[string]any{}
		for _, name := range s.Required {
			out[name] = x.of(s.Properties[name], depth+1)
		}
		return out
	case huma.TypeArray:
		return []any{x.of(s.Items, depth+1)}
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		return 1
	case huma.TypeString:
		if s.Format == "date-time" {
			return "2026-05-14T05:12:34Z"
		}
		return "text"
	}
	return map[string]any{}
}

// known are bodies of which the schema alone would make poor examples.
func known() map[string]any {
	event := map[string]any{
		"id": "visit-40956", "kind": "service-visit-closed", "occurred_at": "2026-05-14T05:12:34Z",
		"payload":   map[string]any{"wip": "40956", "dealerId": "1", "jobType": "GR"},
		"recipient": map[string]any{"address": "+964 770 000 0001", "locale": "ar", "customer_ref": "cust-123"},
	}
	return map[string]any{
		"post-events": map[string]any{"events": []any{event}},
		"post-records": map[string]any{"records": []any{map[string]any{
			"type": "kiosk", "id": "123", "props": map[string]any{"name": "Main hall", "battery_level": 15, "last_heartbeat_at": "2026-05-14T05:12:34Z"},
		}}},
		"post-feedback": map[string]any{"status": "bounced", "address": "ann@example.org", "detail": "550 5.1.1 no such user"},
		"post-feedback-mail": map[string]any{"mail": []byte("Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n" +
			"--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nOriginal-Rcpt-To: ann@example.org\n\n--b--\n")},
		takeCallback:           map[string]any{"feedback": []any{map[string]any{"status": "bounced", "address": "ann@example.org", "detail": "550 5.1.1 no such user"}}},
		"find-topic":           map[string]any{"title": "Tax", "match": []any{map[string]any{"tags": map[string]any{"policy": map[string]any{"any": []any{"tax"}}}}}},
		"post-subscriptions":   map[string]any{"subscriptions": []any{map[string]any{"contact": "ann", "topic": "tax", "frequency": "immediate"}}},
		"end-subscriptions":    map[string]any{"subscriptions": []any{map[string]any{"contact": "ann", "topic": "tax"}}},
		"change-subscriptions": map[string]any{"action": "migrate", "topics": []any{"tax"}, "to": "money", "dry_run": true},
		"post-items": map[string]any{"items": []any{map[string]any{
			"id": "c1", "title": "Rates", "url": "/rates", "tags": map[string]any{"policy": "tax"}, "topics": []any{"tax"},
		}}},
		"put-record":    map[string]any{"props": map[string]any{"name": "Main hall", "battery_level": 15}, "closed": false},
		"change-record": map[string]any{"props": map[string]any{"battery_level": 80}},
		"surveys-ingest": map[string]any{"eventKind": "service-visit-closed", "items": []any{map[string]any{
			"payload": event["payload"], "occurredAt": event["occurred_at"],
			"recipient": map[string]any{"address": "+964 770 000 0001", "locale": "ar", "customerRef": "cust-123"},
		}}},
		"apply-definitions": map[string]any{"files": []any{map[string]any{
			"name": "channels.yaml", "text": "channel: inbox:default\nprovider: inbox\n",
		}}},
		"retry-deliveries":     map[string]any{"channel": "sms:twilio", "since": "2026-05-14T05:00:00Z", "dry_run": true},
		"cancel-deliveries":    map[string]any{"channel": "sms:twilio", "since": "2026-05-14T05:00:00Z", "dry_run": true},
		"redrive-outbox-event": map[string]any{"sink": "bi-file"},
		"respond":              map[string]any{"answers": map[string]any{"rate": 7, "why": "It was quick."}, "agent_id": "anna"},
		"surveys-respond":      map[string]any{"answers": map[string]any{"rate": 7}, "agentId": "anna"},
		"forget-instance":      map[string]any{"key": "survey:csi-gr:event:visit-40956"},
	}
}

// addExamples gives every body of a request an example.
func (a *API) addExamples() {
	doc := a.huma.OpenAPI()
	x, own := examples{doc.Components.Schemas}, known()
	eachOperation(doc, func(op *huma.Operation) {
		if op.RequestBody == nil {
			return
		}
		content := op.RequestBody.Content["application/json"]
		if content == nil || content.Example != nil {
			return
		}
		if content.Example = own[op.OperationID]; content.Example == nil {
			content.Example = x.of(content.Schema, 0)
		}
	})
}

// eachOperation calls f for every operation of a description.
func eachOperation(doc *huma.OpenAPI, f func(*huma.Operation)) {
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil {
				f(op)
			}
		}
	}
}

// indented is a value as JSON for people.
func indented(v any) string {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return ""
	}
	return string(raw)
}
