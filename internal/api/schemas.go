package api

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

// The schemas of the description say one thing for requests and another for answers. A request is closed: a key that is not
// known is refused, so that a misspelt one is found. An answer is open: a later version may answer more, and clients that
// were made from this document go on. A type that travels both ways has two schemas.

// inputSuffix names the schema of a request beside one of the same type that answers use.
const inputSuffix = "Input"

// component registers a schema under a name and refers to it.
func component(schemas huma.Registry, name string, s *huma.Schema) *huma.Schema {
	schemas.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// closed is an object of a request.
func closed(description string, required []string, properties map[string]*huma.Schema) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: description, AdditionalProperties: false, Required: required, Properties: properties}
}

// fields is an object with fields of the caller's own.
func fields(description string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: description, AdditionalProperties: true}
}

func described(s *huma.Schema, description string) *huma.Schema {
	s.Description = description
	return s
}

// batchOf registers the body of a route that takes many items under one key.
func batchOf(schemas huma.Registry, name, key, description string, item *huma.Schema, most int) *huma.Schema {
	return component(schemas, name, closed("", []string{key}, map[string]*huma.Schema{
		key: {Type: huma.TypeArray, Items: item, MaxItems: &most, Description: description},
	}))
}

// eventsRequest is the body of POST /v1/events: many events, or one.
func eventsRequest(schemas huma.Registry) *huma.Schema {
	event := schemas.Schema(reflect.TypeFor[client.Event](), true, "")
	schemas.SchemaFromRef(event.Ref).Properties["payload"] = fields("Fields of your own.")
	batch := batchOf(schemas, "EventBatch", "events", "The events, each for itself: a bad one fails no other one.", event, client.MaxEvents)
	return component(schemas, "EventsRequest", &huma.Schema{
		Description: "Many events in a list, or one event by itself.", OneOf: []*huma.Schema{batch, {Ref: event.Ref}},
	})
}

// surveysResponse is the body of a response in the words of ADP Surveys.
func surveysResponse(schemas huma.Registry) *huma.Schema {
	return component(schemas, "SurveysResponse", closed("", []string{"answers"}, map[string]*huma.Schema{
		"answers": fields("The answers, by the id of the question."),
		"agentId": {Type: huma.TypeString, MaxLength: new(200), Description: "Who answers on the person's behalf."},
	}))
}

// surveysRequest is the body of the ingest in the words of ADP Surveys. Its items are open: that system passes over keys
// that it does not know, and so does this route.
func surveysRequest(schemas huma.Registry) *huma.Schema {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MaxLength: new(256), Description: description}
	}
	recipient := component(schemas, "SurveysRecipient", &huma.Schema{Type: huma.TypeObject, Required: []string{"address"}, Properties: map[string]*huma.Schema{
		"address":     text("Telephone number, e-mail address …"),
		"locale":      text("The language they read, such as ar or en-GB."),
		"customerRef": text("Your id of the person."),
	}})
	item := component(schemas, "SurveysRequestItem", &huma.Schema{Type: huma.TypeObject, Required: []string{"payload", "recipient"}, Properties: map[string]*huma.Schema{
		"payload":    fields("What happened, in fields of your own: candidate.NAME in a recipe or filter."),
		"occurredAt": {Type: huma.TypeString, Format: "date-time", Description: "When it happened; the time of receipt when absent."},
		"recipient":  described(recipient, "The person who gets the survey."),
	}})
	return component(schemas, "SurveysRequest", closed("", []string{"eventKind", "items"}, map[string]*huma.Schema{
		"eventKind": text("What happened, such as service-visit-closed."),
		"items":     {Type: huma.TypeArray, MaxItems: new(client.MaxEvents), Items: item, Description: "The events, each for itself: a bad one fails no other one."},
	}))
}

