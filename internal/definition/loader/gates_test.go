package loader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
)

// TestTriggerOnRecords shows the whole of a trigger on records, once with issues and once with when.
//
// Shows: A1, A25, A28.
func TestTriggerOnRecords(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, read(t, "testdata/everything.yaml")...).Set
	watch := set.Workflow("watch")
	sources := func(programs []*expr.Program) []string {
		var all []string
		for _, p := range programs {
			all = append(all, p.Source())
		}
		return all
	}
	machine, down := watch.TriggerByID("machine"), watch.TriggerByID("down")
	type shape struct {
		Record            string
		Issues            []string
		For               time.Duration
		Check             definition.Check
		Length            time.Duration
		Per               []string
		Single            map[string]time.Duration
		Reset             bool
		Fallback          []string
		Resolved          bool
		Pin               bool
		Limits            definition.Limits
		Personas          []string
		Everyone, HasWhen bool
	}
	of := func(t *definition.Trigger) shape {
		c := t.OnCondition()
		s := shape{
			Record: c.Record, For: c.For, Check: c.Check, Length: c.Cooldown.Length, Per: sources(c.Cooldown.Per), Single: c.Cooldown.Issues,
			Reset: c.Cooldown.ResetOnClear, Fallback: t.Fallback, Resolved: c.Resolved != nil, Pin: t.Pin, Limits: t.Limits,
			Personas: t.Personas(), Everyone: t.Audience[1].Everyone, HasWhen: t.When != nil,
		}
		for _, issue := range c.Issues {
			s.Issues = append(s.Issues, issue.Name)
		}
		return s
	}
	want := shape{
		Record: "machine", Issues: []string{"HOT", "SILENT"}, For: 30 * time.Second, Check: definition.Check{Change: true, Every: 5 * time.Minute},
		Length: time.Hour, Per: []string{"record.id", "record.site", "issues"}, Single: map[string]time.Duration{"SILENT": 15 * time.Minute}, Reset: true,
		Resolved: true, Personas: []string{"Everybody"}, Everyone: true,
		Limits: definition.Limits{
			AtCreate: definition.LimitSkip, AtSend: definition.LimitFail, KeepQueued: true, Revalidate: true,
			SendWindow: civil.Span{From: 8 * 3600, To: 20 * 3600},
		},
	}
	if diff := cmp.Diff(want, of(machine), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("with issues (-want +got):\n%s", diff)
	}
	want = shape{
		Record: "machine", Check: definition.Check{Every: time.Hour}, Fallback: []string{"sms:twilio"}, Resolved: true, HasWhen: true,
		Personas: []string{"Everybody"}, Everyone: true,
		Limits: definition.Limits{Critical: true, Uncounted: true, AtCreate: definition.LimitDefer, AtSend: definition.LimitDefer},
	}
	if diff := cmp.Diff(want, of(down), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("with when (-want +got):\n%s", diff)
	}
	if ofMachine, ofDown := machine.ResolvedMessage(), down.ResolvedMessage(); len(down.Message.ByKind) != 2 || len(ofMachine.ByKind) != 1 || len(ofDown.ByKind) != 2 {
		t.Errorf("messages: %v, %v, %v", down.Message, ofMachine, ofDown)
	}
	var matches []string
	for _, m := range set.ByRecord("machine") {
		matches = append(matches, m.Workflow.Name+" "+m.Trigger.ID)
	}
	if diff := cmp.Diff([]string{"watch machine", "watch down"}, matches); diff != "" {
		t.Errorf("by record (-want +got):\n%s", diff)
	}
	if set.ByRecord("other") != nil || set.ByEvent("") != nil {
		t.Error("a trigger is found where it does not belong")
	}
}

