package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// outcomes are what the triggers made of an event in words; an event without one concerned no workflow.
func outcomes(stored json.RawMessage) string {
	lines, err := trace.ReadList(string(stored))
	switch {
	case err != nil:
		return ""
	case len(lines) == 0:
		return string(reason.NoWorkflow)
	}
	parts := make([]string, len(lines))
	for i, l := range lines {
		parts[i] = l.Line()
	}
	return strings.Join(parts, ", ")
}

// madeNothing reports whether no trigger matched an event.
func madeNothing(e client.ListedEvent) bool {
	lines, err := trace.ReadList(string(e.Trace))
	return err == nil && !slices.ContainsFunc(lines, func(t trace.Trace) bool { return t.Reason == reason.Matched })
}

const (
	// mostNamed is how many of the newest events that name a person are looked through.
	mostNamed = 100
	// lastNamed is how many of those that made nothing are shown with a contact.
	lastNamed = 10
)

// printNothingMade prints the last events that named a contact and made no message.
func (c *showContactCmd) printNothingMade(s *session, one client.Contact, theirs output) error {
	page, err := call(c.remote, func(api *client.Client) (client.Page[client.ListedEvent], error) {
		return api.Events(s.ctx, client.EventQuery{To: one.ID, Limit: mostNamed})
	})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, e := range page.Items {
		if madeNothing(e) && len(rows) < lastNamed {
			rows = append(rows, []string{theirs.at(e.ReceivedAt), e.Kind, outcomes(e.Trace), e.ID})
		}
	}
	if len(rows) > 0 {
		s.title("events that named them and made no message, in " + theirs.Timezone.String())
		s.table([]string{"at", "kind", "outcome", "event"}, rows)
	}
	return nil
}

// isCalled reports whether the text is the id, an address or the whole name of a contact.
func isCalled(c client.Contact, text string) bool {
	return c.ID == text || strings.EqualFold(strings.TrimSpace(c.Name), strings.TrimSpace(text)) || hasAddress(c, text)
}

// hasAddress reports whether the text is an address of a contact.
func hasAddress(c client.Contact, text string) bool {
	address := subject.NormalizeAddress(text)
	if subject.NormalizeAddress(c.Address) == address {
		return true
	}
	for _, a := range c.Addresses {
		if subject.NormalizeAddress(a) == address {
			return true
		}
	}
	return false
}

// noteNothingTo says of a person to whom nothing was found whether they exist, how many events named them, and where to look next.
func (s *session) noteNothingTo(r remote, to string, narrowed bool) error {
	type known struct {
		contact bool
		events  client.Page[client.ListedEvent]
	}
	found, err := call(r, func(api *client.Client) (k known, err error) {
		contacts, err := api.Contacts(s.ctx, client.ContactQuery{Q: to, Limit: mostNamed})
		if err != nil {
			return k, err
		}
		k.contact = slices.ContainsFunc(contacts.Items, func(c client.Contact) bool { return isCalled(c, to) })
		k.events, err = api.Events(s.ctx, client.EventQuery{To: to, Limit: mostNamed})
		return k, err
	})
	if err != nil {
		return err
	}
	what, who := "No delivery is", fmt.Sprintf("no contact has the id, address or name %q", to)
	if narrowed {
		what = "With these flags no delivery is"
	}
	if found.contact {
		who = "the contact exists"
	}
	n := len(found.events.Items)
	events := count(n, "event")
	switch {
	case n == 0:
		events = "no event"
	case found.events.NextCursor != "":
		events = "more than " + events
	}
	s.note("%s to %q: %s, and %s named them.", what, to, who, events)
	switch {
	case n > 0:
		s.note("    carillon events list --to %q says what became of them", to)
	case found.contact:
		s.note("    carillon contacts show %q says how they are reached and limited; carillon events list --since 1d what came in", to)
	default:
		s.note("    carillon contacts list --q %q finds names and ids that begin so; carillon events list --since 1d what came in", to)
	}
	return nil
}

// orNamed adds to the error about a contact that is not there how many events named them.
func (c *showContactCmd) orNamed(s *session, api *client.Client, text string, err error) error {
	problem := (*client.Problem)(nil)
	if !errors.As(err, &problem) || problem.Code != client.CodeNotFound {
		return err
	}
	page, listErr := api.Events(s.ctx, client.EventQuery{To: text, Limit: 1})
	if listErr != nil || len(page.Items) == 0 {
		return err
	}
	more := *problem
	more.Hint = fmt.Sprintf("events have named them: carillon events list --to %q says what became of these", text)
	return &more
}
