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