// TestShortTriggerOnRecords shows what a short definition means: evaluated on every change, a context is a record with
// its issues, and the definitions of the moment of sending hold.
//
// Shows: A12.
func TestShortTriggerOnRecords(t *testing.T) {
	t.Parallel()
	trigger := func(lines string) *definition.Trigger {
		return bundleOf(t, yaml(onRecord(lines))).Set.Workflow("w").Trigger[0]
	}
	issues := trigger("    issues: {LOW: record.battery < 20}\n")
	if c := issues.OnCondition().Cooldown; c.Length != 0 || len(c.Per) != 2 || c.Per[0].Source() != "record.id" || c.Per[1].Source() != "issues" || c.ResetOnClear {
		t.Errorf("cooldown of issues %+v", c)
	}
	when := trigger("    when: record.battery < 20\n    cooldown: {length: 2h}\n")
	if c := when.OnCondition().Cooldown; c.Length != 2*time.Hour || len(c.Per) != 1 || c.Per[0].Source() != "record.id" {
		t.Errorf("cooldown of when %+v", c)
	}
	for _, tr := range []*definition.Trigger{issues, when} {
		if w := tr.Watch(); w.Check != (definition.Check{Change: true}) || w.For != 0 || tr.Pin || tr.Limits.Revalidate || tr.ResolvedMessage() != nil || tr.Fallback != nil {
			t.Errorf("trigger %+v", tr)
		}
	}
	reminder := bundleOf(t, yaml(strings.Replace(onRecord("    issues: {LOW: record.battery < 20}\n"), "type: alert", "type: reminder", 1)))
	if !reminder.Set.Workflow("w").Trigger[0].Limits.Revalidate {
		t.Error("a reminder is not evaluated again before it is sent")
	}
}

// TestEventsAreNeverOver shows that a workflow of both kinds of triggers may say what it says when a condition clears.
func TestEventsAreNeverOver(t *testing.T) {
	t.Parallel()
	text := strings.Replace(onRecord("    issues: {LOW: record.battery < 20}\n  - id: e\n    event: battery.low\n"), "message:", "resolved: {sms: {text: Over}}\nmessage:", 1)
	w := bundleOf(t, yaml(text)).Set.Workflow("w")
	first, second := w.Trigger[0].ResolvedMessage(), w.Trigger[1].ResolvedMessage()
	if first == nil || second != nil || !w.Trigger[1].Pin || w.Trigger[0].Pin {
		t.Errorf("resolved %v and %v, pin %v and %v", first, second, w.Trigger[0].Pin, w.Trigger[1].Pin)
	}
}

