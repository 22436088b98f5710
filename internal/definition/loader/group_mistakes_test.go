package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
)

// Each mistake in a group, and in an audience that names one, is refused with its place and its remedy.
func TestMistakesOfGroups(t *testing.T) {
	t.Parallel()
	const fields = "contact has id, address, name, locale, timezone, persona, place, groups, attributes, email, sms, whatsapp, push, inbox and webhook"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"by ids", "group: board\nmembers: [ann, '17', 18]\n", nil},
		{"one id", "group: board\nmembers: ann\n", nil},
		{"by a condition", "group: adults\nwhere: [contact.attributes.age >= 18, 'contact.persona == \"Nurse\"']\n", nil},
		{"nobody", "group: board\n", []string{
			"1:1 missing: group board says of nobody that they belong to it | write members: with ids of contacts, or where: with a condition on contact",
		}},
		{"no ids", "group: board\nmembers: []\n", []string{"2:10 invalid: the group has no members | write ids of contacts, or where: with a condition on contact"}},
		{"both", "group: board\nmembers: [ann]\nwhere: contact.persona == 'x'\n", []string{
			"3:8 invalid: members and where exclude each other | write two groups, and name both in the audience",
		}},
		{"ids", "group: board\nmembers: [ann, ann, \"a\\u2028\", ann@example.org]\n", []string{
			"2:16 invalid: ann is named twice | remove one of them",
			"2:21 invalid: this id holds a control or an invalid character",
			"warning 2:32 lint: ann@example.org is an address, and members are ids of contacts | name the contact by its id; an id that no contact has is nobody",
		}},
		{"groups of groups", "group: board\nwhere: '\"staff\" in contact.groups'\n", []string{
			"2:8 invalid: a group cannot depend on groups | repeat the condition of the other group; an audience can name both groups",
		}},
		{"time", "group: new\nwhere: age(contact.attributes.since) < days(30)\n", []string{
			"2:8 invalid: who belongs to a group does not change with time | write the condition on time as where beside group, in the audience",
		}},
		{"something else", "group: g\nwhere: workspace.timezone == 'UTC'\n", []string{
			"2:8 invalid: the where of a group reads nothing but contact, and this reads workspace | write that condition as where beside group, in the audience",
		}},
		{"no contact", "group: g\nwhere: record.x == 1\n", []string{"2:8 expression: undefined name 'record' | in: record.x == 1\nthe names here are contact, now, vars, workspace"}},
		{"a function", "group: g\nwhere: vip(contact.attributes.level)\n", []string{
			"2:8 invalid: the where of a group calls no function of your own: it is read whenever a contact is written | write that condition as where beside group, in the audience",
		}},
		{"fields", "group: g\nwhere: contact.persnoa == 'x'\n---\ngroup: h\nwhere: contact.age > 3\n---\ngroup: i\nwhere: size(contact) > 3\n", []string{
			"2:8 invalid: contact has no field \"persnoa\" | did you mean persona?",
			"5:8 invalid: contact has no field \"age\" | " + fields + "; your own fields are contact.attributes.NAME",
			"8:8 invalid: the where of a group reads single fields of contact | " + fields,
		}},
		{"keys", "group: g\nmember: [ann]\n", []string{"2:1 unknown_key: unknown key \"member\" | did you mean members?"}},
		{"audience", "group: board\nmembers: [ann]\n---\n" + head + "  - {id: t, event: e}\naudience: [{group: bord}, {group: board, persona: x}, {group: nurses}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n", []string{
			"8:20 reference: no group named \"bord\" | did you mean board?",
			"8:27 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
			"8:63 reference: no group named \"nurses\" | define it with group: nurses",
			`warning 9:10 reference: no channel named "sms" | define it with channel: sms:default`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{Functions: []*expr.Function{{Name: "vip", Takes: []expr.Type{expr.Any}, Gives: expr.Bool}}})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
