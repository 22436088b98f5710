package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/subject"
)

// The zone of the one person of a record: of the contact, else of the record that is the person, else the next of the list. The key has the date that
// it has in the zone of a person without one, and does not change when the person moves.
//
// Shows: R15, B34, D1, D16.
func TestTheZoneOfOnePerson(t *testing.T) {
	t.Parallel()
	day, start := map[string]any{"day": "2026-03-29"}, map[string]any{"starts_at": "2026-03-28T23:30:00Z"}
	with := func(props map[string]any, zone string) map[string]any {
		return map[string]any{"day": props["day"], "starts_at": props["starts_at"], "timezone": zone}
	}
	const none = "none" // there is no contact
	for name, c := range map[string]struct {
		timing, home string
		props        map[string]any
		want         []string
	}{
		"of the contact":                    {"anchor: record.day, timezone: contact.timezone", "America/New_York", day, []string{"2026-03-29:0 2026-03-29T13:00:00Z America/New_York"}},
		"on the day the clocks change":      {"anchor: record.day, at: \"02:30\", timezone: contact.timezone", "Europe/Berlin", day, []string{"2026-03-29:0 2026-03-29T01:30:00Z Europe/Berlin"}},
		"at an hour that is left out":       {"anchor: record.day, at: \"02:30\", dst: {gap: skip}, timezone: contact.timezone", "Europe/Berlin", day, nil},
		"at an hour that is there":          {"anchor: record.day, at: \"02:30\", dst: {gap: skip}, timezone: contact.timezone", "Asia/Tokyo", day, []string{"2026-03-29:0 2026-03-28T17:30:00Z Asia/Tokyo"}},
		"no contact":                        {"anchor: record.day, timezone: contact.timezone", none, day, []string{"2026-03-29:0 2026-03-29T07:00:00Z Europe/Berlin"}},
		"no contact, and a list":            {"anchor: record.day, timezone: [contact.timezone, Asia/Tokyo]", none, day, []string{"2026-03-29:0 2026-03-29T00:00:00Z Asia/Tokyo"}},
		"a contact without a zone":          {"anchor: record.day, timezone: [contact.timezone, Asia/Tokyo]", "", day, []string{"2026-03-29:0 2026-03-29T00:00:00Z Asia/Tokyo"}},
		"a zone that is not known":          {"anchor: record.day, timezone: [contact.timezone, Asia/Tokyo]", "Mars/Base", day, []string{"2026-03-29:0 2026-03-29T00:00:00Z Asia/Tokyo"}},
		"the record is the person":          {"anchor: record.day, timezone: [contact.timezone, Asia/Tokyo]", "", with(day, "Europe/Lisbon"), []string{"2026-03-29:0 2026-03-29T08:00:00Z Europe/Lisbon"}},
		"the record's is not known":         {"anchor: record.day, timezone: [contact.timezone, Asia/Tokyo]", none, with(day, "Mars/Base"), []string{"2026-03-29:0 2026-03-29T00:00:00Z Asia/Tokyo"}},
		"the contact's before the record's": {"anchor: record.day, timezone: [contact.timezone, record.timezone]", "Asia/Tokyo", with(day, "Europe/Lisbon"), []string{"2026-03-29:0 2026-03-29T00:00:00Z Asia/Tokyo"}},
		"an instant":                        {"anchor: record.starts_at, offset: -2h, timezone: contact.timezone", "Asia/Tokyo", start, []string{"20260328T233000Z:2h 2026-03-28T21:30:00Z Asia/Tokyo"}},
		"an instant, at a time":             {"anchor: record.starts_at, at: \"08:00\", timezone: contact.timezone", "America/New_York", start, []string{"2026-03-29:0 2026-03-29T12:00:00Z America/New_York"}},
		"an instant, at a time, elsewhere":  {"anchor: record.starts_at, at: \"08:00\", timezone: [contact.timezone, America/New_York]", "Asia/Tokyo", start, []string{"2026-03-28:0 2026-03-27T23:00:00Z Asia/Tokyo"}},
		"a course":                          {"anchor: record.day, repeat: {every: 1d}, timezone: contact.timezone", "America/New_York", day, []string{"2026-03-29:0 2026-03-29T13:00:00Z America/New_York"}},
		"a course from an instant":          {"anchor: record.starts_at, at: \"08:00\", repeat: {every: 1d}, timezone: contact.timezone", "America/New_York", start, []string{"2026-03-29:0 2026-03-29T12:00:00Z America/New_York"}},
		"a course that begins now":          {"at: \"08:00\", repeat: {every: 1d}, timezone: contact.timezone", "Asia/Tokyo", day, []string{"2026-03-01:0 2026-02-28T23:00:00Z Asia/Tokyo"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 2, 28, 22, 0, 0, 0, time.UTC)
			text := strings.Replace(planning("    when: record.id == 'v'\n    timing: {"+c.timing+"}"), "to: record.id", "to: record", 1)
			text = strings.Replace(text, "fields: {day", "fields: {timezone: text, day", 1)
			people := plan.Related{}
			if c.home != none {
				people[subject.RecordRef{Type: subject.ContactType, ExtID: "v"}] = &subject.Record{Props: map[string]any{"timezone": c.home}}
			}
			rec := subject.Record{ID: 1, Type: "visit", ExtID: "v", Props: c.props}
			a := plan.Record(load(t, text), rec, people, nil, plan.Observation{Now: now, EvaluateAt: now}, new(civil.Zones))[0].Ahead
			var got []string
			for _, i := range a.Desired {
				got = append(got, strings.TrimPrefix(string(i.Key), "reminder:w:visit:v:t:")+" "+i.Due.UTC().Format(time.RFC3339)+" "+i.Zone)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q (%s %s)", got, c.want, a.Reason, a.Error)
			}
		})
	}
}

// Which contact a record depends on, and nothing where a contact was made for an address.
func TestTheContactThatARecordDependsOn(t *testing.T) {
	t.Parallel()
	visit := func(id string, props map[string]any) subject.Record {
		return subject.Record{Type: "visit", ExtID: id, Props: props}
	}
	for name, c := range map[string]struct {
		to   string
		rec  subject.Record
		want []subject.RecordRef
	}{
		"itself":                   {"record", visit("v", nil), []subject.RecordRef{{Type: subject.ContactType, ExtID: "v"}}},
		"its id":                   {"record.id", visit("v", nil), []subject.RecordRef{{Type: subject.ContactType, ExtID: "v"}}},
		"a field":                  {"record.who", visit("v", map[string]any{"who": "ann"}), []subject.RecordRef{{Type: subject.ContactType, ExtID: "ann"}}},
		"an empty field":           {"record.who", visit("v", map[string]any{"who": nil}), nil},
		"a field of another type":  {"record.note", visit("v", map[string]any{"note": "ann"}), nil},
		"an expression":            {"record.who + ''", visit("v", map[string]any{"who": "ann"}), nil},
		"the id of a made contact": {"record", visit(subject.MadePrefix+"0a", nil), nil},
	} {
		text := strings.NewReplacer("to: record.id", "to: "+c.to, "fields: {day", "fields: {who: contact, note: text, day").
			Replace(planning("    timing: {anchor: record.day, timezone: contact.timezone}"))
		set := load(t, text)
		got := plan.Related{}.Links(set.Relations("visit"), c.rec)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if follows := len(set.ReadAcross(subject.ContactType)) > 0; follows == (c.to == "record.note" || c.to == "record.who + ''") {
			t.Errorf("%s: the set follows contacts: %t", name, follows)
		}
	}
}
