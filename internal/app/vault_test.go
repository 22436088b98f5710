package app

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const canary = "hunter2-canary"

// A person who applies definitions reads the secrets that the operator allows, and nothing else of this machine.
func TestVaultKeepsBack(t *testing.T) {
	dir := t.TempDir()
	secrets, elsewhere := filepath.Join(dir, "secrets"), filepath.Join(dir, "elsewhere")
	write(t, secrets+"/token", canary+"\r\n")
	write(t, secrets+"/deep/token", canary)
	write(t, secrets+"/empty", "\n")
	write(t, secrets+"/large", strings.Repeat("x", maxSecretFile+1))
	write(t, elsewhere+"/token", canary)
	key := write(t, secrets+"/key", base64.StdEncoding.EncodeToString(make([]byte, 32)))
	for link, to := range map[string]string{"inside": "token", "outside": elsewhere + "/token", "up": "../elsewhere/token", "zero": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(secrets, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(key, secrets+"/same"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(secrets+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SMS_TOKEN", "SMS_EMPTY", "OTHER", "CARILLON_DB", "CARILLON_KEY", "CARILLON_SECRET_KEY", "CARILLON_ANY", "PGPASSWORD"} {
		t.Setenv(name, canary)
	}
	t.Setenv("SMS_EMPTY", "")
	config := Config{Server: config.Server{
		SecretEnv: []string{"SMS_*", "CARILLON_*", "PG*"}, SecretDir: []string{dir + "/none", secrets}, SecretKeyFile: key,
	}}
	v, err := newVault(config, storetest.Memory(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		setting definition.Setting
		want    string // of the error; empty: the value is had
	}{
		{definition.Setting{Value: canary}, ""},
		{definition.Setting{Env: "SMS_TOKEN"}, ""},
		{definition.Setting{Env: "SMS_EMPTY"}, "is not set"},
		{definition.Setting{Env: "SMS_NONE"}, "is not set"},
		{definition.Setting{Env: "OTHER"}, "--secret-env"},
		{definition.Setting{Env: "CARILLON_DB"}, "belongs to this process"},
		{definition.Setting{Env: "CARILLON_KEY"}, "belongs to this process"},
		{definition.Setting{Env: "CARILLON_SECRET_KEY"}, "belongs to this process"},
		{definition.Setting{Env: "CARILLON_ANY"}, "belongs to this process"},
		{definition.Setting{Env: "PGPASSWORD"}, "belongs to this process"},
		{definition.Setting{File: secrets + "/token"}, ""},
		{definition.Setting{File: "token"}, ""},
		{definition.Setting{File: "deep/token"}, ""},
		{definition.Setting{File: secrets + "/deep/../token"}, ""},
		{definition.Setting{File: secrets + "/inside"}, ""},
		{definition.Setting{File: secrets + "/outside"}, "escapes"},
		{definition.Setting{File: secrets + "/up"}, "escapes"},
		{definition.Setting{File: secrets + "/zero"}, "escapes"},
		{definition.Setting{File: secrets + "/../elsewhere/token"}, "--secret-dir"},
		{definition.Setting{File: elsewhere + "/token"}, "--secret-dir"},
		{definition.Setting{File: "../elsewhere/token"}, "escapes"},
		{definition.Setting{File: "/etc/passwd"}, "--secret-dir"},
		{definition.Setting{File: "/dev/zero"}, "--secret-dir"},
		{definition.Setting{File: secrets + "/pipe"}, "not a regular file"},
		{definition.Setting{File: secrets}, "not a regular file"},
		{definition.Setting{File: secrets + "/empty"}, "is empty"},
		{definition.Setting{File: secrets + "/large"}, "larger than"},
		{definition.Setting{File: secrets + "/none"}, "no such file"},
		{definition.Setting{File: "none"}, "--secret-dir"},
		{definition.Setting{File: secrets + "/key"}, "belongs to this process"},
		{definition.Setting{File: secrets + "/same"}, "belongs to this process"},
		{definition.Setting{Secret: "NONE"}, "there is no secret named NONE"},
	} {
		value, err := v.resolve(1, tt.setting)
		switch {
		case tt.want == "" && (err != nil || value != canary):
			t.Errorf("%+v: got %q, error %v", tt.setting, value, err)
		case tt.want != "" && (err == nil || value != "" || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary")):
			t.Errorf("%+v: got %q, error %v, want %s", tt.setting, value, err, tt.want)
		}
	}
}

// Unless the operator names variables, channels read none. Nor do they read files without a folder for them.
func TestVaultGivesNothingByDefault(t *testing.T) {
	t.Setenv("ANY", canary)
	token := write(t, filepath.Join(t.TempDir(), "token"), canary)
	v, err := newVault(Config{}, storetest.Memory(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[definition.Setting]string{
		{Env: "ANY"}:    "the environment variable ANY is not among those that --secret-env lets channels read",
		{File: token}:   token + " is in none of the folders from which --secret-dir lets channels read",
		{File: "token"}: "token is in none of the folders of --secret-dir",
	} {
		if value, err := v.resolve(1, setting); err == nil || value != "" || err.Error() != want {
			t.Errorf("%+v: got %q, error %v, want %s", setting, value, err, want)
		}
	}
}

// Keys come from the file, the variable, or both; a server without one seals and opens nothing.
func TestVaultKeys(t *testing.T) {
	t.Parallel()
	key := func(fill string) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))) }
	dir := t.TempDir()
	s := storetest.Memory(t)
	ws, err := s.EnsureWorkspace(t.Context(), "default", newSecret(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	vaultOf := func(variable, file string) *vault {
		t.Helper()
		c := Config{SecretKey: secret.New(variable)}
		if file != "" {
			c.SecretKeyFile = write(t, filepath.Join(dir, "key"), file)
		}
		v, err := newVault(c, s, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if err := vaultOf(key("a"), "").SetSecret(t.Context(), ws, "me", "TOKEN", secret.New(canary)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ variable, file, state, err string }{
		"the same":         {variable: key("a"), state: "usable"},
		"in the file":      {file: key("a") + "\n", state: "usable"},
		"exchanged":        {variable: key("b"), file: key("a"), state: "old_key"},
		"exchanged, lines": {file: key("b") + "\n" + key("a"), state: "old_key"},
		"another":          {variable: key("b"), state: "sealed", err: "sealed with a key that this server does not have"},
		"none":             {state: "sealed", err: "this server has no key for secrets"},
	} {
		v := vaultOf(tt.variable, tt.file)
		list, err := v.Secrets(t.Context(), ws)
		if err != nil || len(list.Items) != 1 || list.Items[0].State != tt.state {
			t.Errorf("%s: got %+v, %v", name, list, err)
		}
		value, err := v.resolve(ws.ID, definition.Setting{Secret: "TOKEN"})
		if tt.err == "" && (err != nil || value != canary) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || value != "") {
			t.Errorf("%s: got %q, %v", name, value, err)
		}
	}
	if err := vaultOf("", "").SetSecret(t.Context(), ws, "me", "TOKEN", secret.New(canary)); err == nil || !strings.Contains(err.Error(), "no key for secrets") {
		t.Errorf("without a key: %v", err)
	}
	for _, c := range []Config{{SecretKey: secret.New(canary)}, {Server: config.Server{SecretKeyFile: dir + "/none"}}} {
		if _, err := newVault(c, s, time.Now); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("got %v", err)
		}
	}
}

// A changed secret is in use within ten seconds, and a removed one no longer than that.
func TestVaultTakesChanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	s := storetest.Open(t, filepath.Join(t.TempDir(), "carillon.db"))
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ws, err := s.EnsureWorkspace(t.Context(), "default", newSecret(), now)
	if err != nil {
		t.Fatal(err)
	}
	v, err := newVault(Config{SecretKey: secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))}, s, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		t.Helper()
		if err := v.SetSecret(t.Context(), ws, "me", "TOKEN", secret.New(value)); err != nil {
			t.Fatal(err)
		}
	}
	is := func(want string) {
		t.Helper()
		got, err := v.resolve(ws.ID, definition.Setting{Secret: "TOKEN"})
		if got != want || (err != nil) != (want == "") {
			t.Errorf("got %q, error %v, want %q", got, err, want)
		}
	}
	is("")
	set("one") // what was missing is looked for every time
	is("one")
	set("two")
	is("one")
	now = now.Add(vaultFresh)
	is("two")
	if err := v.RemoveSecret(t.Context(), ws, "me", "TOKEN"); err != nil {
		t.Fatal(err)
	}
	is("two")
	now = now.Add(vaultFresh)
	is("")
}
