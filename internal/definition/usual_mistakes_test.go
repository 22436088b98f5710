package definition_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
)

// What newcomers write is answered with its place and with what to write instead.
func TestUsualMistakes(t *testing.T) {
	t.Parallel()
	typed := "---\nrecord_type: kiosk\nfields: {name: text}\n"
	watching := func(when string) string {
		return strings.Replace(head, "triggers:\n", "triggers:\n  - {id: t, record: kiosk, when: "+when+"}\n", 1) + strings.Replace(tail, "to: event.recipient", "everyone: true", 1) + typed
	}
	for _, tc := range []struct {
		name, text string
		strict     bool
		want       []string
	}{
		{"and", head + "  - id: t\n    event: e\n    when: event.a == 1 and event.b == 2\n" + tail, false, []string{`6:24 expression: and is no operator | write &&`}},
		{"or in a text is a text", head + "  - id: t\n    event: e\n    when: event.a == \"x or y\" OR event.b\n" + tail, false, []string{`6:31 expression: OR is no operator | write ||`}},
		{"curly quotes", head + "  - id: t\n    event: e\n    when: event.a == “x”\n" + tail, false, []string{"6:22 expression: “ is no quote that begins or ends a text | write straight quotes: \"text\""}},
		{"an address in to", head + "  - id: t\n    event: e\n" + strings.Replace(tail, "event.recipient", "ada@example.org", 1), false, []string{`7:9 invalid: ada@example.org is an address, and to is an expression | write address: '"ada@example.org"' with kind: email`}},
		{"an unknown channel", strings.Replace(head+"  - id: t\n    event: e\n"+tail, "channel: sms\nmessage", "channel: push:nobody\nmessage", 1), false, []string{
			"8:10 reference: no channel named \"push:nobody\" | define it with channel: push:nobody; one that is in force is found with --server", "10:3 missing: this message has no texts for push, by which it leaves | write push: below it",
		}},
		{"an unknown record type", strings.Replace(watching("record.name == 1"), "record: kiosk,", "record: kiosks,", 1), false, []string{`4:21 reference: no record type named "kiosks" | did you mean kiosk?`}},
		{"the owner of a record without one", watching(`record.owner == "x"`), false, []string{`4:41 not_supported_yet: "record.owner" is not supported yet | give the type kiosk a field owner that names them, of the type contact, list or record(TYPE)`}},
		{"a sink", "sink: s\nprovider: file\n", false, []string{"warning 1:1 lint: sink has no effect yet | nothing is handed to it in this release"}},
		{"a sink, strictly", "sink: s\nprovider: file\n", true, []string{"1:1 lint: sink has no effect yet | nothing is handed to it in this release"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, problems := definition.Load([]definition.File{yaml(tc.text)}, definition.Options{Whole: true, Strict: tc.strict})
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