// onRecord is a workflow that says hello by SMS when the lines of its trigger, from the sixth line on, say so.
// Where a workspace says nothing of limits, those of the source hold, and check can say for which messages. What it says
// replaces them whole.
//
// Shows: A37.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	const workflows = "---\npersona: Boss\ncadence: {max_per_day: 3}\n---\npersona: Guest\n---\nchannel: memory\nprovider: memory\n"
	of := func(name, typ, audience, limits string) string {
		return "---\nworkflow: " + name + "\ntype: " + typ + "\ntriggers: [{id: t, event: e, dedup: [candidate." + name + "]}]\naudience: [" + audience +
			"]\nchannel: memory\nmessage: {sms: {text: hi}}\n" + limits
	}
	all := workflows + of("a", "custom", "{to: event.recipient}", "") + of("b", "alert", "{persona: Boss}", "") +
		of("c", "report", "{everyone: true}", "limits: {critical: true}\n") + of("d", "reminder", "{to: event.recipient}", "")
	guests := of("e", "story_so_far", "{persona: Boss}, {persona: Guest}", "")
	byDefault := cadence.Rules{Policy: cadence.Policy{
		Cooldown: time.Hour, MaxPerDay: 1, MaxPerWeek: 2, TypeLimits: map[string]int{"report": 2, "alert": 5, "story_so_far": 1, "custom": 2},
		Types: []string{"report", "alert", "story_so_far", "custom"},
	}}
	for workspace, want := range map[string]struct {
		cadence cadence.Rules
		layer   cadence.Layer
		types   []string
	}{
		"":                                 {byDefault, cadence.LayerDefault, []string{"custom"}},
		"workspace: default\nlocale: de\n": {byDefault, cadence.LayerDefault, []string{"custom"}},
		"workspace: default\ncadence: {max_per_day: 0}\n": {cadence.Rules{}, cadence.LayerWorkspace, nil},
		"workspace: default\ncadence: {cooldown: 2h}\n":   {cadence.Rules{Policy: cadence.Policy{Cooldown: 2 * time.Hour}}, cadence.LayerWorkspace, nil},
	} {
		set := bundleOf(t, yaml(workspace+all)).Set
		if diff := cmp.Diff(want.cadence, set.Workspace.Cadence); diff != "" || set.Workspace.Limits != want.layer {
			t.Errorf("%q: %s (-want +got)\n%s", workspace, set.Workspace.Limits, diff)
		}
		if diff := cmp.Diff(want.types, set.LimitedByDefault(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: limited (-want +got)\n%s", workspace, diff)
		}
		if want.types != nil {
			want.types = append(want.types, "story_so_far") // to people of a persona without limits
		}
		if diff := cmp.Diff(want.types, bundleOf(t, yaml(workspace+all+guests)).Set.LimitedByDefault(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: limited with guests (-want +got)\n%s", workspace, diff)
		}
	}
}

func onRecord(lines string) string {
	return "workflow: w\ntype: alert\ntriggers:\n  - id: t\n    record: kiosk\n" + lines + `audience:
  - everyone: true
channel: sms
message:
  sms:
    text: Hello
---
channel: sms
provider: memory
`
}

// TestCooldownOf follows product decision 7: own, else the shortest of the audience's personas, else an hour.
//
// Shows: A12, A13, A23.
func TestCooldownOf(t *testing.T) {
	t.Parallel()
	persona := func(name, cooldown string) string {
		return fmt.Sprintf("---\npersona: %s\ncadence: {%s}\n", name, cooldown)
	}
	base := onRecord("    issues: {A: record.a == 1, B: record.b == 1, C: record.c == 1}\n    cooldown: {COOLDOWN}\n") +
		persona("Manager", "cooldown: 2h") + persona("Executive", "cooldown: 4h") + persona("Guest", "max_per_day: 1")
	for _, tc := range []struct {
		name, cooldown string
		audience       []string
		issues         []string
		want           time.Duration
	}{
		{"nothing said", "", []string{"everyone: true"}, []string{"A"}, time.Hour},
		{"its own", "length: 30m", []string{"persona: Manager"}, []string{"A"}, 30 * time.Minute},
		{"the persona's", "", []string{"persona: Manager"}, []string{"A"}, 2 * time.Hour},
		{"the persona's, said so", "length: persona", []string{"persona: Manager"}, []string{"A"}, 2 * time.Hour},
		{"the shortest of the personas", "", []string{"persona: Executive", "persona: Manager", "persona: Guest"}, []string{"A"}, 2 * time.Hour},
		{"personas without one", "", []string{"persona: Guest"}, []string{"A"}, time.Hour},
		{"an issue's", "length: 2h, issues: {B: 15m}", []string{"persona: Manager"}, []string{"B"}, 15 * time.Minute},
		{"another issue", "length: 2h, issues: {B: 15m}", []string{"persona: Manager"}, []string{"A"}, 2 * time.Hour},
		{"one of several issues", "length: 2h, issues: {B: 15m}", []string{"persona: Manager"}, []string{"A", "B"}, 15 * time.Minute},
		{"the shortest of several issues", "issues: {A: 20m, B: 15m}", []string{"persona: Manager"}, []string{"A", "B", "C"}, 15 * time.Minute},
		{"an issue that takes longer", "length: 1h, issues: {A: 6h}", []string{"persona: Manager"}, []string{"A"}, 6 * time.Hour},
		{"no issues, as after when", "length: 1h, issues: {A: 6h}", []string{"persona: Manager"}, nil, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(base, "COOLDOWN", tc.cooldown, 1)
			text = strings.Replace(text, "everyone: true", strings.Join(tc.audience, "\n  - "), 1)
			set := bundleOf(t, yaml(text)).Set
			if got := definition.CooldownOf(set, set.Workflow("w").Trigger[0], tc.issues); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
	if got := definition.CooldownOf(&definition.Set{}, &definition.Trigger{}, nil); got != 0 {
		t.Errorf("a trigger without a cooldown waits %v", got)
	}
}

// TestPersonas shows the limits of people as they are written, also those of one kind of channel.
//
// Shows: A30, A31, A32, A33, A34, A41.
func TestPersonas(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, read(t, "testdata/everything.yaml")...).Set
	rules := set.Persona("Everybody").Cadence
	want := cadence.Policy{
		Cooldown: 2 * time.Hour, MaxPerDay: 5, MaxPerWeek: 20, MaxPerMonth: 80, MaxPerSlot: 3, TypeLimits: map[string]int{"alert": 3, "report": 2},
		Types: []string{"alert", "report", "survey"}, Count: cadence.CountSent, ResumeAt: 8 * 3600,
		Quiet: civil.Span{From: 20 * 3600, To: 7 * 3600}, Rolling: true, SlotGrace: 2 * time.Minute,
		Total: cadence.Total{
			MaxPerDay: 9, MaxPerWeek: 30, MaxPerMonth: 90, Types: []string{"alert", "report", "survey"}, Count: cadence.CountSent, Rolling: true,
		},
	}
	total := want.Total
	if diff := cmp.Diff(want, rules.For("email")); diff != "" {
		t.Errorf("email (-want +got):\n%s", diff)
	}
	want = cadence.Policy{MaxPerDay: 4, ResumeAt: 8 * 3600, Total: total} // a block of its own replaces the other whole, but for the total
	if diff := cmp.Diff(want, rules.For("sms")); diff != "" {
		t.Errorf("sms (-want +got):\n%s", diff)
	}
	if got := set.Workspace.Cadence.For("email"); got.Cooldown != time.Hour {
		t.Errorf("the workspace's cadence %+v", got)
	}
	if set.Persona("Nobody") != nil || len(set.Personas()) != 1 || set.Personas()[0].Name != "Everybody" {
		t.Errorf("personas %v", set.Personas())
	}
}

func TestRecordTypes(t *testing.T) {
	t.Parallel()
	set := bundleOf(t, read(t, "testdata/everything.yaml")...).Set
	want := map[string]string{"name": "text", "load": "number", "running": "bool", "site": "record(site)", "checked_at": "datetime"}
	typed := map[string]expr.Type{"name": expr.Text, "load": expr.Number, "running": expr.Bool, "site": expr.Any, "checked_at": expr.Time}
	related := map[string]*expr.RecordType{"site": set.RecordType("site")}
	if diff := cmp.Diff(&expr.RecordType{Name: "machine", Fields: typed, Declared: want, Related: related}, set.RecordType("machine")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if set.RecordType("other") != nil {
		t.Error("a type that nobody declared has fields")
	}
}

// TestNewFilesMustFitWhatIsInForce shows that a new type or template that breaks a workflow in force is refused with the
// place, and that the set in the store is readable whatever was applied.
func TestNewFilesMustFitWhatIsInForce(t *testing.T) {
	t.Parallel()
	const types = "record_type: kiosk\nfields: {battery: number, name: text}\n"
	const template = "template: low\nsms:\n  text: \"{{ record.name }} is low\"\n"
	force := strings.Replace(onRecord("    issues: {LOW: record.battery < 20}\n    limits: {send_window: \"20:00-23:00\"}\n"), "  sms:\n    text: Hello\n", "  template: low\n", 1)
	force = strings.Replace(force, "everyone: true", "persona: P", 1) + "---\n" + types + "---\n" + template + "---\npersona: P\n"
	var known []definition.Stored
	for _, d := range bundleOf(t, yaml(force)).Documents {
		known = append(known, definition.Stored{Document: d, Version: 1})
	}
	for _, tc := range []struct {
		name, file string
		want       []string
	}{
		{"a field more", "record_type: kiosk\nfields: {battery: number, name: text, site: text}\n", nil},
		{"another type", "record_type: site\nfields: {name: text}\n", nil},
		{"a field that is read", "record_type: kiosk\nfields: {charge: number, name: text}\n", []string{
			"workflow w in force 6:25 expression: undefined field 'battery' | it does not fit these files: correct it and apply it with them",
		}},
		{"a field that is written", "record_type: kiosk\nfields: {battery: number}\n", []string{
			`workflow w in force 12:13 template: template low writes record.name, and records of type kiosk have no field "name" | it does not fit these files: correct it and apply it with them`,
		}},
		{"a template for another channel", "template: low\ninbox: {text: Hello}\n", []string{
			"workflow w in force 12:3 missing: this message has no texts for sms, by which it leaves | it does not fit these files: correct it and apply it with them",
		}},
		{"quiet hours over the window", "persona: P\ncadence: {quiet_hours: \"19:00-07:00\"}\n", []string{
			"workflow w in force 7:27 invalid: persona P has quiet hours 19:00-07:00, which cover all of the send window | it does not fit these files: correct it and apply it with them",
		}},
		{"a template for events", "template: low\nsms:\n  text: \"{{ event.name }}\"\n", []string{
			"workflow w in force 12:13 template: template low writes event.name, and there is no event here: the trigger is on records | it does not fit these files: correct it and apply it with them",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bundle, problems := loader.Load([]definition.File{yaml(tc.file)}, loader.Options{Known: known})
			var got []string
			for i, line := range said(problems) {
				got = append(got, problems[i].File+" "+line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if _, err := loader.Compile(2, merged(known, bundle.Documents), loader.Options{}); err != nil {
				t.Errorf("such a set cannot be read from the store: %v", err)
			}
		})
	}
}

// TestAcceptedEditsCanBeRead leaves out each line of each definition in force that workflows refer to, alone with what
// hangs on it: whatever is accepted then, the whole set can be read from the store.
func TestAcceptedEditsCanBeRead(t *testing.T) {
	t.Parallel()
	compiler, err := expr.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	var known []definition.Stored
	for _, d := range bundleOf(t, read(t, "testdata/everything.yaml")...).Documents {
		known = append(known, definition.Stored{Document: d, Version: 1})
	}
	accepted, refused := 0, 0
	for _, d := range known {
		if d.Kind == definition.KindWorkflow || d.Kind == definition.KindSink {
			continue // nobody's text hangs on them
		}
		lines := strings.Split(strings.TrimRight(d.Text, "\n"), "\n")
		indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " -")) }
		for i := range lines {
			end := i + 1
			for end < len(lines) && indent(lines[end]) > indent(lines[i]) {
				end++
			}
			text := strings.Join(slices.Concat(lines[:i], lines[end:]), "\n") + "\n"
			bundle, problems := loader.Load([]definition.File{yaml(text)}, loader.Options{Compiler: compiler, Known: known})
			if definition.HasErrors(problems) {
				refused++
				continue
			}
			accepted++
			if _, err := loader.Compile(2, merged(known, bundle.Documents), loader.Options{Compiler: compiler}); err != nil {
				t.Errorf("%s %s without line %d (%s) is accepted, and then: %v", d.Kind, d.Name, i+1, lines[i], err)
			}
		}
	}
	if accepted < 50 || refused < 15 {
		t.Errorf("%d edits were accepted, %d refused", accepted, refused)
	}
}
