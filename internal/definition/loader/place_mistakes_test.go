package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// Each mistake in an audience of places, and in what asks for places, is refused with its place and its remedy. Whether a place exists is known to a
// server alone, and may change: it is a warning.
func TestMistakesOfPlaces(t *testing.T) {
	t.Parallel()
	audience := func(entry string) string {
		return head + "  - {id: t, event: e}\naudience: [{" + entry + "}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n"
	}
	records := func(trigger, where string) string {
		return head + "  - {id: t, record: visit, " + trigger + "}\naudience: [{persona: P, where: '" + where + "'}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n---\npersona: P\n"
	}
	above := func(entry string) string {
		return head + "  - {id: t, record: visit, when: record.clinic != null}\naudience: [{" + entry + "}]\nchannel: sms\nmessage: {sms: {text: Hello}}\n---\nchannel: sms\nprovider: memory\n---\nrecord_type: visit\nfields: {clinic: place, home: record(visit)}\n"
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"a place", audience("place: north, below: true, place_types: [clinic]"), nil},
		{"several", audience(`place: [north, south], where: 'within(contact.place, "north")'`), nil},
		{"one that does not exist", audience("place: [north, nroth]"), []string{
			"warning 5:28 reference: there is no place named nroth | nobody is there until it is written: carillon records put place nroth",
		}},
		{"none", audience("place: []"), []string{"5:20 invalid: the audience has no place | name a record of the type place"}},
		{"twice", audience("place: [north, north]"), []string{"5:28 invalid: north is named twice | remove one of them"}},
		{"types of itself", audience("place: north, place_types: clinic"), []string{
			"5:40 invalid: place_types selects among the places below, and the audience has none of them | add below: true",
		}},
		{"no types", audience("place: north, below: true, place_types: []"), []string{
			"5:53 invalid: people of no type of place are nobody | name a type of place, such as clinic, or remove place_types",
		}},
		{"without a place", audience("everyone: true, below: true, place_types: clinic"), []string{
			"5:36 invalid: below goes with place, and there is none | add place: and the name of a place, or remove it",
			"5:55 invalid: place_types goes with place, and there is none | add place: and the name of a place, or remove it",
		}},
		{"and a persona", audience("place: north, persona: P"), []string{
			"5:12 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
		}},
		{"a place above", above("place_above: record.owner"), nil},
		{"one of a type", above("place_above: record.home.owner, place_types: [district, region]"), nil},
		{"above a field that is none", above("place_above: record.clinc"), []string{"5:32 expression: undefined field 'clinc' | in: record.clinc\ndid you mean clinic?"}},
		{"above in no type", above("place_above: record.owner, place_types: []"), []string{
			"5:53 invalid: no type is that of no place | name a type of place, such as district, or remove place_types",
		}},
		{"above with those below", above("place_above: record.owner, below: true"), []string{
			"5:47 invalid: below goes with place, and there is none | add place: and the name of a place, or remove it",
		}},
		{"above and an owner", above("place_above: record.owner, to: record.owner"), []string{
			"5:12 invalid: to, address, persona, group, place, place_above, topics, function and everyone exclude each other | write an entry for each",
		}},
		{"above nothing", audience("place_above: record.owner"), []string{"5:26 expression: undefined name 'record' | in: record.owner\nthe names here are candidate, event, now, recipient, templateId, vars, workspace"}},
		{"within a record", records(`when: 'within(record.place, "north")'`, "true"), nil},
		{"within a record elsewhere", records("when: \"true\"", `within(record.place, "north")`), []string{
			"5:46 expression: the places above those of a record are known in when, issues and stop_when of triggers on records alone | ask for the place of the person, within(contact.place, \"north\"), or compare the names",
		}},
		{"a group", "group: g\nwhere: within(contact.place, \"north\")\n", []string{
			"2:8 invalid: who belongs to a group does not change when a place moves | name the place in the audience: place: NAME, with below: true; or write within as where beside group",
		}},
		{"the type of places", "record_type: place\nfields: {beds: number, parent: record(place), type: text}\n", []string{
			"2:32 invalid: parent of a place is a text, and not record(place) | it is the id of the place above",
			"warning 2:47 lint: record.type is every record's own | this field is read as record.props.type; or give it another name",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load([]definition.File{yaml(tc.text)}, loader.Options{Place: func(name string) bool { return name != "nroth" }})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
