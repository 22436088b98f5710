package outbound

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/internal/strictjson"
)

const (
	// MaxDocument bounds a JSON document, in bytes. It is more than any message made from the document can contain.
	MaxDocument = 1 << 20
	// MaxValues bounds the values of a document. An empty object is three bytes of JSON and fifty bytes in memory (measured: 1 MiB of
	// them takes 60 MiB).
	MaxValues = 50_000
	// maxDepth bounds the nesting of a document.
	maxDepth = 100
)

// Documents reads JSON documents with GET requests.
type Documents struct{ client *Client }

// NewDocuments makes a reader of documents. It has a client of its own with these options, except MaxResponse.
func NewDocuments(o Options) *Documents {
	o.MaxResponse = MaxDocument
	return &Documents{client: New(o)}
}

// Close closes idle connections.
func (d *Documents) Close() { d.client.Close() }

// Document returns the value of the document at an address. Any answer other than 200 with JSON within the bounds is an error. The error
// repeats nothing of the document, and of the address only the host.
func (d *Documents) Document(ctx context.Context, url string) (any, error) {
	answer, err := d.client.Do(ctx, Request{Method: http.MethodGet, URL: url, Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case answer.Status >= 300 && answer.Status < 400:
		return nil, fmt.Errorf("the answer is %d, and redirects are not followed", answer.Status)
	case answer.Status != http.StatusOK:
		return nil, fmt.Errorf("the answer is %d", answer.Status)
	case err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		return nil, errors.New("the answer's Content-Type is not that of JSON")
	case answer.Truncated && len(answer.Body) >= MaxDocument:
		return nil, fmt.Errorf("the document is larger than %d MiB", MaxDocument>>20)
	case answer.Truncated:
		return nil, errors.New("the answer broke off")
	}
	if values(answer.Body) > MaxValues {
		return nil, fmt.Errorf("the document holds more than %d values", MaxValues)
	}
	value, wrong := strictjson.Parse(answer.Body, maxDepth)
	if wrong != nil {
		return nil, errors.New(problem(wrong.Kind))
	}
	return value, nil
}

// problem returns why a document cannot be read. It does not name the place, because that would repeat names of the document.
func problem(kind strictjson.Kind) string {
	switch kind {
	case strictjson.Behind:
		return "the document goes on after its end"
	case strictjson.TooDeep:
		return fmt.Sprintf("the document is nested deeper than %d", maxDepth)
	case strictjson.Twice:
		return "the document has a key twice in an object"
	case strictjson.Zero, strictjson.ZeroKey:
		return "the document holds the character U+0000"
	case strictjson.NotUTF8, strictjson.Half, strictjson.HalfKey:
		return "the document is not valid UTF-8"
	case strictjson.Syntax:
	}
	return "the document is no JSON"
}

// values returns an upper bound of the number of values in a JSON text: each value except the first is after a bracket or a comma.
func values(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n + 1
}
