package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/suggest"
	"github.com/carillonhq/carillon/internal/survey"
)

// survey reads a form and the invitation to it.
func (r *reader) survey(root *portable.Node) *definition.Survey {
	s := &definition.Survey{Name: r.name}
	f, _ := r.fields(root, "survey")
	r.need(f)
	s.Form.Title = r.localized(f.get("title"), message.Plain)
	if n := f.get("invitation"); n != nil {
		before := len(r.problems)
		if own, ok := r.fields(n, "invitation"); ok {
			r.need(own)
			s.Invitation = definition.Texts{Subject: s.Form.Title, Text: r.localized(own.get("text"), message.Plain)}
			r.linked(own.get("text"), s.Invitation.Text)
		}
		r.brokenInvitation[s.Name] = n.Kind == portable.Broken || len(r.problems) > before
	}
	s.Conversation = r.conversation(f.get("conversation"))
	ids := map[string]bool{}
	for _, n := range r.items(f.get("questions")) {
		if q, ok := r.question(n, ids); ok {
			s.Form.Questions = append(s.Form.Questions, q)
		}
	}
	return s
}

// linked warns about an invitation that does not lead to the survey, in each language that it is written in.
func (r *reader) linked(n *portable.Node, text message.Text) {
	if n == nil || r.stored {
		return
	}
	text.Templates(func(locale string, t *message.Template) {
		if slices.ContainsFunc(t.Variables(), func(path string) bool { return strings.HasPrefix(path, "survey.") }) { // another field is refused
			return
		}
		at, of := n.Pos, "the invitation"
		if own := n.Get(locale); locale != "" && own != nil {
			at, of = own.Pos, "the invitation in "+locale
		}
		r.warn(definition.CodeLint, at, of+" does not lead to the survey", "write {{ survey.link }} where the link belongs")
	})
}

// question reads one question. Its conditions may read the answers to those before it.
func (r *reader) question(n *portable.Node, ids map[string]bool) (survey.Question, bool) {
	f, ok := r.fields(n, "question")
	if !ok {
		return survey.Question{}, false
	}
	r.need(f)
	q := survey.Question{
		Type: survey.Type(r.word(f.get("type"), "type", "", questionTypes())), Text: r.localized(f.get("text"), message.Plain),
		Required: r.bool(f.get("required"), false), Min: r.number(f.get("min")), Max: r.number(f.get("max")),
		MaxLength: r.count(f.get("max_length")), Pattern: r.pattern(f.get("pattern")), Options: r.options(f.get("options")),
	}
	q.ShowWhen = r.answerCondition(f.get("show_when"), ids)
	if id := f.get("id"); id != nil {
		q.ID, _ = r.slug(id)
		if q.ID != "" && ids[q.ID] {
			r.report(definition.CodeDuplicate, id.Pos, fmt.Sprintf("there are two questions %s", q.ID), "")
		}
		ids[q.ID] = true
	}
	q.ValidWhen = r.answerCondition(f.get("valid_when"), ids)

	for key, types := range map[string][]survey.Type{
		"options": {survey.Choice, survey.Multiple}, "min": {survey.Number, survey.Rating}, "max": {survey.Number, survey.Rating},
		"max_length": {survey.FreeText}, "pattern": {survey.FreeText},
	} {
		if own := f.get(key); own != nil && q.Type != "" && !slices.Contains(types, q.Type) {
			r.invalid(own.Pos, fmt.Sprintf("%s is not for questions of type %s", key, q.Type), "it is for "+sentence(words(types)))
		}
	}
	required := map[survey.Type][]string{survey.Choice: {"options"}, survey.Multiple: {"options"}, survey.Rating: {"min", "max"}}[q.Type]
	lacking := slices.DeleteFunc(required, func(key string) bool { return f.get(key) != nil })
	if len(lacking) > 0 && !f.node.Partial {
		r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("a question of type %s needs %s", q.Type, sentence(lacking)), "")
	}
	if q.Min != nil && q.Max != nil && *q.Min >= *q.Max {
		r.invalid(f.get("max").Pos, "max must be greater than min", "")
	}
	return q, true
}

func (r *reader) options(n *portable.Node) []survey.Option {
	var all []survey.Option
	seen := map[string]bool{}
	for _, item := range r.items(n) {
		f, ok := r.fields(item, "option")
		if !ok {
			continue
		}
		r.need(f)
		value, _ := r.text(f.get("value"))
		if value != "" && seen[value] {
			r.report(definition.CodeDuplicate, f.get("value").Pos, fmt.Sprintf("there are two options %s", value), "")
		}
		seen[value] = true
		all = append(all, survey.Option{Value: value, Text: r.localized(f.get("text"), message.Plain)})
	}
	return all
}

// answerCondition reads a condition on answers and checks that their questions come before it.
func (r *reader) answerCondition(n *portable.Node, ids map[string]bool) *expr.Condition {
	c := r.condition(n, expr.Scope{Answers: true, Event: true, Contact: true, Vars: true, Workspace: true, Now: true})
	for _, path := range c.Paths() {
		if len(path) < 2 || path[0] != "answers" || ids[path[1]] {
			continue
		}
		var known []string
		for id := range ids {
			known = append(known, id)
		}
		r.report(definition.CodeReference, n.Pos, fmt.Sprintf("no question %q comes before this one", path[1]), suggest.DidYouMean(path[1], known))
	}
	return c
}
