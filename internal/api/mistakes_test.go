package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/cli"
)

// pump is a workflow on records with a hole for what is wrong in it; its own lines are 1 to 15.
func pump(trigger, audience, limits string) string {
	return `workflow: pump
type: alert
triggers:
  - id: stopped
    record: pump
` + trigger + `audience:
  - ` + audience + `
channel: inbox
message:
  inbox: {text: A pump stands still.}
` + limits
}

const (
	pumpStops = "    when: record.running == false\n    cooldown: {length: 1h}\n"
	pumpType  = "---\nrecord_type: pump\nfields: {running: bool, site: text}\n"
)

// TestMistakesAboutLimits: what is wrong with the definitions of both gates is said by "carillon check" and by the API in
// the same words: where it stands, what is wrong, what to do.
func TestMistakesAboutLimits(t *testing.T) {
	t.Parallel()
	everybody := "everyone: true"
	b := setup(t, "sqlite")
	for _, tc := range []struct{ name, text, want string }{
		{"unknown persona", pump(pumpStops, "persona: Mechanik", "") + "---\npersona: Mechanic\n", `9:14: no persona named "Mechanik" / did you mean Mechanic?`},
		{"zone of the workspace", "workspace: default\ntimezone: Europe/Berln\n", `2:11: "Europe/Berln" is not a zone / use a name of the tz database, such as Europe/Berlin, or UTC`},
		{"zone of quiet hours", "persona: P\ncadence: {quiet_hours: \"22:00-07:00 Europe/Berlin\"}\n", `2:24: "22:00-07:00 Europe/Berlin" is not a span of the day / a span of the day is written "22:00-07:00"; it may cross midnight`},
		{"negative limit", "persona: P\ncadence: {max_per_day: -1}\n", "2:24: max_per_day is negative / 0 or nothing means no limit"},
		{"negative limit of a type", "persona: P\ncadence: {type_limits: {alert: -1}}\n", "2:32: type_limits: alert is negative / 0 or nothing means no limit"},
		{"unknown type", "persona: P\ncadence: {type_limits: {alrt: 1}}\n", `2:25: "alrt" is not a type of workflow / did you mean alert?`},
		{"quiet hours of no length", "persona: P\ncadence: {quiet_hours: \"08:00-08:00\"}\n", `2:24: "08:00-08:00" ends where it begins / write two different times of day`},
		{
			"quiet hours as the send window", pump(pumpStops, "persona: P", "limits: {send_window: \"20:00-07:00\"}\n") + "---\npersona: P\ncadence: {quiet_hours: \"20:00-07:00\"}\n",
			"13:23: persona P has quiet hours 20:00-07:00, which cover all of the send window / nothing could ever leave: move one of them",
		},
		{
			"quiet hours of the workspace", pump(pumpStops, "persona: P", "limits: {send_window: \"21:00-06:00\"}\n") + "---\npersona: P\n---\nworkspace: default\ncadence: {quiet_hours: \"20:00-07:00\"}\n",
			"13:23: persona P has the workspace's quiet hours 20:00-07:00, which cover all of the send window / nothing could ever leave: move one of them",
		},
		{
			"quiet hours of everybody", pump(pumpStops, everybody, "limits: {send_window: \"21:00-06:00\"}\n") + "---\nworkspace: default\ncadence: {quiet_hours: \"20:00-07:00\"}\n",
			"13:23: warning: the workspace has quiet hours 20:00-07:00, which cover all of the send window / nothing could ever leave for people without other limits: move one of them",
		},
		{"more a day than a week", "persona: P\ncadence: {max_per_day: 9, max_per_week: 2}\n", "2:24: warning: max_per_day 9 is never reached: max_per_week is 2"},
		{"more of a type than a day", "persona: P\ncadence: {max_per_day: 2, type_limits: {alert: 5}}\n", "2:41: warning: the limit of 5 for alert is never reached: max_per_day is 2"},
		{"unknown field", pump("    when: record.runing == false\n    cooldown: {length: 1h}\n", everybody, "") + pumpType, "6:17: undefined field 'runing' / in: record.runing == false / did you mean running?"},
		{"unknown field of a context", pump("    when: record.running == false\n    cooldown: {length: 1h, per: [record.sit]}\n", everybody, "") + pumpType, "7:40: undefined field 'sit' / in: record.sit / did you mean site?"},
		{"duplicate key", pump(pumpStops, everybody, "limits: {critical: true, critical: false}\n"), `13:26: duplicate key "critical" / it stands in line 13 already`},
		{"unknown key", pump(pumpStops, everybody, "limits: {critcal: true}\n"), `13:10: unknown key "critcal" / did you mean critical?`},
		{"negative cooldown", "persona: P\ncadence: {cooldown: -1h}\n", `2:21: "-1h" is not a duration / a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`},
		{"negative cooldown of a trigger", pump("    when: record.running == false\n    cooldown: {length: -1h}\n", everybody, ""), `7:24: "-1h" is not a duration / write a duration such as 2h, or persona: the shortest of the audience's personas`},
		{"no interval", pump(pumpStops+"    check: 0s\n", everybody, ""), `8:12: "0s" is no time at all / write one such as 5m`},
		{"negative for", pump(pumpStops+"    for: -1m\n", everybody, ""), `8:10: "-1m" is not a duration / a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			text := tc.text
			if strings.Contains(text, "channel: inbox") {
				text += "---\nchannel: inbox\nprovider: inbox\n"
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want := "rules.yaml:" + tc.want
			var out, errs bytes.Buffer
			status := cli.Run(t.Context(), []string{"check", file}, cli.Stdio{Out: &out, Err: &errs})
			said := strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(out.String(), filepath.Dir(file)+"/", "")), "\n    ", " / ")
			said, _, _ = strings.Cut(said, "\n")
			if said != want || (status == 0) != strings.Contains(want, "warning") {
				t.Errorf("check (status %d): got\n%s%s\nwant\n%s", status, said, errs.String(), want)
			}
			if strings.Contains(want, "warning") {
				return // the API takes it
			}
			body, err := json.Marshal(map[string]any{"files": []client.File{{Name: "rules.yaml", Text: text}}})
			if err != nil {
				t.Fatal(err)
			}
			code, answer := b.ask(http.MethodPost, "/v1/definitions", string(body))
			p := problemOf(t, answer)
			if code != http.StatusUnprocessableEntity || p.Code != "invalid_definitions" || len(p.Problems) != 1 {
				t.Fatalf("%d %s", code, answer)
			}
			one := p.Problems[0]
			got := fmt.Sprintf("%s:%d:%d: %s", one.File, one.Line, one.Column, one.Message)
			if one.Hint != "" {
				got += " / " + strings.ReplaceAll(one.Hint, "\n", " / ")
			}
			if got != want {
				t.Errorf("the API: got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestNoAddress: API, command line and metrics name a contact without an address, with the reason.
func TestNoAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(strings.NewReplacer("channel: inbox", "channel: sms:text", "  inbox:", "  sms:").Replace(pump(pumpStops, "persona: Mechanic", "")) +
			"---\npersona: Mechanic\n---\nchannel: sms:text\nprovider: inbox\n")
		for _, write := range []string{
			`contacts/ann {"persona": "Mechanic", "addresses": {"sms": "+4930000001"}}`, `contacts/ben {"persona": "Mechanic", "addresses": {"email": "ben@example.org"}}`,
			`records/pump/1 {"props": {"running": false}}`,
		} {
			path, body, _ := strings.Cut(write, " ")
			if code, answer := b.ask(http.MethodPut, "/v1/"+path, body); code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, code, answer)
			}
		}
		if _, err := b.Tick(b.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := b.Deliveries(b.Context(), client.DeliveryQuery{Reason: "no_address"})
		if err != nil || len(page.Items) != 1 || page.Items[0].Status != "skipped" || page.Items[0].CustomerRef != "ben" {
			t.Errorf("the API: %+v %v", page.Items, err)
		}
		var out, errs bytes.Buffer
		args := []string{"deliveries", "list", "--status", "skipped", "--server", b.app.URL(), "--key", b.key}
		if status := cli.Run(b.Context(), args, cli.Stdio{Out: &out, Err: &errs}); status != 0 || !strings.Contains(out.String(), "no_address") {
			t.Errorf("the command line (%d): %s%s", status, out.String(), errs.String())
		}
		if _, text := b.askAs(b.newKey(b.app.Workspace(), "metrics", "metrics"), http.MethodGet, "/metrics", ""); !strings.Contains(text, `carillon_deliveries_total{channel="sms:text",reason="no_address",what="skipped"} 1`) {
			t.Errorf("the metrics: %s", text)
		}
	})
}

// TestTheLastYear: instants at the end of the calendar are taken, and what they lead to beyond it never comes.
func TestTheLastYear(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(strings.Replace(pump("    when: age(record.seen_at) >= minutes(5)\n    cooldown: {length: 1h}\n", "everyone: true", ""), "pump\n", "silent\n", 1) + `---
workflow: trip
type: reminder
triggers: {id: booked, event: booked}
timing: {anchor: event.at, offset: 2d}
audience: {to: event.recipient}
channel: inbox
message:
  inbox: {text: Hello}
`)
		if code, answer := b.ask(http.MethodPut, "/v1/records/pump/1", `{"props": {"seen_at": "9999-12-31T23:59:59Z"}}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		if _, err := b.Tick(b.Context()); err != nil {
			t.Fatal(err)
		}
		code, answer := b.ask(http.MethodGet, "/v1/records/pump/1", "")
		var kept client.Record
		if err := json.Unmarshal([]byte(answer), &kept); err != nil || code != http.StatusOK || strings.Contains(answer, "evaluate_at") {
			t.Errorf("%d %s", code, answer)
		}
		for at, want := range map[string]string{
			"9999-12-29T23:59:59Z": `"outcome":"created"`, "9999-12-31T23:59:59Z": `"outcome":"no_match"`, "9999-12-31": `"outcome":"no_match"`,
		} {
			if _, answer := b.ask(http.MethodPost, "/v1/events", `{"kind": "booked", "payload": {"at": "`+at+`"}, "recipient": {"address": "you"}}`); !strings.Contains(answer, want) {
				t.Errorf("%s: %s", at, answer)
			}
		}
		for _, path := range []string{"/v1/instances", "/v1/deliveries"} {
			if code, answer := b.ask(http.MethodGet, path, ""); code != http.StatusOK || !strings.Contains(answer, "9999-12-31T23:59:59Z") {
				t.Errorf("%s: %d %s", path, code, answer)
			}
		}
	})
}

