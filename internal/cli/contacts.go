package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/subject"
)

type contactsCmd struct {
	Put        putContactCmd     `cmd:"" help:"Write a contact: make it, or have it be this and nothing else."`
	Import     importContactsCmd `cmd:"" help:"Take in the rows of a CSV or NDJSON file as contacts."`
	List       listContactsCmd   `cmd:"" help:"List contacts, the newest first."`
	Top        topContactsCmd    `cmd:"" help:"List who got most messages."`
	Show       showContactCmd    `cmd:"" help:"Show a contact."`
	Digests    nextDigestsCmd    `cmd:"" help:"Show the next digests of a contact, as they would be now."`
	Limits     limitsCmd         `cmd:"" help:"Show how far a contact's limits are used up, and what waits for them."`
	Merge      mergeContactCmd   `cmd:"" help:"Merge a contact into another one."`
	Suppress   suppressCmd       `cmd:"" help:"Have a contact get no more messages."`
	Unsuppress unsuppressCmd     `cmd:"" help:"End the suppression of a contact."`
}

type importContactsCmd struct {
	importing
	ID string `name:"id" placeholder:"COLUMN" help:"The column with your id of each person, where it is not called id."`
}

// Help is the long help.
func (importContactsCmd) Help() string {
	return `Every row changes what it mentions of a contact, or makes one. Columns named like a field (id, name, locale, timezone,
persona, place, email, sms, whatsapp, push, inbox, webhook, cadence.max_per_day, attributes.NAME) go there; --map says it for
others; the rest become attributes under their own names, as text unless a type is given. Empty cells change nothing.

  carillon contacts import people.csv --id customer --map sms=mobile --map attributes.points:number=points

The same file again changes nothing. An import that was interrupted goes on where it was when the same command is
given again. Refused rows go into people.rejected.csv with their reasons, and stop no others.

Exit status: 0 all were taken in · 1 rows were refused, or the file was not finished.`
}

// Run imports contacts.
func (c *importContactsCmd) Run(s *session) error {
	return c.run(s, importOfContacts(), c.ID, nil)
}

type listContactsCmd struct {
	Q       string `name:"q" placeholder:"TEXT" help:"Whose id or address this is, then whose name or id begins with it."`
	Persona string `name:"persona" placeholder:"NAME" help:"Only those with this persona."`
	Place   string `name:"place" placeholder:"NAME" help:"Only those in this place, without the places below it."`
	paging
	remote
	output
}

// Run lists contacts.
func (c *listContactsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Contact], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Contact], error) {
			return api.Contacts(s.ctx, client.ContactQuery{Q: c.Q, Persona: c.Persona, Place: c.Place, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		rows[i] = []string{one.ID, one.Name, one.Persona, reachedAt(one), one.Locale, one.Timezone, suppression(one), c.at(one.CreatedAt)}
	}
	s.table([]string{"id", "name", "persona", "addresses", "locale", "timezone", "suppressed", "created_at"}, rows)
	s.more(page.NextCursor)
	return nil
}

func reachedAt(c client.Contact) string {
	var all []string
	for _, kind := range subject.AddressKinds() {
		if address := c.Addresses[kind]; address != "" {
			all = append(all, kind+" "+address)
		}
	}
	if len(all) == 0 {
		return c.Address
	}
	return strings.Join(all, ", ")
}

func suppression(c client.Contact) string {
	if !c.Suppressed {
		return ""
	}
	return c.SuppressReason
}

type onContact struct {
	ID string `arg:"" help:"Your id of the person."`
	remote
}

// onContacts are the contacts that a command is about.
type onContacts struct {
	IDs []string `arg:"" name:"id" help:"Your id of the person, or one of their addresses; several are done one after the other."`
	remote
}

// orByAddress does something with the contact that has the id, else with the one that has the address.
func orByAddress[T any](s *session, do func(*client.Client, string) (T, error)) func(*client.Client, string) (T, error) {
	return func(api *client.Client, text string) (T, error) {
		answer, err := do(api, text)
		if !isNotFound(err) {
			return answer, err
		}
		page, listErr := api.Contacts(s.ctx, client.ContactQuery{Q: text, Limit: mostNamed})
		if listErr != nil { // such as for a key without the scope read
			return answer, err
		}
		for _, one := range page.Items {
			if hasAddress(one, text) {
				return do(api, one.ID)
			}
		}
		return answer, err
	}
}

func isNotFound(err error) bool {
	var problem *client.Problem
	return errors.As(err, &problem) && problem.Code == client.CodeNotFound
}

type showContactCmd struct {
	IDs []string `arg:"" name:"id" help:"Your id of the person, one of their addresses, or their name; several are shown one after the other."`
	remote
	output
}

// person is the contact with that id, else the only one who has that address or name.
func (s *session) person(api *client.Client, text string) (client.Contact, error) {
	one, err := api.Contact(s.ctx, text)
	if !isNotFound(err) {
		return one, err
	}
	page, listErr := api.Contacts(s.ctx, client.ContactQuery{Q: text, Limit: 2})
	switch {
	case listErr != nil:
		return one, listErr
	case len(page.Items) == 1: // a list does not say what is stopped
		return api.Contact(s.ctx, page.Items[0].ID)
	case len(page.Items) > 1:
		return one, fmt.Errorf("several contacts are called %q: carillon contacts list --q %q shows them", text, text)
	}
	return one, err
}

// Run shows contacts.
func (c *showContactCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.Contact, error) {
		one, err := s.person(api, id)
		return one, c.orNamed(s, api, id, err)
	}, parted(s, c.print))
}

