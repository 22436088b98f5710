package audience

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const definitions = `
workflow: %s
type: broadcast
triggers: [{id: t, event: news}]
audience: [%s]
channel: email
message: {email: {subject: x, text: x}}
---
persona: Mother
---
persona: Nurse
---
group: adults
where: contact.attributes.age > 20
---
group: board
members: [c-2, c-9]
---
channel: email
provider: memory
---
workspace: default
`

// Whom an audience asks for, and whom it selects among those who were read: each once, at the address that the entry names, else at their own.
func TestRecipients(t *testing.T) {
	t.Parallel()
	contact := func(id subject.ContactID, persona string, attributes map[string]any) delivery.Person {
		c := subject.Contact{ID: id, ExtID: fmt.Sprint("c-", id), Address: fmt.Sprint(id, "@example.org"), Persona: persona, Attributes: attributes}
		return delivery.Person{Contact: c, Found: true}
	}
	ann, bob, eve := contact(1, "Mother", nil), contact(2, "Nurse", nil), contact(3, "Mother", map[string]any{"age": 30.0})
	nobody := delivery.Person{}
	for name, tt := range map[string]struct {
		entries string
		who     any
		after   subject.ContactID
		asks    string // references, then personas
		people  store.People
		want    string // contacts, with the address if it is not their own
	}{
		"a contact":                        {entries: "{to: event.who}", who: "c-1", asks: "c-1", people: store.People{Persons: []delivery.Person{ann}}, want: "c-1"},
		"a contact who does not exist":     {entries: "{to: event.who}", who: "c-9", asks: "c-9", people: store.People{Persons: []delivery.Person{nobody}}},
		"two of them":                      {entries: "{to: event.who}", who: []any{"c-1", "c-2"}, asks: "c-1 c-2", people: store.People{Persons: []delivery.Person{ann, bob}}, want: "c-1 c-2"},
		"one who is named twice":           {entries: "{to: event.who}", who: []any{"c-1", "c-1"}, asks: "c-1", people: store.People{Persons: []delivery.Person{ann}}, want: "c-1"},
		"the members of a persona":         {entries: "{persona: Mother}", asks: "Mother", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-1 c-3"},
		"everybody":                        {entries: "{everyone: true}", asks: "everyone", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-1 c-2 c-3"},
		"members who meet a condition":     {entries: "{persona: Mother, where: contact.attributes.age > 20}", asks: "Mother", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-3"},
		"members of either persona":        {entries: "{persona: Mother}, {persona: Nurse}", asks: "Mother Nurse", people: store.People{Members: []delivery.Person{ann, bob}}, want: "c-1 c-2"},
		"the members of a group":           {entries: "{group: adults}", asks: "adults", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-3"},
		"members who are named":            {entries: "{group: board}", asks: "board", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-2"},
		"of a group or of a persona":       {entries: "{group: board}, {persona: Mother}", asks: "Mother board", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-1 c-2 c-3"},
		"of a group, with a condition":     {entries: "{group: board, where: contact.persona == 'Mother'}", asks: "board", people: store.People{Members: []delivery.Person{ann, bob}}},
		"by the groups of the contact":     {entries: "{everyone: true, where: \"'board' in contact.groups\"}", asks: "everyone", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-2"},
		"by several groups":                {entries: "{everyone: true, where: size(contact.groups) == 0}", asks: "everyone", people: store.People{Members: []delivery.Person{ann, bob, eve}}, want: "c-1"},
		"named, and a member":              {entries: "{to: event.who}, {persona: Mother}", who: "c-1", asks: "c-1 Mother", people: store.People{Persons: []delivery.Person{ann}, Members: []delivery.Person{ann, eve}}, want: "c-1 c-3"},
		"a later page names nobody again":  {entries: "{to: event.who}, {persona: Mother}", who: "c-1", after: 2, asks: "Mother", people: store.People{Members: []delivery.Person{eve}}, want: "c-3"},
		"the recipient of the event apart": {entries: "{to: event.recipient}"},
	} {
		known := catalogtest.Of(t, fmt.Sprintf(definitions, "w", tt.entries))
		set, err := known.Loaded(catalogtest.Workspace, 1)
		if err != nil {
			t.Fatal(err)
		}
		in := expr.Input{Event: map[string]any{"who": tt.who}, Meter: &expr.Meter{}}
		p, err := Of(set.Workflow("w").TriggerByID("t"), Sets{Own: set, InForce: set}, in, key.NewKeyed([]byte("secret"), key.PurposeAddress), tt.after, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var asks, got []string
		for _, ref := range p.Refs {
			asks = append(asks, ref.ExtID)
		}
		if asks = append(append(asks, p.Personas...), p.Groups...); p.Everyone {
			asks = append(asks, "everyone")
		}
		list, _ := p.Recipients(tt.people)
		for _, r := range list {
			got = append(got, strings.TrimSpace(r.Person.ExtID+" "+r.Address))
		}
		if strings.Join(asks, " ") != tt.asks || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: asks for %q and selects %q, want %q and %q", name, asks, got, tt.asks, tt.want)
		}
	}
}
