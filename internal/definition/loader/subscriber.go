package loader

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
)

// lintSubscribers warns about mail to subscribers for which mail programs offer no unsubscribe button: they do so for an HTTPS link in a mail whose
// signature (DKIM) covers its headers (RFC 8058, section 4).
func (l *loader) lintSubscribers(set *definition.Set) {
	mail := map[string]bool{} // the channels by which subscribers get mail
	for _, w := range set.Workflows() {
		for t := range w.Forms() {
			if len(t.Audience) == 0 || slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return a.Topics == "" }) {
				continue
			}
			for _, name := range append([]string{t.Channel}, t.Fallback...) {
				if c := set.Channel(name); c != nil && c.Kind == kindEmail {
					mail[name] = true
				}
			}
		}
	}
	if len(mail) == 0 {
		return
	}
	l.each(definition.KindWorkspace, func(r *reader, s *source) {
		if n := s.root.Get("base_url"); n != nil && insecure(set.Workspace.BaseURL) {
			r.warn(definition.CodeLint, n.Pos, "mail programs offer no unsubscribe button for links without HTTPS (RFC 8058)", "begin base_url with https://")
		}
	})
	l.each(definition.KindChannel, func(r *reader, s *source) {
		c := set.Channel(s.document.Name)
		if c == nil || !mail[c.Key] || c.Provider != providerSMTP {
			return
		}
		if _, signs := c.Settings["dkim_domain"]; !signs {
			r.warn(definition.CodeLint, s.nameAt, fmt.Sprintf("subscribers get mail by channel %s, which does not sign it (DKIM): mail programs offer no unsubscribe button for it", s.document.Name),
				"set dkim_domain, dkim_selector and dkim_key, unless the mail server signs List-Unsubscribe and List-Unsubscribe-Post itself")
		}
	})
}

// lintConfirm warns about topics to which nobody can subscribe: they demand a confirmation, and no workflow asks for it.
func (l *loader) lintConfirm(set *definition.Set) {
	for _, w := range set.Workflows() {
		for _, t := range w.Trigger {
			if on := t.OnEvent(); on != nil && on.Kind == definition.SubscriptionRequested {
				return
			}
		}
	}
	l.each(definition.KindTopic, func(r *reader, s *source) {
		if of := set.Topic(s.document.Name); of != nil && of.Confirm {
			r.warn(definition.CodeLint, s.nameAt,
				fmt.Sprintf("nobody is asked to confirm a subscription to topic %s: no trigger listens to %s, so none ever begins", of.Name, definition.SubscriptionRequested),
				"add a workflow with triggers: {id: asked, event: "+definition.SubscriptionRequested+"} and {{ confirm_link }} in its message")
		}
	})
}

const (
	kindEmail    = "email"
	providerSMTP = "smtp"
)

// insecure reports whether links that begin so are read by others on their way. Those to the machine itself are not.
func insecure(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !addr.IsLoopback())
}
