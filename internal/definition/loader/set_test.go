package loader_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/schedule"
)

// bySource compares what was compiled by what it was compiled from.
func bySource() cmp.Options {
	return cmp.Options{
		cmp.Transformer("program", func(p *expr.Program) string {
			if p == nil {
				return ""
			}
			return p.Source()
		}),
		cmp.Transformer("condition", func(c *expr.Condition) []string {
			var lines []string
			for _, clause := range c.Judge(expr.Input{}).Clauses {
				lines = append(lines, clause.Source)
			}
			return lines
		}),
		cmp.Transformer("text", func(t message.Text) map[string]string {
			by := map[string]string{}
			t.Templates(func(locale string, tpl *message.Template) { by[locale] = tpl.Source() })
			return by
		}),
		cmp.Transformer("pattern", func(r *regexp.Regexp) string {
			if r == nil {
				return ""
			}
			return r.String()
		}),
		cmp.AllowUnexported(definition.Set{}, definition.Trigger{}, definition.OnEvent{}, definition.OnPlan{}),
		cmpopts.EquateEmpty(),
	}
}

func bundleOf(t *testing.T, files ...definition.File) loader.Bundle {
	t.Helper()
	bundle, problems := loader.Load(files, loader.Options{})
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	return bundle
}

func yaml(text string) definition.File { return definition.File{Name: "a.yaml", Text: []byte(text)} }

func TestWorkflowValues(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, read(t, "testdata/everything.yaml")...).Set
	w := set.Workflow("everything")
	want := &definition.Trigger{
		ID: "overriding", Source: &definition.OnEvent{
			Kind: "visit-closed", Dedup: []string{"templateId", "recipient.address", "candidate.wip"},
			DedupScope: definition.DedupWorkspace, DedupMissing: definition.DedupReject,
		},
		Timing: schedule.Timing{
			Offset: civil.Duration{Days: -2}, Reminders: []civil.Duration{{Days: 5}, {Days: 10}}, RemindersFrom: schedule.FromAnchor,
			ExpireAfter: civil.Duration{Months: 1}, CatchUp: schedule.CatchUp{Within: 12 * time.Hour},
		},
		Channel: "sms:twilio", Limits: definition.Limits{AtCreate: definition.LimitDefer, AtSend: definition.LimitDefer}, Priority: flow.Immediate,
		Retry: definition.Retry{Backoff: []time.Duration{time.Minute, 90 * time.Minute}, Then: definition.RetryForever, OnCrash: definition.CrashLadder, Lease: 5 * time.Minute},
	}
	got := w.Trigger[0]
	ignored := cmpopts.IgnoreFields(definition.Trigger{}, "When", "Anchor", "Audience", "Message")
	if diff := cmp.Diff(want, got, bySource(), ignored, cmpopts.IgnoreUnexported(definition.Trigger{}, definition.OnEvent{})); diff != "" {
		t.Errorf("trigger (-want +got):\n%s", diff)
	}
	if got.Anchor.Source() != "event.closed_at" || got.Audience[0].Address.Source() != "event.guardian" || got.Audience[0].AddressKind != "sms" ||
		got.Audience[0].Where == nil || got.Audience[1].To.Source() != "event.watchers" || len(got.Message.ByKind) != 6 {
		t.Errorf("blocks of its own: %+v", got)
	}
	plain := w.Trigger[1]
	if !plain.Enabled || plain.Channel != "email:default" || !plain.Audience[0].EventRecipient || plain.Message.Survey != "everything" ||
		plain.Timing.Offset.Clock != 15*time.Minute || plain.Timing.Reminders != nil || !plain.Timing.AcceptLate || plain.Pin {
		t.Errorf("the workflow's blocks: %+v", plain)
	}
	if w.Vars["limit"] != json.Number("1.10") {
		t.Errorf("a number lost its digits: %v", w.Vars["limit"])
	}
	if w := set.Workspace; w.Timezone != "Europe/Berlin" || w.Locale != "de" || w.BaseURL != "https://carillon.example.org" || len(w.Retry.Backoff) != 0 {
		t.Errorf("workspace %+v", w)
	}
	if s := set.Channel("email:default").Settings; s["host"].Value != "127.0.0.1" || s["password"].Env != "SMTP_PASSWORD" || s["token"].File != "/run/secrets/token" {
		t.Errorf("settings %+v", s)
	}
}

