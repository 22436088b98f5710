package loader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// routed is a workflow with a survey and a sink beside it; %s are the routes, from line 11, and further keys of the sink, from
// line 23 after a single line of routes.
const routed = `workflow: w
type: survey
vars: {low: 3}
triggers:
  - {id: t, event: visit-closed}
  - {id: u, event: visit-moved}
audience: {to: event.recipient}
channel: sms
message: {survey: q}
sinks:
%s---
survey: q
title: Your visit
invitation: {text: "How was it? {{ survey.link }}"}
questions: [{id: rate, type: rating, min: 1, max: 10, text: How was it?}]
---
channel: sms
provider: memory
---
sink: bi
provider: file
%s`

// Mistakes of routes and of what sinks take have their place and their remedy.
//
// Shows: C39, C41.
func TestMistakesOfRoutes(t *testing.T) {
	t.Parallel()
	const all = "response.completed, delivery.sent, delivery.failed, delivery.unknown, delivery.expired, instance.completed or instance.held"
	for name, tc := range map[string]struct {
		routes, sink string
		want         []string
	}{
		"the least":           {"  - sink: bi\n", "", nil},
		"every outcome":       {"  - {sink: bi, events: [" + strings.Join(definition.Outcomes(), ", ") + "]}\n", "events: [" + strings.Join(definition.Outcomes(), ", ") + "]\n", nil},
		"one, bare":           {"  - {sink: bi, events: delivery.failed}\n", "events: delivery.failed\n", nil},
		"the same sink twice": {"  - {sink: bi, when: answers.rate == 7}\n  - {sink: bi, events: delivery.failed}\n", "", nil},
		"misspelt in a route": {"  - sink: bi\n    events: [delivery.failed, delivery.fialed]\n", "", []string{`12:31 invalid: "delivery.fialed" is not a value of events | did you mean delivery.failed?`}},
		"unknown in a route":  {"  - sink: bi\n    events: opened\n", "", []string{`12:13 invalid: "opened" is not a value of events | it is ` + all}},
		"misspelt in a sink":  {"  - sink: bi\n", "events:\n  - respnse.completed\n", []string{`24:5 invalid: "respnse.completed" is not a value of events | did you mean response.completed?`}},
		"a number":            {"  - {sink: bi, events: [1]}\n", "", []string{`11:25 invalid: "1" is not a value of events | it is ` + all}},
		"a map":               {"  - {sink: bi, events: {a: b}}\n", "", []string{`11:24 invalid: this must be a text, and is a map`}},
		"none in a route":     {"  - sink: bi\n    events: []\n", "", []string{"12:13 invalid: this list of outcomes is empty | name some, or remove the line: without events it takes response.completed"}},
		"none in a sink":      {"  - sink: bi\n", "events: []\n", []string{"23:9 invalid: this list of outcomes is empty | name some, or remove the line: without events it takes all that is routed to it"}},
		"no sink":             {"  - events: delivery.sent\n", "", []string{"11:5 missing: a sink of the workflow needs sink | sink: the sink's name"}},

		"a sink that takes others": {"  - sink: bi\n    events: [delivery.failed, delivery.unknown]\n", "events: response.completed\n", []string{
			"warning 12:13 lint: sink bi takes only response.completed, and this route has only delivery.failed and delivery.unknown | name an outcome in both, or remove events from the sink: it takes all that is routed to it then",
		}},
		"a sink that takes no responses": {"  - sink: bi\n", "events: [delivery.failed]\n", []string{
			"warning 11:11 lint: sink bi takes only delivery.failed, and this route has only response.completed | name an outcome in both, or remove events from the sink: it takes all that is routed to it then",
		}},
		"a sink that takes some": {"  - {sink: bi, events: [delivery.failed, delivery.sent]}\n", "events: [delivery.sent, instance.held]\n", nil},

		"answers of what has none": {"  - sink: bi\n    events: [delivery.failed]\n    when: answers.rate == 7\n", "", []string{
			"13:11 expression: delivery.failed has no answers | only response.completed has: add it to events, or do not read answers",
		}},
		"answers in a list": {"  - sink: bi\n    events: [delivery.failed, delivery.sent]\n    when:\n      - contact.locale == \"de\"\n      - any: [event.kind == \"x\", {field: answers.rate, op: is, value: 7}]\n", "", []string{
			"15:42 expression: delivery.failed or delivery.sent has no answers | only response.completed has: add it to events, or do not read answers",
		}},
		"answers in a sink": {"  - {sink: bi, events: delivery.sent}\n", "events: delivery.sent\nwhen: now > date(\"2026-01-01\") && answers.rate == 7\n", []string{
			"24:35 expression: delivery.sent has no answers | only response.completed has: add it to events, or do not read answers",
		}},
		"answers among others": {"  - {sink: bi, events: [delivery.sent, response.completed], when: answers.rate == 7}\n", "", nil},
		"answers of all":       {"  - {sink: bi, events: delivery.sent}\n", "when: answers.rate == 7\n", nil},
		"a question that is not asked": {"  - sink: bi\n    when: answers.rate < 3 && answers.rat > 1\n", "", []string{
			`12:11 reference: survey q has no question "rat" | did you mean rate?`,
		}},
		"answers without the word": {"  - sink: bi\n    when: rate <= 2\n", "", []string{
			"12:11 expression: undefined name 'rate' | did you mean answers.rate?",
		}},
		"misspelt, without the word": {"  - {sink: bi, when: rat <= 2}\n", "", []string{
			"11:22 expression: undefined name 'rat' | did you mean answers.rate?",
		}},
		"answers without the word in a sink": {"  - sink: bi\n", "when: now > date(\"2026-01-01\") && rate <= 2\n", []string{
			"23:35 expression: undefined name 'rate' | did you mean answers.rate?",
		}},
		"another name": {"  - sink: bi\n    when: vrs.low < 3\n", "", []string{
			"12:11 expression: undefined name 'vrs' | did you mean vars?",
		}},
		"a question that no workflow asks": {"  - sink: bi\n", "when: answers.rate < 3 || answers.rat > 1\n", []string{
			`warning 23:7 lint: no survey whose answers go to sink bi has a question "rat" | did you mean rate?`,
		}},
		"the word answers": {"  - {sink: bi, events: delivery.sent, when: event.kind == \"answers\"}\n", "", nil},

		"all that can be read": {"  - sink: bi\n    when: answers.rate < vars.low && event.payload.place == \"x\" && contact.locale == workspace.locale && now > date(\"2026-01-01\")\n", "", nil},
		"a record": {"  - sink: bi\n    when: record.status == \"open\"\n", "", []string{
			"12:11 expression: undefined name 'record' | in: record.status == \"open\"\nthe names here are answers, candidate, contact, event, now, recipient, templateId, vars, workspace",
		}},
		"a constant that is not there": {"  - sink: bi\n    when: answers.rate < vars.lo\n", "", []string{`12:26 reference: workflow w has no constant "lo" | did you mean low?`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf(routed, tc.routes, tc.sink)
			lines := strings.Count(tc.routes, "\n") - 1 // what follows the routes moves with them
			_, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{Whole: true})
			for i := range problems {
				if problems[i].Line > 13+lines {
					problems[i].Line -= lines
				}
			}
			if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}

// What a route and a sink leave out is the default: a route has responses, a sink takes all.
func TestOutcomesOfRoutesAndSinks(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf(routed, "  - sink: bi\n  - {sink: bi, events: [delivery.sent, delivery.sent, instance.held]}\n", "")
	set := bundleOf(t, yaml(text)).Set
	var got [][]string
	for _, route := range set.Workflow("w").Sinks {
		got = append(got, route.Events)
	}
	if diff := cmp.Diff([][]string{{"response.completed"}, {"delivery.sent", "instance.held"}}, got); diff != "" {
		t.Error(diff)
	}
	open, narrow := set.Sink("bi"), definition.Sink{Events: []string{definition.OutcomeDeliverySent}}
	for _, outcome := range definition.Outcomes() {
		if !open.Takes(outcome) || narrow.Takes(outcome) != (outcome == "delivery.sent") {
			t.Errorf("%s: %t, %t", outcome, open.Takes(outcome), narrow.Takes(outcome))
		}
	}
}

// A route of responses in a workflow that asks nothing is said once, at its place.
func TestARouteWithoutASurvey(t *testing.T) {
	t.Parallel()
	text := func(routes string) string {
		return strings.Replace(head+"  - {id: t, event: e}\n"+tail, "---\n", "sinks:\n"+routes+"---\nsink: bi\nprovider: file\n---\n", 1)
	}
	for routes, want := range map[string][]string{
		"  - sink: bi\n": {"warning 12:11 lint: workflow w asks no survey, so it has no response.completed | write events: with others, such as delivery.failed"},
		"  - {sink: bi, events: [delivery.failed]}\n":                     nil,
		"  - {sink: bi, events: [delivery.failed, response.completed]}\n": nil,
	} {
		if diff := cmp.Diff(want, checked(text(routes))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", routes, diff)
		}
	}
}

// The condition of a sink is held against the surveys of all workflows that route to it. One that may get others later is not judged.
func TestQuestionsOfASink(t *testing.T) {
	t.Parallel()
	other := func(survey string) string {
		return "---\nworkflow: x\ntype: survey\ntriggers: [{id: t, event: e}]\naudience: {to: event.recipient}\nchannel: sms\nmessage: {survey: " + survey + "}\nsinks: [{sink: %s}]\n" +
			"---\nsurvey: p\ntitle: P\ninvitation: {text: \"{{ survey.link }}\"}\nquestions: {id: helped, type: yes_no, text: Helped?}\n"
	}
	const when = "when: answers.helped\n"
	lint := []string{`warning 23:7 lint: no survey whose answers go to sink bi has a question "helped"`}
	for name, tt := range map[string]struct {
		routes, more string
		want         []string
	}{
		"a workflow that routes elsewhere": {"  - sink: bi\n", fmt.Sprintf(other("p"), "bj") + "---\nsink: bj\nprovider: file\n", lint},
		"a second workflow":                {"  - sink: bi\n", fmt.Sprintf(other("p"), "bi"), nil},
		"a survey that is not there": {"  - sink: bi\n", fmt.Sprintf(other("none"), "bi"), []string{
			`30:19 reference: no survey named "none" | define it with survey: none`,
		}},
		"no route": {"  - sink: bj\n", "---\nsink: bj\nprovider: file\n", nil},
	} {
		problems := checked(fmt.Sprintf(routed, tt.routes, when+tt.more))
		for i := range problems { // it is an error in some sets
			problems[i] = strings.Replace(problems[i], "warning 30:", "30:", 1)
		}
		if diff := cmp.Diff(tt.want, problems); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A single question may be written without a list; its id is known to sinks as those of lists are.
func TestASingleQuestionOfASink(t *testing.T) {
	t.Parallel()
	text := strings.Replace(fmt.Sprintf(routed, "  - sink: bi\n", "when: rate < 3\n"), "questions: [{", "questions: {", 1)
	want := []string{"23:7 expression: undefined name 'rate' | did you mean answers.rate?"}
	if diff := cmp.Diff(want, checked(strings.Replace(text, "How was it?}]", "How was it?}", 1))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An invitation that does not lead to its survey is said at its place, in each language.
func TestInvitationsWithoutALink(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{text: "How was it? {{ survey.link }}"}`:                       nil,
		`{text: How was it?}`:                                           {"warning 15:20 lint: the invitation does not lead to the survey | write {{ survey.link }} where the link belongs"},
		`{text: {en: "How? {{ survey.link }}", ar: "كيف؟", sw: Vipi?}}`: {"warning 15:55 lint: the invitation in ar does not lead to the survey | write {{ survey.link }} where the link belongs", "warning 15:67 lint: the invitation in sw does not lead to the survey | write {{ survey.link }} where the link belongs"},
		`{text: "How? {{ survey.lnk }}"}`:                               nil,
	} {
		problems := checked(strings.Replace(fmt.Sprintf(routed, "  - sink: bi\n", ""), `{text: "How was it? {{ survey.link }}"}`, text, 1))
		if strings.Contains(text, "lnk") { // it is refused, and not said twice
			if len(problems) != 1 || strings.Contains(problems[0], "lead") {
				t.Errorf("%s: %v", text, problems)
			}
			continue
		}
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A survey may be one message of a course: its answers reach sinks as others do.
func TestARouteOfACourse(t *testing.T) {
	t.Parallel()
	text := func(second, when string) string {
		return "workflow: w\ntype: survey\ntriggers: [{id: t, record: patient}]\ntiming:\n  anchor: record.due\n  sequence:\n    - {day: 0, at: \"08:00\"}\n" +
			"    - {day: 3, at: \"08:00\", message: {" + second + "}}\naudience: {to: record}\nchannel: sms\nmessage: {sms: {text: Hello}}\nsinks: [{sink: bi" + when + "}]\n" +
			"---\nrecord_type: patient\nfields: {due: date}\n---\nsurvey: q\ntitle: Q\ninvitation: {text: \"{{ survey.link }}\"}\nquestions: {id: rate, type: number, text: Q}\n" +
			"---\nchannel: sms\nprovider: memory\n---\nsink: bi\nprovider: file\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a survey":                   {text("survey: q", ""), ""},
		"its answers":                {text("survey: q", ", when: answers.rate > 1"), ""},
		"a question that it has not": {text("survey: q", ", when: answers.rat > 1"), `survey q has no question "rat"`},
		"no survey":                  {text("sms: {text: Hello}", ""), "asks no survey"},
	} {
		problems := slices.DeleteFunc(checked(tt.text), func(p string) bool { return tt.want != "" && strings.Contains(p, tt.want) })
		if all := len(checked(tt.text)); len(problems) > 0 || tt.want != "" && all != 1 {
			t.Errorf("%s: %v", name, checked(tt.text))
		}
	}
}

// A set of the store that holds an outcome which this program does not know can be read. The outcome is kept: a sink that took only
// that one does not take all of a sudden everything.
func TestUnknownOutcomesOfAStoredSet(t *testing.T) {
	t.Parallel()
	set, err := loader.Compile(1, []definition.Stored{
		{Document: definition.Document{Kind: definition.KindSink, Name: "bi", Text: "sink: bi\nprovider: file\nevents: contact.merged\nwhen: answers.rate == 7\n"}},
	}, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := set.Sink("bi"); s.Takes("response.completed") || !s.Takes("contact.merged") || s.When == nil {
		t.Errorf("%+v", s)
	}
}

// Triggers may fire for the outcomes of other workflows, which the provider workflow makes events of.
func TestTriggersOnOutcomes(t *testing.T) {
	t.Parallel()
	for _, outcome := range definition.Outcomes() {
		set := bundleOf(t, yaml(head+"  - {id: t, event: "+outcome+"}\n"+tail)).Set
		if len(set.ByEvent(outcome)) != 1 {
			t.Errorf("%s fires nothing", outcome)
		}
	}
}

// A mistake in one of a thousand sinks has the place of that one, and a thousand routes may lead to them.
func TestAThousandSinks(t *testing.T) {
	t.Parallel()
	options := loader.Options{Whole: true, Sinks: []definition.ProviderInfo{{Name: "file", Settings: []definition.SettingInfo{{Name: "path", Required: true}}}}}
	write := func(odd string) (string, int) {
		routes, sinks, line := strings.Builder{}, strings.Builder{}, 0
		for i := range 1000 {
			fmt.Fprintf(&routes, "  - {sink: s-%d, when: answers.rate == %d}\n", i, i)
			setting := "path"
			if i == 700 {
				setting, line = odd, strings.Count(sinks.String(), "\n")+4
			}
			fmt.Fprintf(&sinks, "---\nsink: s-%d\nprovider: file\nsettings: {%s: a-%d.ndjson}\n", i, setting, i)
		}
		text := fmt.Sprintf(routed, routes.String(), "settings: {path: a.ndjson}\n")
		return text + sinks.String(), strings.Count(text, "\n") + line
	}
	text, _ := write("path")
	bundle, problems := loader.Load([]definition.File{yaml(text)}, options)
	if len(problems) > 0 || len(bundle.Set.Sinks()) != 1001 || len(bundle.Set.Workflow("w").Sinks) != 1000 {
		t.Fatalf("%d sinks, problems %v", len(bundle.Set.Sinks()), said(problems))
	}
	text, line := write("pth")
	_, problems = loader.Load([]definition.File{yaml(text)}, options)
	if want := []string{fmt.Sprintf("%d:12 unknown_key: provider file has no setting %q | did you mean path?", line, "pth")}; !slices.Equal(said(problems), want) {
		t.Errorf("got %v, want %v", said(problems), want)
	}
}

// Editors refuse what the loader refuses of events.
func TestSchemaOfOutcomes(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	for events, ok := range map[string]bool{"delivery.sent": true, "[delivery.sent, instance.held]": true, "[]": false, "opened": false, "[opened]": false} {
		for _, text := range []string{"sink: s\nprovider: file\nevents: " + events + "\n", head + "  - {id: t, event: e}\nsinks:\n  - {sink: s, events: " + events + "}\n"} {
			docs, problems := portable.Parse(text)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if err := valid(t, schema, docs[0].Root); (err == nil) != ok {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
