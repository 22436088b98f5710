package carillon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/cli"
	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

func ignore(context.Context, Event) error { return nil }

func nobody(context.Context, Occasion) ([]Recipient, error) { return nil, nil }

func yes(context.Context, []any) (any, error) { return true, nil }

// command runs a command of a binary under the given path.
func command(t *testing.T, o Options, args ...string) (out, errs string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, o)
	return stdout.String(), stderr.String(), status
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A binary knows its functions as providers of sinks, and says which there are where a definition names another one.
// The page about a binary of one's own names every field of an event, and how long a function has.
func TestThePageNamesWhatAFunctionGets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/how-to/own-binary.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range append(reflect.VisibleFields(reflect.TypeFor[Event]()), reflect.VisibleFields(reflect.TypeFor[Occasion]())...) {
		if !strings.Contains(string(text), "| `"+field.Name+"` |") {
			t.Errorf("the field %s is not on the page", field.Name)
		}
	}
	if want := fmt.Sprintf("%d seconds after the call began", int(dispatch.DefaultTimeout.Seconds())); !strings.Contains(string(text), want) {
		t.Errorf("the page does not say %q", want)
	}
}

func TestDefinitionsMayNameFunctions(t *testing.T) {
	t.Parallel()
	o := Options{Sinks: map[string]Sink{"tickets": ignore, "crm": ignore}}
	for provider, want := range map[string]string{
		"tickets":                         "",
		"crm":                             "",
		"webhook":                         "1:1: provider webhook needs the settings url and secret\n",
		"tikets":                          "2:11: no provider named \"tikets\"\n    did you mean tickets?\n",
		"jira":                            "2:11: no provider named \"jira\"\n    providers are crm, file, nats, tickets, webhook and workflow\n",
		"tickets\nsettings: {project: A}": "3:12: provider tickets has no setting \"project\"\n    it has no settings\n",
	} {
		path := write(t, "sink: complaints\nprovider: "+provider+"\n")
		if want != "" {
			want = path + ":" + want
		}
		out, errs, status := command(t, o, "own", "check", path)
		if out != want || (status == 0) != (want == "") {
			t.Errorf("%s: status %d, %s%s", provider, status, out, errs)
		}
		if _, _, status := command(t, Options{}, "own", "check", path); status == 0 && want == "" {
			t.Errorf("%s: a binary without functions takes it", provider)
		}
	}
}

// Help and errors name the binary, also those of commands below commands; the built-in names stay.
func TestABinaryNamesItself(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/opt/bin/tickets", "tickets.exe"} {
		out, errs, status := command(t, Options{}, path, "--help")
		if status != 0 || errs != "" || !strings.HasPrefix(out, "Usage: tickets <command>") || strings.Contains(out, "carillon ") {
			t.Errorf("%s: %d %s%s", path, status, errs, out)
		}
	}
	o := Options{Name: "tickets"}
	for _, tc := range []struct{ args, want string }{
		{"events post --help", "Usage: tickets events post"},
		{"events post --help", " | tickets events post - "},
		{"completion --help", "tickets completion zsh > \"${fpath[1]}/_tickets\""},
		{"completion --help", "bash-completion/completions/tickets zsh"},
		{"deliveries list --help", "With this reason; tickets reasons lists"},
		{"completion bash", "complete -o default -F _tickets tickets"},
		{"man check", "tickets\\-check \\- "},
		{"version", "tickets, made with carillon devel"},
		{"serve --help", "/etc/carillon/secrets"}, // a path is no command
		{"serve --help", "carillon.db, "},
	} {
		out, errs, status := command(t, o, append([]string{"x"}, strings.Fields(tc.args)...)...)
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), tc.want) { // help is wrapped
			t.Errorf("%s: %d, no %q in %s%s", tc.args, status, tc.want, errs, out)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"chek", "tickets: unexpected argument chek, did you mean \"check\"?\n    tickets --help\n"},
		{"check", "tickets: expected \"<path> ...\"\n    tickets check --help\n"},
		{"check nothing.yaml", "tickets: stat nothing.yaml: no such file"},
		{"tick --server http://127.0.0.1:1", "\n    tickets serve starts a server; "},
		{"man nothing", "tickets: there is no command tickets nothing\n    tickets --help lists them\n"},
	} {
		out, errs, status := command(t, o, append([]string{"x"}, strings.Fields(tc.args)...)...)
		if status == 0 || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: %d, no %q in %s%s", tc.args, status, tc.want, errs, out)
		}
	}
}

