package api

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

// describe is the frame of the OpenAPI document. Our own page draws it, because others load their code from
// elsewhere; docs/reference/http-api.md is made from it too.
func describe(version string) huma.Config {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			return e.Encode(v)
		},
		Unmarshal: unmarshal,
	}
	c := huma.DefaultConfig("Carillon", version)
	c.Info.Description = "Triggered, scheduled and rate-limited messages. Requests carry an API key as a bearer token; " +
		"each route names the scope that the key needs (x-scope). The callbacks of providers carry no key and are signed. Errors are problems (RFC 9457)."
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.CreateHooks = nil
	c.DocsPath, c.SchemasPath, c.OpenAPIPath = "", "", ""
	c.Transformers = []huma.Transformer{translate}
	c.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	c.Info.Contact = &huma.Contact{Name: "The operators of this server"}
	c.Servers = []*huma.Server{{URL: "/", Description: "The server that answers this document."}}
	c.Tags = describedTags()
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":  {Type: "http", Scheme: "bearer", Description: "An API key: car_…"},
		signed: signatureScheme(),
	}
	return c
}

func problemResponse() *huma.Response {
	return &huma.Response{
		Description: "A problem",
		Content:     map[string]*huma.MediaType{client.ProblemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}},
	}
}

// finishDescription adds what is answered without the router: errors and the two plain routes.
func (a *API) finishDescription() {
	doc := a.huma.OpenAPI()
	schemas := doc.Components.Schemas
	add := func(method, path, id, summary string, scope Scope, request, response *huma.Schema) *huma.Operation {
		op := &huma.Operation{
			Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{"events"},
			Security:   []map[string][]string{{"key": {}}},
			Extensions: map[string]any{"x-scope": string(scope)},
			Responses: map[string]*huma.Response{
				"200":     {Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: response}}},
				"default": problemResponse(),
			},
		}
		if request != nil {
			op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: request}}}
		}
		doc.AddOperation(op)
		return op
	}
	answers := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, "") }
	add(http.MethodPost, "/v1/events", "post-events", "Take events in, up to 1,000, or one", ScopeIngest,
		eventsRequest(schemas), answers(reflect.TypeFor[client.EventsAnswer]()))
	for _, op := range []*huma.Operation{
		add(http.MethodPost, surveysTriggersPath+"/ingest", "surveys-ingest", "Take events in, in the words of ADP Surveys", ScopeIngest,
			surveysRequest(schemas), answers(reflect.TypeFor[surveysAnswer]())),
		add(http.MethodPost, surveysTickPath, "surveys-tick", "Run every pass once, in the words of ADP Surveys", ScopeOperate,
			nil, answers(reflect.TypeFor[surveysTick]())),
		add(http.MethodPost, surveysResponsesPath, "surveys-respond", "Answer a survey, in the words of ADP Surveys", ScopeIngest,
			surveysResponse(schemas), answers(reflect.TypeFor[client.Response]())),
	} {
		if op.Tags = []string{tagSurveys}; op.Path == surveysResponsesPath {
			op.Parameters = []*huma.Param{{
				Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(100)}, Description: "The publicId of the instance, as it was answered.",
			}}
		}
	}
	person := schemas.Schema(reflect.TypeFor[client.ContactInput](), true, "")
	known := schemas.Schema(reflect.TypeFor[client.Contact](), true, "")
	id := &huma.Param{Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(256)}, Description: "Your id of the person."}
	for _, op := range []*huma.Operation{
		add(http.MethodPost, contactsPath, "post-contacts", "Make and change contacts, up to 1,000; what is not mentioned stays", ScopeIngest, batchOf(schemas, "ContactBatch", "contacts", "The contacts, each for itself: a bad one fails no other one.", person, client.MaxContacts), schemas.Schema(reflect.TypeFor[client.ContactsAnswer](), true, "")),
		add(http.MethodPut, contactsPath+"/{id}", "put-contact", "Make a contact, or have it be this and nothing else", ScopeIngest, person, known),
		add(http.MethodPatch, contactsPath+"/{id}", "change-contact", "Change what is mentioned of a contact; null takes a value away", ScopeIngest, person, known),
	} {
		op.Tags = []string{"contacts"}
		if op.Method != http.MethodPost {
			op.Parameters = []*huma.Param{id}
		}
	}
	describeCallbacks(doc)
	a.describeRecords(add)
	a.describeTopics(add)
	doc.AddOperation(&huma.Operation{
		Method: http.MethodGet, Path: "/metrics", OperationID: "metrics", Summary: "The numbers of this process, for Prometheus",
		Description: "They count all workspaces together. With --metrics-listen they are also answered without a key, at an address of their own.",
		Tags:        []string{"metrics"}, Security: []map[string][]string{{"key": {}}}, Extensions: map[string]any{"x-scope": string(ScopeMetrics)},
		Responses: map[string]*huma.Response{
			"200":     {Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
			"default": problemResponse(),
		},
	})
	schemas.Schema(reflect.TypeFor[client.Problem](), true, "")
	for _, r := range a.routes {
		item := doc.Paths[r.Path]
		if item == nil || r.Repeatable || r.Signed {
			continue
		}
		for method, op := range map[string]*huma.Operation{
			http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if op != nil && method == r.Method {
				op.Parameters = append(op.Parameters, idempotencyKey())
			}
		}
	}
	finishAnswers(schemas)
	describeOperations(doc)
	a.addExamples()
	a.addProblems()
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	openAnswers(doc)
	describeObjects(schemas)
	describeHeaders(doc)
}

func idempotencyKey() *huma.Param {
	return &huma.Param{
		Name: client.IdempotencyKey, In: "header",
		Description: "The same key with the same request is answered as the first time, for 24 hours, and does nothing again.",
		Schema:      &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxIdempotencyKey), Pattern: `^[!-~]+$`},
	}
}

// Description is the OpenAPI document as JSON.
func (a *API) Description() ([]byte, error) { return json.MarshalIndent(a.huma.OpenAPI(), "", "  ") }

func (a *API) serveDescription(w http.ResponseWriter, r *http.Request) {
	raw, err := a.Description()
	if err != nil {
		writeProblem(w, a.problem(r.Context(), err))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
	_, _ = w.Write(raw)
}
