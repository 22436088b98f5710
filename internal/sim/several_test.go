package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const orders = `define:
  - workflow: order
    type: custom
    triggers: [{id: placed, event: order, dedup: event.number}]
    audience: [{to: event.recipient}]
    channel: email
    message: {email: {subject: s, text: Hello}}
  - channel: email
    provider: memory
`

// step is a step at an hour that does something and expects something.
func step(hour, do, expect string) string {
	return fmt.Sprintf("  - at: \"%s:00\"\n    do:\n%s    expect:\n%s", hour, do, expect)
}

const anOrder = `      - event: order
        payload: {number: 1}
        recipient: {address: ann@example.org}
`

// test writes files into a folder and runs what args name, in that folder's terms.
func test(t *testing.T, o Options, texts map[string]string, paths ...string) (status int, out, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		o.Paths = append(o.Paths, filepath.Join(dir, path))
	}
	var stdout, stderr bytes.Buffer
	o.Providers, o.Stdout, o.Stderr = providers(), &stdout, &stderr
	status = Main(t.Context(), o)
	return status, strings.ReplaceAll(timeless(stdout.String()+stderr.String()), dir, "DIR"), dir
}

// A file may hold several scenarios, each a document. The output distinguishes them by line.
func TestSeveralScenariosInAFile(t *testing.T) {
	t.Parallel()
	head := "\nstart: 2026-05-14 09:00\n"
	both := "scenario: First" + head + orders + "steps:\n" + step("10", anOrder, "      sent: 1\n") +
		"---\nscenario: Second" + head + orders + "steps:\n" + step("10", anOrder, "      sent: none # nobody\n")
	texts := map[string]string{"a.yaml": both}
	status, out, _ := test(t, Options{}, texts, "a.yaml")
	if status != StatusDifference || !strings.Contains(out, "ok    a.yaml:1 ") || !strings.Contains(out, "FAIL  a.yaml:21 ") || !strings.Contains(out, "1 of 2 scenarios failed") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out, _ = test(t, Options{Run: "Firs"}, texts, "a.yaml")
	if status != StatusHeld || !strings.Contains(out, "1 scenario held") {
		t.Errorf("--run: status %d\n%s", status, out)
	}
	status, out, dir := test(t, Options{Update: true}, texts, "a.yaml")
	text, err := os.ReadFile(filepath.Join(dir, "a.yaml"))
	if status != StatusHeld || err != nil || !strings.Contains(string(text), "# nobody") || !strings.Contains(string(text), "- to: ann@example.org") ||
		!strings.HasPrefix(string(text), both[:strings.Index(both, "---")]) {
		t.Errorf("--update: status %d, %v\n%s\n%s", status, err, out, text)
	}
	status, out, _ = test(t, Options{JSON: true}, texts, "a.yaml")
	if status != StatusDifference || !strings.Contains(out, `"line": 21,`) {
		t.Errorf("--json: status %d\n%s", status, out)
	}
}

