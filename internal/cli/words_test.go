package cli

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
)

// No remedy sends somebody at the command line to a route or a header.
func TestRemediesAreInTheWordsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, code := range client.Codes() {
		switch code.Code { // the client never gives cause for these
		case client.CodeEncoding, client.CodeIdempotencyKey, client.CodeNotAllowed, client.CodeMediaType, client.CodeHeadersTooLarge, client.CodeURITooLong, client.CodeKeyReused, client.CodeTooManyFailures:
			continue
		}
		p := inWords(client.Problem{Code: code.Code, Hint: code.Remedy})
		for _, private := range []string{"/v1/", "GET ", "POST ", "header", "Authorization", "openapi"} {
			if strings.Contains(p.Hint, private) {
				t.Errorf("%s: %s", code.Code, p.Hint)
			}
		}
	}
	for place, want := range map[string]string{
		"query.customer_ref": "--customer-ref", "body.type": "type", "path.name": "name", "header.Authorization": "--key", "events[3].kind": "events[3].kind", "": "",
	} {
		if got := flagOf(place); got != want {
			t.Errorf("%q: %q instead of %q", place, got, want)
		}
	}
}
