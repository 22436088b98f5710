package outbound_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/outbound"
)

// Document returns the JSON of an answer 200 within the bounds. Any other answer is an error, which repeats none of it.
func TestDocument(t *testing.T) {
	t.Parallel()
	const private = "token-in-the-address"
	for _, tc := range []struct {
		name, kind, body string
		status           int
		want             any
		err              string
	}{
		{name: "an object", kind: "application/json; charset=utf-8", body: `{"a": [true, "x", null]}`, want: map[string]any{"a": []any{true, "x", nil}}},
		{name: "of a kind of its own", kind: "application/vnd.rates+json", body: `"x"`, want: "x"},
		{name: "another answer", status: 503, kind: "application/json", body: `{}`, err: "the answer is 503"},
		{name: "somewhere else", status: 302, kind: "application/json", body: `{}`, err: "the answer is 302, and redirects are not followed"},
		{name: "a page", kind: "text/html", body: `{}`, err: "the answer's Content-Type is not that of JSON"},
		{name: "of no kind", kind: " ", body: `{}`, err: "the answer's Content-Type is not that of JSON"},
		{name: "no JSON", kind: "application/json", body: `<secret>`, err: "the document is no JSON"},
		{name: "two", kind: "application/json", body: `{} {}`, err: "the document goes on after its end"},
		{name: "nothing", kind: "application/json", err: "the document is no JSON"},
		{name: "with U+0000, which no database holds", kind: "application/json", body: `{"a": "x\u0000"}`, err: "the document holds the character U+0000"},
		{name: "not UTF-8", kind: "application/json", body: "{\"a\": \"\xff\"}", err: "the document is not valid UTF-8"},
		{name: "ambiguous", kind: "application/json", body: `{"a": 1, "a": 2}`, err: "the document has a key twice in an object"},
		{name: "too deep", kind: "application/json", body: strings.Repeat("[", 101) + strings.Repeat("]", 101), err: "the document is nested deeper than 100"},
		{
			name: "of many values", kind: "application/json", body: "[" + strings.Repeat("{},", outbound.MaxValues) + "{}]",
			err: "the document holds more than 50000 values",
		},
		{name: "of many commas", kind: "application/json", body: `"\"` + strings.Repeat(",", outbound.MaxValues) + `"`, want: `"` + strings.Repeat(",", outbound.MaxValues)},
		{name: "too large", kind: "application/json", body: `"` + strings.Repeat("x", outbound.MaxDocument) + `"`, err: "the document is larger than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.Header.Get("Accept") != "application/json" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				w.Header().Set("Content-Type", tc.kind)
				w.Header().Set("Location", "/elsewhere")
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			d := outbound.NewDocuments(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
			defer d.Close()
			got, err := d.Document(t.Context(), server.URL+"/"+private)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || said != tc.err {
				t.Errorf("%s, error %q, want %q", diff, said, tc.err)
			}
		})
	}
	t.Run("this machine", func(t *testing.T) {
		t.Parallel()
		asked := false
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		defer server.Close()
		d := outbound.NewDocuments(outbound.Options{})
		defer d.Close()
		_, err := d.Document(t.Context(), server.URL+"/"+private)
		if err == nil || asked || strings.Contains(err.Error(), private) || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("asked: %v, error %v", asked, err)
		}
	})
}