// finishAnswers describes what the types of answers do not say by themselves.
func finishAnswers(schemas huma.Registry) {
	all := schemas.Map()
	all["EventDetail"].Properties["payload"] = fields(all["EventDetail"].Properties["payload"].Description)
	survey := all["SurveysInstance"].Properties
	survey["surveyId"] = described(component(schemas, "SurveyId", &huma.Schema{
		Description: "A number where the ext_id of the workflow is one, else a text.",
		OneOf:       []*huma.Schema{{Type: huma.TypeInteger, Format: "int64"}, {Type: huma.TypeString}},
	}), survey["surveyId"].Description)
	survey["publicId"].Format = "uuid"
}

// openAnswers opens the objects of answers and gives requests closed copies of those that they share with answers. Lists
// are never null.
func openAnswers(doc *huma.OpenAPI) {
	all := doc.Components.Schemas.Map()
	asked, answered := reach{all, map[string]bool{}}, reach{all, map[string]bool{}}
	eachOperation(doc, func(op *huma.Operation) {
		if op.RequestBody != nil {
			asked.contents(op.RequestBody.Content)
		}
		for _, r := range op.Responses {
			answered.contents(r.Content)
		}
	})
	twin := map[string]string{}
	for name := range asked.seen {
		if answered.seen[name] {
			twin[name] = name + inputSuffix
		}
	}
	// Copies are made before anything is opened, so that they stay closed.
	made := map[string]*huma.Schema{}
	for name := range asked.seen {
		if into, both := twin[name]; both {
			made[into] = renamed(all[name], twin)
		} else {
			made[name] = renamed(all[name], twin)
		}
	}
	eachOperation(doc, func(op *huma.Operation) {
		if op.RequestBody == nil {
			return
		}
		for _, content := range op.RequestBody.Content {
			content.Schema = renamed(content.Schema, twin)
		}
	})
	for name := range answered.seen {
		if s := all[name]; s.Type == huma.TypeObject && len(s.Properties) > 0 {
			s.AdditionalProperties = nil
		}
	}
	maps.Copy(all, made)
	for _, s := range all {
		eachSchema(s, func(s *huma.Schema) { s.Nullable = s.Nullable && s.Type != huma.TypeArray })
	}
}

// reach gathers the names of the schemas that can be reached from others.
type reach struct {
	all  map[string]*huma.Schema
	seen map[string]bool
}

func (r reach) contents(contents map[string]*huma.MediaType) {
	for _, content := range contents {
		r.from(content.Schema)
	}
}

func (r reach) from(s *huma.Schema) {
	eachSchema(s, func(s *huma.Schema) {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok && !r.seen[name] {
			r.seen[name] = true
			r.from(r.all[name])
		}
	})
}

// eachSchema calls f for a schema and for those inside of it, not for those that it refers to.
func eachSchema(s *huma.Schema, f func(*huma.Schema)) {
	if s == nil {
		return
	}
	f(s)
	eachSchema(s.Items, f)
	for _, one := range s.Properties {
		eachSchema(one, f)
	}
	for _, one := range s.OneOf {
		eachSchema(one, f)
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		eachSchema(values, f)
	}
}

// renamed is a copy that refers to twins, or the schema itself where it refers to none.
func renamed(s *huma.Schema, twin map[string]string) *huma.Schema {
	if s == nil {
		return nil
	}
	out := *s
	if name, ok := twin[strings.TrimPrefix(s.Ref, "#/components/schemas/")]; ok && s.Ref != "" {
		out.Ref = "#/components/schemas/" + name
	}
	out.Items = renamed(s.Items, twin)
	out.Properties = maps.Clone(s.Properties)
	for name, one := range out.Properties {
		out.Properties[name] = renamed(one, twin)
	}
	out.OneOf = slices.Clone(s.OneOf)
	for i, one := range out.OneOf {
		out.OneOf[i] = renamed(one, twin)
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		out.AdditionalProperties = renamed(values, twin)
	}
	return &out
}
