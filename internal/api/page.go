package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

// The page at /docs shows the description to people. It is written by the server, loads nothing from elsewhere, and
// runs no script; its colours and letters are the console's.

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle []byte

// pagePolicy lets the page load two stylesheets and an icon of this server, and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type page struct {
	Version string
	Intro   string
	Groups  []pageGroup
	Objects []pageObject
	Common  []client.Code // of every route
	Codes   []client.Code
}

type pageGroup struct {
	Name   string
	Routes []pageRoute
}

type pageRoute struct {
	ID, Method, Path, Summary, Description, Scope string
	Parameters                                    []pageField
	Body                                          []span
	Answer                                        []span
	AnswerText                                    string
	Codes                                         []client.Code
	Curl                                          string
}

type pageObject struct {
	Name   string
	Text   string
	OneOf  []span
	Fields []pageField
}

type pageField struct {
	Name     string
	In       string
	Type     []span
	Required bool
	Text     string
	Bounds   string
}

// span is a piece of a type's name; one that names an object leads to it.
type span struct{ Text, Object string }

// page gathers what the page shows, in the order of the routes.
func (a *API) page() page {
	doc := a.huma.OpenAPI()
	p := page{Version: a.Version, Intro: doc.Info.Description, Common: commonCodes(), Codes: client.Codes()}
	places := map[string]int{}
	for _, r := range a.routes {
		op := operationOf(doc, r)
		if op == nil {
			continue
		}
		name := groupOf(op)
		at, ok := places[name]
		if !ok {
			at = len(p.Groups)
			places[name] = at
			p.Groups = append(p.Groups, pageGroup{Name: name})
		}
		p.Groups[at].Routes = append(p.Groups[at].Routes, routeOf(op, r))
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name]
		object := pageObject{Name: name, Text: s.Description, Fields: fieldsOf(s)}
		if len(s.OneOf) > 0 {
			object.OneOf = typeOf(s)
		}
		p.Objects = append(p.Objects, object)
	}
	return p
}

func operationOf(doc *huma.OpenAPI, r Route) (found *huma.Operation) {
	item := doc.Paths[r.Path]
	if item == nil {
		return nil
	}
	switch r.Method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	case http.MethodPatch:
		return item.Patch
	case http.MethodDelete:
		return item.Delete
	}
	return nil
}

func groupOf(op *huma.Operation) string {
	name := op.Tags[0]
	if name == tagSurveys {
		return "In the words of ADP Surveys"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func routeOf(op *huma.Operation, r Route) pageRoute {
	out := pageRoute{
		ID: op.OperationID, Method: r.Method, Path: r.Path, Summary: op.Summary, Description: op.Description, Scope: string(r.Scope),
		Codes: codesOf(op), Curl: curl(op),
	}
	for _, param := range op.Parameters {
		f := fieldOf(param.Name, param.Schema, param.Required)
		f.In = param.In
		if param.Description != "" {
			f.Text = param.Description
		}
		out.Parameters = append(out.Parameters, f)
	}
	if op.RequestBody != nil {
		if content := op.RequestBody.Content["application/json"]; content != nil {
			out.Body = typeOf(content.Schema)
		}
	}
	if op.Responses["204"] != nil {
		out.AnswerText = "204 No Content"
	}
	if ok := op.Responses["200"]; ok != nil {
		for kind, content := range ok.Content {
			out.AnswerText = kind
			if kind == "application/json" {
				out.Answer, out.AnswerText = typeOf(content.Schema), ""
			}
		}
	}
	return out
}

func fieldsOf(s *huma.Schema) []pageField {
	fields := make([]pageField, 0, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		fields = append(fields, fieldOf(name, s.Properties[name], slices.Contains(s.Required, name)))
	}
	return fields
}

func fieldOf(name string, s *huma.Schema, required bool) pageField {
	f := pageField{Name: name, Required: required}
	if s == nil {
		return f
	}
	f.Type, f.Text, f.Bounds = typeOf(s), s.Description, boundsOf(s)
	return f
}

// typeOf is a type in words.
func typeOf(s *huma.Schema) []span {
	word := func(text string) []span { return []span{{Text: text}} }
	if s == nil {
		return word("any")
	}
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return []span{{Text: name, Object: name}}
	case len(s.OneOf) > 0:
		var all []span
		for i, one := range s.OneOf {
			if i > 0 {
				all = append(all, span{Text: ", or "})
			}
			all = append(all, typeOf(one)...)
		}
		return all
	case len(s.Enum) > 0:
		texts := make([]string, len(s.Enum))
		for i, one := range s.Enum {
			texts[i] = fmt.Sprint(one)
		}
		return word(strings.Join(texts, " · "))
	}
	switch s.Type {
	case huma.TypeArray:
		return append(word("list of "), typeOf(s.Items)...)
	case huma.TypeObject:
		if len(s.Properties) == 0 {
			return word("object")
		}
		all := word("{")
		for i, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if i > 0 {
				all = append(all, span{Text: ", "})
			}
			all = append(all, span{Text: name + ": "})
			all = append(all, typeOf(s.Properties[name])...)
		}
		return append(all, span{Text: "}"})
	case huma.TypeString:
		if s.Format == "date-time" {
			return word("instant")
		}
		return word("text")
	case huma.TypeInteger, huma.TypeNumber:
		return word("number")
	case huma.TypeBoolean:
		return word("true or false")
	}
	return word("any")
}

