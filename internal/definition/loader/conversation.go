package loader

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/survey"
)

// The values of message.mode.
const (
	modeLink         = "link"
	modeConversation = "conversation"
)

// The values of conversation.partial.
const (
	partialSubmit = "submit"
	partialDrop   = "drop"
)

// conversation reads how a survey is asked by messages.
func (r *reader) conversation(n *portable.Node) survey.Conversation {
	var c survey.Conversation
	if n == nil {
		return c
	}
	f, ok := r.fields(n, "conversation")
	if !ok {
		return c
	}
	r.need(f)
	c.Invalid, c.Closing = r.localized(f.get("invalid"), message.Plain), r.localized(f.get("closing"), message.Plain)
	c.Reminders = r.durations(f.get("reminders"))
	if own := f.get("expire_after"); own != nil {
		c.ExpireAfter, _ = r.duration(own)
	}
	c.Drop = r.word(f.get("partial"), "partial", partialSubmit, []string{partialSubmit, partialDrop}) == partialDrop
	end := schedule.DefaultExpireAfter
	if !c.ExpireAfter.IsZero() {
		end = c.ExpireAfter.Exact()
	}
	var last time.Duration
	for _, wait := range c.Reminders {
		last += wait.Exact()
	}
	if last >= end {
		r.invalid(f.get("reminders").Pos, fmt.Sprintf("the last reminder comes after %s, when the conversation has ended", civil.Duration{Clock: last}), "its reminders together must be shorter than expire_after")
	}
	return c
}

// conversing checks that people can reply on the channels of a conversation.
func (r *reader) conversing(at portable.Pos, channels []string) {
	if r.stored {
		return
	}
	for _, channel := range channels {
		kind, _, _ := strings.Cut(channel, ":")
		if channel != "" && !slices.Contains(repliedKinds(), kind) {
			r.invalid(at, fmt.Sprintf("people cannot reply on %s", kind), "ask on "+alternatives(repliedKinds())+", or by a page: mode: link")
		}
	}
}

// inboundSecret is the setting without which the channels of a provider that has it take no replies.
const inboundSecret = "inbound_secret"

// lintReplies warns about channels on which a survey is asked by messages, and by which no reply can come in.
func (l *loader) lintReplies(set *definition.Set) {
	if l.stored {
		return
	}
	warned := map[string]bool{}
	l.each(definition.KindWorkflow, func(r *reader, s *source) {
		w := set.Workflow(s.document.Name)
		if w == nil {
			return
		}
		for t := range w.Forms() {
			if !t.Message.Converses {
				continue
			}
			for _, key := range append([]string{t.Channel}, t.Fallback...) {
				if warned[key] || !l.deaf(set.Channel(key)) {
					continue
				}
				warned[key] = true
				by, at := r, l.triggerAt[t]
				if own := l.byName[definition.Ref{Kind: definition.KindChannel, Name: key}]; own != nil && !isInForce(own.document.File) {
					by, at = l.reader(own), own.root.Pos
				}
				by.warn(definition.CodeLint, at, fmt.Sprintf("workflow %s asks by conversation on channel %s, which takes no replies: it has no %s", w.Name, key, inboundSecret),
					fmt.Sprintf("write %s: {secret: NAME} in its settings", inboundSecret))
			}
		}
	})
}

// deaf reports whether a channel takes no replies because it has no secret for them. Providers without that setting have another way, or none outside of tests.
func (l *loader) deaf(c *definition.Channel) bool {
	if c == nil {
		return false
	}
	if _, given := c.Settings[inboundSecret]; given {
		return false
	}
	return slices.ContainsFunc(l.opts.Providers, func(p definition.ProviderInfo) bool {
		return p.Name == c.Provider && slices.ContainsFunc(p.Settings, func(s definition.SettingInfo) bool { return s.Name == inboundSecret })
	})
}

// answerable warns about options that people do not choose by writing their text.
func (r *reader) answerable(at portable.Pos, s *definition.Survey, channels []string, set *definition.Set) {
	if s == nil || r.stored {
		return
	}
	for i := range s.Form.Questions {
		q := s.Form.Questions[i]
		for n, o := range q.Options {
			of := fmt.Sprintf("option %d of question %s in survey %s", n+1, q.ID, s.Name)
			o.Text.Templates(func(locale string, t *message.Template) {
				text, err := t.Render(nil, message.Limits{})
				if err != nil || strings.TrimSpace(text) == "" { // it depends on the occasion
					return
				}
				if channel, keyword := keywordOf(text, cmp.Or(locale, set.Workspace.Locale), channels, set); keyword != "" {
					r.warn(definition.CodeLint, at, fmt.Sprintf("nobody chooses %s by its text: %q is the keyword %s", of, text, keyword),
						fmt.Sprintf("people choose it by its number, %d; write another text, or other keywords in channel %s", n+1, channel))
					return
				}
				if means := q.Named(text, locale); means != n {
					r.warn(definition.CodeLint, at, fmt.Sprintf("nobody chooses %s by its text: the reply %q is %s", of, text, otherwise(means)),
						fmt.Sprintf("people choose it by its number, %d; write another text", n+1))
					return
				}
				if !q.Required && survey.Skips(text, locale) {
					r.warn(definition.CodeLint, at, fmt.Sprintf("the reply %q leaves no question out here: it is %s", text, of), "write another text for the option")
				}
			})
		}
	}
}

// otherwise says what a reply is that chooses another option than that of its text.
func otherwise(option int) string {
	if option < 0 {
		return "the text of no option, or of two"
	}
	return fmt.Sprintf("the number of option %d", option+1)
}

// keywordOf returns the keyword that a text is on one of the channels.
func keywordOf(text, locale string, channels []string, set *definition.Set) (channel string, keyword reply.Keyword) {
	for _, key := range channels {
		var own reply.Words
		if c := set.Channel(key); c != nil {
			own = c.Keywords
		}
		if k := reply.Find(text, locale, own); k != "" {
			return key, k
		}
	}
	return "", ""
}

// repliedKinds are the kinds of channels on which people reply.
func repliedKinds() []string { return []string{"sms", "whatsapp"} }

// reminded refuses what a message cannot have whose survey is asked by messages.
func (r *reader) reminded(n *portable.Node, t *definition.Trigger) {
	if !t.Message.Converses {
		return
	}
	if len(t.Timing.Reminders) > 0 {
		r.invalid(n.Get("reminders").Pos, "the questions of a conversation have reminders of their own", "write them in the survey: conversation: {reminders: [6h]}")
	}
	if t.Timing.AcceptLate {
		r.invalid(n.Get("accept_late").Pos, "a conversation that has ended takes no reply", "remove accept_late, or ask by a page: mode: link")
	}
}
