package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Contacts is what the pages about people read.
type Contacts interface {
	Contacts(ctx context.Context, ws subject.WorkspaceID, f store.ContactFilter, p store.Page) ([]subject.ContactRow, error)
	ContactByID(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) (subject.Contact, bool, error)
	Top(ctx context.Context, ws subject.WorkspaceID, since time.Time, limit int) ([]store.TopContact, error)
	GroupStates(ctx context.Context, ws subject.WorkspaceID, names []string) (map[string]store.GroupState, error)
	GroupMembers(ctx context.Context, ws subject.WorkspaceID, name string, p store.Page) ([]subject.ContactRow, error)
}

type contactLine struct {
	id, href, name, persona, addresses string
	stopped                            bool
	got                                int64 // messages that left
	channels                           string
}

type contactList struct {
	scale
	chips   []chip
	rows    []contactLine
	top     bool // the rows are those who got most messages
	persona string
	place   string
	q       string
	newest  string
	older   string
}

// contactChips choose between all contacts, those who got most messages in one of a few spans, groups, and what people follow.
func contactChips(top string) []chip {
	chips := []chip{{name: "all", href: "/contacts", on: top == ""}}
	for _, span := range []struct{ value, name string }{{"1d", "a day"}, {"7d", "7 days"}, {"30d", "30 days"}} {
		chips = append(chips, chip{name: "most in " + span.name, href: listAt("/contacts", "top", span.value), on: top == span.value})
	}
	return append(chips, chip{name: "groups", href: "/groups", on: top == "groups"}, chip{name: "topics", href: "/topics", on: top == "topics"}, chip{name: "items", href: "/items", on: top == "items"})
}

// topContacts are the contacts who got most messages since a moment.
func (c *console) topContacts(ctx context.Context, v visit, top string) (view, error) {
	list := contactList{scale: v.scale, top: true, chips: contactChips(top)}
	since, err := civil.ParseMoment(top, v.now, v.zone)
	if err != nil { // an address that somebody typed
		return view{redirect: "/contacts"}, nil
	}
	rows, err := c.Store.Top(ctx, v.workspace.ID, since, pageSize)
	if err != nil {
		return view{}, fmt.Errorf("who got most: %w", err)
	}
	for _, r := range rows {
		var by []string
		for _, channel := range slices.Sorted(maps.Keys(r.Channels)) {
			by = append(by, channel+" "+number(r.Channels[channel]))
		}
		list.rows = append(list.rows, contactLine{
			id: personName(r.Contact), href: contactPath(r.Contact.ExtID), name: r.Contact.Name, got: r.N, channels: strings.Join(by, ", "),
		})
	}
	return view{title: "Contacts", section: "/contacts", body: contactsPage(list), live: true}, nil
}

func (c *console) contacts(ctx context.Context, v visit) (view, error) {
	if top := v.query.Get("top"); top != "" {
		return c.topContacts(ctx, v, top)
	}
	f := store.ContactFilter{Persona: v.query.Get("persona"), Place: v.query.Get("place")}
	var rows []subject.ContactRow
	var err error
	q := strings.TrimSpace(v.query.Get("q"))
	if q != "" {
		rows, err = c.Store.FindContacts(ctx, v.workspace.ID, v.whom(q), pageSize)
	} else {
		rows, err = c.Store.Contacts(ctx, v.workspace.ID, f, store.Page{Before: v.before(), Limit: pageSize + 1})
	}
	if err != nil {
		return view{}, err
	}
	list := contactList{scale: v.scale, newest: v.newest("/contacts"), chips: contactChips(""), persona: f.Persona, place: f.Place, q: q}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/contacts", int64(rows[len(rows)-1].ID))
	}
	list.rows = contactLines(rows)
	return view{title: "Contacts", section: "/contacts", body: contactsPage(list), live: v.before() == 0}, nil
}