// TestSourceExamples shows the two surveys of the source as the examples define them: their triggers, recipes and
// durations.
//
// Shows: C3, C7.
func TestSourceExamples(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, examples(t)...).Set
	days := func(all ...int) []civil.Duration {
		var list []civil.Duration
		for _, n := range all {
			list = append(list, civil.Duration{Days: n})
		}
		return list
	}
	onEvent := func(kind string, dedup ...string) *definition.OnEvent {
		return &definition.OnEvent{Kind: kind, Dedup: dedup, DedupScope: definition.DedupWorkflow, DedupMissing: definition.DedupAllow}
	}
	for name, want := range map[string]*definition.Trigger{
		"csi-gr": {
			ID: "csi-gr-trigger", Enabled: true, Channel: "memory:default",
			Source: onEvent("service-visit-closed", "templateId", "recipient.address", "candidate.dealerId", "candidate.wip"),
			Timing: schedule.Timing{Reminders: days(1), RemindersFrom: schedule.FromPrevious, ExpireAfter: civil.Duration{Days: 30}},
		},
		"voc-new-vehicle": {
			ID: "voc", Enabled: true, Channel: "whatsapp:default",
			Source: onEvent("vehicle-invoiced", "templateId", "recipient.address", "candidate.dealerId", "candidate.salesInvoiceNumber"),
			Timing: schedule.Timing{
				Offset: civil.Duration{Days: 60}, Reminders: days(5, 10, 15), RemindersFrom: schedule.FromPrevious,
				ExpireAfter: civil.Duration{Days: 30}, CatchUp: schedule.CatchUp{Forever: true},
			},
		},
	} {
		got := set.Workflow(name).Trigger[0]
		ignored := cmpopts.IgnoreFields(definition.Trigger{}, "When", "Audience", "Message", "Retry", "Pin", "Limits", "inputs")
		if diff := cmp.Diff(want, got, bySource(), ignored, cmpopts.IgnoreTypes(portable.Pos{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !got.Audience[0].EventRecipient || got.Message.Survey != name {
			t.Errorf("%s: audience %+v, message %+v", name, got.Audience, got.Message)
		}
	}
	if w := set.Workflow("csi-gr"); w.ExtIDValue() != json.Number("4523") || len(w.Sinks) != 3 {
		t.Errorf("csi-gr: ext_id %v, sinks %v", w.ExtIDValue(), w.Sinks)
	}
}

// TestDefaults shows what a short definition means.
func TestDefaults(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, yaml(short("w", ""))).Set
	w := set.Workflow("w")
	tr, source := w.Trigger[0], w.Trigger[0].OnEvent()
	if !w.Enabled || w.ExtID != "w" || !tr.Enabled || !tr.Pin || tr.Anchor != nil || tr.When != nil || source.Dedup != nil ||
		source.DedupScope != definition.DedupWorkflow || source.DedupMissing != definition.DedupAllow {
		t.Errorf("workflow %+v, trigger %+v", w, tr)
	}
	short, long := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}, []time.Duration{2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour}
	retry := definition.Retry{Backoff: short, Patient: slices.Concat(short, long), Jitter: 20, Then: definition.RetryFail, OnCrash: definition.CrashNow}
	if diff := cmp.Diff(retry, tr.Retry); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	if set.Workspace.Timezone != "UTC" || set.Workspace.Locale != "en" {
		t.Errorf("workspace %+v", set.Workspace)
	}
}

// short is a workflow that says hello by SMS; more is added to its trigger.
func short(name, more string) string {
	return fmt.Sprintf(`workflow: %s
type: alert
triggers:
  - id: t
    event: hello
%saudience:
  - to: event.recipient
channel: sms
message:
  sms:
    text: Hello
---
channel: sms
provider: memory
`, name, more)
}

