package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// MaxDocument is how large a JSON document may be: more than fits into any message that is written from it.
const MaxDocument = 1 << 20

// Documents reads JSON documents by GET.
type Documents struct{ client *Client }

// NewDocuments makes a reader of documents with a client of its own, which has these options but for the size of an answer.
func NewDocuments(o Options) *Documents {
	o.MaxResponse = MaxDocument
	return &Documents{client: New(o)}
}

// Close drops idle connections.
func (d *Documents) Close() { d.client.Close() }

// Document returns the value of the document at an address. Anything but an answer 200 with JSON of a bearable size is an
// error. It repeats nothing of the document, and nothing of the address but its host.
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
	decoder := json.NewDecoder(bytes.NewReader(answer.Body))
	decoder.UseNumber() // a number keeps its spelling
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("the document is no JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the document goes on after its end")
	}
	return value, nil
}
