package api

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

const (
	takeCallback = "take-callback"
	// signed is the name of the security scheme of requests without a key.
	signed = "signature"
)

// signatureScheme says how callbacks are signed.
func signatureScheme() *huma.SecurityScheme {
	return &huma.SecurityScheme{
		Type: "apiKey", In: "header", Name: "webhook-signature",
		Description: "Callbacks carry no API key. Each is signed by its sender with inbound_secret of the channel, as Standard Webhooks lays down: HMAC-SHA256 over " +
			"webhook-id, webhook-timestamp and the body. The timestamp is at most five minutes away. Twilio and Telnyx sign in their own ways: X-Twilio-Signature, " +
			"and telnyx-signature-ed25519 with telnyx-timestamp.",
	}
}

// describeCallbacks describes the route of inbound.
func describeCallbacks(doc *huma.OpenAPI) {
	const maxText, maxReports = 254, 1000 // those of package callback
	schemas := doc.Components.Schemas
	text := func(most int, description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MaxLength: &most, Description: description}
	}
	id := text(maxText, "The provider's id of the message: one that is handed in again changes nothing.")
	id.MinLength = new(1)
	reply := component(schemas, "CallbackReply", closed("", []string{"id", "from"}, map[string]*huma.Schema{
		"id":   id,
		"from": text(maxText, "The address of who wrote it, such as a telephone number."),
		"text": {Type: huma.TypeString, Description: "What they wrote. 10,000 characters of it are kept."},
		"at":   {Type: huma.TypeString, Format: "date-time", Description: "When they wrote it; absent: now."},
	}))
	own := component(schemas, "Callback", closed("", nil, map[string]*huma.Schema{
		"feedback": {
			Type: huma.TypeArray, Items: schemas.Schema(reflect.TypeFor[client.Feedback](), true, ""), MaxItems: new(maxReports),
			Description: "What became of messages. With replies at most 1,000.",
		},
		"replies": {Type: huma.TypeArray, Items: reply, MaxItems: new(maxReports), Description: "What people have written back. With feedback at most 1,000."},
	}))
	telnyx := component(schemas, "CallbackOfTelnyx", closed("", []string{"data"}, map[string]*huma.Schema{
		"data": fields("The event."), "meta": fields("Where it was posted to, and how often."),
	}))
	body := component(schemas, "CallbackRequest", &huma.Schema{OneOf: []*huma.Schema{own, telnyx}})
	doc.AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: inboundPath, OperationID: takeCallback, Tags: []string{"channels"},
		Summary:  "Take in what the provider of a channel calls back with",
		Security: []map[string][]string{{signed: {}}},
		Parameters: []*huma.Param{
			{Name: "channel", In: "path", Required: true, Description: "The key of the channel, such as email:news.", Schema: &huma.Schema{Type: huma.TypeString}},
			{Name: "workspace", In: "query", Description: "The name of the workspace of the channel; absent: default.", Schema: &huma.Schema{Type: huma.TypeString}},
		},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json":                  {Schema: body},
			"application/x-www-form-urlencoded": {Schema: component(schemas, "CallbackOfTwilio", fields(""))},
		}},
		Responses: map[string]*huma.Response{
			"204":     {Description: "What it says is committed, now or when the same callback came before."},
			"default": problemResponse(),
		},
	})
}
