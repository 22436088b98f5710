package loader

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/suggest"
)

// message reads a message: its own texts, a template's, or a survey's invitation. The channels are already known, so a message
// without a text for one of them is refused here and not when it is sent.
func (r *reader) message(n *portable.Node, set *definition.Set, channels ...string) definition.Message {
	f, ok := r.fields(n, "message")
	if !ok {
		return definition.Message{}
	}
	before, about := len(r.problems), r.about
	defer func() { r.about = about }()
	data := r.data(f.get("data"), set)
	r.about.data, r.about.anyData = data, about.anyData || len(r.problems) > before
	m, metadata := r.texts(f), r.metadata(f.get("metadata"))
	template, survey, mode := f.get("template"), f.get("survey"), f.get("mode")
	converses := r.word(mode, "mode", modeLink, []string{modeLink, modeConversation}) == modeConversation
	switch {
	case template != nil && survey != nil || template != nil && len(m.ByKind) > 0:
		r.invalid(n.Pos, "a message has a template, a survey or texts of its own", "keep one of them")
	case survey != nil && len(m.ByKind) > 0:
		for _, kind := range addressKinds() {
			if own := f.get(kind); own != nil {
				r.report(definition.CodeNotSupportedYet, own.Pos, "texts beside a survey are not supported yet", "the survey's invitation is sent")
			}
		}
	case template != nil:
		m = r.templateRef(template, set)
		r.fits(template.Pos, "template "+template.Text, m.Variables(), r.about)
	case survey != nil && len(data) > 0:
		r.invalid(f.get("data").Pos, "an invitation reads no data", "remove it, or write texts with a link of your own")
	case survey != nil:
		m = r.surveyRef(survey, set, converses)
		m.Metadata = metadata
		if converses {
			r.conversing(mode.Pos, channels)
			r.answerable(survey.Pos, set.Survey(m.Survey), channels, set)
		}
		return m
	case mode != nil:
		r.invalid(mode.Pos, "mode says how a survey is asked, and there is no survey", "")
	case len(m.ByKind) == 0 && !f.node.Partial && len(n.Fields) == len(f.values):
		r.report(definition.CodeMissing, n.Pos, "this message says nothing", "write texts for the channel, or template: NAME, or survey: NAME")
	}
	if m.Survey == "" && !r.stored && slices.Contains(m.Variables(), "survey.link") {
		r.warn(definition.CodeNoPage, n.Pos, "survey.link leads nowhere: the message asks nothing", "write message: {survey: NAME}, or a link to a form of your own")
	}
	m.Data, m.Metadata = data, metadata
	for i, channel := range channels {
		r.speaks(n, m, channel, i > 0)
	}
	return m
}

// speaks checks that a message has texts for the kind of its channel.
func (r *reader) speaks(n *portable.Node, m definition.Message, channel string, fallback bool) {
	kind, _, _ := strings.Cut(channel, ":")
	if r.stored || len(m.ByKind) == 0 || !slices.Contains(addressKinds(), kind) {
		return
	}
	if _, ok := m.ByKind[kind]; ok {
		return
	}
	how := "by which it leaves"
	if fallback {
		how = "to which it falls back"
	}
	r.report(definition.CodeMissing, n.Pos, fmt.Sprintf("this message has no texts for %s, %s", kind, how), fmt.Sprintf("write %s: below it", kind))
}

// texts reads the texts for each kind of channel. A channel of another kind uses the plainest of them.
func (r *reader) texts(f fields) definition.Message {
	m := definition.Message{ByKind: map[string]definition.Texts{}}
	for _, kind := range []string{"inbox", "push", "email", "whatsapp", "sms", "webhook"} {
		n := f.get(kind)
		if n == nil {
			continue
		}
		if n.Kind == portable.Broken { // the message has a text
			m.ByKind[kind] = definition.Texts{}
			continue
		}
		own, ok := r.fields(n, kind)
		if !ok {
			m.ByKind[kind] = definition.Texts{}
			continue
		}
		r.need(own)
		t := definition.Texts{
			Subject: r.localized(own.get("subject"), message.Plain),
			Text:    r.localized(own.get("text"), message.Plain),
			HTML:    r.localized(own.get("html"), message.HTML),
		}
		if kind == "webhook" {
			r.webhook(own, &t)
		}
		if kind == "email" {
			r.email(own, &t)
		}
		if len(m.ByKind) == 0 {
			m.Default = t
		}
		m.ByKind[kind] = t
	}
	return m
}

