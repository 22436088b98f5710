package sender

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

// linkValid is how long an unsubscribe link is valid: people look for it in old mails.
const linkValid = 365 * 24 * time.Hour

// manageValid is how long a link to the page where people manage what they follow is valid. It can do more than an unsubscribe link, and mails are
// forwarded; who has an older one can ask for a new one.
const manageValid = 30 * 24 * time.Hour

// The headers of mails to subscribers: RFC 2369, RFC 2919 and RFC 8058.
const (
	headerUnsubscribe = "List-Unsubscribe"
	headerOneClick    = "List-Unsubscribe-Post"
	headerListID      = "List-Id"
	oneClick          = "List-Unsubscribe=One-Click"
)

// leaving is what the unsubscribe link of a message ends; ok is false if it is not to subscribers alone.
func leaving(c delivery.Claim, r admission.Rules, ev store.EventRow) (l topic.Leaving, ok bool) {
	l.Contact = c.Contact
	people := plan.OnlyFollowers(r.Trigger, c.Event)
	switch {
	case len(people) == 0:
		return l, false
	case c.Topic != 0:
		l.Topic = c.Topic
	case r.Trigger.Digest != nil:
		l.Frequency = people[0].Frequency
		return l, l.Frequency != ""
	case plan.ItemFields(ev.Event) != nil:
		l.Item = c.Event
	default:
		return l, false
	}
	return l, true
}

// unsubscribeLink signs a link. It is empty where the server has no public address, or no key for links.
func (s *Sender) unsubscribeLink(workspaceURL string, c delivery.Claim, l topic.Leaving, now time.Time) (string, error) {
	return s.signedLink(workspaceURL, "/u/", key.Link{Purpose: key.LinkUnsubscribe, Workspace: int64(c.Workspace), Subject: l.String(), Expires: now.Add(linkValid).Truncate(24 * time.Hour)})
}

// manageLink signs a link to the page where a contact manages what they follow.
func (s *Sender) manageLink(workspaceURL string, c delivery.Claim, now time.Time) (string, error) {
	return s.signedLink(workspaceURL, "/m/", key.Link{
		Purpose: key.LinkManage, Workspace: int64(c.Workspace), Subject: topic.Managing{Contact: c.Contact}.String(), Expires: now.Add(manageValid).Truncate(time.Hour),
	})
}

// confirmLink signs a link to confirm the subscription that an event is about. It is valid as long as the request is kept.
func (s *Sender) confirmLink(workspaceURL string, c delivery.Claim, ev store.EventRow) (string, error) {
	name, _ := ev.Payload["topic"].(string)
	until, _ := ev.Payload["expires_at"].(string)
	expires, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return "", fmt.Errorf("read when a request expires: %w", err)
	}
	return s.signedLink(workspaceURL, "/c/", key.Link{
		Purpose: key.LinkConfirm, Workspace: int64(c.Workspace), Subject: topic.Confirming{Contact: c.Contact, Topic: name}.String(), Expires: expires,
	})
}

// signedLink writes a link. It is empty where the server has no public address, or no key for links.
func (s *Sender) signedLink(workspaceURL, path string, l key.Link) (string, error) {
	base := cmp.Or(workspaceURL, s.PublicURL)
	if base == "" || !s.Links.Any() {
		return "", nil
	}
	token, err := s.Links.Sign(l)
	if err != nil {
		return "", fmt.Errorf("sign a link to %s: %w", path, err)
	}
	return strings.TrimSuffix(base, "/") + path + token, nil
}

// subscriberHeaders adds the headers by which mail programs offer to unsubscribe, unless the definition has some of its own.
func subscriberHeaders(out *channel.Outgoing, c delivery.Claim, link string) {
	at, err := url.Parse(link)
	if link == "" || err != nil || admission.Kind(c.Channel) != "email" {
		return
	}
	for name := range out.Headers {
		if strings.EqualFold(name, headerUnsubscribe) || strings.EqualFold(name, headerOneClick) {
			return
		}
	}
	if out.Headers == nil {
		out.Headers = map[string]string{}
	}
	out.Headers[headerUnsubscribe], out.Headers[headerOneClick] = "<"+link+">", oneClick
	if out.Headers[headerListID] == "" {
		out.Headers[headerListID] = "<" + strings.ToLower(c.Trigger+"."+c.Workflow) + "." + at.Hostname() + ">"
	}
}