// boundsOf are the bounds of a value in words.
func boundsOf(s *huma.Schema) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case s.MinLength != nil && s.MaxLength != nil:
		add("%d to %d characters", *s.MinLength, *s.MaxLength)
	case s.MaxLength != nil:
		add("at most %d characters", *s.MaxLength)
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		add("%v to %v", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		add("at least %v", *s.Minimum)
	}
	switch {
	case s.MinItems != nil && s.MaxItems != nil:
		add("%d to %d items", *s.MinItems, *s.MaxItems)
	case s.MaxItems != nil:
		add("at most %d items", *s.MaxItems)
	}
	if s.Default != nil {
		add("default %v", s.Default)
	}
	return strings.Join(parts, ", ")
}

// curl is a request as a shell sends it.
func curl(op *huma.Operation) string {
	var b strings.Builder
	b.WriteString("curl ")
	if op.Method != http.MethodGet && (op.RequestBody == nil || op.Method != http.MethodPost) {
		b.WriteString("-X " + op.Method + " ")
	}
	path := op.Path
	for _, param := range op.Parameters {
		if param.In == "path" {
			path = strings.ReplaceAll(path, "{"+param.Name+"}", "$"+strings.ToUpper(param.Name))
		}
	}
	fmt.Fprintf(&b, "\"$CARILLON_SERVER%s\"", path)
	if op.OperationID == takeCallback {
		b.WriteString(" -H \"webhook-id: $ID\" \\\n  -H \"webhook-timestamp: $TIMESTAMP\" -H \"webhook-signature: $SIGNATURE\"")
	} else {
		b.WriteString(" -H \"Authorization: Bearer $CARILLON_KEY\"")
	}
	if op.RequestBody == nil {
		return b.String()
	}
	if content := op.RequestBody.Content["application/json"]; content != nil {
		fmt.Fprintf(&b, " -d '%s'", strings.ReplaceAll(indented(content.Example), "'", `'\''`))
		return b.String()
	}
	for kind := range op.RequestBody.Content {
		fmt.Fprintf(&b, " \\\n  -H 'Content-Type: %s' --data-binary @-", kind)
	}
	return b.String()
}

// servePage registers the page and its stylesheet. Both are made once: the description does not change.
func (a *API) servePage() {
	var text bytes.Buffer
	if err := template.Must(template.New("page").Parse(pageText)).Execute(&text, a.page()); err != nil {
		panic(err) // the template and what it shows are part of the program; a test executes it
	}
	serve := func(path, kind string, content []byte) {
		a.routes = append(a.routes, Route{Method: http.MethodGet, Path: path})
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", kind)
			h.Set("Content-Security-Policy", pagePolicy)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			// A reader who has gone away is no concern of ours.
			_, _ = w.Write(content)
		})
	}
	serve("/docs", "text/html; charset=utf-8", text.Bytes())
	serve("/docs/page.css", "text/css; charset=utf-8", pageStyle)
}