func (c *showContactCmd) print(s *session, one client.Contact) error {
	pairs := []string{"contact", calledBy(one), "id", idBeside(one), "name", one.Name, "locale", one.Locale, "timezone", one.Timezone, "persona", one.Persona, "place", one.Place, "groups", strings.Join(one.Groups, ", "), "first met at", one.Address}
	for _, kind := range subject.AddressKinds() {
		pairs = append(pairs, kind, one.Addresses[kind])
	}
	attributes, cadence := "", ""
	if len(one.Attributes) > 0 {
		raw, err := json.Marshal(one.Attributes)
		if err != nil {
			return err
		}
		attributes = string(raw)
	}
	if one.Cadence != nil {
		raw, err := json.Marshal(one.Cadence)
		if err != nil {
			return err
		}
		cadence = string(raw)
	}
	for _, stop := range one.Stopped {
		pairs = append(pairs, "stopped", stop.Kind+": "+stop.Reason+" since "+c.at(stop.Since))
	}
	s.fields(append(pairs, "attributes", attributes, "own limits", cadence, "merged_into", one.MergedInto, "suppressed", suppression(one), "suppressed_at", c.at(one.SuppressedAt),
		"created_at", c.at(one.CreatedAt), "updated_at", c.at(one.UpdatedAt))...)
	return c.printMessages(s, one)
}

// calledBy is the caller's id of a contact, or the address of one that an event made.
func calledBy(c client.Contact) string {
	if strings.HasPrefix(c.ID, subject.MadePrefix) && c.Address != "" {
		return c.Address
	}
	return c.ID
}

// idBeside is the id of a contact that is called by its address.
func idBeside(c client.Contact) string {
	if calledBy(c) == c.ID {
		return ""
	}
	return c.ID
}

// lastMessages is how many deliveries of a contact are shown with it.
const lastMessages = 20

// printMessages prints what the contact was sent, will be sent and was not, in the zone of the contact, and the events that named
// them without making a message.
func (c *showContactCmd) printMessages(s *session, one client.Contact) error {
	page, err := call(c.remote, func(api *client.Client) (client.Page[client.Delivery], error) {
		return api.Deliveries(s.ctx, client.DeliveryQuery{To: one.ID, Limit: lastMessages})
	})
	if err != nil {
		return err
	}
	limits, err := call(c.remote, func(api *client.Client) (client.ContactLimits, error) { return api.ContactLimits(s.ctx, one.ID) })
	if err != nil {
		return err
	}
	var theirs output
	if err := theirs.Timezone.UnmarshalText([]byte(limits.Timezone)); err != nil {
		theirs.Timezone = c.Timezone
	}
	if len(page.Items) > 0 {
		printMessageLines(s, page, theirs)
	}
	return c.printNothingMade(s, one, theirs)
}