// A mistake of the author is said by every command, and what it is about.
func TestMistakesInOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"no function":      {Options{Sinks: map[string]Sink{"tickets": nil}}, `own: the function of the sink "tickets" is nil`},
		"a built-in name":  {Options{Sinks: map[string]Sink{"webhook": ignore}}, `own: there is a provider of sinks named "webhook" already: register the function under another name`},
		"the engine's own": {Options{Sinks: map[string]Sink{"workflow": ignore}}, `own: there is a provider of sinks named "workflow" already: register the function under another name`},
		"no name":          {Options{Sinks: map[string]Sink{"": ignore}}, `own: "" cannot be the name of a sink: it has small letters, digits, - and _, begins with a letter, and is not longer than 64`},
		"a blank":          {Options{Sinks: map[string]Sink{"my tickets": ignore}}, `own: "my tickets" cannot be the name of a sink: it has small letters, digits, - and _, begins with a letter, and is not longer than 64`},
		"no audience":      {Options{Audiences: map[string]Audience{"on-call": nil}}, `own: the audience function "on-call" is nil`},
		"an audience":      {Options{Audiences: map[string]Audience{"On call": nobody}}, `own: "On call" cannot be the name of an audience function: it has small letters, digits, - and _, begins with a letter, and is not longer than 64`},
		"no call":          {Options{Functions: map[string]Function{"f": {Gives: Bool}}}, `own: the function f has no Call`},
		"no kind":          {Options{Functions: map[string]Function{"f": {Call: yes}}}, `own: the function f takes or gives the kind "", which does not exist`},
		"another kind":     {Options{Functions: map[string]Function{"f": {Takes: []Kind{"date"}, Gives: Bool, Call: yes}}}, `own: the function f takes or gives the kind "date", which does not exist`},
		"an object":        {Options{Functions: map[string]Function{"f": {Gives: Object, Call: yes}}}, `own: the function f gives an object, which expressions cannot take`},
		"a known name":     {Options{Functions: map[string]Function{"age": {Gives: Bool, Call: yes}}}, `own: age is a name of expressions already: register the function under another name`},
		"no name of one":   {Options{Functions: map[string]Function{"is-due": {Gives: Bool, Call: yes}}}, `own: "is-due" cannot be the name of a function of expressions: it has letters, digits and _, and begins with a letter`},
		"a program":        {Options{Name: "my tickets"}, `my tickets: "my tickets" cannot be the name of a program: it has letters, digits, dots, - and _`},
	} {
		if out, errs, status := command(t, tc.options, "own", "version"); status != cli.ExitFailed || out != "" || errs != tc.want+"\n" {
			t.Errorf("%s: got %d %s%s", name, status, out, errs)
		}
	}
}

