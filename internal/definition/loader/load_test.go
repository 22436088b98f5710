package loader_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func read(t testing.TB, paths ...string) []definition.File {
	t.Helper()
	files := make([]definition.File, len(paths))
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = definition.File{Name: filepath.Base(path), Text: text}
	}
	return files
}

// TestErrorGoldens shows the whole output for each of the documented mistakes. The record types and the personas that
// they refer to are loaded beside them, as in the folder they come from.
func TestErrorGoldens(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(paths) != 16 {
		t.Fatalf("found %d files, %v, want 16", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := loader.Load(read(t, path, "testdata/context/record-types.yaml", "testdata/context/personas.yaml"), loader.Options{})
			var out strings.Builder
			for _, p := range problems {
				if p.File == filepath.Base(path) {
					out.WriteString(p.String() + "\n")
				}
			}
			golden := filepath.Join("testdata", "errors", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("output differs from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// TestDocumentedErrors holds the goldens against the page that authors read: every error that docs/reference/definitions.md prints
// comes out word for word.
func TestDocumentedErrors(t *testing.T) {
	t.Parallel()
	documented, err := os.ReadFile("testdata/documented.txt")
	if err != nil {
		t.Fatal(err)
	}
	goldens, err := filepath.Glob("testdata/errors/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range goldens {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	problems := strings.Split(strings.ReplaceAll(string(documented), "\n    ", "\x00"), "\n")
	for _, problem := range problems {
		if problem = strings.ReplaceAll(problem, "\x00", "\n    "); !strings.Contains(all.String(), problem+"\n") {
			t.Errorf("does not come out:\n%s", problem)
		}
	}
	if len(problems) != 9 {
		t.Errorf("only %d problems are documented", len(problems))
	}
}

// providers are those that the program ships with.
func providers() []definition.ProviderInfo {
	return []definition.ProviderInfo{
		{Name: "memory"},
		{Name: "inbox"},
		{Name: "http", Settings: []definition.SettingInfo{{Name: "url", Required: true}, {Name: "token", Secret: true}, {Name: "inbound_secret", Secret: true}}},
		{Name: "smtp", Settings: []definition.SettingInfo{
			{Name: "host", Required: true},
			{Name: "username"},
			{Name: "password", Secret: true},
			{Name: "from", Required: true},
			{Name: "dkim_domain"},
			{Name: "dkim_selector"},
			{Name: "dkim_key", Secret: true},
		}},
		{Name: "twilio", Kinds: []string{"sms", "whatsapp"}, Forgetful: true, Settings: []definition.SettingInfo{
			{Name: "account_sid", Required: true},
			{Name: "auth_token", Required: true, Secret: true},
			{Name: "from", Required: true},
			{Name: "callback_url"},
		}},
		{Name: "telnyx", Kinds: []string{"sms"}, Forgetful: true, Settings: []definition.SettingInfo{
			{Name: "api_key", Required: true, Secret: true},
			{Name: "from", Required: true},
			{Name: "public_key"},
			{Name: "callback_url"},
		}},
		{Name: "asked", Settings: []definition.SettingInfo{{Name: "status_url"}}, Verifies: []string{"status_url"}},
	}
}

func examples(t *testing.T) []definition.File {
	t.Helper()
	paths, err := filepath.Glob("../../../examples/*.yaml")
	if err != nil || len(paths) < 6 {
		t.Fatalf("found %d files, %v", len(paths), err)
	}
	return read(t, paths...)
}

func TestExamplesLoadClean(t *testing.T) {
	t.Parallel()
	bundle, problems := loader.Load(examples(t), loader.Options{Providers: providers()})
	for _, p := range problems {
		if p.Code != definition.CodeNoPage { // two examples are surveys
			t.Error(p)
		}
	}
	if len(bundle.Documents) < 14 || bundle.Set == nil {
		t.Errorf("loaded %d documents", len(bundle.Documents))
	}
}
