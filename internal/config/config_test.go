package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//nolint:gochecknoglobals // the flag of go test
var update = flag.Bool("update", false, "write the reference page")

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	page := filepath.Join("..", "..", "docs", "reference", "settings.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != reference() {
		t.Error("docs/reference/settings.md is not current: go test ./internal/config -update")
	}
}

func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range Settings() {
		if s.Help == "" || s.Value == "" || s.Env != "CARILLON_"+strings.ToUpper(s.Key) {
			t.Errorf("incomplete: %+v", s)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       map[string]string
		err        string
	}{
		{name: "empty", want: map[string]string{}},
		{name: "comment", text: "# nothing\n", want: map[string]string{}},
		{name: "one", text: "listen: 0.0.0.0:80\n", want: map[string]string{"listen": "0.0.0.0:80"}},
		{
			name: "kinds", text: "db: \"x y.db\"\nworkers: 4\nmigrate: false\nstop_timeout: 5s\noutbound_allow: [10.0.0.0/8, '::1/128']\n",
			want: map[string]string{
				"db": "x y.db", "workers": "4", "migrate": "false", "stop_timeout": "5s", "outbound_allow": "10.0.0.0/8,::1/128",
			},
		},
		{name: "unknown", text: "db: x\nlisten_on: y\n", err: `f.yaml:2:1: unknown setting "listen_on"; there are db, listen,`},
		{name: "flag spelling", text: "public-url: y\n", err: `f.yaml:1:1: unknown setting "public-url"`},
		{name: "twice", text: "db: x\ndb: z\n", err: `f.yaml:2:1: duplicate key "db"; it stands in line 1 already`},
		{name: "nested", text: "db: {file: x}\n", err: "f.yaml:1:5: db: is neither a value nor a list of values"},
		{name: "null", text: "db: null\n", err: "f.yaml:1:5: db: is neither a value nor a list of values"},
		{name: "nothing given", text: "db:\n", err: `f.yaml:1:1: "db" has no value; write a value, or remove the line`},
		{name: "an alias", text: "only_to: *@example.org\n", err: "f.yaml:1:10: a value beginning with * is a YAML alias; write the value out, or put a text in quotes"},
		{name: "a tag", text: "workers: !!str 4\n", err: "f.yaml:1:10: a value beginning with ! is a YAML tag"},
		{name: "a list in a list", text: "only_to: [[a]]\n", err: "f.yaml:1:10: only_to: is neither a value nor a list of values"},
		{name: "list", text: "- db\n", err: "f.yaml:1:1: is not a mapping"},
		{name: "two documents", text: "db: x\n---\ndb: y\n", err: "holds 2 documents"},
		{name: "broken", text: "db: [\n", err: "f.yaml:1:5: ] is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parse("f.yaml", tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("got %v, error %v, want %v", got, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("db: x\nworkers: 4\noutbound_allow: [a, b]\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parse("f.yaml", text)
		if err != nil {
			return
		}
		for key := range values {
			if !known(key) {
				t.Errorf("took %q", key)
			}
		}
	})
}

// reference is the page docs/reference/settings.md.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Generated from internal/config; change it there. -->

Settings of ` + "`carillon serve`" + `. A flag wins over the environment variable, the environment variable over the
settings file, the file over the default. The file is YAML, as strict as that of definitions, with the keys of the third
column:

` + "```yaml" + `
# carillon.yaml: carillon serve --config carillon.yaml
db: postgres://carillon@db.internal/carillon
listen: 0.0.0.0:8080
public_url: https://carillon.example.org
outbound_allow: [10.1.0.0/16]
` + "```" + `

Unknown keys are refused. Secrets of channels are no settings: definitions say where they are kept
([secrets](../operate/secrets.md)). Keys for them also stand in the variable CARILLON_SECRET_KEY.

| flag | environment | key | value | default | meaning |
|---|---|---|---|---|---|
`)
	for _, s := range Settings() {
		value, def := code(strings.ReplaceAll(s.Value, "|", `\|`)), code(s.Default)
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s | %s | %s |\n", s.Flag, s.Env, s.Key, value, def, s.Help)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := func() Server {
		return Server{Listen: "127.0.0.1:8080", Workers: 2, MaxBodies: 64, Batch: 500, StopTimeout: time.Second}
	}
	tests := []struct {
		name, want string
		change     func(*Server)
	}{
		{"the defaults", "", func(*Server) {}},
		{"a port alone", "", func(s *Server) { s.Listen = ":8080" }},
		{"a public URL", "", func(s *Server) { s.PublicURL = "https://x.example/base" }},
		{"no stop timeout", "", func(s *Server) { s.StopTimeout = 0 }},
		// net.Listen takes it for any port of every interface.
		{"nowhere to listen", "--listen", func(s *Server) { s.Listen = "" }},
		{"no port", "--listen", func(s *Server) { s.Listen = "127.0.0.1" }},
		{"metrics without a port", "--metrics-listen", func(s *Server) { s.MetricsListen = "127.0.0.1" }},
		{"metrics for the network", "", func(s *Server) { s.MetricsListen = ":9090" }},
		{"profiles for this machine", "", func(s *Server) { s.DebugListen = "[::1]:6060" }},
		{"profiles for everybody", "--debug-listen", func(s *Server) { s.DebugListen = ":6060" }},
		{"profiles for the network", "--debug-listen", func(s *Server) { s.DebugListen = "10.0.0.1:6060" }},
		{"a script as URL", "--public-url", func(s *Server) { s.PublicURL = "javascript:alert(1)" }},
		{"a query in the URL", "--public-url", func(s *Server) { s.PublicURL = "http://x?a=b" }},
		{"no workers", "--workers", func(s *Server) { s.Workers = 0 }},
		{"fewer than none", "--workers", func(s *Server) { s.Workers = -1 }},
		{"too many workers", "--workers", func(s *Server) { s.Workers = 99999999 }},
		{"an empty batch", "--batch", func(s *Server) { s.Batch = 0 }},
		{"a negative timeout", "--stop-timeout", func(s *Server) { s.StopTimeout = -time.Second }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := good()
			test.change(&s)
			err := s.Validate()
			if got := err == nil; got != (test.want == "") {
				t.Fatalf("got %v", err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), test.want+":") {
				t.Errorf("got %v, want it to begin with %s", err, test.want)
			}
		})
	}
}
