package api_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

// described holds every answer of the tests against the OpenAPI document: its status and media type are described, and its
// body is what the schema says. It is stricter than a client may be: a field that the document lacks is a mistake of
// the document, while clients take such a field for one of a later version.
type described struct {
	next http.RoundTripper
	// fail reports an answer that is not described.
	fail func(format string, args ...any)

	mu   sync.Mutex
	seen map[string]bool // METHOD pattern of the routes that answered 2xx
}

func checked(t testing.TB) *described {
	return &described{next: http.DefaultTransport, fail: t.Errorf, seen: map[string]bool{}}
}

// RoundTrip implements http.RoundTripper.
func (d *described) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := d.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(req.URL.Path, "/v1/") && !strings.HasPrefix(req.URL.Path, "/api/") && req.URL.Path != "/metrics" {
		return res, nil
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	if err != nil {
		return res, nil // the reader of the body gets the error
	}
	pattern, wrong := theDocument().check(req, res, body)
	if wrong != nil {
		d.fail("%s %s answers what the OpenAPI document does not describe: %v\n%.2000s", req.Method, req.URL.Path, wrong, body)
	}
	if res.StatusCode/100 == 2 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.seen[pattern] = true
	}
	return res, nil
}

// answered reports whether a route answered 2xx, and so was held against the document.
func (d *described) answered(pattern string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[pattern]
}

// failing is the end of a body: the error with which it broke off, or its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// openAPI is the document, with the schemas of answers compiled.
type openAPI struct {
	operations map[string]map[string]any // METHOD pattern → operation
	routes     *http.ServeMux

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

//nolint:gochecknoglobals // made once for all tests
var theDocument = sync.OnceValue(func() *openAPI {
	raw, err := api.New(api.Deps{Version: "test"}).Description()
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	closeObjects(doc)
	o := &openAPI{
		operations: map[string]map[string]any{}, routes: http.NewServeMux(),
		compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{},
	}
	o.compiler.AssertFormat()
	if err := o.compiler.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	paths, _ := doc.(map[string]any)["paths"].(map[string]any)
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		for method, operation := range operations {
			pattern := strings.ToUpper(method) + " " + path
			o.operations[pattern], _ = operation.(map[string]any)
			o.routes.HandleFunc(pattern, http.NotFound)
		}
	}
	return o
})

// closeObjects has objects with fields take no others.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, fields := v["properties"].(map[string]any)
		if _, said := v["additionalProperties"]; fields && v["type"] == "object" && !said {
			v["additionalProperties"] = false
		}
		for _, one := range v {
			closeObjects(one)
		}
	case []any:
		for _, one := range v {
			closeObjects(one)
		}
	}
}

// check holds one answer against the document.
func (o *openAPI) check(req *http.Request, res *http.Response, body []byte) (pattern string, err error) {
	if res.StatusCode/100 == 3 {
		return "", nil // the mux sends a path with two slashes elsewhere
	}
	_, pattern = o.routes.Handler(req)
	operation := o.operations[pattern]
	if responses, _ := operation["responses"].(map[string]any); res.StatusCode == http.StatusNoContent && responses["204"] != nil {
		answer, _ := responses["204"].(map[string]any)
		if name := undescribed(answer, res.Header); name != "" || len(body) > 0 || res.Header.Get("Content-Type") != "" {
			return pattern, fmt.Errorf("status 204 with %d bytes, headers %v", len(body), res.Header)
		}
		return pattern, nil
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return "", fmt.Errorf("its media type: %w", err)
	}
	if operation == nil {
		// No route, or a method that it does not take.
		if kind != client.ProblemType || res.StatusCode/100 != 4 {
			return pattern, fmt.Errorf("status %d, %s, of no route that is described", res.StatusCode, kind)
		}
		return pattern, o.valid("/components/schemas/Problem", body)
	}
	responses, _ := operation["responses"].(map[string]any)
	status := strconv.Itoa(res.StatusCode)
	answer, ok := responses[status].(map[string]any)
	if !ok {
		return pattern, fmt.Errorf("status %s", status)
	}
	if name := undescribed(answer, res.Header); name != "" {
		return pattern, fmt.Errorf("status %s with the header %s", status, name)
	}
	contents, _ := answer["content"].(map[string]any)
	content, ok := contents[kind].(map[string]any)
	if !ok {
		return pattern, fmt.Errorf("status %s with %s", status, kind)
	}
	if kind == "text/plain" {
		return pattern, nil
	}
	schema, _ := content["schema"].(map[string]any)
	ref, _ := schema["$ref"].(string)
	if ref == "" {
		return pattern, fmt.Errorf("status %s: its schema has no name", status)
	}
	return pattern, o.valid(strings.TrimPrefix(ref, "#"), body)
}