// TestExtID shows that an id of another system keeps its digits and is a JSON number for systems that expect one.
func TestExtID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ written, text, value string }{
		{"4523", "4523", "4523"},
		{`"4523"`, "4523", "4523"},
		{`"0123"`, "0123", `"0123"`},
		{"1.10", "1.10", `"1.10"`},
		{"crm-7", "crm-7", `"crm-7"`},
		{"12345678901234567890", "12345678901234567890", `"12345678901234567890"`},
	} {
		text := strings.Replace(short("w", ""), "type: alert", "type: alert\next_id: "+tc.written, 1)
		got := bundleOf(t, yaml(text)).Set.Workflow("w")
		value, err := json.Marshal(got.ExtIDValue())
		if err != nil || got.ExtID != tc.text || string(value) != tc.value {
			t.Errorf("ext_id: %s is %q and %s, want %q and %s", tc.written, got.ExtID, value, tc.text, tc.value)
		}
	}
}

// TestConditionsMeanTheSameInEveryForm shows one evaluator behind a trigger's when and a form's show_when, whichever
// way the condition is written.
//
// Shows: C6.
func TestConditionsMeanTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"expression":         "event.jobType == \"GR\" && event.wip > 4",
		"list":               "[event.jobType == \"GR\", event.wip > 4]",
		"all":                "{all: [event.jobType == \"GR\", event.wip > 4]}",
		"fields":             "[{field: candidate.jobType, op: is, value: GR}, {field: candidate.wip, op: more_than, value: 4}]",
		"fields as in forms": "[{field: candidate.jobType, op: \"==\", value: GR}, {field: candidate.wip, op: \">\", value: 4}]",
		"any in all":         "[{any: [event.jobType == \"GR\"]}, event.wip > 4]",
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			when := bundleOf(t, yaml(short("w", "    when: "+form+"\n"))).Set.Workflow("w").Trigger[0].When
			for _, tc := range []struct {
				payload map[string]any
				want    bool
			}{
				{map[string]any{"jobType": "GR", "wip": 5}, true},
				{map[string]any{"jobType": "PM", "wip": 5}, false},
				{map[string]any{"jobType": "GR", "wip": 4.0}, false},
				{map[string]any{"jobType": "GR"}, false},
			} {
				in := expr.Input{Event: expr.Overlay(tc.payload, "payload", nil)}
				if got := when.Holds(in); got != tc.want {
					t.Errorf("%v: %v, want %v", tc.payload, got, tc.want)
				}
			}
		})
	}
	const survey = "survey: s\ntitle: S\nquestions:\n  - {id: a, type: number, text: A}\n  - id: b\n    type: text\n    text: B\n    show_when: {field: answers.a, op: at_least, value: 7}\n"
	show := bundleOf(t, yaml(survey)).Set.Survey("s").Form.Questions[1].ShowWhen
	for answer, want := range map[float64]bool{7: true, 6: false} {
		if got := show.Holds(expr.Input{Answers: map[string]any{"a": answer}}); got != want {
			t.Errorf("shown after %v: %v, want %v", answer, got, want)
		}
	}
}

// TestCompileIsLoad shows that a set from the store is the set from the files.
func TestCompileIsLoad(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]definition.File{"everything": read(t, "testdata/everything.yaml"), "examples": examples(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle := bundleOf(t, files...)
			stored := make([]definition.Stored, len(bundle.Documents))
			for i, d := range bundle.Documents {
				stored[len(stored)-1-i] = definition.Stored{ // the store's order is another
					Document: definition.Document{Kind: d.Kind, Name: d.Name, Text: d.Text, Hash: d.Hash}, Version: 3,
				}
			}
			set, err := loader.Compile(7, stored, loader.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if set.Number != 7 {
				t.Errorf("number %d", set.Number)
			}
			versions := cmp.FilterPath(func(p cmp.Path) bool {
				name := p.Last().String()
				return name == ".Number" || name == ".Version"
			}, cmp.Ignore())
			if diff := cmp.Diff(bundle.Set, set, bySource(), versions, cmpopts.IgnoreTypes(portable.Pos{})); diff != "" {
				t.Errorf("the sets differ (-files +store):\n%s", diff)
			}
			if w := set.Workflow("csi-gr"); name == "examples" && (w == nil || w.Version != 3 || set.Survey("csi-gr").Version != 3) {
				t.Errorf("versions are lost")
			}
		})
	}
}