func contactLines(rows []subject.ContactRow) []contactLine {
	lines := make([]contactLine, len(rows))
	for i, r := range rows {
		lines[i] = contactLine{
			id: personName(r.Contact), href: contactPath(r.ExtID), name: r.Name, persona: r.Persona, addresses: addressesOf(r), stopped: r.Suppressed,
		}
	}
	return lines
}

func contactPath(id string) string { return "/contacts/" + url.PathEscape(id) }

// addressesOf are the addresses of a contact by kind, or the one where it was first met.
func addressesOf(r subject.ContactRow) string {
	var all []string
	for _, kind := range subject.AddressKinds() {
		if address := r.Addresses[kind]; address != "" {
			all = append(all, kind+" "+address)
		}
	}
	if len(all) == 0 {
		return r.Address
	}
	return strings.Join(all, ", ")
}

// limitLine is one limit of a person in words.
type limitLine struct {
	name, value, from, says string
	waits                   bool
}

// limitGroup are the limits of one kind of channel.
type limitGroup struct {
	kind    string
	lines   []limitLine
	waiting []deliveryLine
}

type contactDetail struct {
	scale
	title      string
	state      badge
	story      string
	facts      []fact
	attributes string
	zone       string
	groups     []limitGroup
	theirs     scale // instants in the person's zone
	next, past []personMoment
	all        string      // the list of all that was ever meant for them; empty: they are all here
	nothing    []eventLine // the last events that named them and made nothing
	coming     comingList  // of schedules, and after events
	named      string      // the list of all events that named them
	topics     []subscriptionLine
	digests    []nextDigestLine
	ended      string // the command that lists subscriptions that have ended too
}