// TestMistakesAboutPeopleAndThings: the same of what is written: contacts and records.
func TestMistakesAboutPeopleAndThings(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	b.apply("persona: Mechanic\n" + "---\nrecord_type: pump\nfields: {running: bool, site: text, load: number, seen_at: datetime, day: date}\n")
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for _, tc := range []struct{ name, path, body, want string }{
		{"unknown persona", "contacts/a", `{"persona": "Mechanik"}`, `body.persona: no persona named "Mechanik" / did you mean Mechanic?`},
		{"invalid zone", "contacts/a", `{"timezone": "Europe/Berln"}`, "body.timezone: is not a zone / use a name of the tz database, such as Europe/Berlin"},
		{"negative limit", "contacts/a", `{"cadence": {"max_per_day": -1}}`, "body.cadence.max_per_day: max_per_day is negative / 0 or nothing means no limit"},
		{"negative cooldown", "contacts/a", `{"cadence": {"cooldown": "-1h"}}`, `body.cadence.cooldown: cooldown: "-1h" is not a duration / a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m`},
		{"unknown limit", "contacts/a", `{"cadence": {"max_per_dy": 1}}`, "body.cadence.max_per_dy: is not a limit / did you mean max_per_day?"},
		{"unknown type", "contacts/a", `{"cadence": {"type_limits": {"alrt": 1}}}`, `body.cadence.type_limits: "alrt" is not a type of workflow / did you mean alert?`},
		{"unknown type of a channel", "contacts/a", `{"cadence": {"channels": {"sms": {"types": ["alrt"]}}}}`, `body.cadence.channels: "alrt" is not a type of workflow / did you mean alert?`},
		{"unknown kind of channel", "contacts/a", `{"cadence": {"channels": {"emial": {"max_per_day": 1}}}}`, `body.cadence.channels.emial: is not a kind of channel / did you mean email?`},
		{"quiet hours", "contacts/a", `{"cadence": {"quiet_hours": "22:00"}}`, `body.cadence.quiet_hours: quiet_hours: "22:00" is not a span of the day / a span of the day is written "22:00-07:00"; it may cross midnight`},
		{"a text of limits", "contacts/a", `{"cadence": "max_per_day: 1"}`, `body.cadence: is not an object / {"cooldown": "2h", "max_per_day": 5}`},
		{"a limit twice", "contacts/a", `{"cadence": {"max_per_day": 1, "max_per_day": 2}}`, "body: duplicate key in one object"},
		{"wrong type", "records/pump/1", `{"props": {"running": "no"}}`, "body.props.running: is a text, and the type pump says bool / write true or false, without quotes"},
		{"no such day", "records/pump/1", `{"props": {"day": "2026-02-30"}}`, `body.props.day: is a text that names no day, and the type pump says date / write it like "2026-05-14"`},
		{"no such instant", "records/pump/1", `{"props": {"seen_at": "yesterday"}}`, `body.props.seen_at: is a text that names no instant, and the type pump says datetime / write it like "2026-05-14T08:12:34Z"`},
		{"a number beyond all", "records/pump/1", `{"props": {"load": 1e999}}`, "body.props.load: is a number, and the type pump says number / no larger than 1.8e308"},
		{"unknown field", "records/pump/1", `{"props": {"runing": false}}`, "body.props.runing: the type pump has no such field / did you mean running?"},
		{"a list of fields", "records/pump/1", `{"props": ["a"]}`, `body.props: is not an object / {"battery_level": 15}`},
		{"huge", "records/open/1", `{"props": {"a": "` + strings.Repeat("x", 70_000) + `"}}`, "body.props: are larger than 64 KiB / keep large documents elsewhere and send their address"},
		{"deep", "records/open/1", `{"props": ` + deep + `}`, "body: it is nested deeper than 32 levels / keep large documents elsewhere"},
		{"a field without name", "records/open/1", `{"props": {"": 1}}`, "body.props: the name of a field is blank / write it out, or leave it out"},
		{"a control character", "records/open/a%0Ab", `{"props": {}}`, "body.id: holds a control or an invalid character"},
		{"a long id", "records/open/" + strings.Repeat("x", 257), `{"props": {}}`, "body.id: is longer than 256 bytes"},
		{"a type with blanks", "records/a%20type/1", `{"props": {}}`, `body.type: "a type" is not a name: letters, digits, - _ and . only / a type is a short name such as kiosk`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, answer := b.ask(http.MethodPut, "/v1/"+tc.path, tc.body)
			p := problemOf(t, answer)
			got := p.Field + ": " + p.Detail
			if strings.Contains(tc.want, " / ") {
				got += " / " + p.Hint
			}
			if code != http.StatusUnprocessableEntity || p.Code != "invalid_request" || got != tc.want {
				t.Errorf("%d %s: got\n%s\nwant\n%s", code, p.Code, got, tc.want)
			}
		})
	}
	// Of many the refused ones are named by their ids, whatever else is wrong with them.
	_, answer := b.ask(http.MethodPost, "/v1/contacts", `{"contacts": [{"persona": "X", "id": "b", "cadence": 1}, {"timezone": "Y", "id": "c"}, {"id": "d"}]}`)
	var all client.ContactsAnswer
	if err := json.Unmarshal([]byte(answer), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, item := range all.Items {
		got = append(got, item.ID+" "+item.Outcome+" "+item.Reason+" "+item.Field)
	}
	if diff := cmp.Diff([]string{"b failed invalid_contact cadence", "c failed invalid_contact timezone", "d created  "}, got); diff != "" {
		t.Error(diff)
	}
	// Odd ids are ids like others.
	for _, id := range []string{"a/b", "...", "%2F", "é 😀", `<b>"'`, "a\u00a0b", "?#&"} {
		for _, path := range []string{"/v1/records/open/", "/v1/contacts/"} {
			code, answer := b.ask(http.MethodPut, path+url.PathEscape(id), "{}")
			var kept struct{ ID string }
			if err := json.Unmarshal([]byte(answer), &kept); err != nil || code != http.StatusOK || kept.ID != id {
				t.Errorf("%s%q: %d %s", path, id, code, answer)
			}
		}
	}
}
