package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/cli"
	"github.com/carillonhq/carillon/internal/config"
)

// wrongCase is a command line that names nothing, and where its remedy sends people.
type wrongCase struct {
	args   string // FILE is a file of definitions, EVENTS one of events, ROWS rows on the standard input
	remedy string // of what is not there; empty: it names nothing that could be missing
}

// remotes are the commands that talk to a server.
func remotes() map[string]wrongCase {
	return map[string]wrongCase{
		"apply":                {"FILE", ""},
		"definitions list":     {"", ""},
		"definitions show":     {"workflow nothing", "carillon definitions list"},
		"definitions history":  {"", ""},
		"definitions rollback": {"workflow nothing", "carillon definitions history"},
		"definitions delete":   {"workflow nothing", "carillon definitions list"},
		"status":               {"", ""},
		"events list":          {"", ""},
		"events post":          {"EVENTS", ""},
		"events show":          {"e_nothing", "carillon events list"},
		"ingest":               {"ROWS --kind x --retry-for 1ms", ""},
		"contacts put":         {"ada name=Ada", ""},
		"contacts import":      {"ROWS --retry-for 1ms", ""},
		"contacts list":        {"", ""},
		"contacts top":         {"", ""},
		"contacts show":        {"nobody", "carillon contacts list"},
		"contacts digests":     {"nobody", ""},
		"contacts limits":      {"nobody", "carillon contacts list"},
		"contacts merge":       {"nobody ada", "carillon contacts list"},
		"contacts suppress":    {"nobody --reason x", "carillon contacts list"},
		"contacts unsuppress":  {"nobody", "carillon contacts list"},
		"groups list":          {"", ""},
		"groups show":          {"nothing", "carillon groups list"},
		"topics list":          {"", ""},
		"topics show":          {"nothing", ""},
		"topics import":        {"TOPIC --format ndjson --retry-for 1ms", ""},
		"topics find":          {"TOPIC", ""},
		"topics remove":        {"nothing", ""},
		"subscriptions list":   {"", ""},
		"feedback report":      {"bounced --address nobody@example.org", ""},
		"feedback import":      {"-", ""},
		"feedback allow":       {"nobody@example.org", ""},
		"subscriptions import": {"ROWS --map contact=id --skip name --topic tax --frequency daily --retry-for 1ms", ""},
		"subscriptions begin":  {"nobody nothing daily", ""},
		"subscriptions end":    {"nobody nothing", ""},
		"items publish":        {"TOPIC", ""},
		"items list":           {"", ""},
		"items show":           {"nothing", ""},
		"records put":          {"kiosk 1 name=Hall", ""},
		"records import":       {"ROWS --type kiosk --retry-for 1ms", ""},
		"records list":         {"", ""},
		"records show":         {"kiosk nothing", "carillon records list"},
		"records delete":       {"kiosk nothing", "carillon records list"},
		"responses submit":     {"d_nothing --answers {}", "carillon deliveries list"},
		"sessions list":        {"", ""},
		"sessions show":        {"d_nothing", ""},
		"responses list":       {"", ""},
		"responses export":     {"", ""},
		"decisions list":       {"", ""},
		"throttles list":       {"", ""},
		"runs list":            {"", ""},
		"runs cancel":          {"u_nothing", "carillon runs list"},
		"runs undo":            {"u_nothing", "carillon runs list"},
		"subscriptions bulk":   {"unsubscribe --topic nothing", ""},
		"runs resume":          {"u_nothing", "carillon runs list"},
		"workflows list":       {"", ""},
		"workflows pause":      {"nothing", "carillon workflows list"},
		"workflows resume":     {"nothing", "carillon workflows list"},
		"preview":              {"nothing", "carillon workflows list"},
		"run":                  {"nothing --run-id 1", "carillon workflows list"},
		"instances list":       {"", ""},
		"instances show":       {"i_nothing", "carillon instances list"},
		"instances cancel":     {"i_nothing", "carillon instances list"},
		"instances retry":      {"i_nothing", "carillon instances list"},
		"instances release":    {"i_nothing", "carillon instances list"},
		"instances forget":     {"a:b", "carillon instances list"},
		"deliveries list":      {"", ""},
		"deliveries show":      {"d_nothing", "carillon deliveries list"},
		"deliveries cancel":    {"d_nothing", "carillon deliveries list"},
		"deliveries retry":     {"d_nothing", "carillon deliveries list"},
		"channels list":        {"", ""},
		"channels test":        {"sms:nothing --to 1", "carillon channels list"},
		"outbox list":          {"", ""},
		"outbox show":          {"o_nothing", "carillon outbox list"},
		"outbox redrive":       {"o_nothing", "carillon outbox list"},
		"sinks list":           {"", ""},
		"sinks show":           {"nothing", "carillon sinks list"},
		"sinks pause":          {"nothing", "carillon sinks list"},
		"sinks enable":         {"nothing", "carillon sinks list"},
		"sinks redrive":        {"nothing", "carillon sinks list"},
		"tick":                 {"", ""},
		"secrets set":          {"A", ""},
		"secrets list":         {"", ""},
		"secrets remove":       {"NOTHING", "carillon secrets list"},
	}
}

// A command that reaches no server, has no key or names what is not there fails with status 1 and says what to do, in the words of
// the command line.
func TestEveryCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"file.yaml": "channel: memory\nprovider: memory\n", "events.json": `{"kind": "x"}`, "topic.json": `{"id": "x", "match": []}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := strings.NewReplacer("FILE", filepath.Join(dir, "file.yaml"), "ROWS", "- --format csv", "EVENTS", filepath.Join(dir, "events.json"), "TOPIC", filepath.Join(dir, "topic.json"))
	server, err := app.Start(t.Context(), app.Config{Server: config.Server{
		Database: config.Database{DB: filepath.Join(dir, "server.db")}, Listen: "127.0.0.1:0", Migrate: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(t.Context()) })
	key, err := app.CreateKey(t.Context(), server.Store(), server.Workspace(), "a", []string{"admin"}, server.Engine().Now())
	if err != nil {
		t.Fatal(err)
	}
	all := remotes()
	var wait sync.WaitGroup
	fails := func(name, what string, wants ...string) {
		args := append(strings.Fields(name), strings.Fields(files.Replace(what))...)
		wait.Go(func() {
			in := "value"
			if strings.HasPrefix(what, "ROWS") {
				in = "id,name\n1,Ada\n"
			}
			_, errs, status := run(t, false, in, args...)
			for _, want := range wants {
				if status != cli.ExitFailed || !strings.Contains(errs, want) || strings.Contains(errs, "/v1/") {
					t.Errorf("carillon %s: status %d, want %q in\n%s", strings.Join(args, " "), status, want, errs)
				}
			}
		})
	}
	for _, c := range cli.Leaves() {
		name := strings.Join(c.Words, " ")
		if !slices.Contains(c.Flags, "key-file") {
			continue
		}
		one, ok := all[name]
		if !ok {
			t.Errorf("carillon %s talks to a server and is not in the table of this test", name)
			continue
		}
		delete(all, name)
		fails(name, one.args+" --key car_x --server http://127.0.0.1:1", "http://127.0.0.1:1 cannot be reached", "carillon serve starts a server; --server or CARILLON_SERVER names another one")
		fails(name, one.args+" --key car_x --server "+server.URL(), "give an API key by --key, --key-file or CARILLON_KEY; carillon keys create makes one")
		if one.remedy != "" {
			fails(name, one.args+" --key "+key+" --server "+server.URL(), one.remedy)
		}
	}
	wait.Wait()
	for name := range all {
		t.Errorf("there is no command carillon %s", name)
	}
}