// The output distinguishes files of one name in different folders. Definitions and events may be named from the root.
func TestFilesAreToldApart(t *testing.T) {
	t.Parallel()
	text := "scenario: A\nstart: 2026-05-14 09:00\ndefinitions: [DIR/rules.yaml]\nsteps:\n" +
		step("10", "      - load: DIR/events.ndjson\n        as: events\n      - apply: DIR/rules.yaml\n", "      sent: 1\n")
	files := map[string]string{
		"one/a.yaml": text, "two/a.yaml": text, "events.ndjson": `{"kind": "order", "payload": {"number": 1}, "recipient": {"address": "ann@example.org"}}`,
		"rules.yaml": strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(orders, "define:\n"), "  - workflow", "workflow"), "  - channel", "---\nchannel"), "    ", ""),
	}
	status, out, _ := test(t, Options{}, files, "one/a.yaml", "two")
	if status != StatusHeld || !strings.Contains(out, "ok    DIR/one/a.yaml ") || !strings.Contains(out, "ok    DIR/two/a.yaml ") {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out, _ = test(t, Options{}, files, "one"); status != StatusHeld || !strings.Contains(out, "ok    a.yaml ") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// The names in data are those of other systems, such as n and on; in a text they are read like others.
func TestBareKeysOfData(t *testing.T) {
	t.Parallel()
	data := strings.Replace(anOrder, "{number: 1}", "{number: 1, n: Ada, on: {y: 2}}", 1)
	text := "scenario: A\nstart: 2026-05-14 09:00\n" + strings.Replace(orders, "text: Hello", `text: "{{ event.n }} {{ event.on.y }}"`, 1) +
		"steps:\n" + step("10", data, "      sent: [{text: Ada 2}]\n")
	if status, out, _ := test(t, Options{}, map[string]string{"a.yaml": text}, "a.yaml"); status != StatusHeld {
		t.Errorf("status %d\n%s", status, out)
	}
}

// An expectation that names what is never defined is refused: none of it would always hold.
func TestNamesInExpectations(t *testing.T) {
	t.Parallel()
	expect := func(list string) string {
		return "scenario: A\nstart: 2026-05-14 09:00\n" + orders + "steps:\n" + step("10", anOrder, "      sent: any\n      created: any\n      "+list+"\n")
	}
	for list, want := range map[string]string{
		"skipped: [{workflow: ordre}]":           "a.yaml:21:28: there is no workflow \"ordre\" in the definitions of this scenario\n      did you mean order?",
		"skipped: [{trigger: place}]":            "there is no trigger \"place\" in the definitions of this scenario\n      did you mean placed?",
		"skipped: [{channel: \"email:other\"}]":  "there is no channel \"email:other\" in the definitions of this scenario",
		"cancelled: [{to: ann, channel: emial}]": "did you mean email:default?",
	} {
		status, out, _ := test(t, Options{}, map[string]string{"a.yaml": expect(list)}, "a.yaml")
		if status != StatusUnreadable || !strings.Contains(out, want) {
			t.Errorf("%s: status %d\n%s", list, status, out)
		}
	}
	for _, verb := range []string{"cancel", "cancel_run", "retry", "release", "pause", "resume"} {
		text := "scenario: A\nstart: 2026-05-14 09:00\n" + orders + "steps:\n" + step("10", "      - operator: "+verb+"\n        workflow: ordre\n", "      sent: none\n")
		status, out, _ := test(t, Options{}, map[string]string{"a.yaml": text}, "a.yaml")
		if want := ":19: there is no workflow \"ordre\" in the definitions of this scenario\n      did you mean order?"; status != StatusUnreadable || !strings.Contains(out, want) {
			t.Errorf("%s: status %d\n%s", verb, status, out)
		}
	}
	known := strings.Replace(expect("skipped: none"), "created: any", "created: [{workflow: order, trigger: placed}]", 1)
	if status, out, _ := test(t, Options{}, map[string]string{"a.yaml": known}, "a.yaml"); status != StatusHeld {
		t.Errorf("known names: status %d\n%s", status, out)
	}
}

// A step that differs lists the events without effect; an edit reaches a single trigger without its id.
func TestEventsThatMadeNothing(t *testing.T) {
	t.Parallel()
	text := "scenario: A\nstart: 2026-05-14 09:00\n" + orders + "steps:\n" +
		step("10", anOrder+anOrder+"      - event: ordre\n", "      sent: 3\n") +
		step("11", "      - edit: workflow/order\n        set: {triggers.enabled: false}\n      - event: order\n        payload: {number: 2}\n        answer: {outcome: no_match}\n", "      sent: none\n")
	status, out, _ := test(t, Options{All: true}, map[string]string{"a.yaml": text}, "a.yaml")
	for _, want := range []string{
		"    made nothing   10:00 workflow order, duplicate: The same occasion exists\n",
		"    made nothing   10:00 event ordre, no_workflow: No enabled workflow has a\n", "2 steps",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if status != StatusDifference || strings.Contains(out, "step 2") {
		t.Errorf("status %d\n%s", status, out)
	}
}