func printMessageLines(s *session, page client.Page[client.Delivery], theirs output) {
	s.title("messages, in " + theirs.Timezone.String())
	slices.SortStableFunc(page.Items, func(a, b client.Delivery) int { // the latest first, and what nobody can date before it
		_, x, _ := messageLine(a)
		_, y, _ := messageLine(b)
		if x.IsZero() != y.IsZero() {
			return x.Compare(y) // none is long ago
		}
		return y.Compare(x)
	})
	rows := make([][]string, len(page.Items))
	for i, d := range page.Items {
		what, at, why := messageLine(d)
		rows[i] = []string{theirs.at(at), what, d.Workflow, d.Channel, why, d.ID}
	}
	s.table([]string{"at", "what", "workflow", "channel", "why", "delivery"}, rows)
	s.more(page.NextCursor)
}

// messageLine says of a delivery whether it was sent, will be or was not, when, and why.
func messageLine(d client.Delivery) (what string, at time.Time, why string) {
	why = cmp.Or(d.WaitsFor, d.Reason)
	switch {
	case d.Status == "unknown":
		return "unknown", d.LastSentAt, why
	case !d.LastSentAt.IsZero() && d.Reason == "delivered":
		return "sent", d.LastSentAt, ""
	case !d.LastSentAt.IsZero():
		return "sent", d.LastSentAt, why
	case !d.SendAt.IsZero():
		return "planned", d.SendAt, why
	case d.CompletedAt.IsZero():
		return "waits", time.Time{}, why
	}
	return "not sent", d.CompletedAt, why
}

type limitsCmd struct {
	onContacts
	output
}

// Help is the long help.
func (limitsCmd) Help() string {
	return `One line for each limit of each kind of channel, in the order in which they are asked: whose limit it is (their own
goes before their persona's; people without any have the workspace's, or where it sets none the default), and how much
of it is used up. Below them, what is planned for the contact, and which limit made it wait.`
}

// Run shows the limits of contacts.
func (c *limitsCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, orByAddress(s, func(api *client.Client, id string) (client.ContactLimits, error) {
		return api.ContactLimits(s.ctx, id)
	}), parted(s, func(s *session, l client.ContactLimits) error {
		if len(c.IDs) > 1 {
			fmt.Fprintln(s.Out, cell(l.ID))
		}
		return c.print(s, l)
	}))
}

func (c *limitsCmd) print(s *session, l client.ContactLimits) error {
	var limits, waiting [][]string
	byDefault := false
	for _, kind := range l.Channels {
		for _, u := range kind.Limits {
			name := u.Limit
			if u.Type != "" {
				name += "." + u.Type
			}
			from := u.From
			if from == "persona" {
				from += " " + l.Persona
			}
			byDefault = byDefault || from == "default"
			limits = append(limits, []string{kind.Kind, name, u.Value, from, u.Says})
		}
		for _, w := range kind.Waiting {
			waiting = append(waiting, []string{w.Delivery, w.Workflow, w.Type, w.Channel, c.at(w.SendAt), w.Reason})
		}
	}
	if len(limits) == 0 {
		s.note("%s has no limits", l.ID)
	} else {
		s.table([]string{"channel", "limit", "value", "from", "now"}, limits)
	}
	if len(waiting) > 0 {
		s.title("waiting")
		s.table([]string{"delivery", "workflow", "type", "channel", "send_at", "reason"}, waiting)
	}
	if byDefault {
		s.note("default limits: set cadence: in the workspace to replace them")
	}
	if l.Unreadable != "" {
		s.note("the contact's own limits cannot be read, so they do not hold: %s", l.Unreadable)
	}
	if l.PersonaLost {
		s.note("the persona %s is not defined any more: it has no limits", l.Persona)
	}
	s.note("days begin and end in %s", l.Timezone)
	return nil
}

type mergeContactCmd struct {
	ID   string `arg:"" name:"id" placeholder:"ID" help:"The contact that is merged."`
	Into string `arg:"" name:"into" placeholder:"INTO" help:"The contact into which it is merged, the survivor."`
	remote
	jsonOnly
}

// Help is the long help.
func (mergeContactCmd) Help() string {
	return `Subscriptions, waiting messages, courses and what counts in limits go to the survivor. The survivor keeps its own fields, and
takes the address for each kind of channel for which it has none; the other addresses are given up. If one of the two is
suppressed, the survivor is. From then on the merged id names the survivor, in events too. It cannot be undone.

  carillon contacts merge old-account ada`
}

