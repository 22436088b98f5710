package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
)

// head begins a scenario whose first step begins on line 4.
const head = "scenario: A title\nstart: 2026-05-14 09:00\nsteps:\n"

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text, want string
	}{
		{"an empty file", "", "f.yaml:1:1: the file is empty\n    a scenario begins with scenario: TITLE"},
		{"a list", "- a\n", "f.yaml:1:1: a scenario is a block of keys\n    its keys: scenario covers definitions define timezone start ticks given steps"},
		{"two scenarios, the second without its start", head + "  - at: \"10:00\"\n---\nscenario: B\nsteps:\n  - at: \"10:00\"\n", "f.yaml:6:1: start is missing\n    start: 2026-05-14 09:00 is the instant at which the scenario begins"},
		{"an unknown reason", head + "  - at: \"10:00\"\n    expect:\n      skipped:\n        - reason: duplicat\n", "f.yaml:7:19: unknown reason \"duplicat\"\n    did you mean duplicate?"},
		{"an unknown status", head + "  - at: \"10:00\"\n    state:\n      deliveries:\n        - status: snt\n", "f.yaml:7:19: unknown status \"snt\"\n    did you mean sent?"},
		{"another first key", "start: 2026-05-14 09:00\nscenario: A\nsteps: []\n", "f.yaml:1:1: a scenario begins with its title\n    write scenario: TITLE as the first key"},
		{"an unknown key", "scenario: A\nstrat: 2026-05-14 09:00\nsteps: []\n", "f.yaml:1:1: start is missing\n    start: 2026-05-14 09:00 is the instant at which the scenario begins\n" +
			"f.yaml:2:1: unknown key \"strat\"\n    did you mean start?"},
		{"no steps", "scenario: A\nstart: 2026-05-14 09:00\n", "f.yaml:1:1: steps are missing\n    a scenario expects something at an instant: steps: with a list of at, do, expect"},
		{"a start without a date", "scenario: A\nstart: \"09:00\"\nsteps: []\n", "f.yaml:2:8: \"09:00\" is not an instant with its date\n    write start: 2026-05-14 09:00"},
		{"a start that is an offset", "scenario: A\nstart: +5m\nsteps: []\n", "f.yaml:2:8: \"+5m\" is not an instant with its date\n    write start: 2026-05-14 09:00"},
		{"a bad date", "scenario: A\nstart: 2026-13-14 09:00\nsteps: []\n", "f.yaml:2:8: 2026-13-14 does not exist\n    months are 01 to 12"},
		{"a bad zone", "scenario: A\ntimezone: Europe/Berln\nstart: 2026-05-14 09:00\n", "f.yaml:2:11: \"Europe/Berln\" is not a zone\n    use a name of the tz database, such as Europe/Berlin, or UTC"},
		{"another word for ticks", "scenario: A\nstart: 2026-05-14 09:00\nticks: manuel\nsteps: []\n", "f.yaml:3:8: unknown ticks \"manuel\"\n    did you mean manual?"},
		{"steps that are no list", "scenario: A\nstart: 2026-05-14 09:00\nsteps: {at: \"10:00\"}\n", "f.yaml:3:8: steps is a list\n    write - before each entry"},
		{"a step without an instant", head + "  - note: a\n", "f.yaml:4:5: a step needs its instant\n    add at: \"10:05\""},
		{
			"a step before the one above", head + "  - at: \"10:00\"\n  - at: \"09:59\"\n",
			"f.yaml:5:9: steps ascend, and this one is before 2026-05-14 10:00:00\n    a time of day is on the day of the step above: write the date too where the day is another one",
		},
		{
			"a local time that happens twice", "scenario: A\ntimezone: Europe/Berlin\nstart: 2026-10-24 09:00\nsteps:\n  - at: 2026-10-25 02:30\n",
			"f.yaml:5:9: 2026-10-25 02:30 happens twice in Europe/Berlin\n    write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00",
		},
		{"a tick that has no effect", head + "  - at: \"10:00\"\n    tick: true\n", "f.yaml:5:11: tick has no effect: passes run by themselves\n    add ticks: manual at the top, or leave tick out"},
		{"a tick that is no truth value", "scenario: A\nstart: 2026-05-14 09:00\nticks: manual\nsteps:\n  - at: \"10:00\"\n    tick: 1\n", "f.yaml:6:11: this must be true or false"},
		{"an unknown key of a step", head + "  - at: \"10:00\"\n    expects:\n      sent: none\n", "f.yaml:5:5: unknown key \"expects\"\n    did you mean expect?"},

		{"a recipient by another key", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        recipient: {contact: ada}\n", "f.yaml:7:21: unknown key of a recipient \"contact\"\n    one of: address locale customer_ref"},
		{"a recipient that is refused on purpose", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        recipient: {contact: ada}\n        answer: {error: unknown key}\n", ""},
		{"an unknown action", head + "  - at: \"10:00\"\n    do:\n      - evnt: a\n", "f.yaml:6:9: unknown action \"evnt\"\n    did you mean event?"},
		{
			"an action of a later release", head + "  - at: \"10:00\"\n    do:\n      - clock_skew: 90s\n",
			"f.yaml:6:9: action \"clock_skew\" is not supported yet\n    this release does not have it; leave it out",
		},
		{"an action that is a text", head + "  - at: \"10:00\"\n    do: [stop]\n", "f.yaml:5:10: an action is a block of keys\n    its first key is one of: event record contact load operator run channel sink http edit apply engine database open submit subscribe unsubscribe confirm publish reply receipt"},
		{"a reply by no channel", head + "  - at: \"10:00\"\n    do:\n      - reply: hello\n        from: ada\n", "f.yaml:6:9: reply needs via\n    the channel, such as sms"},
		{"a receipt of a status that is none", head + "  - at: \"10:00\"\n    do:\n      - receipt: failed\n        to: ada\n", "f.yaml:6:18: unknown receipt \"failed\"\n    one of: accepted delivered read deferred bounced complained"},
		{"a receipt of nobody", head + "  - at: \"10:00\"\n    do:\n      - receipt: read\n", "f.yaml:6:9: receipt needs to\n    who the message was to"},
		{"a receipt that is soft for nothing", head + "  - at: \"10:00\"\n    do:\n      - receipt: read\n        to: ada\n        soft: true\n", "f.yaml:8:15: soft is of use with bounced alone\n    remove it"},
		{"a subscription without a frequency", head + "  - at: \"10:00\"\n    do:\n      - subscribe: ada\n        topic: tax\n", "f.yaml:6:9: subscribe needs frequency\n    such as frequency: immediate"},
		{"an unknown key of an action", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        payloads: {a: 1}\n", "f.yaml:7:9: unknown key \"payloads\"\n    did you mean payload?"},
		{"a payload that is a text", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        payload: x\n", "f.yaml:7:18: the payload is a block of keys"},
		{"load without its kind", head + "  - at: \"10:00\"\n    do:\n      - load: a.csv\n", "f.yaml:6:9: load needs to know what the file holds\n    add as: events, as: records or as: contacts"},
		{"load of items", head + "  - at: \"10:00\"\n    do:\n      - load: a.csv\n        as: items\n", "f.yaml:7:13: as \"items\" is not supported yet\n    this release does not have it; leave it out"},
		{"load of contacts with a type", head + "  - at: \"10:00\"\n    do:\n      - load: a.csv\n        as: contacts\n        type: kiosk\n", "f.yaml:8:15: type is that of records\n    add as: records, or leave type out"},
		{"load with a rule that is none", head + "  - at: \"10:00\"\n    do:\n      - load: a.csv\n        as: contacts\n        map: [agee]\n", "f.yaml:8:14: \"agee\" is not a rule; write FIELD=COLUMN, such as id=number"},
		{"a contact of groups", head + "  - at: \"10:00\"\n    do:\n      - contact: ada\n        set: {groups: [board]}\n", "f.yaml:7:23: groups of a contact are not written: a group says by members or where who belongs to it\n    name the contact in members of the group, or set what its where reads"},
		{"load of another format", head + "  - at: \"10:00\"\n    do:\n      - load: a.xml\n        as: events\n", "f.yaml:6:15: \"a.xml\" is neither CSV nor NDJSON\n    its name ends in .csv or .ndjson"},
		{"a redrive of nothing", head + "  - at: \"10:00\"\n    do:\n      - operator: redrive\n", "f.yaml:6:9: nothing says what to redrive\n    name the sink: its dead events are tried again"},
		{"a sink without a behaviour", head + "  - at: \"10:00\"\n    do:\n      - sink: bi\n", "f.yaml:6:9: nothing says how the sink behaves\n    add behave: temporary"},
		{"a status of an outbox event", head + "  - at: \"10:00\"\n    state:\n      outbox: [{sink: bi, status: sent}]\n", "f.yaml:6:35: unknown status \"sent\"\n    one of: pending dispatched dead"},
		{"an operator of a later release", head + "  - at: \"10:00\"\n    do:\n      - operator: accept_restore\n", "f.yaml:6:19: operator \"accept_restore\" is not supported yet\n    this release does not have it; leave it out"},
		{"an unknown operator", head + "  - at: \"10:00\"\n    do:\n      - operator: cancle\n        to: a\n", "f.yaml:6:19: unknown operator \"cancle\"\n    did you mean cancel?"},
		{"an operator without a target", head + "  - at: \"10:00\"\n    do:\n      - operator: cancel\n", "f.yaml:6:9: nothing says what to cancel\n    add workflow, on_record or to"},
		{"an operator on no record", head + "  - at: \"10:00\"\n    do:\n      - operator: retry\n        on_record: kiosk\n", "f.yaml:7:20: \"kiosk\" names no record\n    write TYPE/ID: kiosk/123"},
		{"a pause of a record", head + "  - at: \"10:00\"\n    do:\n      - operator: pause\n        workflow: a\n        on_record: kiosk/1\n", "f.yaml:6:9: pause is about a workflow\n    name it by workflow, without on_record and to"},
		{"a run of nothing", head + "  - at: \"10:00\"\n    do:\n      - operator: cancel_run\n", "f.yaml:6:9: nothing says what to cancel\n    add workflow, on_record or both"},
		{"a run of a person", head + "  - at: \"10:00\"\n    do:\n      - operator: cancel_run\n        to: ada\n", "f.yaml:7:13: what is under way is about no single person\n    name its workflow or its record; operator: cancel stops what waits for a person"},
		{"a channel that does nothing", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n", "f.yaml:6:9: nothing says how the channel behaves\n    add behave: temporary"},
		{"an unknown behaviour", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n        behave: temporal\n", "f.yaml:7:17: unknown behave \"temporal\"\n    did you mean temporary?"},
		{"a behaviour of a later release", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n        behave: slow\n", "f.yaml:7:17: behave \"slow\" is not supported yet\n    this release does not have it; leave it out"},
		{"times of none", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n        behave: ok\n        times: 0\n", "f.yaml:8:16: \"0\" is not a whole number from 1 to 1000000"},
		{
			"a bad duration", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n        behave: down\n        during: 5 minutes\n",
			"f.yaml:8:17: \"5 minutes\" is not a duration\n    a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m",
		},
		{"an edit of nothing", head + "  - at: \"10:00\"\n    do:\n      - edit: csi\n", "f.yaml:6:9: nothing says what to change\n    add set: {timing.at: \"07:00\"}\nf.yaml:6:15: \"csi\" names no definition\n    write KIND/NAME: workflow/csi-gr"},
		{"a record that is none", head + "  - at: \"10:00\"\n    do:\n      - record: kiosk\n        set: {a: 1}\n", "f.yaml:6:17: \"kiosk\" names no record\n    write TYPE/ID: kiosk/123"},
		{"a record of two minds", head + "  - at: \"10:00\"\n    do:\n      - record: kiosk/1\n        set: {a: 1}\n        delete: true\n", "f.yaml:6:9: set, replace and delete exclude each other\n    write one action for each"},
		{"a record of which nothing is said", head + "  - at: \"10:00\"\n    do:\n      - record: kiosk/1\n", "f.yaml:6:9: nothing says what becomes of the record\n    add set: {battery_level: 15}, replace, owner, parents, or delete: true"},
		{"a contact of whom nothing is said", head + "  - at: \"10:00\"\n    do:\n      - contact: ada\n", "f.yaml:6:9: nothing says what becomes of the contact\n    add set: {email: ada@example.org}, or suppress: REASON"},
		{"a wait that is none", head + "  - at: \"10:00\"\n    expect:\n      throttled:\n        - wait: an hour\n", "f.yaml:7:17: \"an hour\" is not a duration\n    a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m"},
		{"an unknown point", head + "  - at: \"10:00\"\n    do:\n      - engine: crash\n        point: before_intents\n", "f.yaml:7:16: unknown point \"before_intents\"\n    did you mean before_intent?"},
		{"a damage of nothing", head + "  - at: \"10:00\"\n    do:\n      - database: lose\n", "f.yaml:6:9: nothing says whose instances are damaged\n    add workflow: NAME"},
		{"an unknown damage", head + "  - at: \"10:00\"\n    do:\n      - database: loose\n        workflow: a\n", "f.yaml:6:19: unknown database \"loose\"\n    did you mean lose?"},
		{"a database that is away", head + "  - at: \"10:00\"\n    do:\n      - database: down\n", "f.yaml:6:19: database \"down\" is not supported yet\n    this release does not have it; leave it out"},
		{"other inputs without inputs", head + "  - at: \"10:00\"\n    do:\n      - database: alter\n        workflow: a\n", "f.yaml:6:9: nothing says by which inputs they were planned\n    add inputs: {anchor: record.other_date}"},
		{"inputs of what is lost", head + "  - at: \"10:00\"\n    do:\n      - database: lose\n        workflow: a\n        inputs: {anchor: x}\n", "f.yaml:8:17: what is lost has no inputs\n    leave inputs out, or write database: alter"},
		{"a damage to no record", head + "  - at: \"10:00\"\n    do:\n      - database: lose\n        workflow: a\n        record: s1\n", "f.yaml:8:17: \"s1\" names no record\n    write TYPE/ID: kiosk/123"},
		{"a point without a crash", head + "  - at: \"10:00\"\n    do:\n      - engine: stop\n        point: before_intent\n", "f.yaml:7:9: unknown key \"point\"\n    one of: engine every until answer"},
		{"until without every", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        until: \"11:00\"\n", "f.yaml:7:16: until has no effect without every\n    add every: 1m, or leave until out"},
		{"every nothing", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        every: 0s\n", "f.yaml:7:16: every needs a length\n    such as every: 1m"},
		{"an answer that never comes", head + "  - at: \"10:00\"\n    do:\n      - channel: email\n        behave: ok\n        answer: {outcome: created}\n", "f.yaml:8:17: channel is not answered\n    leave answer out"},
		{"an unknown field of an answer", head + "  - at: \"10:00\"\n    do:\n      - event: a\n        answer: {outcom: created}\n", "f.yaml:7:18: unknown field of answer \"outcom\"\n    did you mean outcome?"},

		{"an unknown list", head + "  - at: \"10:00\"\n    expect:\n      send: none\n", "f.yaml:6:7: unknown list \"send\"\n    did you mean sent?"},
		{"a list of state in expect", head + "  - at: \"10:00\"\n    expect:\n      pending: none\n", "f.yaml:6:7: unknown list \"pending\"\n    one of: created withdrawn moved sent received throttled returned deferred retried skipped superseded folded failed unknown held cancelled opened responded expired dispatched dead logged"},
		{"a status that no session has", head + "  - at: \"10:00\"\n    state:\n      sessions: {status: scheduled}\n", "f.yaml:6:26: unknown status \"scheduled\"\n    one of: waiting open ending ended"},
		{"answers without questions", head + "  - at: \"10:00\"\n    expect:\n      responded: {answers: 7}\n", "f.yaml:6:28: answers has names\n    such as {fever: \"yes\", pain: 7}: questions, and their answers as people read them"},
		{"a list twice", head + "  - at: \"10:00\"\n    expect:\n      sent: none\n      sent_at_least: 1\n", "f.yaml:7:7: sent is said twice\n    a list is either complete or sent_at_least"},
		{"at least of a looked-up list", head + "  - at: \"10:00\"\n    state:\n      deliveries_at_least: 1\n", "f.yaml:6:7: deliveries is looked up by row, so it never was complete\n    write deliveries"},
		{"a count of what has no end", head + "  - at: \"10:00\"\n    state:\n      upcoming: 3\n", "f.yaml:6:17: upcoming is not counted, because a series may have no end\n    write its first rows, or none"},
		{"a status that nothing to come has", head + "  - at: \"10:00\"\n    state:\n      upcoming: {status: pending}\n", "f.yaml:6:26: unknown status \"pending\"\n    one of: planned waiting overdue delayed paused held assumed"},
		{"at least none", head + "  - at: \"10:00\"\n    expect:\n      sent_at_least: none\n", "f.yaml:6:22: none says nothing about at least\n    write a number or a list of rows"},
		{"a word for a list", head + "  - at: \"10:00\"\n    expect:\n      sent: some\n", "f.yaml:6:13: \"some\" is not a list\n    write rows, a number, none or any"},
		{"an empty list", head + "  - at: \"10:00\"\n    expect:\n      sent: []\n", "f.yaml:6:13: the list is empty\n    write none"},
		{"a row that is a text", head + "  - at: \"10:00\"\n    expect:\n      sent: [alice]\n", "f.yaml:6:14: a row names its fields\n    such as to: VALUE"},
		{"a row of nothing but times", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - times: 3\n", "f.yaml:7:11: a row of nothing but times says nothing\n    write the number in place of the list"},
		{"an unknown field", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - chanel: email\n", "f.yaml:7:11: unknown field of sent \"chanel\"\n    did you mean channel?"},
		{"a field of another list", head + "  - at: \"10:00\"\n    expect:\n      created:\n        - locale: en\n", "f.yaml:7:11: unknown field of created \"locale\"\n    one of: times workflow trigger record context key at due reason"},
		{"a field of a later release", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - topic: a\n", "f.yaml:7:11: field \"topic\" is not supported yet\n    this release does not have it; leave it out"},
		{"a number that is a text", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - step: one\n", "f.yaml:7:17: \"one\" is not a whole number from 0 to 1000000"},
		{"too many times", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - {to: a, times: 20000}\n", "f.yaml:7:26: times is at most 10000\n    write the number in place of the list"},
		{"a bad instant in a row", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - at: noon\n", "f.yaml:7:15: \"noon\" is not an instant\n    " + instantHint},
		{"a bad regular expression", head + "  - at: \"10:00\"\n    expect:\n      sent:\n        - text_matches: \"(\"\n", "f.yaml:7:25: error parsing regexp: missing closing ): `(`\n    a regular expression of Go (RE2)"},
		{"definitions in brackets", "scenario: A\nstart: 2026-05-14 09:00\ndefine: [{workflow: a}]\nsteps: []\n", "f.yaml:3:9: definitions stand below one another\n    write one - per definition, on lines of its own"},
		{"a definition in braces", "scenario: A\nstart: 2026-05-14 09:00\ndefine:\n  - {workflow: a}\nsteps: []\n", "f.yaml:4:5: a definition is a block of keys\n    write it in block style, without { }: each key on a line of its own"},
		{"a definition that is a text", "scenario: A\nstart: 2026-05-14 09:00\ndefine:\n  - workflow\nsteps: []\n", "f.yaml:4:5: a definition is a block of keys\n    its first key is its kind: workflow: NAME"},
		{"what YAML readers disagree about", head + "  - at: \"10:00\"\n    note: yes\n", "f.yaml:5:11: yes means true or false to some YAML readers\n    write \"yes\" in quotes, or true / false"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, problems := Parse("f.yaml", []byte(test.text))
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
				if p.Code == "" {
					t.Errorf("%s has no code", p)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDefine(t *testing.T) {
	t.Parallel()
	text := "scenario: A\nstart: 2026-05-14 09:00\ndefine:\n  - workflow: a   # first\n    vars:\n      x: |\n        y\n\n" +
		"# between\n  - survey: é\n    title: t\nsteps:\n  - at: \"10:00\"\n"
	s, problems := Parse("f.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []definition.File{
		{Name: "f.yaml", Text: []byte("\n\n\n    workflow: a   # first\n    vars:\n      x: |\n        y\n\n\n")},
		{Name: "f.yaml", Text: []byte("\n\n\n\n\n\n\n\n\n    survey: é\n    title: t\n")},
	}
	if diff := cmp.Diff(want, s[0].Define); diff != "" {
		t.Errorf("definitions differ (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "  - at: \"10:00\"\n    do:\n      - event: a\n        payload: {a: 1.10, b: [true, null, \"x\"]}\n        every: 1m\n    expect:\n      sent:\n        - {to: a, times: 3}\n")
	f.Add("scenario: A\ntimezone: Europe/Berlin\nstart: 2026-10-24 09:00\ndefine:\n  - workflow: a\n    x: |\n      y\nticks: manual\nsteps:\n  - at: +1d\n    tick: true\n    state:\n      pending: none\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, problems := Parse("f.yaml", []byte(text))
		lines := strings.Count(text, "\n") + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" {
				t.Errorf("%q: %s", text, p)
			}
		}
		if len(problems) > 0 {
			return
		}
		for _, s := range list {
			if s.Title == "" && !strings.Contains(text, "\"\"") && !strings.Contains(text, "''") {
				t.Errorf("%q: no title", text)
			}
			at := s.Start
			for _, step := range s.Steps {
				if step.At.Before(at) {
					t.Errorf("%q: steps do not ascend", text)
				}
				at = step.At
			}
		}
	})
}