// webhook reads the keys that only webhooks have: text and body are synonyms.
func (r *reader) webhook(f fields, t *definition.Texts) {
	switch body := f.get("body"); {
	case body != nil && f.get("text") != nil:
		r.invalid(body.Pos, "body and text are the same", "keep text: it is text of the request's data")
	case body != nil:
		t.Text = r.localized(body, message.Plain)
	case f.get("text") == nil && !f.node.Partial:
		r.report(definition.CodeMissing, f.node.Pos, "webhook needs text", "the request is JSON: what text says is data.text, what subject says is data.subject")
	}
}

// email reads the keys that only emails have.
func (r *reader) email(f fields, t *definition.Texts) {
	switch markdown := f.get("markdown"); {
	case markdown != nil && (f.get("text") != nil || f.get("html") != nil):
		r.invalid(markdown.Pos, "markdown stands for text and html", "keep markdown, or write text and html")
	case markdown != nil:
		t.HTML = r.localized(markdown, message.Markdown)
		t.Text = t.HTML.As(message.Plain)
	case f.get("text") == nil && f.get("html") == nil && !f.node.Partial:
		r.report(definition.CodeMissing, f.node.Pos, "email needs text, html or markdown", "")
	}
	t.From, t.ReplyTo = r.mailbox(f.get("from")), r.mailbox(f.get("reply_to"))
	headers := f.get("headers")
	if headers == nil || headers.Kind == portable.Broken {
		return
	}
	if headers.Kind != portable.Map {
		r.wrong(headers, "a map of headers", "")
		return
	}
	t.Headers = make(map[string]message.Text, len(headers.Fields))
	seen := map[string]bool{}
	for _, h := range headers.Fields {
		name := h.Key.Text
		if err := message.CheckHeader(name); err != nil {
			r.refuse(h.Key, err)
			continue
		}
		if seen[strings.ToLower(name)] {
			r.invalid(h.Key.Pos, fmt.Sprintf("the header %s is there twice", name), "")
			continue
		}
		seen[strings.ToLower(name)] = true
		t.Headers[name] = r.localized(h.Value, message.Plain)
	}
}

// maxMetadata is how many values of metadata a message may have.
const maxMetadata = 50