func (c *console) contact(ctx context.Context, v visit) (view, error) {
	l, err := c.Definitions.Limits(ctx, v.workspace.ID, v.id)
	if err != nil {
		return view{}, err
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	r := l.Contact
	rows, err := c.Store.Deliveries(ctx, v.workspace.ID, store.DeliveryFilter{Contact: r.ID}, store.Page{Limit: pageSize})
	if err != nil {
		return view{}, err
	}
	stops, err := c.Definitions.StopsOf(ctx, v.workspace, r.Contact)
	if err != nil {
		return view{}, err
	}
	page := contactDetail{scale: v.scale, theirs: scale{v.now, l.Zone}, title: personName(r.Contact), state: badge{good, "reachable"}, facts: contactFacts(l, plan.GroupsOf(set, r.Contact, nil), stops), zone: l.Zone.String()}
	if len(l.Kinds) == 0 {
		page.state = badge{hold, "not reachable"}
	}
	if len(stops) > 0 {
		page.state, page.story = stoppedState(l.Kinds, stops)
	}
	if r.Suppressed {
		page.state, page.story = badge{quiet, "suppressed"}, "They get no messages: "+r.SuppressReason
	}
	if l.Lost {
		page.story = strings.TrimSpace(page.story + " The persona " + r.Persona + " is not defined any more: it has no limits.")
	}
	if l.Unread != nil {
		page.story = strings.TrimSpace(page.story + " Their own limits cannot be read by this version, so they do not hold: " + l.Unread.Error() + ".")
	}
	if len(r.Attributes) > 0 {
		text, err := json.MarshalIndent(r.Attributes, "", "  ")
		if err != nil {
			return view{}, fmt.Errorf("attributes of contact %d: %w", r.ID, err)
		}
		page.attributes = string(text)
	}
	for _, k := range l.Kinds {
		group := limitGroup{kind: k.Kind}
		for _, u := range k.Limits {
			group.lines = append(group.lines, limitLine{
				name: u.Name(), value: u.Value(), from: layerName(u.From, r.Persona), says: u.Sentence(l.At, v.zone), waits: !u.Free.Equal(l.At),
			})
		}
		if group.waiting, err = c.deliveryLines(ctx, v, k.Waiting); err != nil {
			return view{}, err
		}
		page.groups = append(page.groups, group)
	}
	circumstances, err := c.Definitions.Circumstances(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	ahead := func(d delivery.Row) (admission.Outlook, bool) { return admission.Ahead(d, circumstances(d)) }
	lists := [][]delivery.Row{rows}
	for _, k := range l.Kinds {
		lists = append(lists, k.Waiting) // what was made long ago and still waits
	}
	page.next, page.past = personLine(unionOf(lists...), ahead, v.delivery)
	if len(rows) == pageSize {
		page.all = listAt("/deliveries", "to", r.ExtID)
	}
	if page.nothing, err = c.nothingMade(ctx, v, r.ExtID); err != nil {
		return view{}, err
	}
	page.named = listAt("/events", "to", r.ExtID)
	page.ended = "carillon subscriptions list --ended --contact " + shellWord(r.ExtID)
	if page.topics, err = c.subscriptions(ctx, v.workspace.ID, r.ID); err != nil {
		return view{}, err
	}
	if page.digests, err = c.nextDigests(ctx, v, r.ID); err != nil {
		return view{}, err
	}
	if !r.Suppressed {
		if page.coming, err = c.coming(ctx, v, dated(set), outlook.Query{Contact: r.ExtID}, "--contact "+shellWord(r.ExtID)); err != nil {
			return view{}, err
		}
	}
	return view{title: "Contact " + page.title, section: "/contacts", body: contactPage(page), live: true}, nil
}

// stoppedState says on which kinds of channels nothing is sent to a contact, and why.
func stoppedState(reached []admission.LimitStatus, stops []store.StoppedKind) (badge, string) {
	var names, sentences []string
	for _, s := range stops {
		names, sentences = append(names, s.Kind), append(sentences, "No "+s.Kind+" is sent: "+s.Reason.Sentence())
	}
	story := strings.Join(sentences, " ")
	if !slices.ContainsFunc(reached, func(k admission.LimitStatus) bool { return !slices.Contains(names, k.Kind) }) {
		return badge{hold, "not reachable"}, story
	}
	return badge{hold, "no " + strings.Join(names, ", no ")}, story
}

func contactFacts(l admission.Limits, groups []string, stops []store.StoppedKind) []fact {
	r := l.Contact
	facts := []fact{{name: "id", value: r.ExtID, code: true}, {name: "name", value: r.Name}}
	if r.Persona != "" {
		facts = append(facts, fact{name: "persona", value: r.Persona, href: "/contacts?" + url.Values{"persona": {r.Persona}}.Encode()})
	}
	if r.Place != "" {
		facts = append(facts, fact{name: "place", value: r.Place, href: recordHref(subject.PlaceType, r.Place)})
	}
	for _, name := range groups {
		facts = append(facts, fact{name: "group", value: name, href: groupPath(name)})
	}
	for _, kind := range subject.AddressKinds() {
		facts = append(facts, fact{name: kind, value: r.Addresses[kind]})
	}
	for _, s := range stops {
		facts = append(facts, fact{name: "no " + s.Kind + " since", at: s.At, state: badge{quiet, words(string(s.Reason))}})
	}
	return known(append(facts,
		fact{name: "first met at", value: r.Address},
		fact{name: "locale", value: r.Locale},
		fact{name: "timezone", value: r.Timezone},
		fact{name: "own limits", value: r.Cadence, code: true},
		fact{name: "suppressed", at: r.SuppressedAt},
		fact{name: "made", at: r.CreatedAt},
		fact{name: "changed", at: r.UpdatedAt},
	))
}

// layerName says whose limit it is.
func layerName(from cadence.Layer, persona string) string {
	switch from {
	case cadence.LayerPerson:
		return "their own"
	case cadence.LayerPersona:
		return "persona " + persona
	case cadence.LayerWorkspace:
		return "workspace"
	case cadence.LayerDefault:
		return "default; cadence: in the workspace replaces it"
	}
	return string(from)
}
