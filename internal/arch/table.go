package arch

// Layer says what kind of code a package may hold.
type Layer string

const (
	// Pure code decides: no context, log, SQL, files, network, clock or chance (see ImpureStd).
	Pure Layer = "pure"
	// Port code connects to the outside: the clock, outgoing requests, channels, sinks.
	Port Layer = "port"
	// Shell code keeps state and runs things.
	Shell Layer = "shell"
	// Public code is what other programs import or run.
	Public Layer = "public"
	// Harness code serves tests and measurements, may import everything, and is never part of the product.
	Harness Layer = "harness"
)

// Row says what one package is for and what its files, except tests, may import in addition to the standard library.
type Row struct {
	// Path is the folder below internal, or below the root when it begins with "./". A last element * stands for
	// any one folder.
	Path    string
	Layer   Layer
	Purpose string
	// Imports are paths of other rows, or "@pure", "@port" for all of a layer, or "@above" for the pure rows above
	// this one.
	Imports []string
	// Modules are import paths of other modules, each including its subpackages.
	Modules []string
}

// Table lists every package of the module. The packages of the pure layer stand in the order in which they build on
// each other.
func Table() []Row {
	return []Row{
		{Path: "civil", Layer: Pure, Purpose: "dates, times of day, zones, the one gap and overlap rule"},
		{Path: "reason", Layer: Pure, Purpose: "every named outcome once, with its sentence for people"},
		{Path: "strictjson", Layer: Pure, Purpose: "JSON that every reader understands alike, in one pass"},
		{Path: "suggest", Layer: Pure, Purpose: "the word that somebody meant to write"},
		{Path: "allowance", Layer: Pure, Purpose: "how often a sender may do something, or fail at it, before they have to wait"},
		{Path: "textdiff", Layer: Pure, Purpose: "how one text differs from another, line by line"},
		{
			Path: "key", Layer: Pure, Purpose: "deterministic keys, hashes, canonical JSON, public ids and links",
			Imports: []string{"civil"},
		},
		{
			Path: "subject", Layer: Pure, Purpose: "events, records, contacts and their ids",
			Imports: []string{"civil"},
		},
		{
			Path: "schedule", Layer: Pure, Purpose: "when: offsets, reminders, recurrences, windows, stop rules",
			Imports: []string{"civil"},
			Modules: []string{"github.com/teambition/rrule-go", "github.com/netresearch/go-cron"},
		},
		{
			Path: "expr", Layer: Pure, Purpose: "conditions in CEL: compile, evaluate within a bound, explain",
			Imports: []string{"civil", "reason", "suggest"},
			Modules: []string{"cel.dev", "google.golang.org/protobuf"},
		},
		{
			Path: "condition", Layer: Pure, Purpose: "what a trigger remembers of a record: since when, which episode, what was fired",
			Imports: []string{"civil"},
		},
		{
			Path: "cadence", Layer: Pure, Purpose: "how often: slots, caps, quiet hours, the next free instant",
			Imports: []string{"civil", "reason", "strictjson"},
		},
		{
			Path: "flow", Layer: Pure, Purpose: "how much a channel lets through: its rate, its breaker, its list of addresses",
			Imports: []string{"civil"},
		},
		{
			Path: "message", Layer: Pure, Purpose: "templates, locales, plurals, unsubscribe headers",
			Imports: []string{"civil", "subject", "reason", "suggest"},
			Modules: []string{
				"github.com/yuin/goldmark", "github.com/k3a/html2text",
				"github.com/aymerick/douceur", "golang.org/x/text", "golang.org/x/net/html",
			},
		},
		{
			Path: "survey", Layer: Pure, Purpose: "questions, validation, show-if, answers in people's own words",
			Imports: []string{"expr", "civil", "message"},
			Modules: []string{"golang.org/x/text"},
		},
		{
			Path: "reply", Layer: Pure, Purpose: "the words by which people stop and start what they get",
			Modules: []string{"golang.org/x/text"},
		},
		{Path: "feedback", Layer: Pure, Purpose: "reports of failed deliveries and of complaints, as mails have them"},
		{
			Path: "topic", Layer: Pure, Purpose: "which items belong to a topic, and who follows it",
			Imports: []string{"key", "subject"},
		},
		{
			Path: "digest", Layer: Pure, Purpose: "windows, covered-through cursors, which item for whom",
			Imports: []string{"civil", "subject"},
		},
		{
			Path: "rowreader", Layer: Pure, Purpose: "rows of CSV and NDJSON files, and which column goes into which field",
			Imports: []string{"civil", "reason", "subject", "suggest"},
		},
		{Path: "definition/portable", Layer: Pure, Purpose: "the subset of YAML that every reader reads alike"},
		{
			Path: "definition", Layer: Pure, Purpose: "the typed model of definitions, as a set of one workspace",
			Imports: []string{"civil", "key", "subject", "schedule", "expr", "cadence", "flow", "message", "survey", "topic", "digest", "reply"},
		},
		{
			Path: "definition/loader", Layer: Pure, Purpose: "YAML or JSON to typed, validated, compiled definitions",
			Imports: []string{"@above"},
			Modules: []string{"github.com/santhosh-tekuri/jsonschema/v6"},
		},
		{
			Path: "instance", Layer: Pure, Purpose: "an occasion: its row, states and guards",
			Imports: []string{"reason", "key", "subject"},
		},
		{
			Path: "delivery", Layer: Pure, Purpose: "a message to one person: its row, states, ladder and attempts",
			Imports: []string{"reason", "key", "subject", "schedule", "instance", "flow"},
		},
		{
			Path: "outbox", Layer: Pure, Purpose: "events on their way to sinks: tries, order, the health of a sink",
			Imports: []string{"reason", "key", "subject", "instance", "delivery"},
		},
		{
			Path: "job", Layer: Pure, Purpose: "background work over many rows: its row and states",
			Imports: []string{"subject"},
		},
		{
			Path: "trace", Layer: Pure, Purpose: "why something was decided, as it is stored and as people read it",
			Imports: []string{"reason", "civil", "expr", "schedule", "cadence", "delivery"},
		},
		{
			Path: "plan", Layer: Pure, Purpose: "what should exist, and how that differs from what is stored",
			Imports: []string{"@above"},
		},

		{
			Path: "outcome", Layer: Pure, Purpose: "outcomes as outbox events, and the sinks they go to",
			Imports: []string{"@above"},
		},
		{
			Path: "journal", Layer: Pure, Purpose: "what happened, one entry for each decision and outcome",
			Imports: []string{"reason", "subject", "instance", "delivery"},
		},
		{
			Path: "admission", Layer: Pure, Purpose: "whether and when a contact may get a message: limits, folding, fallbacks",
			Imports: []string{"@above"},
		},
		{Path: "clock", Layer: Port, Purpose: "the only door to wall time"},
		{Path: "secret", Layer: Port, Purpose: "secrets of channels: sealed at rest, three stars in between"},
		{
			Path: "outbound", Layer: Port, Purpose: "the one guarded HTTP client",
			Imports: []string{"clock", "reason", "strictjson"},
			Modules: []string{"go.opentelemetry.io"},
		},
		{
			Path: "signature", Layer: Port, Purpose: "requests signed as Standard Webhooks lays down",
			Modules: []string{"github.com/standard-webhooks/standard-webhooks/libraries"},
		},
		{
			Path: "channel", Layer: Port, Purpose: "how messages leave",
			Imports: []string{"outbound", "message", "reason", "clock", "feedback"},
		},
		{
			Path: "channel/callback", Layer: Port, Purpose: "what a provider calls back with, signed",
			Imports: []string{"channel", "signature", "feedback"},
		},
		{
			Path: "channel/endpoint", Layer: Port, Purpose: "an HTTP endpoint of the user's own: its answers, its look-up",
			Imports: []string{"channel", "outbound"},
		},
		{
			Path: "channel/*", Layer: Port, Purpose: "one vendor of a channel",
			Imports: []string{"channel", "channel/endpoint", "channel/callback", "outbound", "signature", "feedback", "message", "reason", "key", "clock"},
			Modules: []string{
				"github.com/wneessen/go-mail", "github.com/emersion/go-msgauth", "golang.org/x/net/idna", "github.com/nyaruka/phonenumbers",
				"github.com/SherClockHolmes/webpush-go",
			},
		},
		{
			Path: "guard", Layer: Port, Purpose: "calls of functions of a binary of one's own, which can harm nothing",
			Imports: []string{"expr", "subject"},
		},
		{
			Path: "sink", Layer: Port, Purpose: "how outbox events leave",
			Imports: []string{"outbound", "reason", "clock"},
		},
		{
			Path: "sink/*", Layer: Port, Purpose: "one kind of sink",
			Imports: []string{"sink", "guard", "outbound", "signature", "reason", "key", "clock"},
			Modules: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nkeys"},
		},

		{
			Path: "store", Layer: Shell, Purpose: "durable state on SQLite or PostgreSQL",
			Imports: []string{"instance", "delivery", "outbox", "job", "subject", "topic", "digest", "reason", "key", "cadence", "flow", "civil", "clock"},
			Modules: []string{
				"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/pressly/goose/v3",
				"github.com/exaring/otelpgx",
			},
		},
		{
			Path: "engine", Layer: Shell, Purpose: "the stages and the services together",
			Imports: []string{"@pure", "clock", "channel", "sink", "sink/workflow", "store", "telemetry", "engine/stage/*", "engine/service/*", "engine/plumbing/*"},
			Modules: []string{"golang.org/x/sync", "golang.org/x/time"},
		},
		{
			Path: "engine/stage/*", Layer: Shell, Purpose: "one stage: a step over what is due, in a transaction of its own; it knows no other stage",
			Imports: []string{"@pure", "clock", "channel", "sink", "store", "telemetry", "engine/plumbing/*"},
			Modules: []string{"golang.org/x/sync", "golang.org/x/time"},
		},
		{
			Path: "engine/service/*", Layer: Shell, Purpose: "one use case of people and programs, shared by API, command line, console and scenarios",
			Imports: []string{"@pure", "clock", "store", "engine/plumbing/*"},
		},
		{
			Path: "engine/plumbing/*", Layer: Shell, Purpose: "what stages and services share",
			Imports: []string{"@pure", "clock", "channel", "sink", "store", "engine/plumbing/*"},
			Modules: []string{"golang.org/x/sync", "golang.org/x/time"},
		},
		{
			Path: "telemetry", Layer: Shell, Purpose: "log, metrics whose labels are reasons, traces",
			Imports: []string{"reason", "clock", "journal"},
			Modules: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io"},
		},
		{
			Path: "api", Layer: Shell, Purpose: "the HTTP API: auth, idempotency, problem errors, OpenAPI",
			Imports: []string{"@pure", "clock", "secret", "channel", "store", "engine/service/*", "engine/plumbing/upsert", "telemetry", "./client"},
			Modules: []string{"github.com/danielgtaylor/huma/v2", "golang.org/x/time", "golang.org/x/crypto"},
		},
		{
			Path: "public", Layer: Shell, Purpose: "survey, unsubscribe and manage pages, without a session",
			Imports: []string{"allowance", "key", "survey", "expr", "message", "subject", "reason", "civil", "instance", "delivery", "clock", "store"},
			Modules: []string{"github.com/a-h/templ", "golang.org/x/text"},
		},
		{
			Path: "console", Layer: Shell, Purpose: "the web console, rendered on the server",
			Imports: []string{"@pure", "clock", "store", "engine/plumbing/channelpool", "engine/service/nextdigest", "engine/service/outlook", "engine/service/recipients", "engine/service/record"},
			Modules: []string{"github.com/a-h/templ"},
		},
		{
			Path: "sim", Layer: Shell, Purpose: "scenarios on the manual clock, projections of live data",
			Imports: []string{"@pure", "@port", "store", "engine", "engine/stage/*", "engine/service/*", "engine/plumbing/*"},
		},
		{
			Path: "config", Layer: Shell, Purpose: "settings of the process",
			Imports: []string{"reason", "flow", "definition/portable"},
			Modules: []string{"github.com/caarlos0/env/v11"},
		},
		{
			Path: "app", Layer: Shell, Purpose: "wiring and life cycle of the process",
			Imports: []string{
				"@pure", "@port", "store", "engine", "engine/stage/*", "engine/service/*", "engine/plumbing/*", "telemetry", "api", "public", "console", "sim", "config",
				"./client",
			},
			Modules: []string{"golang.org/x/sync", "go.opentelemetry.io"},
		},
		{
			Path: "demo", Layer: Shell, Purpose: "the process at work on sample data, with a log for people",
			Imports: []string{
				"@pure", "clock", "store", "config", "app", "console", "./client", "./examples",
			},
		},
		{
			Path: "importer", Layer: Shell, Purpose: "a file's rows to a server: batches, retries, resuming, rejected rows",
			Imports: []string{"rowreader", "reason", "clock", "./client"},
			Modules: []string{"golang.org/x/sync"},
		},
		{
			Path: "cli", Layer: Shell, Purpose: "commands: verbs on nouns",
			Imports: []string{"@pure", "@port", "store", "sim", "config", "app", "demo", "telemetry", "importer", "./client"},
			Modules: []string{
				"github.com/alecthomas/kong", "github.com/schollz/progressbar/v3",
				"golang.org/x/crypto", "golang.org/x/term",
			},
		},

		{
			Path: "./", Layer: Public, Purpose: "a binary of one's own, with functions",
			Imports: []string{"cli", "expr", "guard", "sink", "sink/*"},
		},
		{Path: "./client", Layer: Public, Purpose: "the Go client and the wire types of the HTTP API"},
		{
			Path: "./cmd/carillon", Layer: Public, Purpose: "the program",
			Imports: []string{"./"},
		},
		{Path: "./examples", Layer: Public, Purpose: "the example definitions, embedded"},
		{
			Path: "./examples/*", Layer: Public, Purpose: "programs that show the public packages, and how others meet them",
			Imports: []string{"./", "./client"},
			Modules: []string{"github.com/standard-webhooks/standard-webhooks/libraries"},
		},

		{Path: "arch", Layer: Harness, Purpose: "this table and its test"},
		{Path: "pgtest", Layer: Harness, Purpose: "throw-away PostgreSQL servers and databases"},
		{Path: "store/storetest", Layer: Harness, Purpose: "one suite for both databases"},
		{Path: "engine/enginetest", Layer: Harness, Purpose: "an engine with everything around it, for one test"},
		{Path: "engine/catalogtest", Layer: Harness, Purpose: "definitions without a store, for tests of decisions"},
		{Path: "channel/vendortest", Layer: Harness, Purpose: "the vendors of text messages, as they document themselves"},
		{Path: "webtest", Layer: Harness, Purpose: "the pages in a real browser"},
		{Path: "chaos", Layer: Harness, Purpose: "kills, freezes and losses, and the audit afterwards"},
	}
}