func TestByEvent(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, yaml(short("zebra", "    enabled: false\n")), definition.File{Name: "b.yaml", Text: []byte(strings.Split(short("aardvark", ""), "---")[0])}).Set
	var got []string
	for _, m := range set.ByEvent("hello") {
		got = append(got, fmt.Sprint(m.Workflow.Name, " ", m.Trigger.ID, " ", m.Trigger.Enabled))
	}
	if diff := cmp.Diff([]string{"aardvark t true", "zebra t false"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if set.ByEvent("other") != nil {
		t.Error("an event that nobody listens to has triggers")
	}
}

// TestHash shows what makes a definition another one.
func TestHash(t *testing.T) {
	t.Parallel()
	const base = "workspace: default\ntimezone: UTC\nretry:\n  backoff: [1m, 5m]\n"
	hash := func(text string) string { return bundleOf(t, yaml(text)).Documents[0].Hash }
	for name, tc := range map[string]struct {
		text string
		same bool
	}{
		"comments":        {"# A workspace\n" + base + "# end\n", true},
		"blanks":          {"workspace:   default\n\ntimezone: UTC\nretry:\n    backoff:\n      - 1m\n      - 5m\n", true},
		"quotes":          {"workspace: \"default\"\ntimezone: 'UTC'\nretry: {backoff: [1m, 5m]}\n", true},
		"order of keys":   {"workspace: default\nretry:\n  backoff: [1m, 5m]\ntimezone: UTC\n", true},
		"a value":         {"workspace: default\ntimezone: UTC\nretry:\n  backoff: [1m, 6m]\n", false},
		"order of a list": {"workspace: default\ntimezone: UTC\nretry:\n  backoff: [5m, 1m]\n", false},
		"another key":     {base + "locale: en\n", false},
	} {
		if got := hash(tc.text) == hash(base); got != tc.same {
			t.Errorf("%s: same %v, want %v", name, got, tc.same)
		}
	}
}

// TestDocuments shows that a file is cut into its definitions.
func TestDocuments(t *testing.T) {
	t.Parallel()
	const text = "# first\nsink: a\nprovider: file\n---\n# second\n\nsink: b # here\nprovider: file\n"
	docs := bundleOf(t, yaml(text)).Documents
	want := []definition.Document{
		{Kind: "sink", Name: "a", Text: "# first\nsink: a\nprovider: file\n", File: "a.yaml", Line: 2},
		{Kind: "sink", Name: "b", Text: "# second\n\nsink: b # here\nprovider: file\n", File: "a.yaml", Line: 7},
	}
	if diff := cmp.Diff(want, docs, cmpopts.IgnoreFields(definition.Document{}, "Hash")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestScenariosAreLeftAlone shows that files of scenarios are handed on.
func TestScenariosAreLeftAlone(t *testing.T) {
	t.Parallel()
	scenario := definition.File{Name: "s.yaml", Text: []byte("scenario: A title\nsteps: !x\n")}
	bundle, problems := loader.Load([]definition.File{scenario, yaml("sink: a\nprovider: file\n")}, loader.Options{})
	if len(problems) > 0 || len(bundle.Documents) != 1 || len(bundle.Scenarios) != 1 || bundle.Scenarios[0].Name != "s.yaml" {
		t.Errorf("bundle %+v, problems %v", bundle, problems)
	}
}

// TestKnown shows that files may refer to what is in force, and replace it.
func TestKnown(t *testing.T) {
	t.Parallel()
	force := bundleOf(t, read(t, "testdata/everything.yaml")...).Documents
	known := make([]definition.Stored, len(force))
	for i, d := range force {
		known[i] = definition.Stored{Document: d, Version: 1}
	}
	const files = "workflow: w\ntype: alert\ntriggers:\n  - id: t\n    event: hello\naudience:\n  - to: event.recipient\nchannel: sms:twilio\nmessage:\n  template: everything\n---\nworkspace: default\nlocale: sw\n"
	_, alone := loader.Load([]definition.File{yaml(files)}, loader.Options{})
	if find(alone, definition.CodeReference, "template") == nil || find(alone, definition.CodeReference, "channel") == nil {
		t.Errorf("alone: %v", alone)
	}
	bundle, problems := loader.Load([]definition.File{yaml(strings.Replace(files, "message:", "vars:\n  tips: [x]\nmessage:", 1))}, loader.Options{Known: known})
	for _, p := range problems {
		t.Error(p)
	}
	if len(bundle.Documents) != 2 || bundle.Set.Workspace.Locale != "sw" || bundle.Set.Survey("everything") == nil {
		t.Errorf("bundle %+v", bundle)
	}
	_, problems = loader.Load([]definition.File{yaml("workspace: other\n")}, loader.Options{Known: known})
	if find(problems, definition.CodeDuplicate, "default") == nil {
		t.Errorf("a second workspace: %v", problems)
	}
}

// FuzzLoad shows that no text is too strange, that every problem lies in it, and that what is accepted can be read from
// the store: alone, and beside or instead of what was in force.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{
		"testdata/everything.yaml", "../../../examples/csi-gr.yaml", "../../../examples/kiosk-health.yaml", "../../../examples/morale.yaml",
		"../../../examples/personas.yaml", "../../../examples/record-types.yaml", "testdata/errors/08-times.yaml", "testdata/errors/09-reference.yaml",
	} {
		f.Add(string(read(f, name)[0].Text))
	}
	for _, place := range places() {
		f.Add(place)
	}
	f.Add("template: machine\nsms:\n  text: \"{{ event.name }}\"\n")
	f.Add("record_type: machine\nfields: {load: text}\n")
	f.Add("persona: Everybody\ncadence:\n  channels: {inbox: {quiet_hours: \"07:00-21:00\"}}\n")
	compiler, err := expr.NewCompiler()
	if err != nil {
		f.Fatal(err)
	}
	options := loader.Options{Compiler: compiler}
	force, problems := loader.Load(read(f, "testdata/everything.yaml"), options)
	if definition.HasErrors(problems) {
		f.Fatal(problems)
	}
	var known []definition.Stored
	for _, d := range force.Documents {
		known = append(known, definition.Stored{Document: d, Version: 1})
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, known := range [][]definition.Stored{nil, known} {
			options.Known = known
			bundle, problems := loader.Load([]definition.File{yaml(text)}, options)
			lines := strings.Count(text, "\n") + 1
			for _, p := range problems {
				inForce := known != nil && p.File != "a.yaml"
				if (p.Line < 1 || p.Line > lines || p.Column < 1 || p.Column > len(text)+1) && !inForce || p.Message == "" || p.Code == "" {
					t.Fatalf("%#v in a text of %d lines", p, lines)
				}
			}
			if slices.ContainsFunc(problems, func(p definition.Problem) bool { return p.Code == definition.CodeSyntax }) {
				return
			}
			if definition.HasErrors(problems) {
				continue
			}
			if _, err := loader.Compile(1, merged(known, bundle.Documents), loader.Options{Compiler: compiler}); err != nil {
				t.Fatalf("loads from a file and not from the store: %v", err)
			}
		}
	})
}

// merged is what is in force once documents were applied.
func merged(known []definition.Stored, docs []definition.Document) []definition.Stored {
	all := slices.Clone(known)
	for _, d := range docs {
		same := func(s definition.Stored) bool { return s.Kind == d.Kind && s.Name == d.Name }
		all = append(slices.DeleteFunc(all, same), definition.Stored{Document: d, Version: 2})
	}
	return all
}

// BenchmarkLoad reads a folder of 500 workflows, each with a condition, a template and a message.
func BenchmarkLoad(b *testing.B) {
	files := make([]definition.File, 500)
	for i := range files {
		files[i] = definition.File{Name: fmt.Sprintf("%d.yaml", i), Text: []byte(strings.Split(
			short(fmt.Sprintf("w%d", i), "    when: event.jobType == \"GR\"\n"), "---")[0])}
	}
	compiler, err := expr.NewCompiler()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, problems := loader.Load(files, loader.Options{Compiler: compiler}); definition.HasErrors(problems) {
			b.Fatal(problems[0])
		}
	}
}