var metadataName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,39}$`)

// metadata reads the values that go with a message to its provider.
func (r *reader) metadata(n *portable.Node) map[string]message.Text {
	switch {
	case n == nil || n.Kind == portable.Broken:
		return nil
	case n.Kind != portable.Map:
		r.wrong(n, "a map of values by name", "write it like {campaign: spring}")
		return nil
	case len(n.Fields) == 0 && !n.Partial:
		r.invalid(n.Pos, "the metadata is empty", "write it like {campaign: spring}, or remove it")
	case len(n.Fields) > maxMetadata:
		r.invalid(n.Fields[maxMetadata].Key.Pos, fmt.Sprintf("a message has at most %d values of metadata", maxMetadata), "")
		return nil
	}
	values := make(map[string]message.Text, len(n.Fields))
	for _, f := range n.Fields {
		if !metadataName.MatchString(f.Key.Text) {
			r.invalid(f.Key.Pos, fmt.Sprintf("%q is not the name of metadata", f.Key.Text), "a name has up to 40 letters, digits and _, and begins with a letter")
			continue
		}
		values[f.Key.Text] = r.localized(f.Value, message.Plain)
	}
	return values
}

// mailbox reads a template of an address with or without a name. A template without variables is checked now.
func (r *reader) mailbox(n *portable.Node) message.Text {
	text := r.localized(n, message.Plain)
	text.Templates(func(_ string, t *message.Template) {
		if strings.Contains(t.Source(), "{") {
			return
		}
		if _, err := message.ParseMailbox(strings.TrimSpace(t.Source())); err != nil {
			r.refuse(n, err)
		}
	})
	return text
}

func (r *reader) templateRef(n *portable.Node, set *definition.Set) definition.Message {
	name, ok := r.defName(n)
	if !ok {
		return definition.Message{}
	}
	m, ok := r.templates[name]
	if !ok {
		r.unresolved(reference{definition.KindTemplate, name, name}, n.Pos, r.undefined(definition.KindTemplate, name), false)
	}
	return m
}

// surveyRef reads the name of a survey; an undefined survey may be added later (C44).
func (r *reader) surveyRef(n *portable.Node, set *definition.Set, converses bool) definition.Message {
	name, ok := r.defName(n)
	if !ok {
		return definition.Message{}
	}
	switch survey := set.Survey(name); {
	case survey == nil:
		r.unresolved(reference{definition.KindSurvey, name, name}, n.Pos, r.undefined(definition.KindSurvey, name), true)
	case converses:
		if len(survey.Form.Questions) > 0 {
			r.fits(n.Pos, "survey "+name, survey.Spoken(), r.about)
		}
		return definition.Message{Survey: name, Converses: true}
	case survey.Invitation.Text.IsZero() && !r.brokenInvitation[name]:
		r.report(definition.CodeReference, n.Pos, fmt.Sprintf("survey %s has no invitation", name), "write invitation: with a text")
	}
	if survey := set.Survey(name); survey != nil {
		r.fits(n.Pos, "the invitation of survey "+name, survey.Invitation.Variables(), r.about)
	}
	return definition.Message{Survey: name, Converses: converses}
}

// reference reads the name of a definition, and returns it also as written.
type reference struct {
	kind          definition.Kind
	name, written string
}

// unresolved reports a name that is not defined, or is about to be removed.
func (r *reader) unresolved(ref reference, at portable.Pos, hint string, warning bool) {
	kind := strings.ReplaceAll(string(ref.kind), "_", " ")
	if r.removed[definition.Ref{Kind: ref.kind, Name: ref.name}] {
		r.report(definition.CodeNeeded, at, fmt.Sprintf("it needs %s %s, which would be deleted", kind, ref.name),
			fmt.Sprintf("have it need another one first, or keep %s %s", kind, ref.name))
		return
	}
	if r.unread[ref.kind] || r.unread[""] {
		return // it may be the one whose name could not be read
	}
	message := fmt.Sprintf("no %s named %q", kind, ref.written)
	if ref.kind == definition.KindSink {
		message += ", so this route leads nowhere: no outcome is kept for a sink that is defined later"
	}
	r.report(definition.CodeReference, at, message, hint)
	if warning {
		r.problems[len(r.problems)-1].Warning = true
	}
}

// undefined returns the hint for a name that is not defined.
func (r *reader) undefined(kind definition.Kind, name string) string {
	if hint := suggest.DidYouMean(name, r.defined(kind)); hint != "" {
		return hint
	}
	return fmt.Sprintf("define it with %s: %s", kind, name)
}

// templateDocument reads a template's texts.
func (r *reader) templateDocument(root *portable.Node) definition.Message {
	f, ok := r.fields(root, "template")
	if !ok {
		return definition.Message{}
	}
	m := r.texts(f)
	if len(m.ByKind) == 0 && !f.node.Partial && len(f.values) == 1 {
		r.report(definition.CodeMissing, root.Pos, fmt.Sprintf("template %s says nothing", r.name), "write email:, sms: or another kind of channel with its texts")
	}
	return m
}