// ImpureStd are the packages of the standard library that pure code must not import.
func ImpureStd() []string {
	return []string{
		"context", "crypto/rand", "database/sql", "database/sql/driver", "expvar", "flag", "io/ioutil", "log",
		"log/slog", "log/syslog", "math/rand", "math/rand/v2", "net", "net/http", "net/http/httptest", "net/rpc",
		"net/smtp", "os", "os/exec", "os/signal", "os/user", "path/filepath", "plugin", "runtime", "runtime/debug",
		"syscall", "testing", "unsafe",
	}
}

// UnwantedStd are the packages of the standard library that no part of the product imports: random values come from keyed
// hashes, logging is slog and injected, tests stay outside.
func UnwantedStd() []string {
	return []string{
		"log", "math/rand", "math/rand/v2", "net/http/httptest", "testing", "testing/fstest", "testing/synctest",
	}
}

// WallTime are the names in package time that pure code must not use: its callers pass the instant.
func WallTime() []string {
	return []string{"After", "AfterFunc", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
}

// TestModules serve tests alone.
func TestModules() []string {
	return []string{
		"github.com/anishathalye/porcupine", "github.com/chromedp/chromedp", "github.com/coder/quartz",
		"github.com/emersion/go-smtp", "github.com/google/go-cmp", "github.com/nats-io/jwt", "github.com/nats-io/nats-server",
		"github.com/rogpeppe/go-internal", "go.uber.org/goleak", "pgregory.net/rapid",
	}
}

// MaxLines is where a file asks to be split. It is soft: a file that is better whole goes into LongFiles.
const MaxLines = 600

// LongFiles are the files allowed beyond MaxLines, each with the reason.
func LongFiles() map[string]string {
	return map[string]string{}
}
