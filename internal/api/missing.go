package api

import (
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/client"
)

// thing is what a route is about: what it is called, and where its names are to be had.
type thing struct{ prefix, what, hint string }

// things are the longest prefixes first.
func things() []thing {
	const own = "Names are your own, to the letter; one that was deleted is not found either. "
	const made = "An id is answered once, when the thing is made, and in lists; what retention has deleted is not found either. "
	return []thing{
		{"/v1/instances/forget", "instance", made + "GET /v1/instances lists instances with their keys."},
		{"/v1/instances/", "instance", made + "GET /v1/instances lists them, by key too."},
		{"/v1/deliveries/", "delivery", made + "GET /v1/deliveries lists them."},
		{"/v1/sessions/", "conversation", made + "GET /v1/sessions lists them."},
		{"/v1/events/", "event", made + "It is not the id that the event came with. GET /v1/events lists them."},
		{"/v1/records/{type}/{id}", "record", own + "GET /v1/records lists the types, GET /v1/records/TYPE their records."},
		{"/v1/contacts/", "contact", own + "GET /v1/contacts?q=TEXT finds one by an address or the name."},
		{"/v1/groups/", "group", "GET /v1/groups lists those that are defined."},
		{"/v1/topics/", "topic", own + "GET /v1/topics lists them."},
		{"/v1/items/", "item", own + "An item with a version is found with that version. GET /v1/items lists them."},
		{"/v1/channels/", "channel", "A key is a kind and a name, such as email:alerts. GET /v1/channels lists what is defined."},
		{"/v1/workflows/", "workflow", "GET /v1/workflows lists them."},
		{"/v1/runs/", "run", made + "GET /v1/runs lists them."},
		{"/v1/outbox/", "outbox event", made + "With a sink, the event does not go there. GET /v1/outbox lists them with their sinks."},
		{"/v1/sinks/", "sink", own + "GET /v1/sinks lists those that are defined or have events."},
		{"/v1/secrets/", "secret", "GET /v1/secrets lists their names."},
	}
}

// missing has an answer say what was not found, and where to look. It does not repeat the id: no problem repeats values of
// its request.
func missing(path string, p *client.Problem) *client.Problem {
	if p.Status != http.StatusNotFound || p.Hint != "" {
		return p
	}
	for _, t := range things() {
		if strings.HasPrefix(path, t.prefix) {
			more := *p
			more.Detail, more.Hint = "there is no such "+t.what, t.hint
			return &more
		}
	}
	return p
}