// undescribed is a header of an answer that its description lacks, beside those of any HTTP server.
func undescribed(answer map[string]any, sent http.Header) string {
	known := http.Header{}
	headers, _ := answer["headers"].(map[string]any)
	for name := range headers {
		known.Set(name, name)
	}
	for name := range sent {
		switch name {
		case "Content-Type", "Content-Length", "Content-Encoding", "Date", "Connection", "Vary", "X-Content-Type-Options":
		default:
			if known.Get(name) == "" {
				return name
			}
		}
	}
	return ""
}

func (o *openAPI) valid(pointer string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	o.mu.Lock()
	schema := o.schemas[pointer]
	if schema == nil {
		if schema, err = o.compiler.Compile("openapi.json#" + pointer); err == nil {
			o.schemas[pointer] = schema
		}
	}
	o.mu.Unlock()
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// A header that is not described is found.
func TestHeadersAreChecked(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]bool{"Cache-Control": false, "Content-Type": false, "X-Secret": true, "Retry-After": true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/v1/reasons", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if name != "Content-Type" {
			header.Set(name, "x")
		}
		_, err = theDocument().check(req, &http.Response{StatusCode: http.StatusOK, Header: header}, []byte(`{"reasons":[]}`))
		if (err != nil) != wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What checks the answers of the other tests finds what it is there for.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	const good = `{"reasons":[{"reason":"sent","class":"sent","sentence":"It was sent."}]}`
	answers := map[string]struct {
		status     int
		kind, body string
		wrong      bool
	}{
		"as described":           {200, "application/json", good, false},
		"a field more":           {200, "application/json", strings.Replace(good, `"class"`, `"more":1,"class"`, 1), true},
		"a field less":           {200, "application/json", strings.Replace(good, `"class":"sent",`, ``, 1), true},
		"no list":                {200, "application/json", `{"reasons":null}`, true},
		"another status":         {204, "application/json", good, true},
		"another type":           {200, "text/html", good, true},
		"a problem":              {403, client.ProblemType, `{"type":"urn:x","title":"Forbidden","status":403,"code":"forbidden"}`, false},
		"a problem without code": {403, client.ProblemType, `{"type":"urn:x","title":"Forbidden","status":403}`, true},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failures []string
			d := checked(t)
			d.fail = func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
			d.next = fake{&http.Response{StatusCode: answer.status, Header: http.Header{"Content-Type": {answer.kind}}, Body: io.NopCloser(strings.NewReader(answer.body))}}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/v1/reasons", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if raw, err := io.ReadAll(res.Body); err != nil || string(raw) != answer.body {
				t.Errorf("the body was changed: %s, %v", raw, err)
			}
			if (len(failures) > 0) != answer.wrong {
				t.Errorf("wrong: %v, reported: %q", answer.wrong, failures)
			}
		})
	}
}

type fake struct{ res *http.Response }

func (f fake) RoundTrip(*http.Request) (*http.Response, error) { return f.res, nil }

// A workspace in which there is nothing has lists without items, never null.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	empty, err := b.app.Store().EnsureWorkspace(t.Context(), "empty", []byte("another workspace's secret: 32 b"), b.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	key := b.newKey(empty, "admin", "admin")
	for _, r := range api.New(api.Deps{}).Routes() {
		if r.Method != http.MethodGet || r.Scope == "" || strings.Contains(r.Path, "{") {
			continue
		}
		if status, text := b.askAs(key, r.Method, r.Path, ""); status != http.StatusOK || strings.Contains(text, "null") {
			t.Errorf("%s: %d %.200s", r.Path, status, text)
		}
	}
	if status, text := b.askAs(key, http.MethodPost, "/v1/events", `{"events":[]}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}
