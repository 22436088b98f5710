package cli

import (
	"regexp"
	"strings"

	"github.com/carillonhq/carillon/client"
)

// inWords is what the API says in the words of the command line: flags in place of parameters, commands in place of routes.
func inWords(p client.Problem) client.Problem {
	p.Field, p.Hint = flagOf(p.Field), strings.TrimSpace(p.Hint)
	switch p.Code {
	case client.CodeUnauthorized:
		p.Hint = "give an API key by --key, --key-file or CARILLON_KEY; carillon keys create makes one"
		return p
	case client.CodeInvalidRequest:
		if strings.Contains(p.Hint, "/openapi.json") {
			p.Hint = ""
		}
	}
	p.Hint = strings.NewReplacer(
		"give next_cursor as it was answered", "give --cursor as the list printed it",
		"for as long as the header Retry-After says, and send it again", "a moment, and run the command again",
		"Send it again later, under the same key.", "Run the command again later.",
		"send it again later, under the same key", "run the command again later",
		"Send it again later.", "Run the command again later.",
		"send it again later", "run the command again later",
		"POST /v1/runs/{id}/cancel", "carillon runs cancel ID",
		"GET /v1/contacts?q=TEXT", "carillon contacts list --q TEXT",
		"GET /v1/records/TYPE", "carillon records list TYPE",
	).Replace(p.Hint)
	p.Hint = lists.ReplaceAllString(p.Hint, "carillon $1 list")
	return p
}

// lists are the routes that list things.
var lists = regexp.MustCompile(`GET /v1/([a-z]+)`)

// flagOf is the flag, or the field of the input, that a place in a request stands for.
func flagOf(place string) string {
	switch where, name, _ := strings.Cut(place, "."); where {
	case "query":
		return "--" + strings.ReplaceAll(name, "_", "-")
	case "header":
		return map[string]string{"Authorization": "--key", client.IdempotencyKey: "--idempotency-key"}[name]
	case "body", "path":
		return name
	}
	return place
}