// A function gets the event as it leaves.
//
// Shows: C37.
func TestAFunctionGetsTheEvent(t *testing.T) {
	t.Parallel()
	var got Event
	o := Options{Sinks: map[string]Sink{"tickets": func(_ context.Context, e Event) error {
		got = e
		return nil
	}}}
	at := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	body := `{"id":"d_2b5k","data":{"answers":{"rate":3}}}`
	if err := send(t, o, sink.Message{ID: "d_2b5k", Type: "response.completed", At: at, Group: "d_2b5k", Workspace: "cars", Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	want := Event{ID: "d_2b5k", Type: "response.completed", At: at, Group: "d_2b5k", Workspace: "cars", Body: []byte(body)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var data struct{ Answers struct{ Rate int } }
	if err := got.Data(&data); err != nil || data.Answers.Rate != 3 {
		t.Errorf("%+v, %v", data, err)
	}
	for _, body := range []string{"", "[]", `{"data":"x"}`} {
		if err := (Event{ID: "d_1", Body: []byte(body)}).Data(&data); err == nil || !strings.HasPrefix(err.Error(), "decode the data of event d_1: ") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// An audience function gets the occasion, and what it names is handed on.
func TestAnAudienceGetsTheOccasion(t *testing.T) {
	t.Parallel()
	var got Occasion
	o := Options{Audiences: map[string]Audience{"on-call": func(_ context.Context, occasion Occasion) ([]Recipient, error) {
		got = occasion
		return []Recipient{{ID: "ann"}, {Kind: "email", Address: "desk@example.org"}}, nil
	}}}
	p, err := o.program("own")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 14, 5, 12, 34, 5000, time.UTC)
	list, err := expr.Audience(p.Audiences[0], "w").EvalRelated(expr.Input{
		Now: now, Record: map[string]any{"id": "r"}, Event: map[string]any{"kind": "e"}, Period: map[string]any{"from": "a"}, Vars: map[string]any{"n": 1}, Issues: []string{"LOW"}, Iteration: 3,
	})
	if diff := cmp.Diff(any([]any{expr.Recipient{ID: "ann"}, expr.Recipient{Kind: "email", Address: "desk@example.org"}}), list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want := Occasion{
		Workflow: "w", Now: now, Record: map[string]any{"id": "r"}, Event: map[string]any{"kind": "e"}, Period: map[string]any{"from": "a"}, Vars: map[string]any{"n": 1.0}, Issues: []string{"LOW"}, Iteration: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// send hands a message to the first function of a binary, as the program does.
func send(t *testing.T, o Options, m sink.Message) error {
	t.Helper()
	p, err := o.program("own")
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Sinks[0].Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Send(t.Context(), m)
}

// What a function returns says what follows.
func TestErrorsOfFunctions(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such project")
	for name, tc := range map[string]struct {
		err  error
		want sink.Error
		text string
	}{
		"any":                {cause, sink.Error{Reason: reason.TemporaryError, Retry: sink.Temporary}, "no such project"},
		"permanent":          {Permanent(cause), sink.Error{Reason: reason.PermanentError, Retry: sink.Permanent}, "no such project"},
		"permanent, wrapped": {fmt.Errorf("open a ticket: %w", Permanent(cause)), sink.Error{Reason: reason.PermanentError, Retry: sink.Permanent}, "open a ticket: no such project"},
		"later":              {RetryAfter(time.Minute, cause), sink.Error{Reason: reason.TemporaryError, Retry: sink.Temporary, After: time.Minute}, "no such project"},
		"later than before":  {RetryAfter(-time.Minute, cause), sink.Error{Reason: reason.TemporaryError, Retry: sink.Temporary}, "no such project"},
		"gone":               {Gone(cause), sink.Error{Reason: reason.Gone, Retry: sink.Gone}, "no such project"},
	} {
		err := send(t, Options{Sinks: map[string]Sink{"tickets": func(context.Context, Event) error { return tc.err }}}, sink.Message{})
		got := sink.AsError(err)
		if got.Reason != tc.want.Reason || got.Retry != tc.want.Retry || got.After != tc.want.After || got.Err.Error() != tc.text || !errors.Is(err, cause) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, err := range []error{Permanent(nil), RetryAfter(time.Second, nil), Gone(nil)} {
		if err != nil {
			t.Errorf("nil becomes %v", err)
		}
	}
	panics := Options{Sinks: map[string]Sink{"tickets": func(context.Context, Event) error { panic("boom") }}}
	if got := sink.AsError(send(t, panics, sink.Message{})); got.Reason != reason.SendThrew || got.Retry != sink.Temporary || !strings.HasSuffix(got.Error(), ": boom") {
		t.Errorf("a panic: %+v", got)
	}
}