// Run merges a contact into another one.
func (c *mergeContactCmd) Run(s *session) error {
	answer, err := call(c.remote, func(api *client.Client) (client.MergedContact, error) {
		return api.MergeContact(s.ctx, c.ID, c.Into)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, answer)
	}
	if !answer.Changed {
		s.rows([][]string{{"=", answer.Contact.ID, "it was so already"}})
		return nil
	}
	s.rows([][]string{{"~ merged", answer.Contact.ID, "into " + answer.Survivor.ID}})
	return nil
}

type suppressCmd struct {
	onContacts
	Reason string `name:"reason" required:"" placeholder:"TEXT" help:"Why, in your words, such as complained."`
	Kind   string `name:"kind" placeholder:"KIND" help:"On this kind of channel alone, such as sms: as if they had replied STOP there."`
	jsonOnly
}

// Help is the long help.
func (suppressCmd) Help() string {
	return `When it returns, nothing more leaves for them, by whatever workflow, unless it was on its way to the provider. What
had not been sent is cancelled, and reminders end. Contacts that events made for the same addresses are suppressed too.`
}

// Run suppresses a contact.
func (c *suppressCmd) Run(s *session) error {
	return s.suppressed(c.onContacts, c.JSON, "suppressed", func(api *client.Client, id string) (client.Suppressed, error) {
		if c.Kind != "" {
			return api.StopKind(s.ctx, id, c.Kind, c.Reason)
		}
		return api.SuppressContact(s.ctx, id, c.Reason)
	})
}

type unsuppressCmd struct {
	onContacts
	Kind string `name:"kind" placeholder:"KIND" help:"What was stopped on this kind of channel alone, such as sms, by them or by you."`
	jsonOnly
}

// Help is the long help.
func (unsuppressCmd) Help() string {
	return `They may be messaged again. What the suppression cancelled stays cancelled.`
}

// Run ends a suppression.
func (c *unsuppressCmd) Run(s *session) error {
	return s.suppressed(c.onContacts, c.JSON, "unsuppressed", func(api *client.Client, id string) (client.Suppressed, error) {
		if c.Kind != "" {
			return api.StartKind(s.ctx, id, c.Kind)
		}
		return api.UnsuppressContact(s.ctx, id)
	})
}

func (s *session) suppressed(on onContacts, asJSON bool, done string, do func(*client.Client, string) (client.Suppressed, error)) error {
	return oneByOne(s, on.remote, asJSON, on.IDs, orByAddress(s, do), func(answer client.Suppressed) error {
		if !answer.Changed {
			s.rows([][]string{{"=", answer.Contact.ID, "it was so already"}})
			return nil
		}
		s.rows([][]string{{"~ " + done, answer.Contact.ID, strings.Join(answer.Deliveries, ", ")}})
		if n := len(answer.Deliveries); n > 0 {
			s.note("%s", stopped(n))
		}
		return nil
	})
}

func stopped(n int) string {
	if n == 1 {
		return "1 delivery was stopped"
	}
	return fmt.Sprintf("%d deliveries were stopped", n)
}

type topContactsCmd struct {
	Since string `name:"since" default:"1d" placeholder:"WHEN" help:"Of deliveries made at this instant or later, or for that long: 1d, 6h."`
	Limit limit  `name:"limit" default:"20" placeholder:"N" help:"How many, at most 100."`
	remote
	jsonOnly
}

// Run lists who got most messages.
func (c *topContactsCmd) Run(s *session) error {
	top, err := call(c.remote, func(api *client.Client) (client.TopContacts, error) {
		return api.TopContacts(s.ctx, c.Since, int(c.Limit))
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, top)
	}
	rows := make([][]string, len(top.Items))
	for i, one := range top.Items {
		var by []string
		for _, channel := range slices.Sorted(maps.Keys(one.Channels)) {
			by = append(by, fmt.Sprintf("%s %d", channel, one.Channels[channel]))
		}
		rows[i] = []string{calledBy(client.Contact{ID: one.ID, Address: one.Address}), one.Name, fmt.Sprint(one.Deliveries), strings.Join(by, ", ")}
	}
	s.table([]string{"contact", "name", "deliveries", "channels"}, rows)
	return nil
}
